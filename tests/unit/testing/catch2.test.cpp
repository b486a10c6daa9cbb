// SPDX-License-Identifier: MIT
#include <pipesched/testing/catch2.hpp>

#include <string>

#include <pipesched/core/schedule_builder.hpp>
#include <pipesched/schedules/dual_pipe.hpp>
#include <pipesched/schedules/gpipe.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

#include "support/catch.hpp"

using namespace pipesched;
using namespace pipesched::testing;
using test_support::contains;

namespace {

constexpr one_f_one_b good{.ranks = 4, .microbatches = 8};

schedule hanging() { return schedule_builder(2).rank(0).F(0).B(0).F(1).B(1).rank(1).F(1).B(1).F(0).B(0).build(); }

/// What the matcher says of a schedule that it refuses.
template <class Matcher>
std::string refusal(Matcher const& matcher, schedule const& s) {
  CHECK_FALSE(matcher.match(s));
  return matcher.describe();
}

}  // namespace

TEST_CASE("A right schedule matches") {
  CHECK_THAT(good, IsValid());
  CHECK_THAT(generate(good), IsValid());
  CHECK_THAT(good, IsDeadlockFree());
  CHECK_THAT(good, HasBubbleTime(9));
  CHECK_THAT(good, HasBubbleTime(Approx(9)));
  CHECK_THAT(good, HasBubbleTime(4.5, uniform_cost<double>{0.5, 0.5, 0.5}));
  CHECK_THAT(good, HasBubbleFraction(Approx(9.0 / 33)));
  CHECK_THAT(good, HasBubbleFraction(9.0 / 33));
  CHECK_THAT(good, PeaksAtMost(4));
  CHECK_THAT(good, HasSameOrderAs(one_f_one_b{.ranks = 4, .microbatches = 8}));
  CHECK_THAT(good, HasSameOrderAs(generate(good)));
  CHECK_THAT(good, Uses1xParameters());
  CHECK_THAT((dual_pipe{.ranks = 4, .microbatches = 8}), Uses2xParameters());
}

TEST_CASE("Matchers combine") {
  CHECK_THAT(generate(good), IsValid() && PeaksAtMost(4));
  CHECK_THAT(generate(good), !PeaksAtMost(3));
}

TEST_CASE("What is not valid is explained, with the place in the row") {
  auto const text = refusal(IsValid(), schedule_builder(1).rank(0).F(0).F(0).F(1).B(0).B(1).build());
  CHECK(text ==
        "is valid\n"
        "rank 0, position 1, 0F0: duplicate: it stands at rank 0, position 0 already; expected it once\n"
        "rank 0: 0F0 0F0 0F1 0B0 0B1\n"
        "            ^^^\n");
  CHECK_THAT(refusal(IsDeadlockFree(), hanging()), contains("deadlock: cycle 0B0 -> 1B0"));
  CHECK_THAT(refusal(IsValid(), hanging()), contains("rank 0: 0F0 0B0 0F1 0B1\n            ^^^"));
}

TEST_CASE("A schedule with faults has no figures, and that is said") {
  CHECK_THAT(refusal(HasBubbleTime(9), hanging()), contains("has faults") && contains("deadlock"));
  CHECK_THAT(refusal(PeaksAtMost(1), hanging()), contains("deadlock"));
}

TEST_CASE("A figure that is not as expected shows the timeline with the rank marked") {
  auto const s = generate(gpipe{.ranks = 2, .microbatches = 3});
  CHECK_THAT(refusal(HasBubbleTime(1), s), contains("bubble time 3, expected 1; rank 0 idles most") &&
                                               contains("\n> rank 0 ") && contains("\n  rank 1 "));
  CHECK_THAT(refusal(HasBubbleFraction(0.5), s), contains("bubble fraction 0.25, expected 0.5"));
  CHECK_THAT(refusal(PeaksAtMost(2), s), contains("3 activations on rank 0 at time 2, expected at most 2\n"
                                                  "rank 0: 0F0 0F1 0F2 0B0 0B1 0B2\n"
                                                  "                ^^^\n"));
  CHECK_THAT(refusal(Uses1xParameters(), generate(dual_pipe{.ranks = 2, .microbatches = 4})),
             contains("rank 0 keeps 2 copies of the parameters, expected 1; placement: bidirectional"));
}

TEST_CASE("Another order is shown beside the expected one") {
  auto const text = refusal(HasSameOrderAs(gpipe{.ranks = 2, .microbatches = 2}),
                            schedule_builder(2).rank(0).F(0).F(1).B(0).B(1).rank(1).F(0).B(0).F(1).B(1).build());
  CHECK(text ==
        "has the same order as the other schedule\n"
        "rank 1, position 1: 1B0, expected 1F1\n"
        "rank 1: 1F0 1B0 1F1 1B1\n"
        "            ^^^\n"
        "expected\n"
        "rank 1: 1F0 1F1 1B0 1B1\n"
        "            ^^^\n");
  CHECK_THAT(refusal(HasSameOrderAs(good), generate(gpipe{.ranks = 2, .microbatches = 2})), contains("2 ranks"));
}

TEST_CASE("A long program is shown around its place") {
  schedule_builder b(1);
  b.rank(0);
  for (int i = 0; i < 40; ++i) b.F(i);
  auto const row = marked_row(b.build(), {0, 20}, 2);
  CHECK(row == "rank 0: ... 0F18 0F19 0F20 0F21 0F22 ...\n                      ^^^^\n");
  CHECK(marked_row(b.build(), {1, 0}).empty());
}
