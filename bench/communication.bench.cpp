// SPDX-License-Identifier: MIT

/// \file
/// Communication plans: lowering by each policy and the check under each transport, in time per entry of the plan (an
/// op with what it sends and receives has about three), beside the floor of reading and writing as many bytes.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <pipesched/analysis/transport.hpp>
#include <pipesched/graph/plan_communication.hpp>
#include <pipesched/schedules/interleaved.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

#include "floors.hpp"

using namespace pipesched;

namespace {

template <class Generator>
op_graph make_graph(benchmark::State const& state) {
  return build_graph(Generator{int(state.range(0)), int(state.range(1))});
}

template <class Generator>
void plan_floor(benchmark::State& state) {
  auto const plan = plan_communication(make_graph<Generator>(state));
  auto const bytes = plan.entries().size_bytes() + plan.messages().size_bytes();
  std::vector<std::uint64_t> words(bytes / sizeof(std::uint64_t));
  for (auto _ : state) bench::read_and_write(words);
  bench::per_op(state, plan.entries().size());
}

template <class Generator, comm_policy Policy>
void plan(benchmark::State& state) {
  auto const graph = make_graph<Generator>(state);
  auto made = plan_communication(graph, Policy);
  for (auto _ : state) {
    made = plan_communication(graph, std::move(made), Policy);
    benchmark::DoNotOptimize(made.entries().data());
  }
  bench::per_op(state, made.entries().size());
}

template <class Generator, transport_kind Transport>
void check(benchmark::State& state) {
  auto const made = plan_communication(make_graph<Generator>(state));
  for (auto _ : state) benchmark::DoNotOptimize(check_transport(made, {Transport}).deadlock_free());
  bench::per_op(state, made.entries().size());
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"P", "m"})->Unit(benchmark::kMillisecond);
  for (int ranks : {8, 64, 1024})
    for (int microbatches : {64, 1024}) b->Args({ranks, microbatches});
}

#define PIPESCHED_BENCH(generator)                                        \
  BENCHMARK(plan_floor<generator>)->Apply(shapes);                        \
  BENCHMARK(plan<generator, comm_policy::eager>)->Apply(shapes);          \
  BENCHMARK(plan<generator, comm_policy::just_in_time>)->Apply(shapes);   \
  BENCHMARK(plan<generator, comm_policy::grouped>)->Apply(shapes);        \
  BENCHMARK(check<generator, transport_kind::rank_queue>)->Apply(shapes); \
  BENCHMARK(check<generator, transport_kind::blocking>)->Apply(shapes)

PIPESCHED_BENCH(one_f_one_b);
PIPESCHED_BENCH(interleaved);

}  // namespace
