// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include <pipesched/analysis/critical_path.hpp>
#include <pipesched/analysis/decorators.hpp>
#include <pipesched/analysis/report.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/schedules/dual_pipe.hpp>
#include <pipesched/schedules/gpipe.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

#include "support/random_schedules.hpp"

using namespace pipesched;

static_assert(analyze(one_f_one_b{4, 8}).bubble_time == 9);
// Through the schedule, the graph and its order, within the compilers' default limits.
static_assert(analyze(generate(dual_pipe{.ranks = 8, .microbatches = 20})).bubble_time == 6);

namespace {

template <class T>
std::vector<std::int64_t> peaks(report<T> const& r) {
  std::vector<std::int64_t> values;
  for (auto const& rank : r.per_rank) values.push_back(rank.peak_activations);
  return values;
}
using list = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("The figures of 1F1B at P=4, m=8 are the known ones", "[analysis][report]") {
  auto const r = analyze(one_f_one_b{4, 8});
  CHECK(r.makespan == 33);
  CHECK(r.operations == 64);
  CHECK(r.ideal == 24.0);
  CHECK(r.bubble_time == 9);
  CHECK(r.bubble_fraction == 9.0 / 33);
  CHECK(r.bubble_ratio == 0.375);
  CHECK(r.span_bubble_rate == 9.0 / 33);
  CHECK(r.utilization == 1 - 9.0 / 33);
  CHECK(r.steady_utilization == 1.0);
  CHECK(r.peak_activations == 4);
  CHECK(r.parameter_copies == 1);
  CHECK(r.chunks == 1);
  CHECK(peaks(r) == list{4, 3, 2, 1});
  auto const& first = r.per_rank.front();
  CHECK(first.stages == std::vector<stage_copy>{{0, 0}});
  CHECK(first.busy == 24);
  CHECK(first.idle == 9);
  CHECK(first.first_start == 0);
  CHECK(first.last_end == 33);
  CHECK(first.warmup == 3);
  CHECK(first.idle_cause.of(edge_kind::gradient) == 9);
  CHECK(first.peak_time == 3);
}

TEST_CASE("GPipe holds every microbatch and has no steady phase", "[analysis][report]") {
  auto const r = analyze(gpipe{4, 8});
  CHECK(r.makespan == 33);
  CHECK(peaks(r) == list{8, 8, 8, 8});
  CHECK_FALSE(r.steady_utilization);
  auto const fraction = analyze(gpipe{8, 16}, [](op, int) { return 1; });
  CHECK(fraction.idle_total * 23 == 7 * (fraction.idle_total + fraction.busy_total));
  CHECK(fraction.bubble_fraction == 7.0 / 23);
}

TEST_CASE("Bubble and peaks of 1F1B follow the closed forms on a grid", "[analysis][report]") {
  for (int P : {1, 2, 3, 5, 8})
    for (int m : {1, 2, 4, 9, 24})
      for (auto [f, i, w] : {std::tuple{1, 1, 1}, std::tuple{2, 3, 1}, std::tuple{5, 1, 0}}) {
        auto const r =
            analyze(one_f_one_b{P, m}, uniform_cost<>{.forward = f, .backward_input = i, .backward_weight = w});
        REQUIRE(r.bubble_time == (P - 1) * (f + i + w));
        for (int rank = 0; rank < P; ++rank) {
          REQUIRE(r.per_rank[std::size_t(rank)].peak_activations == std::min(m, P - rank));
          REQUIRE(r.per_rank[std::size_t(rank)].idle == (P - 1) * (f + i + w));
        }
      }
  CHECK(analyze(one_f_one_b{8, 1}).makespan == 24);
  CHECK(analyze(one_f_one_b{4, 2}).makespan == 15);
  CHECK(peaks(analyze(one_f_one_b{4, 2})) == list{2, 2, 2, 1});
}

TEST_CASE("The published profile of 16 ranks and 48 microbatches idles 25.52 % under 1F1B", "[analysis][report]") {
  auto const r = analyze(one_f_one_b{16, 48}, uniform_cost<double>{11.347, 11.248, 8.132, {}, 0.377});
  CHECK(std::round(r.bubble_fraction * 1e4) == 2552);
}

TEST_CASE("Busy and idle add up, by phase and by cause, whatever the schedule", "[analysis][report]") {
  std::mt19937 random(17);
  for (auto const& where : {placement::linear(3), placement::loop(2, 3), placement::v(3), placement::bidirectional(4)})
    for (int m : {1, 4}) {
      auto const s = test_support::random_schedule(where, m, random);
      uniform_cost<> const cost{.forward = 2, .backward_input = 3, .backward_weight = 1, .overlapped = 5, .latency = 1};
      auto const r = analyze(s, cost);
      std::int64_t most = 0;
      for (auto const& rank : r.per_rank) {
        REQUIRE(rank.busy + rank.idle == r.makespan);
        REQUIRE(rank.idle_phase.warmup + rank.idle_phase.steady + rank.idle_phase.cooldown == rank.idle);
        auto waited = rank.idle_cause.finished;
        for (auto time : rank.idle_cause.waiting) waited += time;
        REQUIRE(waited == rank.idle);
        REQUIRE(rank.idle_cause.of(edge_kind::program) == 0);
        most = std::max(most, rank.idle);
      }
      REQUIRE(r.bubble_time == most);
      REQUIRE(r.bubble_fraction >= 0);
      REQUIRE(r.bubble_fraction < 1);
      REQUIRE(r.utilization == Approx(1 - r.bubble_fraction));
    }
}

TEST_CASE("The critical path is as long as the step and each link of it binds", "[analysis][critical_path]") {
  std::mt19937 random(23);
  for (auto const& where : {placement::linear(4), placement::loop(2, 2), placement::bidirectional(4)})
    for (int m : {1, 5}) {
      auto const graph = build_graph(test_support::random_schedule(where, m, random));
      uniform_cost<> const cost{.forward = 2, .backward_input = 3, .backward_weight = 1, .latency = 1};
      auto const times = make_timeline(graph, cost);
      auto const path = critical_path(graph, times, cost);
      REQUIRE_FALSE(path.empty());
      REQUIRE(times.start(path.front().node) == 0);
      REQUIRE(times.end(path.back().node) == times.makespan());
      for (std::size_t i = 1; i < path.size(); ++i) {
        REQUIRE(path[i].waited_for);
        bool const remote = graph.rank_of(path[i].node) != graph.rank_of(path[i - 1].node);
        REQUIRE(times.start(path[i].node) == times.end(path[i - 1].node) + (remote ? 1 : 0));
      }
    }
}

TEST_CASE("Memory counts in whole units of the user's choice", "[analysis][memory]") {
  auto const F = [](int b) { return forward(stage_id{0}, microbatch_id{b}); };
  auto const I = [](int b) { return backward_input(stage_id{0}, microbatch_id{b}); };
  auto const W = [](int b) { return backward_weight(stage_id{0}, microbatch_id{b}); };
  schedule const s(placement::linear(1), 2, {{F(0), I(0), F(1), I(1), W(0), W(1)}});
  auto const graph = build_graph(s);
  CHECK(peak_activations(graph, 0).held == 2);
  CHECK(peak_activations(graph, 0).node == node_id{2});
  CHECK(peak_activations(graph, 0, activation_size{2, 1}).held == 3);
  CHECK(peak_activations(graph, 0, activation_size{1, 0}).held == 1);
  auto const times = make_timeline(graph, uniform_cost<>{});
  CHECK(memory_curve(graph, times, 0, activation_size{2, 1}) ==
        std::vector<memory_point<std::int64_t>>{{0, 2}, {2, 1}, {2, 3}, {4, 2}, {5, 1}, {6, 0}});
  CHECK(peak_activations(graph, 0, memory_model(std::vector{activation_size{100, 30}})).held == 130);
  REQUIRE_THROWS_AS(peak_activations(graph, 0, activation_size{1, 2}), parameter_error);
}

TEST_CASE("In a pair the forward's activation is there before the backward's is freed", "[analysis][memory]") {
  auto const F = [](int b) { return forward(stage_id{0}, microbatch_id{b}); };
  auto const B = [](int b) { return backward(stage_id{0}, microbatch_id{b}); };
  auto const graph = build_graph(schedule(placement::linear(1), 2, {{F(0), F(1).overlapping_next(), B(0), B(1)}}));
  CHECK(peak_activations(graph, 0).held == 2);
  auto const r = analyze(graph, uniform_cost<>{.overlapped = 2});
  CHECK(r.makespan == 5);
  CHECK(r.per_rank[0].busy == 5);
}

TEST_CASE("Static memory is summed by stage over the copies on a rank", "[analysis][memory]") {
  std::vector<std::int64_t> const bytes{100, 1, 2, 40};
  CHECK(static_memory(placement::v(2), bytes) == list{140, 3});
  CHECK(static_memory(placement::loop(2, 2), bytes) == list{102, 41});
  CHECK(static_memory(placement::bidirectional(4), bytes) == list{140, 3, 3, 140});
  REQUIRE_THROWS_AS(static_memory(placement::linear(3), bytes), parameter_error);
}

TEST_CASE("Forward-only runs in m + P - 1 forwards and keeps all activations", "[analysis][report]") {
  auto const r = analyze(forward_only(one_f_one_b{4, 6}));
  CHECK(r.makespan == 9);
  CHECK_FALSE(r.steady_utilization);
  CHECK(r.per_rank[0].warmup == 6);
}

TEST_CASE("A cost model that lacks times for a stage is refused, whatever decorates it", "[analysis]") {
  stage_cost<> const short_of_two{.forward = {1, 2}, .backward_input = {1, 2}, .backward_weight = {1, 1}};
  one_f_one_b const generator{.ranks = 4, .microbatches = 8};
  CHECK_THROWS_AS(analyze(generator, short_of_two), parameter_error);
  CHECK_THROWS_AS(analyze(generate(generator), short_of_two), parameter_error);
  CHECK_THROWS_AS(analyze(generator, with_overhead(short_of_two, 1)), parameter_error);
  CHECK_THROWS_WITH(make_timeline(build_graph(generator), short_of_two), test_support::contains("forward (size) = 2"));
}
