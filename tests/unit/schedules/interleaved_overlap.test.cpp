// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>

#include <pipesched/analysis/report.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/schedules/interleaved_overlap.hpp>
#include <pipesched/schedules/one_f_one_b_overlap.hpp>

#include "support/catch.hpp"
#include "support/recorded_orders.hpp"
#include "support/schedule_faults.hpp"

using namespace pipesched;
using namespace test_support;

static_assert(schedule_generator<interleaved_overlap>);
static_assert(!interleaved_overlap{.ranks = 4, .microbatches = 8, .chunks = 2}.check());
static_assert(analyze(interleaved_overlap{.ranks = 2, .microbatches = 4, .chunks = 2}).bubble_time == 3);

TEST_CASE("Interleaved 1F1B with overlap is Megatron-LM's order op for op", "[schedules][interleaved_overlap]") {
  for (auto const& recorded : recorded_orders("interleaved-1f1b-overlap")) {
    INFO(recorded.file);
    CHECK(first_difference(
              recorded, generate(interleaved_overlap{recorded.ranks, recorded.microbatches, recorded.chunks})) == "");
  }
}

TEST_CASE("Interleaved 1F1B with overlap runs every op once at any shape", "[schedules][interleaved_overlap]") {
  for (int chunks = 1; chunks <= 4; ++chunks)
    for (int ranks = 1; ranks <= 6; ++ranks)
      for (int microbatches = 1; microbatches <= 15; ++microbatches) {
        INFO("P=" << ranks << " m=" << microbatches << " v=" << chunks);
        CHECK(first_fault(interleaved_overlap{ranks, microbatches, chunks}) == "");
      }
}

TEST_CASE("Interleaved 1F1B with overlap on one chunk is 1F1B with overlap", "[schedules][interleaved_overlap]") {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (int microbatches = 1; microbatches <= 15; ++microbatches)
      CHECK(first_difference(rows_of(generate(interleaved_overlap{ranks, microbatches, 1})),
                             rows_of(generate(one_f_one_b_overlap{ranks, microbatches}))) == "");
}

TEST_CASE("Interleaved 1F1B with overlap has the makespan and the peaks of its closed forms",
          "[schedules][interleaved_overlap]") {
  for (std::int64_t pair : {5, 6, 7})  // max(F, B) to F + B
    for (int chunks = 2; chunks <= 4; ++chunks)
      for (int ranks = 1; ranks <= 6; ++ranks)
        for (int rounds = 1; rounds <= 4; ++rounds) {
          int const microbatches = rounds * ranks;
          INFO("P=" << ranks << " m=" << microbatches << " v=" << chunks << " F&B=" << pair);
          auto const all = analyze(interleaved_overlap{ranks, microbatches, chunks}, uniform_cost<>{2, 3, 2, pair, 0});
          std::int64_t const unpaired = ranks * (chunks - 1) + 1;
          CHECK(all.makespan == (ranks - 1) * 7 + unpaired * 7 + (microbatches * chunks - unpaired) * pair);
          for (auto const& rank : all.per_rank)
            CHECK(rank.peak_activations ==
                  std::min(microbatches * chunks, (chunks - 1) * ranks + 2 * (ranks - rank.rank)));
        }
}

TEST_CASE("Interleaved 1F1B with overlap names the bound that a group breaks", "[schedules][interleaved_overlap]") {
  // Two groups of P-1 are just enough for interleaved 1F1B, and not with the additional forward.
  auto const violation = interleaved_overlap{4, 9, 2, 3}.check();
  REQUIRE(violation);
  CHECK(violation->message() == "group = 3, must be at least 4 (the next one without a dependency cycle)");
}

TEST_CASE("Interleaved 1F1B with overlap runs forward only", "[schedules][interleaved_overlap]") {
  CHECK(analyze(forward_only(interleaved_overlap{4, 8, 2})).makespan == 19);
}
