// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>

#include <pipesched/analysis/report.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/schedules/eager_one_f_one_b.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

#include "support/catch.hpp"
#include "support/schedule_faults.hpp"

using namespace pipesched;
using namespace test_support;

static_assert(schedule_generator<eager_one_f_one_b>);
static_assert(analyze(eager_one_f_one_b{.ranks = 4, .microbatches = 8}).bubble_time == 9);
static_assert(analyze(eager_one_f_one_b{.ranks = 4, .microbatches = 8}).peak_activations == 7);

TEST_CASE("Eager 1F1B runs every op once at any shape", "[schedules][eager_one_f_one_b]") {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int microbatches = 1; microbatches <= 20; ++microbatches) {
      INFO("P=" << ranks << " m=" << microbatches);
      CHECK(first_fault(eager_one_f_one_b{ranks, microbatches}) == "");
    }
}

TEST_CASE("Eager 1F1B has 1F1B's bubble and up to 2(P-r)-1 activations", "[schedules][eager_one_f_one_b]") {
  for (std::int64_t backward_input : {1, 2, 5})
    for (int ranks = 1; ranks <= 6; ++ranks)
      for (int microbatches = 1; microbatches <= 20; ++microbatches) {
        INFO("P=" << ranks << " m=" << microbatches << " I=" << backward_input);
        uniform_cost<> const cost{3, backward_input, 1, {}, 0};
        auto const all = analyze(eager_one_f_one_b{ranks, microbatches}, cost);
        CHECK(all.bubble_time == (ranks - 1) * (3 + backward_input + 1));
        for (auto const& rank : all.per_rank) {
          CHECK(rank.peak_activations == std::min(microbatches, 2 * (ranks - rank.rank) - 1));
          if (microbatches > 2 * ranks) CHECK(rank.warmup == 2 * (ranks - 1 - rank.rank));
        }
      }
}

TEST_CASE("Eager 1F1B hides the latency that 1F1B waits for in each round", "[schedules][eager_one_f_one_b]") {
  uniform_cost<> const cost{10, 10, 10, {}, 2};
  // 1F1B waits anew in every round trip between neighbours; here the latency counts once on the way down and once up.
  CHECK(analyze(eager_one_f_one_b{4, 32}, cost).makespan == (32 + 3) * 30 + 2 * 3 * 2);
  CHECK(analyze(one_f_one_b{4, 32}, cost).makespan > (32 + 3) * 30 + 2 * 3 * 2);
}

TEST_CASE("Eager 1F1B runs forward only", "[schedules][eager_one_f_one_b]") {
  CHECK(analyze(forward_only(eager_one_f_one_b{4, 9})).makespan == 12);
}

TEST_CASE("Eager 1F1B names the bound that is broken", "[schedules][eager_one_f_one_b]") {
  CHECK(eager_one_f_one_b{0, 1}.check()->parameter == "ranks");
  CHECK(eager_one_f_one_b{1, 0}.check()->parameter == "microbatches");
}
