// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>

#include <pipesched/analysis/report.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/schedules/interleaved_zb.hpp>

#include "support/catch.hpp"
#include "support/recorded_orders.hpp"
#include "support/schedule_faults.hpp"

using namespace pipesched;
using namespace test_support;

static_assert(schedule_generator<interleaved_zb>);
static_assert(analyze(interleaved_zb{.ranks = 2, .microbatches = 4, .chunks = 2}).bubble_time == 1);

TEST_CASE("Interleaved zero bubble is torch's order op for op", "[schedules][interleaved_zb]") {
  for (auto const& recorded : recorded_orders("interleaved-zb")) {
    INFO(recorded.file);
    CHECK(first_difference(recorded,
                           generate(interleaved_zb{recorded.ranks, recorded.microbatches, recorded.chunks})) == "");
  }
}

TEST_CASE("Interleaved zero bubble on one chunk is ZB-H1", "[schedules][interleaved_zb]") {
  for (auto const& recorded : recorded_orders("zb-h1")) {
    INFO(recorded.file);
    CHECK(first_difference(recorded, generate(interleaved_zb{recorded.ranks, recorded.microbatches, 1})) == "");
  }
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (int microbatches = 1; microbatches <= 15; ++microbatches)
      CHECK(first_difference(rows_of(generate(interleaved_zb{ranks, microbatches, 1})),
                             rows_of(generate(zb_h1{ranks, microbatches}))) == "");
}

TEST_CASE("Interleaved zero bubble runs every op once at any shape", "[schedules][interleaved_zb]") {
  for (int chunks = 1; chunks <= 4; ++chunks)
    for (int ranks = 1; ranks <= 7; ++ranks)
      for (int microbatches = 1; microbatches <= 17; ++microbatches) {
        INFO("P=" << ranks << " m=" << microbatches << " v=" << chunks);
        CHECK(first_fault(interleaved_zb{ranks, microbatches, chunks}) == "");
      }
}

TEST_CASE("Interleaved zero bubble has the bubble (P-1)(F+I-W) of a chunk, and holds v*P chunks",
          "[schedules][interleaved_zb]") {
  uniform_cost<> const costs[] = {{1, 1, 1, {}, 0}, {3, 2, 2, {}, 0}, {2, 5, 1, {}, 0}, {5, 4, 2, {}, 0}};
  for (auto const& cost : costs)
    for (int chunks = 2; chunks <= 4; ++chunks)
      for (int ranks = 1; ranks <= 6; ++ranks)
        for (int rounds = 1; rounds <= 4; ++rounds) {
          INFO("P=" << ranks << " m=" << rounds * ranks << " v=" << chunks << " F=" << cost.forward);
          auto const all = analyze(interleaved_zb{ranks, rounds * ranks, chunks}, cost);
          CHECK(all.bubble_time == (ranks - 1) * (cost.forward + cost.backward_input - cost.backward_weight));
          for (auto const& rank : all.per_rank) CHECK(rank.peak_activations == chunks * ranks);
        }
}

TEST_CASE("Interleaved zero bubble names the bound that a group breaks", "[schedules][interleaved_zb]") {
  // Its lead is half of interleaved 1F1B's, which needs groups of 4 here.
  CHECK(!interleaved_zb{4, 8, 2, 2}.check());
  auto const violation = interleaved_zb{6, 8, 2, 2}.check();
  REQUIRE(violation);
  CHECK(violation->message() == "group = 2, must be at least 3 (the next one without a dependency cycle)");
}

TEST_CASE("Interleaved zero bubble runs forward only", "[schedules][interleaved_zb]") {
  CHECK(analyze(forward_only(interleaved_zb{4, 8, 2})).makespan == 19);
}
