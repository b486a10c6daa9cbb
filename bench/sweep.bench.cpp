// SPDX-License-Identifier: MIT

/// \file
/// Sweeps: shapes per second over every P up to a limit, every m up to 4P and all schedules, on all cores and on one.
/// The processor time is that of all threads.

#include <cstddef>
#include <cstdint>

#include <benchmark/benchmark.h>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/planner/sweep.hpp>

#include "floors.hpp"

using namespace pipesched;

namespace {

/// Arguments: the largest P, and the number of threads, 0 for one per core.
void sweep_grid(benchmark::State& state) {
  shape_grid const shapes({.ranks = int(state.range(0))});
  std::int64_t operations = 0;
  std::int64_t refused = 0;
  for (auto _ : state) {
    operations = refused = 0;
    for (auto const& r : sweep(shapes, uniform_cost{}, {.threads = int(state.range(1))})) {
      refused += r.violation.has_value();
      operations += r.figures ? r.figures->operations : 0;
    }
  }
  state.SetItemsProcessed(state.iterations() * std::int64_t(shapes.size()));
  state.counters["shapes"] = double(shapes.size());
  state.counters["refused"] = double(refused);
  state.counters["ops"] = double(operations);
}
BENCHMARK(sweep_grid)
    ->ArgNames({"P", "threads"})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Args({8, 1})
    ->Args({8, 0})
    ->Args({16, 1})
    ->Args({16, 0});
// The whole of P <= 64: about two thousand million ops.
BENCHMARK(sweep_grid)
    ->Name("sweep_all")
    ->ArgNames({"P", "threads"})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Iterations(1)
    ->Args({64, 0});

}  // namespace
