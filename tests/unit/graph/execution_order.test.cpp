// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <pipesched/graph/build_graph.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

#include "support/random_schedules.hpp"

using namespace pipesched;

namespace {

op F(int s, int b) { return forward(stage_id{s}, microbatch_id{b}); }
op B(int s, int b) { return backward(stage_id{s}, microbatch_id{b}); }

constexpr bool one_f_one_b_runs() {
  auto const graph = build_graph(one_f_one_b{4, 8});
  return execution_order(graph).complete();
}
static_assert(one_f_one_b_runs());

/// All nodes are in the order, each behind what it waits for and a pair side by side.
void require_order(op_graph const& graph) {
  execution_order const order(graph);
  REQUIRE(order.complete());
  REQUIRE(order.cycle(graph).empty());
  std::vector<std::size_t> position(graph.size());
  for (std::size_t i = 0; i < order.steps().size(); ++i) {
    auto const& step = order.steps()[i];
    position[order.node(graph, i).value] = i;
    REQUIRE(order.position(order.node(graph, i)) == i);
    REQUIRE(int(step.lane) == graph.lane_of(order.node(graph, i)));
    REQUIRE(step.what == graph.node(order.node(graph, i)));
  }
  for (std::uint32_t n = 0; n < graph.size(); ++n) {
    for (auto e : graph.producers(node_id{n}))
      if (e.kind != edge_kind::pair) REQUIRE(position[e.from.value] < position[n]);
    if (auto mate = graph.partner(node_id{n}))
      REQUIRE(position[std::max(mate->value, n)] == position[std::min(mate->value, n)] + 1);
  }
}

}  // namespace

TEST_CASE("Every edge of a valid schedule points forward in the order", "[graph]") {
  std::mt19937 random(11);
  for (auto const& where : {placement::linear(1), placement::linear(4), placement::loop(3, 2), placement::v(3),
                            placement::bidirectional(4), placement::custom(2, 3, 1, {1, 0, 1})})
    for (int m : {1, 2, 6}) require_order(build_graph(test_support::random_schedule(where, m, random)));
}

TEST_CASE("An order is found whatever way the ranks are numbered", "[graph]") {
  std::mt19937 random(7);
  for (int ranks : {1, 2, 63, 64, 65, 130})
    for (int m : {1, 5, 150}) {
      auto const along_the_stages = generate(one_f_one_b{ranks, m});
      std::vector<int> rank_of(std::size_t(ranks), 0);
      std::iota(rank_of.begin(), rank_of.end(), 0);
      auto const require_order_of_numbering = [&] {
        std::vector<std::vector<op>> programs(rank_of.size());
        for (int stage = 0; stage < ranks; ++stage) {
          auto const program = along_the_stages.program(stage);
          programs[std::size_t(rank_of[std::size_t(stage)])].assign(program.begin(), program.end());
        }
        require_order(build_graph(schedule(placement::custom(ranks, ranks, 1, rank_of), m, programs)));
      };
      require_order_of_numbering();
      std::reverse(rank_of.begin(), rank_of.end());
      require_order_of_numbering();
      std::shuffle(rank_of.begin(), rank_of.end(), random);
      require_order_of_numbering();
    }
}

TEST_CASE("An order in the memory of another is that of its own graph", "[graph]") {
  std::mt19937 random(5);
  execution_order order;
  for (int m : {6, 1, 4}) {
    auto const graph = build_graph(test_support::random_schedule(placement::loop(3, 2), m, random),
                                   {.skip_connections = {{0, 4}, {1, 3}}});
    execution_order const fresh(graph);
    order = execution_order(graph, std::move(order));
    REQUIRE(order.steps().size() == fresh.steps().size());
    REQUIRE(order.further_waits().size() == fresh.further_waits().size());
    for (std::size_t i = 0; i < graph.size(); ++i) REQUIRE(order.node(graph, i) == fresh.node(graph, i));
  }
}

TEST_CASE("A deadlock is named as the cycle of ops that wait for each other", "[graph]") {
  schedule const s(placement::linear(2), 2,
                   {{F(0, 0), B(0, 0), F(0, 1), B(0, 1)}, {F(1, 1), B(1, 1), F(1, 0), B(1, 0)}});
  auto const graph = build_graph(s);
  execution_order const order(graph);
  REQUIRE_FALSE(order.complete());
  auto const cycle = order.cycle(graph);
  REQUIRE(cycle.size() == 2);
  CHECK(graph.node(cycle[0].node) == B(0, 0));
  CHECK(graph.node(cycle[0].awaited) == B(1, 0));
  CHECK(cycle[0].kind == edge_kind::gradient);
  CHECK(graph.node(cycle[1].node) == F(1, 1));
  CHECK(graph.node(cycle[1].awaited) == F(0, 1));
  CHECK(order.blocked().size() == 2);
}

TEST_CASE("Each step of a cycle waits for the next step's op or one behind it", "[graph]") {
  std::mt19937 random(3);
  int deadlocks = 0;
  for (int round = 0; round < 300; ++round) {
    auto const valid = test_support::random_schedule(placement::loop(3, 2), 3, random);
    std::vector<std::vector<op>> programs;
    for (int rank = 0; rank < 3; ++rank) {
      auto& program = programs.emplace_back();
      for (op o : valid.program(rank)) program.push_back(o.alone());
      std::swap(program[random() % program.size()], program[random() % program.size()]);
    }
    schedule const broken(valid.where(), valid.microbatches(), programs);
    auto const graph = build_graph(broken);
    execution_order const order(graph);
    if (order.complete()) continue;
    ++deadlocks;
    auto const cycle = order.cycle(graph);
    REQUIRE_FALSE(cycle.empty());
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      auto const& next = cycle[(i + 1) % cycle.size()];
      REQUIRE(graph.lane_of(cycle[i].awaited) == next.lane);
      REQUIRE(cycle[i].awaited.value >= next.node.value);
    }
  }
  CHECK(deadlocks > 50);
}

TEST_CASE("An op behind its own need on one rank is a cycle of one", "[graph]") {
  auto const graph = build_graph(schedule(placement::linear(1), 1, {{B(0, 0), F(0, 0)}}));
  execution_order const order(graph);
  auto const cycle = order.cycle(graph);
  REQUIRE(cycle.size() == 1);
  CHECK(graph.node(cycle[0].awaited) == F(0, 0));
}

TEST_CASE("A pair whose members need each other cannot run", "[graph]") {
  auto const graph = build_graph(schedule(placement::linear(1), 1, {{F(0, 0).overlapping_next(), B(0, 0)}}));
  execution_order const order(graph);
  REQUIRE_FALSE(order.complete());
  CHECK(order.cycle(graph).size() == 1);
}
