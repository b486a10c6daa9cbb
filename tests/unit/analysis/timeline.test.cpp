// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include <pipesched/analysis/timeline.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/schedules/gpipe.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

#include "support/random_schedules.hpp"
#include "support/reference_simulator.hpp"

using namespace pipesched;

namespace {

/// Irregular whole times that tell every (kind, stage, rank) apart.
struct uneven {
  std::int64_t operator()(op o, int rank) const { return (int(o.kind()) * 7 + o.stage() * 3 + rank * 5) % 6; }
  std::int64_t pair_time(op f, op b, int rank) const { return (*this)(f, rank) + (*this)(b, rank) - rank % 2; }
  std::int64_t transfer_time(int, int) const { return latency; }
  std::int64_t latency;
};

}  // namespace

TEST_CASE("A timeline in the memory of another is that of its own model", "[analysis]") {
  auto const graph = build_graph(one_f_one_b{4, 9});
  execution_order const order(graph);
  uniform_cost<> const slow{.forward = 3, .backward_input = 4, .backward_weight = 2, .latency = 1};
  auto times = make_timeline(graph, order, uniform_cost<>{});
  times = make_timeline(graph, order, slow, std::move(times));
  auto const fresh = make_timeline(graph, order, slow);
  REQUIRE(times.makespan() == fresh.makespan());
  for (std::uint32_t n = 0; n < graph.size(); ++n) {
    CHECK(times.start(node_id{n}) == fresh.start(node_id{n}));
    CHECK(times.end(node_id{n}) == fresh.end(node_id{n}));
  }
}

TEST_CASE("Starts and ends are those of a simulator that shares no code", "[analysis][timeline]") {
  std::mt19937 random(5);
  for (auto const& where : {placement::linear(1), placement::linear(4), placement::loop(3, 2), placement::v(3),
                            placement::bidirectional(4), placement::custom(3, 4, 1, {2, 0, 2, 1})})
    for (int m : {1, 2, 7})
      for (std::int64_t latency : {0, 2}) {
        auto const s = test_support::random_schedule(where, m, random);
        uneven const cost{latency};
        auto const graph = build_graph(s);
        auto const times = make_timeline(graph, cost);
        auto const expected = test_support::simulate<std::int64_t>(
            s, [&](op o, op const* b, int rank) { return b ? cost.pair_time(o, *b, rank) : cost(o, rank); }, latency);
        REQUIRE(expected);
        std::int64_t last = 0;
        for (std::uint32_t n = 0; n < graph.size(); ++n) {
          REQUIRE(times.start(node_id{n}) == expected->start[n]);
          REQUIRE(times.end(node_id{n}) == expected->end[n]);
          last = std::max(last, expected->end[n]);
        }
        REQUIRE(times.makespan() == last);
      }
}

TEST_CASE("GPipe and 1F1B take (m + P - 1)(F + B) for all whole times", "[analysis][timeline]") {
  for (int P : {1, 2, 3, 8})
    for (int m : {1, 2, 5, 16})
      for (auto [f, i, w] : {std::tuple{1, 1, 1}, std::tuple{3, 1, 2}, std::tuple{1, 5, 0}, std::tuple{0, 2, 2}}) {
        uniform_cost<> const cost{.forward = f, .backward_input = i, .backward_weight = w};
        REQUIRE(make_timeline(build_graph(gpipe{P, m}), cost).makespan() == (m + P - 1) * (f + i + w));
        REQUIRE(make_timeline(build_graph(one_f_one_b{P, m}), cost).makespan() == (m + P - 1) * (f + i + w));
      }
}

TEST_CASE("Stage times and latency lengthen 1F1B as they should", "[analysis][timeline]") {
  auto const graph = build_graph(one_f_one_b{4, 8});
  auto const scaled = [&](std::vector<std::int64_t> const& factors) {
    return make_timeline(graph, stage_cost<>::scaled(uniform_cost<>{}, factors)).makespan();
  };
  CHECK(scaled({1, 1, 1, 1}) == 33);
  CHECK(scaled({1, 1, 1, 2}) == 57);
  CHECK(scaled({2, 1, 1, 1}) == 51);
  CHECK(scaled({1, 2, 1, 1}) == 53);
  CHECK(make_timeline(graph, uniform_cost<double>{.latency = 0.5}).makespan() == 41.0);
  CHECK(make_timeline(graph, [](op, int rank) { return rank == 3 ? 2 : 1; }).makespan() == 38);
}

TEST_CASE("A duration that is no duration is refused with its value", "[analysis][timeline]") {
  auto const graph = build_graph(gpipe{2, 2});
  auto const message = [&](auto const& cost) {
    try {
      (void)make_timeline(graph, cost);
    } catch (parameter_error const& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  CHECK(message(uniform_cost<>{.forward = -1}) == "duration = -1, must be at least 0");
  CHECK(message(uniform_cost<double>{.backward_weight = -2.5}) == "duration = -1.5, must be at least 0");
  CHECK(message(uniform_cost<double>{.forward = std::nan("")}).substr(0, 11) == "duration = ");
  CHECK(message(uniform_cost<double>{.forward = std::numeric_limits<double>::infinity()}).substr(0, 14) ==
        "duration = inf");
  CHECK(message(uniform_cost<>{.latency = -3}) == "latency = -3, must be at least 0");
  CHECK(message(uniform_cost<>{.forward = std::numeric_limits<std::int64_t>::max()}) != "none");
}

TEST_CASE("A schedule that cannot run has no timeline, and the reason is named", "[analysis][timeline]") {
  auto const F = [](int s, int b) { return forward(stage_id{s}, microbatch_id{b}); };
  auto const B = [](int s, int b) { return backward(stage_id{s}, microbatch_id{b}); };
  auto const message = [](schedule const& s) {
    try {
      (void)make_timeline(build_graph(s), uniform_cost<>{});
    } catch (schedule_error const& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  CHECK(message(schedule(placement::linear(2), 2,
                         {{F(0, 0), B(0, 0), F(0, 1), B(0, 1)}, {F(1, 1), B(1, 1), F(1, 0), B(1, 0)}})) ==
        "deadlock: 0B0 waits for 1B0, 1F1 waits for 0F1");
  CHECK(message(schedule(placement::linear(2), 1, {{F(0, 0), B(0, 0)}, {F(1, 0)}})) ==
        "0B0 needs 1B0, which is in no program");
}
