// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <pipesched/analysis/report.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/schedules/one_f_one_b_overlap.hpp>

#include "support/catch.hpp"
#include "support/recorded_orders.hpp"
#include "support/schedule_faults.hpp"

using namespace pipesched;
using namespace test_support;

static_assert(schedule_generator<one_f_one_b_overlap>);
static_assert(analyze(one_f_one_b_overlap{.ranks = 2, .microbatches = 5}).makespan == 2 * 3 + 4 * 3);

TEST_CASE("1F1B with overlap is the original's order op for op", "[schedules][one_f_one_b_overlap]") {
  for (auto const& recorded : recorded_orders("1f1b-overlap")) {
    INFO(recorded.file);
    CHECK(first_difference(recorded, generate(one_f_one_b_overlap{recorded.ranks, recorded.microbatches})) == "");
  }
}

TEST_CASE("1F1B with overlap runs every op once at any shape", "[schedules][one_f_one_b_overlap]") {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int microbatches = 1; microbatches <= 20; ++microbatches) {
      INFO("P=" << ranks << " m=" << microbatches);
      CHECK(first_fault(one_f_one_b_overlap{ranks, microbatches}) == "");
    }
}

TEST_CASE("1F1B with overlap takes P(F+B) + (m-1)F&B and holds up to 2(P-r) activations",
          "[schedules][one_f_one_b_overlap]") {
  for (std::int64_t pair : {5, 6, 7})  // max(F, B) to F + B
    for (int ranks = 1; ranks <= 6; ++ranks)
      for (int microbatches = 1; microbatches <= 20; ++microbatches) {
        INFO("P=" << ranks << " m=" << microbatches << " F&B=" << pair);
        auto const all = analyze(one_f_one_b_overlap{ranks, microbatches}, uniform_cost<>{2, 3, 2, pair, 0});
        if (pair == 7 || microbatches >= 2 * ranks) CHECK(all.makespan == ranks * 7 + (microbatches - 1) * pair);
        for (auto const& rank : all.per_rank)
          CHECK(rank.peak_activations == std::min(microbatches, 2 * (ranks - rank.rank)));
      }
}

TEST_CASE("1F1B with overlap pairs each steady forward with the backward of an earlier microbatch",
          "[schedules][one_f_one_b_overlap]") {
  for (int rank = 0; rank < 4; ++rank) {
    auto const program = generate_program(one_f_one_b_overlap{4, 11}, rank);
    std::int64_t pairs = 0;
    for (std::size_t at = 0; at + 1 < program.size(); ++at)
      if (program[at].overlaps_next()) {
        ++pairs;
        CHECK(program[at].kind() == op_kind::forward);
        CHECK(program[at + 1].kind() == op_kind::backward);
        CHECK(program[at + 1].microbatch() < program[at].microbatch());
      }
    CHECK(pairs == 11 - (2 * (3 - rank) + 1));
  }
}

TEST_CASE("1F1B with overlap runs forward only, without pairs", "[schedules][one_f_one_b_overlap]") {
  CHECK(analyze(forward_only(one_f_one_b_overlap{4, 9})).makespan == 12);
}

TEST_CASE("1F1B with overlap names the bound that is broken", "[schedules][one_f_one_b_overlap]") {
  CHECK(one_f_one_b_overlap{0, 1}.check()->parameter == "ranks");
  CHECK(one_f_one_b_overlap{1, 0}.check()->parameter == "microbatches");
}
