// SPDX-License-Identifier: MIT
// The tests of a schedule of one's own. docs/testing.md goes through them.

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_test_macros.hpp>  // version 3
#else
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>  // version 2
#endif

#include "k_f_k_b.hpp"

#include <pipesched/core/schedule_builder.hpp>
#include <pipesched/graph/checker.hpp>
#include <pipesched/schedules/gpipe.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>
#include <pipesched/testing/catch2.hpp>

using namespace pipesched;
using namespace pipesched::testing;

// Right while it compiles.
static_assert(schedule_generator<k_f_k_b>);
static_assert(is_valid(k_f_k_b{.ranks = 3, .microbatches = 4, .k = 2}));

TEST_CASE("kFkB is valid, keeps one copy of the parameters and at most k * P activations") {
  for (int ranks : {1, 2, 3, 8})
    for (int k : {1, 2, 5})
      for (int groups : {1, 2, 7}) {
        k_f_k_b const schedule{.ranks = ranks, .microbatches = k * groups, .k = k};
        CHECK_THAT(schedule, IsValid());
        CHECK_THAT(schedule, Uses1xParameters());
        CHECK_THAT(schedule, PeaksAtMost(k * ranks));
      }
}

TEST_CASE("kFkB with k = 1 is 1F1B, and with k = m it is GPipe") {
  CHECK_THAT((k_f_k_b{.ranks = 4, .microbatches = 6, .k = 1}),
             HasSameOrderAs(one_f_one_b{.ranks = 4, .microbatches = 6}));
  CHECK_THAT((k_f_k_b{.ranks = 4, .microbatches = 6, .k = 6}), HasSameOrderAs(gpipe{.ranks = 4, .microbatches = 6}));
}

TEST_CASE("kFkB hides latency that 1F1B waits for") {
  uniform_cost<double> const slow_network{.forward = 1, .backward_input = 1, .backward_weight = 1, .latency = 0.5};
  CHECK_THAT((k_f_k_b{.ranks = 4, .microbatches = 8, .k = 2}), HasBubbleTime(12, slow_network));
  CHECK_THAT((one_f_one_b{.ranks = 4, .microbatches = 8}), HasBubbleTime(17, slow_network));
}

TEST_CASE("One row of kFkB, written by hand") {
  // clang-format off
  auto const by_hand = schedule_builder(2)
                           .rank(0).F(0).F(1).F(2).F(3).B(0).B(1).B(2).B(3)
                           .rank(1).F(0).F(1).B(0).B(1).F(2).F(3).B(2).B(3)
                           .build();
  // clang-format on
  CHECK_THAT((k_f_k_b{.ranks = 2, .microbatches = 4, .k = 2}), HasSameOrderAs(by_hand));
}
