// SPDX-License-Identifier: MIT

/// \file
/// From schedule to report: each step of the way in time per op, beside its floor. The rows that belong together have
/// the same arguments, P and m. Generating is in generation.bench.cpp.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <pipesched/analysis/report.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/schedules/gpipe.hpp>
#include <pipesched/schedules/interleaved.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

#include "floors.hpp"

using namespace pipesched;

namespace {

template <class Generator>
Generator make(benchmark::State const& state) {
  Generator generator{int(state.range(0)), int(state.range(1))};
  if constexpr (requires { generator.chunks; }) generator.chunks = 2;
  return generator;
}

template <class Generator>
void graph(benchmark::State& state) {
  auto const made = pipesched::generate(make<Generator>(state));
  auto built = build_graph(made);
  for (auto _ : state) {
    built = build_graph(made, std::move(built));
    benchmark::DoNotOptimize(built.nodes().data());
  }
  bench::per_op(state, made.ops().size());
}

template <class Generator>
void graph_floor(benchmark::State& state) {
  auto const operations = pipesched::generate(make<Generator>(state)).ops().size();
  std::vector<std::uint64_t> words(3 * operations);  // 24 bytes an op
  for (auto _ : state) bench::read_and_write(words);
  bench::per_op(state, operations);
}

template <class Generator>
void order(benchmark::State& state) {
  auto const built = build_graph(make<Generator>(state));
  execution_order found;
  for (auto _ : state) {
    found = execution_order(built, std::move(found));
    benchmark::DoNotOptimize(found.steps().data());
  }
  bench::per_op(state, built.size());
}

uniform_cost<> const unequal{.forward = 2, .backward_input = 3, .backward_weight = 1, .latency = 1};

/// The order and the timeline.
template <class Generator>
void first_timeline(benchmark::State& state) {
  auto const built = build_graph(make<Generator>(state));
  execution_order found(built);
  auto times = make_timeline(built, found, unequal);
  for (auto _ : state) {
    found = execution_order(built, std::move(found));
    times = make_timeline(built, found, unequal, std::move(times));
    benchmark::DoNotOptimize(times.ends().data());
  }
  bench::per_op(state, built.size());
}

template <class Generator>
void next_timeline(benchmark::State& state) {
  auto const built = build_graph(make<Generator>(state));
  execution_order const found(built);
  auto times = make_timeline(built, found, unequal);
  for (auto _ : state) {
    times = make_timeline(built, found, unequal, std::move(times));
    benchmark::DoNotOptimize(times.ends().data());
  }
  bench::per_op(state, built.size());
}

template <class Generator>
void timeline_floor(benchmark::State& state) {
  auto const built = build_graph(make<Generator>(state));
  bench::bare_path path{execution_order(built)};
  for (auto _ : state) benchmark::DoNotOptimize(path());
  bench::per_op(state, built.size());
}

template <class Generator>
void analysis(benchmark::State& state) {
  auto const built = build_graph(make<Generator>(state));
  uniform_cost<> const cost;
  auto const times = make_timeline(built, cost);
  for (auto _ : state) benchmark::DoNotOptimize(make_report(built, times, cost).bubble_time);
  bench::per_op(state, built.size());
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"P", "m"})->Unit(benchmark::kMillisecond);
  for (int ranks : {8, 64, 1024})
    for (int microbatches : {64, 1024, 8192}) b->Args({ranks, microbatches});
}

#define PIPESCHED_BENCH(generator)                     \
  BENCHMARK(graph_floor<generator>)->Apply(shapes);    \
  BENCHMARK(graph<generator>)->Apply(shapes);          \
  BENCHMARK(timeline_floor<generator>)->Apply(shapes); \
  BENCHMARK(order<generator>)->Apply(shapes);          \
  BENCHMARK(first_timeline<generator>)->Apply(shapes); \
  BENCHMARK(next_timeline<generator>)->Apply(shapes);  \
  BENCHMARK(analysis<generator>)->Apply(shapes)

PIPESCHED_BENCH(gpipe);
PIPESCHED_BENCH(one_f_one_b);
PIPESCHED_BENCH(interleaved);

}  // namespace
