// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <pipesched/analysis/moe_cost.hpp>
#include <pipesched/graph/lower_moe.hpp>
#include <pipesched/graph/plan_communication.hpp>
#include <pipesched/runtime/run_events.hpp>
#include <pipesched/runtime/threads.hpp>
#include <pipesched/schedules/registry.hpp>

#include "support/built_in_schedules.hpp"

using namespace pipesched;
using namespace std::chrono_literals;

namespace {

/// Checks on the way that each event finds what it needs, and writes down in which order things happened.
struct observer {
  op_graph const& graph;
  thread_transport<std::uint32_t>& mail;
  int rank;
  std::set<std::uint32_t> ended = {}, under_way = {}, received = {};
  std::vector<std::uint32_t> computed = {}, started = {};
  std::string fault = {};
  int most_under_way_beside_compute = 0;

  void need_inputs(event const& e) {
    for (pipesched::graph_link l : graph.links_in(node_id{e.message}))
      if (ended.count(l.node()) + received.count(l.node()) == 0 && fault.empty())
        fault = to_string(e.what) + " runs before " + to_string(graph.node(node_id{l.node()}));
  }
  void compute(event const& e) {
    need_inputs(e);
    int collectives = 0;
    for (auto n : under_way) collectives += graph.stream_of(node_id{n}) == stream::all_to_all;
    most_under_way_beside_compute = std::max(most_under_way_beside_compute, collectives);
    computed.push_back(e.message);
    ended.insert(e.message);
  }
  void start(event const& e) {
    need_inputs(e);
    under_way.insert(e.message);
    started.push_back(e.message);
    if (e.peer >= 0) mail.send({e.what, e.what, e.what, e.message, e.peer, 0}, std::uint32_t{e.message});
  }
  void finish(event const& e) {
    if (under_way.erase(e.message) != 1) fault = "finished twice: " + to_string(e.what);
    ended.insert(e.message);
  }
  run_status receive(event const& e) {
    std::uint32_t payload = 0;
    auto const status = mail.receive(rank, {e.what, e.what, e.what, e.message, e.peer, 0}, payload);
    if (status == run_status::completed && !received.insert(payload).second) fault = "received twice";
    return status;
  }
  void stop(run_report const&) { mail.stop(); }
};

std::vector<std::uint32_t> lane_nodes(op_graph const& graph, int rank, stream s) {
  std::vector<std::uint32_t> nodes;
  auto const lane = graph.lane_of(rank, s);
  for (auto n = graph.lane_begin(lane); n < graph.lane_end(lane); ++n) nodes.push_back(n);
  return nodes;
}

}  // namespace

TEST_CASE("the events of every schedule run on threads, each after what it needs and each stream in its order") {
  for (int ranks : {1, 2, 4})
    for (int layers : {1, 2})
      test_support::for_each_built_in(ranks, 2 - (ranks & 1), 8, [&](schedule const& s) {
        auto const graph = lower_moe(s, {.layers = layers});
        execution_order const order(graph);
        auto const times =
            make_timeline(graph, order, moe_cost<>{.attention = 2, .dispatch = 3, .mlp = 2, .combine = 3});
        thread_transport<std::uint32_t> mail(graph.size(), ranks, 20s);
        std::vector<std::string> faults(std::size_t(ranks), "did not run");
        auto const reports = run_on_threads(ranks, [&](int rank) {
          observer handler{graph, mail, rank};
          event_program const program(graph, order, times, rank);
          auto report = run(program, handler);
          auto& fault = faults[std::size_t(rank)] = handler.fault;
          if (handler.computed != lane_nodes(graph, rank, stream::compute)) fault = "another order of computation";
          std::vector<std::uint32_t> collectives;
          for (auto n : handler.started)
            if (graph.stream_of(node_id{n}) == stream::all_to_all) collectives.push_back(n);
          if (collectives != lane_nodes(graph, rank, stream::all_to_all)) fault = "another order of collectives";
          if (!handler.under_way.empty()) fault = "not all communication was finished";
          return report;
        });
        for (int rank = 0; rank < ranks; ++rank) {
          INFO(s.name() << " on " << ranks << " ranks: " << to_string(reports[std::size_t(rank)]));
          REQUIRE(reports[std::size_t(rank)]);
          REQUIRE(faults[std::size_t(rank)] == "");
        }
      });
}

TEST_CASE("in an overlapped pair, communication is under way beside computation") {
  auto const graph = lower_moe(generate(dual_pipe_v{.ranks = 1, .microbatches = 4}));
  execution_order const order(graph);
  auto const times = make_timeline(graph, order, moe_cost<>{});
  thread_transport<std::uint32_t> mail(graph.size(), 1, 1s);
  observer handler{graph, mail, 0};
  CHECK(run(event_program(graph, order, times, 0), handler));
  CHECK(handler.most_under_way_beside_compute >= 1);

  auto const plain = lower_moe(generate(one_f_one_b{1, 4}));
  execution_order const plain_order(plain);
  thread_transport<std::uint32_t> plain_mail(plain.size(), 1, 1s);
  observer alone{plain, plain_mail, 0};
  CHECK(run(event_program(plain, plain_order, make_timeline(plain, plain_order, moe_cost<>{}), 0), alone));
  CHECK(alone.most_under_way_beside_compute == 0);
}

