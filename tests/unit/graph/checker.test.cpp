// SPDX-License-Identifier: MIT
#include <pipesched/graph/checker.hpp>

#include <string>
#include <vector>

#include <pipesched/core/schedule_builder.hpp>
#include <pipesched/io/describe.hpp>
#include <pipesched/schedules/dual_pipe.hpp>
#include <pipesched/schedules/gpipe.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

#include "support/catch.hpp"

using namespace pipesched;

namespace {

std::vector<std::string> complaints(schedule const& s, check_options const& options = {}) {
  std::vector<std::string> lines;
  for (auto const& d : describe(check(s, options))) lines.push_back(to_string(d));
  return lines;
}

using lines = std::vector<std::string>;

static_assert(is_valid(one_f_one_b{.ranks = 4, .microbatches = 6}));
static_assert(is_valid(dual_pipe{.ranks = 2, .microbatches = 4}));
static_assert(check(schedule_builder(1).rank(0).B(0).F(0).build()).front().kind == fault_kind::order_on_rank);

}  // namespace

TEST_CASE("Right schedules have no faults") {
  for (int p : {1, 2, 5})
    for (int m : {1, 2, 9}) {
      CHECK(is_valid(gpipe{.ranks = p, .microbatches = m}));
      CHECK(is_valid(one_f_one_b{.ranks = p, .microbatches = m}));
    }
  CHECK(is_valid(dual_pipe{.ranks = 8, .microbatches = 20}));
}

TEST_CASE("A schedule without any backward is forward-only, and right") {
  CHECK(is_valid(schedule_builder(2).rank(0).F(0).F(1).rank(1).F(0).F(1).build()));
}

TEST_CASE("A backward may be split on one stage and whole on its neighbour") {
  CHECK(is_valid(schedule_builder(2).rank(0).F(0).B(0).rank(1).F(0).I(0).W(0).build()));
}

TEST_CASE("A doubled op names both places") {
  CHECK(complaints(schedule_builder(1).rank(0).F(0).F(0).F(1).B(0).B(1).build()) ==
        lines{"rank 0, position 1, 0F0: duplicate: it stands at rank 0, position 0 already; expected it once"});
}

TEST_CASE("Backwards that do not pair up") {
  CHECK(complaints(schedule_builder(1).rank(0).F(0).F(1).B(0).I(0).W(0).build()) ==
        lines{"rank 0, position 3, 0I0: microbatch 0 has a full backward on stage 0 too, 0B0 (rank 0, position 2); "
              "expected either B, or I and W",
              "rank 0, 0B1: missing: microbatch 1 has no backward on stage 0"});
  CHECK(complaints(schedule_builder(1).rank(0).F(0).I(0).build()) ==
        lines{"rank 0, 0W0: missing: microbatch 0 has an I on stage 0, and no W"});
  CHECK(complaints(schedule_builder(1).rank(0).F(0).W(0).build()) ==
        lines{"rank 0, 0I0: missing: microbatch 0 has a W on stage 0, and no I"});
  CHECK(complaints(schedule_builder(1).rank(0).B(0).build()) ==
        lines{"rank 0, 0F0: missing: microbatch 0 has no forward on stage 0"});
  CHECK(complaints(schedule_builder(1).rank(0).F(0).F(1).F(2).F(3).B(1).build()) ==
        lines{"rank 0, 0B0: missing: microbatch 0 has no backward on stage 0",
              "rank 0, 0B2..0B3: missing: microbatches 2..3 have no backward on stage 0"});
}

TEST_CASE("Gaps among microbatches and stages") {
  CHECK(complaints(schedule_builder(1).rank(0).F(0).B(0).F(2).B(2).F(1000000000).B(1000000000).build()) ==
        lines{"microbatch 1 has no op, so the ids have a gap; expected microbatches 0..m-1",
              "microbatches 3..999999999 have no op, so the ids have a gap; expected microbatches 0..m-1"});
  CHECK(complaints(schedule_builder(3).rank(0).F(0).B(0).F(1).B(1).rank(2).F(1).B(1).build()) ==
        lines{"stage 1 is on no rank; expected stages 0..S-1 without gaps",
              "rank 2, 2F0: missing: microbatch 0 has no op on stage 2"});
}

TEST_CASE("A stage on a rank that the placement does not give") {
  auto const s = schedule_builder(2).rank(0).F(0).F(1).B(0).B(1).stage(1).F(1).B(1).rank(1).F(0).B(0).build();
  CHECK(complaints(s) == lines{"rank 0, position 4, 1F1: stage 1 is on rank 1 and does not belong here, nor do 1 more "
                               "ops of it; expected a stage on one rank, or on as many as it has replicas",
                               "rank 0, position 3, 0B1: waits for 1B1, which comes later on the same rank"});
}

