// SPDX-License-Identifier: MIT

/// \file
/// 25 million ops from shape to report, everything kept: seconds of processor time for each step of the way, and the
/// most memory that the process held (its peak resident set, reset before each run). Pages are fresh, as in a program
/// that does this once.

#include <cstdint>
#include <cstdio>
#include <ctime>
#include <utility>

#include <benchmark/benchmark.h>

#include <pipesched/analysis/report.hpp>
#include <pipesched/analysis/timeline.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/schedules/registry.hpp>

#include "floors.hpp"

using namespace pipesched;

namespace {

/// Linux: the peak of the resident set starts anew.
void reset_peak() {
  if (auto* const file = std::fopen("/proc/self/clear_refs", "w")) {
    std::fputs("5", file);
    std::fclose(file);
  }
}

/// The peak of the resident set in bytes; 0 where the system does not tell.
double peak_bytes() {
  double bytes = 0;
  if (auto* const file = std::fopen("/proc/self/status", "r")) {
    char line[256];
    long long kilobytes = 0;
    while (std::fgets(line, sizeof line, file))
      if (std::sscanf(line, "VmHWM: %lld kB", &kilobytes) == 1) bytes = double(kilobytes) * 1024;
    std::fclose(file);
  }
  return bytes;
}

/// Seconds of processor time since it was last asked.
class stopwatch {
 public:
  double lap() {
    auto const before = std::exchange(last_, std::clock());
    return double(last_ - before) / CLOCKS_PER_SEC;
  }

 private:
  std::clock_t last_ = std::clock();
};

template <class Generator>
void end_to_end(benchmark::State& state) {
  auto const generator = make_generator<Generator>({.ranks = state.range(0), .microbatches = state.range(1)});
  uniform_cost<> const cost;
  for (auto _ : state) {
    state.PauseTiming();
    bench::give_memory_back();
    reset_peak();
    state.ResumeTiming();
    stopwatch watch;
    auto const programs = generate(generator);
    state.counters["generate"] = watch.lap();
    auto const graph = build_graph(programs);
    state.counters["graph"] = watch.lap();
    execution_order const order(graph);
    state.counters["order"] = watch.lap();
    auto const times = make_timeline(graph, order, cost);
    state.counters["timeline"] = watch.lap();
    auto const figures = make_report(graph, times, cost);
    state.counters["report"] = watch.lap();
    benchmark::DoNotOptimize(figures.makespan);
    state.counters["ops"] = double(figures.operations);
    state.counters["peak"] = benchmark::Counter(peak_bytes(), {}, benchmark::Counter::kIs1024);
  }
}

#define PIPESCHED_BENCH(generator) \
  BENCHMARK(end_to_end<generator>)->ArgNames({"P", "m"})->Unit(benchmark::kMillisecond)->Iterations(1)

PIPESCHED_BENCH(one_f_one_b)->Args({1024, 12288});
PIPESCHED_BENCH(interleaved)->Args({1024, 6144});
PIPESCHED_BENCH(dual_pipe)->Args({1024, 12288});

}  // namespace
