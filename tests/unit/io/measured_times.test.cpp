// SPDX-License-Identifier: MIT
#include <pipesched/analysis/measured_cost.hpp>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <pipesched/analysis/timeline.hpp>
#include <pipesched/core/schedule_builder.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/io/json_reader.hpp>
#include <pipesched/io/measured_csv.hpp>
#include <pipesched/schedules/dual_pipe.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

#include "support/catch.hpp"

using namespace pipesched;

namespace {

std::string complaints(measured_times const& times) {
  std::string text;
  for (auto const& d : times.diagnostics) text += to_string(d) + "\n";
  return text;
}

op f(int stage, int microbatch) { return forward(stage_id{stage}, microbatch_id{microbatch}); }
op b(int stage, int microbatch) { return backward(stage_id{stage}, microbatch_id{microbatch}); }

}  // namespace

TEST_CASE("Measured times are read from CSV, with and without a header") {
  auto const plain = read_measured_csv("0,0F0,1.5\n1,1F0,2,10.25\n");
  CHECK(complaints(plain).empty());
  REQUIRE(plain.ops.size() == 2);
  CHECK(plain.ops[0].what == f(0, 0));
  CHECK(plain.ops[0].duration == 1.5);
  CHECK_FALSE(plain.ops[0].has_start());
  CHECK(plain.ops[1].rank == 1);
  CHECK(plain.ops[1].start == 10.25);

  CHECK(read_measured_csv("PP:0F0,1.5\r\n\r\n0B0,2\r\n").ops.size() == 2);
  auto const named = read_measured_csv("start,duration,unit,op\n7,3,ms,\"PP:0B4\"\n");
  REQUIRE(named.ops.size() == 1);
  CHECK(named.ops[0].what == b(0, 4));
  CHECK(named.ops[0].duration == 3);
  CHECK(named.ops[0].start == 7);
  CHECK(named.ops[0].rank == -1);
}

TEST_CASE("Lines that are no measurements are diagnostics with their place") {
  CHECK(
      complaints(read_measured_csv("rank,op,duration\n0,0X0,1\n0,0F0,-1\n0,0F0,nan\n0,0F0,1e999\n-1,0F0,1\n0.5,0F0,1\n"
                                   "0,0F0\n0,0F0,1x\n")) ==
      "line 2, column 3, 0X0: is no op; expected <stage><F, B, I or W><microbatch>\n"
      "line 3, column 7, -1: is no duration; expected a number of at least 0\n"
      "line 4, column 7, nan: is no duration; expected a number of at least 0\n"
      "line 5, column 7, 1e999: is no duration; expected a number of at least 0\n"
      "line 6, column 1, -1: is no rank; expected a whole number from 0 to 65535\n"
      "line 7, column 1, 0.5: is no rank; expected a whole number from 0 to 65535\n"
      "line 8, column 1: is no duration; expected a number of at least 0\n"
      "line 9, column 7, 1x: is no duration; expected a number of at least 0\n");
}

TEST_CASE("Measured times come back from CSV as they were") {
  std::string const text = "rank,op,duration,start\n0,0F0,0.1,100.25\n,(0F1;1B0)OVERLAP_F_B,3,\n";
  CHECK(write_measured_csv(read_measured_csv(text).ops) == text);
}