TEST_CASE("an event that times out names the rank whose message it waited for") {
  struct patient : observer {
    run_status receive(event const&) { return run_status::timed_out; }
  };
  auto const graph = lower_moe(generate(one_f_one_b{2, 2}));
  execution_order const order(graph);
  thread_transport<std::uint32_t> mail(graph.size(), 2, 1s);
  patient handler{{graph, mail, 1}};
  auto const report = run(event_program(graph, order, make_timeline(graph, order, moe_cost<>{}), 1), handler);
  CHECK(report.status == run_status::timed_out);
  CHECK(report.reason == "no message from rank 0");
}

TEST_CASE("a send that is not received in time names the rank that was to receive it") {
  struct patient : observer {
    run_status finish(event const& e) {
      observer::finish(e);
      return e.peer >= 0 ? run_status::timed_out : run_status::completed;
    }
  };
  auto const graph = lower_moe(generate(one_f_one_b{2, 2}));
  execution_order const order(graph);
  thread_transport<std::uint32_t> mail(graph.size(), 2, 1s);
  patient handler{{graph, mail, 0}};
  event_program const program(graph, order, make_timeline(graph, order, moe_cost<>{}), 0);
  auto const report = run_on_threads(2, [&](int rank) {
    if (rank == 0) return run(program, handler);
    observer other{graph, mail, 1};
    return run(event_program(graph, order, make_timeline(graph, order, moe_cost<>{}), 1), other);
  })[0];
  CHECK(report.status == run_status::timed_out);
  CHECK(to_string(report.at) == "0SEND_F0");
  CHECK(report.reason == "not received by rank 1");
  CHECK(graph.node(node_id{program.nodes()[report.position]}) == report.at);
}

TEST_CASE("whatever event fails, position and op are of one") {
  auto const graph = lower_moe(generate(dual_pipe_v{.ranks = 1, .microbatches = 4}));
  execution_order const order(graph);
  auto const times = make_timeline(graph, order, moe_cost<>{.attention = 2, .dispatch = 3, .mlp = 2, .combine = 3});
  event_program const program(graph, order, times, 0);
  struct failing : observer {
    int calls = 0, failing_call = 0;
    bool call() { return calls++ != failing_call; }
    bool before(event const&) { return call(); }
    bool after(event const&) { return call(); }
    bool compute(event const& e) { return observer::compute(e), call(); }
    bool start(event const& e) { return observer::start(e), call(); }
    bool finish(event const& e) { return observer::finish(e), call(); }
  };
  for (int failing_call = 0;; ++failing_call) {
    thread_transport<std::uint32_t> mail(graph.size(), 1, 1s);
    failing handler{{graph, mail, 0}};
    handler.failing_call = failing_call;
    auto const report = run(program, handler);
    CHECK(handler.fault == "");
    if (report) {
      CHECK(failing_call > int(graph.size()) * 3);  // before, after, and at least one call between them
      break;
    }
    REQUIRE(report.status == run_status::failed);
    REQUIRE(handler.calls == failing_call + 1);
    REQUIRE(graph.node(node_id{program.nodes()[report.position]}) == report.at);
  }
}

TEST_CASE("a rank that the lowered graph does not have is refused") {
  auto const graph = lower_moe(generate(one_f_one_b{2, 2}));
  execution_order const order(graph);
  auto const times = make_timeline(graph, order, moe_cost<>{});
  CHECK_THROWS_AS(event_program(graph, order, times, 2), parameter_error);
  CHECK_THROWS_AS(event_program(graph, order, times, -1), parameter_error);
}

TEST_CASE("an event that fails is named") {
  struct failing : observer {
    bool finish(event const& e) { return e.what.kind() != op_kind::combine_backward; }
  };
  auto const graph = lower_moe(generate(one_f_one_b{1, 2}));
  execution_order const order(graph);
  thread_transport<std::uint32_t> mail(graph.size(), 1, 1s);
  failing handler{{graph, mail, 0}};
  auto const report = run(event_program(graph, order, make_timeline(graph, order, moe_cost<>{}), 0), handler);
  CHECK(report.status == run_status::failed);
  CHECK(to_string(report.at) == "0COMBINE_B0");
}

TEST_CASE("hooks surround every event: a collective from its start to its finish") {
  struct profiled : observer {
    std::set<std::uint32_t> open = {};
    std::size_t opened = 0;
    void before(event const& e) {
      if (!open.insert(e.message).second || ended.count(e.message) != 0) fault = "opened twice";
      ++opened;
    }
    void after(event const& e) {
      if (open.erase(e.message) != 1 || ended.count(e.message) != 1) fault = "closed before it ended";
    }
  };
  auto const graph = lower_moe(generate(dual_pipe_v{.ranks = 1, .microbatches = 4}));
  execution_order const order(graph);
  thread_transport<std::uint32_t> mail(graph.size(), 1, 1s);
  profiled handler{{graph, mail, 0}};
  CHECK(run(event_program(graph, order, make_timeline(graph, order, moe_cost<>{}), 0), handler));
  CHECK(handler.fault == "");
  CHECK(handler.opened == graph.size());
  CHECK(handler.open.empty());
}
