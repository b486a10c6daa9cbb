// SPDX-License-Identifier: MIT

/// \file
/// Whether the time of an order, a timeline and a communication plan is linear in the ops, whatever waits for what:
/// three decades of ops in each structure of waiting. The row "BigO" is the time per op that fits best, "RMS" how far
/// the times are from a straight line.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <pipesched/analysis/timeline.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/graph/plan_communication.hpp>
#include <pipesched/schedules/gpipe.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

#include "floors.hpp"

using namespace pipesched;

namespace {

/// The same programs on other ranks: `rank_of` says where rank r's goes.
schedule move_ranks(schedule const& s, std::vector<int> const& rank_of) {
  std::vector<std::vector<op>> programs(rank_of.size());
  for (int rank = 0; rank < s.ranks(); ++rank) {
    auto const program = s.program(rank);
    programs[std::size_t(rank_of[std::size_t(rank)])] = {program.begin(), program.end()};
  }
  return schedule(placement::custom(s.ranks(), s.stages(), 1, rank_of), s.microbatches(), programs);
}

/// 1F1B on 64 ranks, down the pipeline.
op_graph in_order(std::int64_t microbatches) { return build_graph(one_f_one_b{64, int(microbatches)}); }

/// 1F1B on 64 ranks that are neighbours of no one in particular.
op_graph at_random(std::int64_t microbatches) {
  std::vector<int> rank_of;
  for (int rank = 0; rank < 64; ++rank) rank_of.push_back(rank);
  std::shuffle(rank_of.begin(), rank_of.end(), std::mt19937(64));
  return build_graph(move_ranks(generate(one_f_one_b{64, int(microbatches)}), rank_of));
}

/// GPipe with two microbatches on many ranks, from the last to the first: each waits for the next one.
op_graph in_a_chain(std::int64_t size) {
  int const ranks = int(32 * size);
  std::vector<int> rank_of;
  for (int rank = 0; rank < ranks; ++rank) rank_of.push_back(ranks - 1 - rank);
  return build_graph(move_ranks(generate(gpipe{ranks, 2}), rank_of));
}

template <op_graph Graph(std::int64_t)>
void order(benchmark::State& state) {
  auto const graph = Graph(state.range(0));
  execution_order found;
  for (auto _ : state) {
    found = execution_order(graph, std::move(found));
    benchmark::DoNotOptimize(found.steps().data());
  }
  bench::per_op(state, graph.size());
  state.SetComplexityN(std::int64_t(graph.size()));
}

template <op_graph Graph(std::int64_t)>
void next_timeline(benchmark::State& state) {
  auto const graph = Graph(state.range(0));
  execution_order const found(graph);
  for (auto _ : state) benchmark::DoNotOptimize(make_timeline(graph, found, uniform_cost<>{.latency = 1}).makespan());
  bench::per_op(state, graph.size());
  state.SetComplexityN(std::int64_t(graph.size()));
}

template <op_graph Graph(std::int64_t)>
void plan(benchmark::State& state) {
  auto const graph = Graph(state.range(0));
  auto made = plan_communication(graph);
  for (auto _ : state) {
    made = plan_communication(graph, std::move(made));
    benchmark::DoNotOptimize(made.entries().data());
  }
  bench::per_op(state, graph.size());
  state.SetComplexityN(std::int64_t(graph.size()));
}

void decades(benchmark::internal::Benchmark* b) {
  for (int size : {1, 10, 100, 1000}) b->Arg(size);
  b->ArgName("size")->Unit(benchmark::kMicrosecond)->Complexity(benchmark::oN);
}
void decades_of_microbatches(benchmark::internal::Benchmark* b) {
  for (int microbatches : {10, 100, 1000, 10000}) b->Arg(microbatches);
  b->ArgName("m")->Unit(benchmark::kMicrosecond)->Complexity(benchmark::oN);
}

BENCHMARK(order<in_order>)->Apply(decades_of_microbatches);
BENCHMARK(order<at_random>)->Apply(decades_of_microbatches);
BENCHMARK(order<in_a_chain>)->Apply(decades);
BENCHMARK(next_timeline<in_order>)->Apply(decades_of_microbatches);
BENCHMARK(next_timeline<at_random>)->Apply(decades_of_microbatches);
BENCHMARK(next_timeline<in_a_chain>)->Apply(decades);
BENCHMARK(plan<in_order>)->Apply(decades_of_microbatches);
BENCHMARK(plan<at_random>)->Apply(decades_of_microbatches);
BENCHMARK(plan<in_a_chain>)->Apply(decades);

}  // namespace
