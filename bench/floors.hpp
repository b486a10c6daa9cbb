// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What each figure is compared with: the least work that could be called the same, measured in the same run.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#if defined(__GLIBC__) || defined(__linux__)
#include <malloc.h>
#endif

#include <benchmark/benchmark.h>

#include <pipesched/core/op.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/graph/execution_order.hpp>

namespace bench {

/// Freed memory stays with the process, so that every round but the first works on pages that are there. First touch of
/// a page costs more than the schedule and is a figure of its own.
inline bool keep_freed_memory() {
#if defined(__GLIBC__)
  return mallopt(M_MMAP_THRESHOLD, 1 << 30) == 1 && mallopt(M_TRIM_THRESHOLD, 0x7FFFFFFF) == 1;
#else
  return false;
#endif
}
inline bool const memory_is_kept = keep_freed_memory();

/// The next allocation gets pages that nobody has touched.
inline void give_memory_back() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

/// Reports the time per op, whatever the number of ops.
inline void per_op(benchmark::State& state, std::size_t operations) {
  state.SetItemsProcessed(state.iterations() * std::int64_t(operations));
  state.counters["s_per_op"] = benchmark::Counter(
      double(operations), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// Stores 8-byte records, two alternating, into memory that is there: the floor of generating.
inline void store_records(std::vector<std::uint64_t>& records) {
  std::uint64_t microbatch = 0;
  for (std::size_t i = 0; i + 1 < records.size(); i += 2) {
    records[i] = microbatch;
    records[i + 1] = microbatch | std::uint64_t{1} << 56;
    ++microbatch;
  }
  benchmark::DoNotOptimize(records.data());
  benchmark::ClobberMemory();
}

/// Reads and writes each word once: the floor of building a graph of that many bytes.
inline void read_and_write(std::vector<std::uint64_t>& words) {
  for (auto& word : words) word += 3;
  benchmark::DoNotOptimize(words.data());
  benchmark::ClobberMemory();
}

/// Two predecessors of each op as 32-bit positions in topological order, and nothing else.
struct bare_path {
  std::vector<std::uint32_t> previous;
  std::vector<std::uint32_t> awaited;
  std::vector<std::int64_t> end;

  explicit bare_path(pipesched::execution_order const& order)
      : previous(order.steps().size()), awaited(order.steps().size()), end(order.steps().size() + 1) {
    std::vector<std::uint32_t> last_of_lane;
    for (std::size_t i = 0; i < order.steps().size(); ++i) {
      auto const& step = order.steps()[i];
      if (step.lane >= last_of_lane.size()) last_of_lane.resize(step.lane + 1);
      previous[i] = std::exchange(last_of_lane[step.lane], std::uint32_t(i + 1));
      awaited[i] = step.awaited == pipesched::graph_link::none() ? 0 : step.awaited.node() + 1;
    }
  }

  /// The longest path with unit times: the floor of a timeline.
  std::int64_t operator()() {
    for (std::size_t i = 0; i < previous.size(); ++i) end[i + 1] = std::max(end[previous[i]], end[awaited[i]]) + 1;
    benchmark::DoNotOptimize(end.data());
    benchmark::ClobberMemory();
    return end.back();
  }
};

}  // namespace bench