TEST_CASE("A microbatch stays on one copy of a stage") {
  auto const s = schedule_builder(placement::bidirectional(2))
                     .rank(0)
                     .stage(0)
                     .F(0)
                     .stage(1)
                     .B(0)
                     .rank(1)
                     .stage(1)
                     .F(0)
                     .stage(0)
                     .B(0)
                     .build();
  CHECK(complaints(s) ==
        lines{"rank 1, position 1, 0B0: is on another copy of stage 0 than 0F0 (rank 0, position 0); expected one copy "
              "for all ops of a microbatch",
              "rank 0, position 1, 1B0: is on another copy of stage 1 than 1F0 (rank 1, position 0); expected one copy "
              "for all ops of a microbatch"});
}

TEST_CASE("An order on one rank that cannot be") {
  CHECK(complaints(schedule_builder(1).rank(0).B(0).F(0).build()) ==
        lines{"rank 0, position 0, 0B0: waits for 0F0, which comes later on the same rank"});
  CHECK(complaints(schedule_builder(1).rank(0).F(0).W(0).I(0).build()) ==
        lines{"rank 0, position 1, 0W0: waits for 0I0, which comes later on the same rank"});
  CHECK(complaints(schedule_builder(1).rank(0).F(0).overlapping().B(0).build()) ==
        lines{"rank 0, position 1, 0B0: waits for 0F0, which is in one pair with it"});
}

TEST_CASE("Ops and pairs of a kind that does not belong there") {
  op const send(op_kind::send_forward, stage_id{0}, microbatch_id{0});
  CHECK(complaints(schedule_builder(1).rank(0).F(0).add(send).B(0).build()) ==
        lines{"rank 0, position 1, 0SEND_F0: is no op of a program of chunk ops; expected F, B, I or W"});
  CHECK(complaints(schedule_builder(1).rank(0).F(0).overlapping().F(1).B(0).B(1).build()) ==
        lines{"rank 0, position 0, 0F0: opens no overlapped pair; expected one forward and then one backward"});
  CHECK(complaints(schedule_builder(1).rank(0).F(0).B(0).overlapping().build()) ==
        lines{"rank 0, position 1, 0B0: opens no overlapped pair; expected one forward and then one backward"});
}

TEST_CASE("A deadlock is the cycle, and what each rank waits for") {
  auto const s = schedule_builder(2).rank(0).F(0).B(0).F(1).B(1).rank(1).F(1).B(1).F(0).B(0).build();
  CHECK(complaints(s) == lines{"deadlock: cycle 0B0 -> 1B0 -> 1F1 -> 0F1 -> 0B0: 0B0 waits for 1B0, 1B0 comes after "
                               "1F1 on rank 1, 1F1 waits for 0F1, 0F1 comes after 0B0 on rank 0",
                               "rank 0, position 1, 0B0: blocked: waits for 1B0 (rank 1, position 3)",
                               "rank 1, position 0, 1F1: blocked: waits for 0F1 (rank 0, position 2)"});
}

TEST_CASE("A deadlock is found beside faults that are none of its own") {
  auto const s =
      schedule_builder(2).rank(0).F(0).B(2).F(2).F(2).B(0).F(1).B(1).rank(1).F(1).B(1).F(0).B(0).F(2).B(2).build();
  auto const found = complaints(s);
  REQUIRE(found.size() == 5);
  CHECK(found[0].find("rank 0, position 3, 0F2: duplicate") == 0);
  CHECK(found[1] == "rank 0, position 1, 0B2: waits for 0F2, which comes later on the same rank");
  CHECK(found[2].find("deadlock: cycle 0B0") == 0);
  CHECK(found[3] == "rank 0, position 4, 0B0: blocked: waits for 1B0 (rank 1, position 3)");
}

TEST_CASE("A user's edges belong to the order") {
  auto const s = schedule_builder(1).rank(0).F(0).F(1).B(0).B(1).build();
  op_edge const backwards{forward(stage_id{0}, microbatch_id{1}), forward(stage_id{0}, microbatch_id{0})};
  CHECK(complaints(s, {.graph = {.edges = {backwards}}}) ==
        lines{"rank 0, position 0, 0F0: waits for 0F1, which comes later on the same rank"});
}

TEST_CASE("Faults beyond the number asked for are counted") {
  schedule_builder b(1);
  b.rank(0);
  for (int i = 0; i < 10; ++i) b.F(0);
  CHECK(complaints(b.build(), {.max_faults = 3}).size() == 4);
  CHECK(complaints(b.build(), {.max_faults = 3}).back() == "6 more faults");
}

TEST_CASE("An empty schedule misses everything") {
  CHECK(complaints(schedule_builder(2).build()) ==
        lines{"microbatch 0 has no op, so the ids have a gap; expected microbatches 0..m-1",
              "stages 0..1 are on no rank; expected stages 0..S-1 without gaps"});
}
