// SPDX-License-Identifier: MIT

/// \file
/// Figures of a generator without a schedule or a graph in memory: in time per op beside a bare longest path that
/// stores nothing either, and for up to 10^9 microbatches. `peak_bytes` is what the analysis holds at most.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include <benchmark/benchmark.h>

#include <pipesched/analysis/folded.hpp>
#include <pipesched/schedules/dual_pipe.hpp>
#include <pipesched/schedules/gpipe.hpp>
#include <pipesched/schedules/interleaved.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>
#include <pipesched/schedules/zb_h1.hpp>

#include "floors.hpp"

using namespace pipesched;

namespace {

/// Bytes from `new`, and the most of them at a time.
std::atomic<std::int64_t> held_bytes = 0;
std::atomic<std::int64_t> peak_bytes = 0;

void* counted(std::size_t size) {
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (!memory) throw std::bad_alloc();
  held_bytes += std::int64_t(malloc_usable_size(memory));
  peak_bytes = std::max(peak_bytes.load(), held_bytes.load());
  return memory;
}
void uncounted(void* memory) {
  if (memory) held_bytes -= std::int64_t(malloc_usable_size(memory));
  std::free(memory);
}

/// The unit costs, but silent on that they are the same for all microbatches: each op is run.
struct any_cost {
  std::int64_t operator()(op o, int) const { return o.kind() == op_kind::backward ? 2 : 1; }
};

template <class Generator, class Cost>
void analyze_unstored(benchmark::State& state, Cost const& cost) {
  Generator const generator{int(state.range(0)), int(state.range(1))};
  analysis_effort effort;
  std::int64_t operations = 0;
  auto const before = held_bytes.load();
  peak_bytes = before;
  for (auto _ : state) {
    auto const figures = analyze_folded(generator, cost, {}, &effort);
    operations = figures->operations;
    benchmark::ClobberMemory();
  }
  bench::per_op(state, std::size_t(operations));
  state.counters["simulated"] = double(effort.simulated_operations);
  state.counters["peak_bytes"] = double(peak_bytes.load() - before);
}

/// Every op is run.
template <class Generator>
void every_op(benchmark::State& state) {
  analyze_unstored<Generator>(state, any_cost{});
}

/// Every op is run, at times that are known beforehand: sums of 0.1 are rounded, so that nothing repeats exactly.
template <class Generator>
void real_times(benchmark::State& state) {
  analyze_unstored<Generator>(state, uniform_cost<double>{0.1, 0.1, 0.1});
}

/// The steady state is run until it repeats.
template <class Generator>
void figures(benchmark::State& state) {
  analyze_unstored<Generator>(state, uniform_cost<>{});
}

/// The longest path of 1F1B in the order of the microbatches: a clock of each rank, and one end between neighbours in
/// each direction. Nothing that is not needed for the makespan.
void bare_path_floor(benchmark::State& state) {
  auto const ranks = std::size_t(state.range(0));
  auto const microbatches = state.range(1);
  std::vector<std::int64_t> clock(ranks);
  std::vector<std::int64_t> forward_end(ranks + 1);
  std::vector<std::int64_t> backward_end(ranks + 1);
  for (auto _ : state) {
    for (std::int64_t microbatch = 0; microbatch < microbatches; ++microbatch) {
      for (std::size_t r = 0; r < ranks; ++r) forward_end[r + 1] = clock[r] = std::max(clock[r], forward_end[r]) + 1;
      for (std::size_t r = ranks; r-- > 0;) backward_end[r] = clock[r] = std::max(clock[r], backward_end[r + 1]) + 2;
    }
    benchmark::DoNotOptimize(clock.data());
    benchmark::ClobberMemory();
  }
  bench::per_op(state, 2 * ranks * std::size_t(microbatches));
}

void sizes(benchmark::internal::Benchmark* b) {
  for (auto const& [ranks, microbatches] : {std::pair{8, 65536}, {64, 65536}, {1024, 8192}, {1024, 65536}})
    b->Args({ranks, microbatches});
  b->Unit(benchmark::kMillisecond);
}

void numbers_of_microbatches(benchmark::internal::Benchmark* b) {
  for (std::int64_t const microbatches : {1'000, 1'000'000, 1'000'000'000}) b->Args({64, microbatches});
  b->Unit(benchmark::kMicrosecond);
}

BENCHMARK(bare_path_floor)->Apply(sizes);
BENCHMARK(every_op<one_f_one_b>)->Apply(sizes);
BENCHMARK(every_op<gpipe>)->Apply(sizes);
BENCHMARK(every_op<dual_pipe>)->Apply(sizes);
BENCHMARK(real_times<one_f_one_b>)->Apply(sizes);
BENCHMARK(figures<one_f_one_b>)->Apply(sizes);
BENCHMARK(figures<dual_pipe>)->Apply(sizes);
BENCHMARK(figures<one_f_one_b>)->Apply(numbers_of_microbatches);
BENCHMARK(figures<gpipe>)->Apply(numbers_of_microbatches);
BENCHMARK(figures<interleaved>)->Apply(numbers_of_microbatches);
BENCHMARK(figures<zb_h1>)->Apply(numbers_of_microbatches);
BENCHMARK(figures<dual_pipe>)->Apply(numbers_of_microbatches);

}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void operator delete(void* memory) noexcept { uncounted(memory); }
void operator delete(void* memory, std::size_t) noexcept { uncounted(memory); }