TEST_CASE("Measured times are read from the ranges of a Chrome trace") {
  auto const times = read_measured_times(R"({"traceEvents": [
    {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "rank 0"}},
    {"name": "PP:0F3", "ph": "X", "pid": 0, "tid": 0, "ts": 10, "dur": 2.5, "args": {"rank": 3}},
    {"name": "PP:0SEND_F3", "ph": "X", "ts": 12, "dur": 1},
    {"name": "aten::mm", "ph": "X", "ts": 12, "dur": 1},
    {"name": "PP:(0F7;7B3)OVERLAP_F_B", "ph": "X", "ts": 20, "dur": 5},
    {"name": "0B3", "ph": "X", "ts": 13}, 7, null]})");
  REQUIRE(times.ops.size() == 2);
  CHECK(times.ops[0].what == f(0, 3));
  CHECK(times.ops[0].start == 10);
  CHECK(times.ops[0].rank == 3);
  CHECK(times.ops[1].what.overlaps_next());
  CHECK(complaints(times) == "0B3: event 5 has no time; expected numbers for \"ts\" and \"dur\"\n");
  auto const named = read_measured_times(R"([{"name": "process_name", "ph": "M", "pid": 7, "args": {"name": "rank 2"}},
    {"name": "0F0", "ph": "X", "pid": 7, "ts": 0, "dur": 1}, {"name": "0B0", "ph": "X", "pid": 8, "ts": 0, "dur": 1}])");
  REQUIRE(named.ops.size() == 2);
  CHECK(named.ops[0].rank == 2);
  CHECK(named.ops[1].rank == -1);
  CHECK(read_measured_times(R"({"distributedInfo": {"rank": 5}, "traceEvents": [
    {"name": "PP:0F0", "ph": "X", "pid": 7, "ts": 0, "dur": 1}]})")
            .ops.at(0)
            .rank == 5);
  CHECK(read_measured_times(R"([{"op": "0F0", "duration": 1}])").ops.size() == 1);
  CHECK(complaints(read_measured_times(R"([{"op": "0F0", "duration": -1}])")) ==
        "measured[0]: is no measurement; expected a duration of at least 0\n");
  CHECK_FALSE(read_measured_times("{}").diagnostics.empty());
}

TEST_CASE("A run is rebuilt from its own times") {
  auto const s = generate(dual_pipe{.ranks = 4, .microbatches = 12});
  auto const graph = build_graph(s);
  // What ran: some model that differs from op to op.
  auto const truth = [](op o, int rank) { return 1.0 + 0.25 * double((o.packed() * 7 + std::uint64_t(rank)) % 5); };
  auto const real = make_timeline(graph, truth);
  std::vector<measured_op> run;
  for (std::size_t i = 0; i < s.ops().size(); ++i) {
    op const o = s.ops()[i];
    int const rank = graph.rank_of(node_id{i});
    if (i > 0 && s.ops()[i - 1].overlaps_next()) continue;
    run.push_back({o, real.end(node_id{i}) - real.start(node_id{i}), real.start(node_id{i}), rank});
    if (o.overlaps_next()) run.back().partner = s.ops()[i + 1];
  }
  measured_cost const cost(run);
  CHECK(make_timeline(graph, cost).makespan() == Approx(measured_makespan(run)));
  for (op o : s.ops()) CHECK((cost.knows(o) || !o.overlaps_next()));

  auto const read = read_measured_csv(write_measured_csv(run));
  CHECK(complaints(read).empty());
  CHECK(make_timeline(graph, measured_cost(read.ops)).makespan() == Approx(real.makespan()));
}

TEST_CASE("Repeated measurements count with their mean, and gaps with that of their stage and kind") {
  measured_cost const cost(std::vector<measured_op>{{f(0, 0), 1}, {f(0, 0), 3}, {f(0, 1), 4}, {b(1, 0), 7}}, 0.5);
  CHECK(cost(f(0, 0), 0) == 2);
  CHECK(cost(f(0, 1), 0) == 4);
  CHECK(cost(f(0, 9), 0) == Approx(8.0 / 3));
  CHECK(cost(b(0, 0), 0) == 0);
  CHECK(cost.knows(f(0, 1)));
  CHECK_FALSE(cost.knows(f(0, 9)));
  CHECK(cost.pair_time(f(0, 1), b(1, 0), 0) == 11);
  CHECK(cost.transfer_time(0, 1) == 0.5);
  CHECK_THROWS_AS(measured_cost(std::vector<measured_op>{{f(0, 0), -1}}), parameter_error);
  CHECK_THROWS_AS(measured_cost(std::vector<measured_op>{{f(0, 0), std::numeric_limits<double>::quiet_NaN()}}),
                  parameter_error);
}
