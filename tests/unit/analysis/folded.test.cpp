// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/generator_shapes.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <pipesched/analysis/folded.hpp>
#include <pipesched/analysis/report.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/schedules/registry.hpp>

using namespace pipesched;

static_assert(analyze(dual_pipe{8, 20}).bubble_time == 6);
static_assert(analyze_folded(one_f_one_b{4, 8})->makespan == 33);

namespace {

/// The first figure in which two reports differ; empty where there is none.
template <class T>
std::string difference(report<T> const& a, report<T> const& b) {
#define COMPARE(figure) \
  if (!(a.figure == b.figure)) return #figure
  COMPARE(ranks);
  COMPARE(stages);
  COMPARE(chunks);
  COMPARE(microbatches);
  COMPARE(operations);
  COMPARE(makespan);
  COMPARE(busy_total);
  COMPARE(idle_total);
  COMPARE(bubble_time);
  COMPARE(span);
  COMPARE(ideal);
  COMPARE(bubble_fraction);
  COMPARE(bubble_ratio);
  COMPARE(utilization);
  COMPARE(span_bubble_rate);
  COMPARE(steady_utilization);
  COMPARE(peak_activations);
  COMPARE(parameter_copies);
#undef COMPARE
  for (std::size_t r = 0; r < a.per_rank.size(); ++r) {
    auto const& x = a.per_rank[r];
    auto const& y = b.per_rank[r];
#define COMPARE(figure) \
  if (!(x.figure == y.figure)) return "rank " + std::to_string(r) + ": " #figure
    COMPARE(rank);
    COMPARE(stages);
    COMPARE(operations);
    COMPARE(busy);
    COMPARE(idle);
    COMPARE(first_start);
    COMPARE(last_end);
    COMPARE(idle_phase.warmup);
    COMPARE(idle_phase.steady);
    COMPARE(idle_phase.cooldown);
    COMPARE(idle_cause.waiting);
    COMPARE(idle_cause.finished);
    COMPARE(steady_utilization);
    COMPARE(warmup);
    COMPARE(peak_activations);
    COMPARE(peak_op);
    COMPARE(peak_position);
    COMPARE(peak_time);
    COMPARE(parameter_copies);
#undef COMPARE
  }
  return {};
}

/// A schedule folded and stored: made once for all cost models, and one type whatever the generator.
struct both_ways {
  std::string label;
  std::optional<folded_schedule> folded;
  op_graph graph;

  template <class Generator>
  explicit both_ways(Generator const& generator)
      : label(name_of(generator)), folded(fold(generator)), graph(build_graph(generator)) {
    label.append(" P=").append(std::to_string(graph.ranks()));
    label.append(" S=").append(std::to_string(graph.stages()));
    label.append(" m=").append(std::to_string(graph.microbatches()));
  }
};

/// Compares with the figures from the graph; returns how much was left out.
template <class Cost>
std::int64_t compare_with_graph(both_ways const& s, Cost const& cost, memory_model const& memory = {}) {
  UNSCOPED_INFO(s.label);
  REQUIRE(s.folded);
  analysis_effort effort;
  auto const folded = analyze_folded(*s.folded, cost, memory, &effort);
  auto const stored = analyze(s.graph, cost, memory);
  REQUIRE(folded);
  REQUIRE(difference(*folded, stored).empty());
  REQUIRE(effort.simulated_operations + effort.skipped_operations == stored.operations);
  return effort.skipped_operations;
}

/// Times that depend on the microbatch.
struct changing_cost {
  int operator()(op o, int rank) const { return int((o.microbatch() * 7 + rank * 3 + o.stage()) % 5); }
};
/// Scrambles what an op is: a time of its own for each, the same whenever it is asked.
template <class T>
struct scrambled_cost {
  T unit;
  T operator()(op o, int rank) const {
    return unit * static_cast<T>((o.packed() + std::uint64_t(rank) + 1) * 0x9E3779B97F4A7C15 >> 58);
  }
};
/// Times that are the same for all microbatches but do not say so.
struct silent_cost {
  int operator()(op, int) const { return 1; }
};

/// A factor for each stage, no two neighbours the same.
template <class T>
std::vector<T> uneven(placement const& where) {
  std::vector<T> factors;
  for (int stage = 0; stage < where.stages(); ++stage) factors.push_back(static_cast<T>(1 + stage * 7 % 5));
  return factors;
}

void compare_under_all_costs(both_ways const& s) {
  auto const& where = s.graph.where();
  compare_with_graph(s, uniform_cost<>{});
  compare_with_graph(s, uniform_cost<>{3, 2, 1, 4, 2}, activation_size{2, 1});
  compare_with_graph(s, stage_cost<>::scaled({3, 4, 2, {}, 3}, uneven<std::int64_t>(where)));
  compare_with_graph(s, stage_cost<double>::scaled({1.1, 0.7, 1.3, {}, 0.3}, uneven<double>(where)));
  compare_with_graph(s, changing_cost{});
}

/// A generator that writes what a function gives it, op by op.
struct written {
  int ranks;
  int microbatches;
  op (*at)(int rank, int position);
  int length;

