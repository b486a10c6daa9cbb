// SPDX-License-Identifier: MIT
#include <pipesched/io/chrome_trace.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>
#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/measured_cost.hpp>
#include <pipesched/analysis/moe_cost.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/graph/lower_moe.hpp>
#include <pipesched/io/json_reader.hpp>
#include <pipesched/schedules/registry.hpp>

using namespace pipesched;

namespace {

template <class Cost>
nlohmann::json trace_of(op_graph const& graph, Cost const& cost, chrome_trace_options const& options = {}) {
  return nlohmann::json::parse(chrome_trace(graph, make_timeline(graph, cost), options)).at("traceEvents");
}

op_graph dual_pipe_graph() { return build_graph(make_generator<dual_pipe>(shape{.ranks = 4, .microbatches = 8})); }

/// What is read back from a trace is each op or pair on its rank at its time, and explains the whole timeline.
void check_reads_back(op_graph const& graph) {
  auto const cost = [](op o, int rank) { return 1.5 + 0.25 * double((o.packed() * 7 + std::uint64_t(rank)) % 5); };
  auto const times = make_timeline(graph, cost);
  auto const read = read_measured_times(chrome_trace(graph, times));
  CHECK(read.diagnostics.empty());
  std::size_t blocks = 0;
  for (int rank = 0; rank < graph.ranks(); ++rank)
    detail::for_each_block(graph, rank, [&](std::uint32_t first, std::uint32_t after) {
      auto const& measured = read.ops.at(blocks++);
      op const o = graph.node(node_id{first});
      INFO(to_string(o));
      CHECK(to_string(measured.what) == to_string(o));  // names do not tell copies of a stage apart
      if (after - first == 2) CHECK(to_string(measured.partner) == to_string(graph.node(node_id{first + 1})));
      CHECK(measured.rank == rank);
      CHECK(measured.start == times.start(node_id{first}));
      CHECK(measured.duration == times.duration(node_id{first}));
    });
  CHECK(read.ops.size() == blocks);
  CHECK(make_timeline(graph, measured_cost(read.ops)).makespan() == times.makespan());
}

/// Every flow begins within a slice of its producer's rank and ends where one of its consumer's starts.
void check_flows(op_graph const& graph) {
  auto const events = trace_of(graph, uniform_cost<>{2, 3, 1, {}, 1});
  std::map<std::pair<int, double>, double> slices;  // end by rank and start
  for (auto const& event : events)
    if (event.at("ph") == "X")
      slices[{event.at("pid"), event.at("ts")}] = event.at("ts").get<double>() + event.at("dur").get<double>();
  std::map<std::int64_t, nlohmann::json> begun;
  std::size_t flows = 0;
  for (auto const& event : events) {
    if (event.at("ph") == "s") CHECK(begun.emplace(event.at("id"), event).second);
    if (event.at("ph") != "f") continue;
    ++flows;
    auto const& from = begun.at(event.at("id"));
    CHECK(from.at("ts") <= event.at("ts"));
    CHECK(from.at("name") == event.at("name"));
    CHECK(slices.count({event.at("pid"), event.at("ts")}) == 1);
    auto const slice = std::prev(slices.upper_bound({from.at("pid"), from.at("ts")}));
    CHECK(slice->first.first == from.at("pid"));
    CHECK(slice->second > from.at("ts").get<double>());
  }
  CHECK(flows == begun.size());
  CHECK(flows == graph.link_count());
}

}  // namespace

TEST_CASE("A trace has a slice per op or pair at its time", "[io][chrome_trace]") {
  auto const graph = dual_pipe_graph();
  auto const times = make_timeline(graph, uniform_cost<>{1, 2, 1});
  std::map<std::pair<int, std::int64_t>, nlohmann::json> slices;
  for (auto const& event : trace_of(graph, uniform_cost<>{1, 2, 1}))
    if (event.at("ph") == "X") slices[{event.at("pid"), event.at("ts").get<std::int64_t>()}] = event;
  std::size_t blocks = 0;
  for (int rank = 0; rank < graph.ranks(); ++rank)
    detail::for_each_block(graph, rank, [&](std::uint32_t first, std::uint32_t after) {
      ++blocks;
      auto const& slice = slices.at({rank, times.start(node_id{first})});
      CHECK(slice.at("dur") == times.duration(node_id{first}));
      CHECK(slice.at("tid") == 0);
      CHECK(slice.at("cat") == "computation");
      auto const name = to_string(graph.node(node_id{first}));
      auto const pair = "(" + name + ";" + to_string(graph.node(node_id{after - 1})) + ")OVERLAP_F_B";
      CHECK(slice.at("name") == (after - first == 2 ? pair : name));
    });
  CHECK(slices.size() == blocks);
}

TEST_CASE("A trace names ranks and streams, and tells computation from communication", "[io][chrome_trace]") {
  auto const graph = lower_moe(dual_pipe_graph());
  std::set<std::string> names;
  for (auto const& event : trace_of(graph, moe_cost<>{})) {
    if (event.at("ph") == "M" && event.contains("args") && event.at("args").contains("name"))
      names.insert(event.at("name").get<std::string>() + ": " + event.at("args").at("name").get<std::string>());
    if (event.at("ph") != "X") continue;
    INFO(event);
    CHECK(event.at("cat") == (event.at("tid") == 0 ? "computation" : "communication"));
  }
  for (auto const* name : {"process_name: rank 0", "process_name: rank 3", "thread_name: compute",
                           "thread_name: all-to-all", "thread_name: p2p"})
    CHECK(names.count(name) == 1);
}

TEST_CASE("A trace has a flow per dependency, from within the producer to the start of the consumer",
          "[io][chrome_trace]") {
  for (auto const name : schedule_names)
    with_schedule(name, shape{.ranks = 4, .microbatches = 8}, [&](auto const& generator) {
      INFO(name);
      check_flows(build_graph(generator));
    });
}

TEST_CASE("The trace of a timeline reads back as measured times", "[io][chrome_trace]") {
  for (auto const name : schedule_names)
    with_schedule(name, shape{.ranks = 4, .microbatches = 8}, [&](auto const& generator) {
      INFO(name);
      check_reads_back(build_graph(generator));
    });
}

TEST_CASE("A trace counts in microseconds", "[io][chrome_trace]") {
  auto const graph = build_graph(make_generator<gpipe>(shape{.ranks = 1, .microbatches = 1}));
  chrome_trace_options options;
  options.microseconds_per_unit = 1000;
  options.flows = false;
  std::size_t slices = 0;
  for (auto const& event : trace_of(graph, uniform_cost<double>{1.5, 1, 1}, options)) {
    CHECK(event.at("ph") != "s");
    if (event.at("name") != "0B0") continue;
    ++slices;
    CHECK(event.at("ts") == 1500);
    CHECK(event.at("dur") == 2000);
  }
  CHECK(slices == 1);
}

TEST_CASE("A trace's unit has to leave its times numbers", "[io][chrome_trace]") {
  auto const graph = build_graph(one_f_one_b{2, 4});
  auto const times = make_timeline(graph, uniform_cost<>{});
  for (double const unit :
       {-1.0, 1e308, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    CHECK_THROWS_AS(chrome_trace(graph, times, {.microseconds_per_unit = unit}), parameter_error);
  CHECK_NOTHROW(chrome_trace(graph, times, {.microseconds_per_unit = 0}));
}