  [[nodiscard]] constexpr check_result check() const { return {}; }
  [[nodiscard]] constexpr auto placement() const { return placement::linear(ranks); }
  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    for (int i = 0; i < length; ++i) out(at(rank, i));
  }
};

constexpr int P64 = 64;
constexpr int billion = 1'000'000'000;

}  // namespace

TEMPLATE_TEST_CASE("The figures without a graph are those of the graph", "[analysis][folded]", gpipe, one_f_one_b,
                   eager_one_f_one_b, interleaved, looped_bfs, zb_h1, zb_h2, interleaved_zb, zb_v, v_half, v_min,
                   chimera, dual_pipe, dual_pipe_v, one_f_one_b_overlap, interleaved_overlap) {
  for (int const P : {1, 2, 3, 4, 6})
    for (int const m : {1, 2, 3, 5, 8, 12, 17, 33})
      for (int const v : {1, 2, 3})
        for (int const n : {0, 3})
          test_support::with_shape<TestType>(P, m, v, n, [](auto const& generator) {
            compare_under_all_costs(both_ways(generator));
            compare_with_graph(both_ways(forward_only(generator)), uniform_cost<>{3, 2, 1, 4, 2});
          });
}

TEMPLATE_TEST_CASE("The figures are the graph's also where all ops take times of their own", "[analysis][folded]",
                   gpipe, one_f_one_b, eager_one_f_one_b, interleaved, looped_bfs, zb_h1, zb_h2, interleaved_zb, zb_v,
                   v_half, v_min, chimera, dual_pipe, dual_pipe_v, one_f_one_b_overlap, interleaved_overlap) {
  for (int const P : {2, 6, 16})
    for (int const m : {2 * P, 96, 480}) {
      both_ways const s(TestType{P, m});
      compare_with_graph(s, scrambled_cost<std::int64_t>{1});
      compare_with_graph(s, scrambled_cost<double>{0.1});
    }
}

TEMPLATE_TEST_CASE("A steady state is run a few times and the rest of it skipped", "[analysis][folded]", gpipe,
                   one_f_one_b, eager_one_f_one_b, interleaved, zb_h1, zb_h2, interleaved_zb, zb_v, v_half, v_min,
                   chimera, dual_pipe, dual_pipe_v, one_f_one_b_overlap, interleaved_overlap) {
  for (int const P : {2, 4, 6}) {
    both_ways const s(TestType{P, 1200});
    CHECK(compare_with_graph(s, uniform_cost<>{}) > 0);
    CHECK(compare_with_graph(s, uniform_cost<>{3, 2, 1, 4, 2}, activation_size{2, 1}) > 0);
    CHECK(compare_with_graph(s, stage_cost<>::scaled({3, 4, 2, {}, 3}, uneven<std::int64_t>(s.graph.where()))) > 0);
    CHECK(compare_with_graph(s, silent_cost{}) == 0);
    CHECK(compare_with_graph(s, uniform_cost<double>{1.5, 1.25, 0.5}) > 0);
    CHECK(compare_with_graph(s, uniform_cost<double>{0.1, 0.1, 0.1}) == 0);  // sums of them are rounded
    CHECK(compare_with_graph(s, uniform_cost<double>{1e13, 1.25, 0.5}) == 0);
    CHECK(compare_with_graph(both_ways(forward_only(TestType{P, 1200})), uniform_cost<>{}) > 0);
  }
}

TEMPLATE_TEST_CASE("A billion microbatches take no more than a thousand", "[analysis][folded]", gpipe, one_f_one_b,
                   eager_one_f_one_b, interleaved, zb_h1, zb_h2, interleaved_zb, zb_v, v_half, v_min, chimera,
                   dual_pipe, dual_pipe_v, one_f_one_b_overlap, interleaved_overlap) {
  analysis_effort effort;
  auto const thousand = analyze_folded(TestType{P64, 1000});
  auto const figures = analyze_folded(TestType{P64, billion}, uniform_cost<>{}, {}, &effort);
  REQUIRE(thousand);
  REQUIRE(figures);
  CHECK(effort.simulated_operations <= thousand->operations);
  CHECK(effort.simulated_operations + effort.skipped_operations == figures->operations);
  CHECK(figures->busy_total - thousand->busy_total == 3 * (std::int64_t{billion} - 1000) * figures->stages);
}

TEMPLATE_TEST_CASE("A single rank skips what repeats, though it waits for nobody", "[analysis][folded]", gpipe,
                   one_f_one_b, eager_one_f_one_b, interleaved, zb_h1, zb_h2, interleaved_zb, one_f_one_b_overlap) {
  CHECK(compare_with_graph(both_ways(TestType{1, 3000}), uniform_cost<>{3, 2, 1, 4, 2}) > 0);
  analysis_effort effort;
  auto const figures = analyze_folded(TestType{1, billion}, uniform_cost<>{}, {}, &effort);
  REQUIRE(figures);
  CHECK(effort.simulated_operations < 10'000);
  CHECK(figures->makespan == 3 * std::int64_t{billion} * figures->stages);
}

TEST_CASE("Where stages of GPipe are uneven, ranks drift apart and still each of them repeats", "[analysis][folded]") {
  stage_cost<> const cost{{1, 3, 2, 1}, {2, 1, 2, 1}, {1, 1, 1, 1}};
  CHECK(compare_with_graph(both_ways(gpipe{4, 3000}), cost) > 20000);
  analysis_effort effort;
  auto const figures = analyze_folded(gpipe{4, billion}, cost, {}, &effort);
  REQUIRE(figures);
  CHECK(effort.simulated_operations < 20000);
  // The slowest forwards, then the slowest backwards; before, after and between them one microbatch on other stages.
  auto const steps = std::int64_t{billion} - 3000;
  CHECK(figures->makespan - analyze(build_graph(gpipe{4, 3000}), cost).makespan == (3 + 3) * steps);
  CHECK(figures->peak_activations == billion);
}

TEST_CASE("Closed forms hold for a billion microbatches", "[analysis][folded]") {
  uniform_cost<> const cost{.forward = 5, .backward_input = 7, .backward_weight = 3};
  CHECK(analyze(one_f_one_b{P64, billion}, cost).bubble_time == 63 * (5 + 10));
  CHECK(analyze(gpipe{P64, billion}, cost).bubble_time == 63 * (5 + 10));
  CHECK(analyze(zb_h1{P64, billion}, cost).bubble_time == 63 * (5 + 7 - 3));
  CHECK(analyze(interleaved{P64, billion}, cost).bubble_time == 63 * (5 + 10));
  CHECK(analyze(dual_pipe{P64, billion}).makespan == 3 * std::int64_t{billion} + P64 - 2);
  CHECK(analyze(chimera{P64, billion}, uniform_cost<>{1, 1, 0}).bubble_time == P64 - 2);
  CHECK(analyze(one_f_one_b{P64, std::numeric_limits<int>::max()}).bubble_time == 63 * 3);
}

TEST_CASE("Times that would not fit 64 bits are refused", "[analysis][folded]") {
  uniform_cost<> const too_long{.forward = 50'000'000, .backward_input = 1, .backward_weight = 1};
  CHECK_THROWS_AS(analyze(one_f_one_b{P64, billion}, too_long), parameter_error);
  CHECK_NOTHROW(analyze(one_f_one_b{P64, billion / 2}, too_long));
  CHECK_THROWS_AS(analyze(one_f_one_b{P64, 100}, uniform_cost<>{.forward = -1}), parameter_error);
  CHECK_THROWS_AS(analyze(one_f_one_b{P64, 100}, uniform_cost<>{.latency = -1}), parameter_error);
}

TEST_CASE("A billion microbatches are not stored", "[analysis][folded]") {
  CHECK_THROWS_AS(generate(one_f_one_b{P64, billion}), parameter_error);
  CHECK_THROWS_AS(build_graph(one_f_one_b{P64, billion}), parameter_error);
  CHECK_THROWS_AS(analyze(zb_v{P64, billion, pass_times{1, 2, 1}}), parameter_error);
  CHECK_THROWS_AS(analyze(v_half{P64, billion, pass_times{1, 2, 1}}), parameter_error);
}

TEST_CASE("A schedule that cannot run is refused as its graph is", "[analysis][folded]") {
  auto const backward_first = [](int, int i) {
    return i % 2 == 0 ? backward(stage_id{0}, microbatch_id{i / 2}) : forward(stage_id{0}, microbatch_id{i / 2});
  };
  written const wrong_order{1, 50, backward_first, 100};
  CHECK_FALSE(analyze_folded(wrong_order));
  CHECK_THROWS_AS(analyze(wrong_order), schedule_error);

  // Rank 0 wants the gradient of a microbatch before it sends the next, rank 1 two forwards before its first backward.
  auto const too_few = [](int rank, int i) {
    bool const is_forward = rank == 0 ? i % 2 == 0 : i < 2 || (i < 99 && i % 2 == 1);
    int const microbatch = rank == 0 ? i / 2 : i < 2 ? i : i == 99 ? 49 : is_forward ? (i + 1) / 2 : i / 2 - 1;
    return op(is_forward ? op_kind::forward : op_kind::backward, stage_id{rank}, microbatch_id{microbatch});
  };
  written const deadlock{2, 50, too_few, 100};
  CHECK_FALSE(analyze_folded(deadlock));
  CHECK_THROWS_WITH(analyze(deadlock), test_support::contains("deadlock"));

  auto const on_another_rank = [](int rank, int i) { return forward(stage_id{1 - rank}, microbatch_id{i}); };
  CHECK_FALSE(analyze_folded(written{2, 5, on_another_rank, 5}));
  auto const no_producer = [](int rank, int i) { return forward(stage_id{rank}, microbatch_id{i + rank}); };
  CHECK_FALSE(analyze_folded(written{2, 6, no_producer, 5}));
  CHECK_THROWS_AS(analyze(written{2, 6, no_producer, 5}), schedule_error);
}

TEST_CASE("A schedule out of the microbatches' order is analysed from its graph", "[analysis][folded]") {
  auto const shuffled = [](int rank, int i) {
    auto const kind = i < 7 ? op_kind::forward : op_kind::backward;
    return op(kind, stage_id{rank}, microbatch_id{i % 7 * 3 % 7});
  };
  written const generator{3, 7, shuffled, 14};
  CHECK_FALSE(analyze_folded(generator));
  CHECK(difference(analyze(generator), analyze(build_graph(generator))).empty());
}
