// SPDX-License-Identifier: MIT

/// \file
/// Generating, for every schedule of the library: the time per op beside the floor of storing as many 8-byte records.
/// Schedules that need more microbatches, or an even number of ranks, have them in these shapes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <pipesched/core/schedule.hpp>
#include <pipesched/schedules/registry.hpp>

#include "floors.hpp"

using namespace pipesched;

namespace {

template <class Generator>
Generator make(benchmark::State const& state) {
  return make_generator<Generator>({.ranks = state.range(0), .microbatches = state.range(1)});
}

template <class Generator>
std::size_t operations(Generator const& generator) {
  std::size_t all = 0;
  for (auto const length : detail::lengths_of(generator)) all += std::size_t(length);
  return all;
}

/// The floor: as many records into memory that is there.
template <class Generator>
void store_floor(benchmark::State& state) {
  std::vector<std::uint64_t> records(operations(make<Generator>(state)));
  for (auto _ : state) bench::store_records(records);
  bench::per_op(state, records.size());
}

/// The schedule, into the memory of the one before.
template <class Generator>
void generate(benchmark::State& state) {
  auto made = pipesched::generate(make<Generator>(state));
  for (auto _ : state) {
    made = pipesched::generate(make<Generator>(state), std::move(made));
    benchmark::DoNotOptimize(made.ops().data());
  }
  bench::per_op(state, made.ops().size());
}

/// The schedule, into memory that the system has to give first: what a single call costs.
template <class Generator>
void generate_fresh(benchmark::State& state) {
  std::size_t length = 0;
  for (auto _ : state) {
    bench::give_memory_back();
    auto const made = pipesched::generate(make<Generator>(state));
    length = made.ops().size();
    benchmark::DoNotOptimize(made.ops().data());
  }
  bench::per_op(state, length);
}

/// One rank's row alone.
template <class Generator>
void generate_one_rank(benchmark::State& state) {
  auto const generator = make<Generator>(state);
  auto const rank = int(state.range(0)) / 2;
  std::size_t length = 0;
  for (auto _ : state) {
    auto row = generate_program(generator, rank);
    length = row.size();
    benchmark::DoNotOptimize(row.data());
  }
  bench::per_op(state, length);
}

/// Registers what is measured of each schedule.
bool const registered = [] {
  for_each_schedule([]<class Generator>() {
    auto const add = [](std::string what, void (*run)(benchmark::State&)) {
      auto const name = what.append("/").append(Generator::info.name);
      benchmark::RegisterBenchmark(name.c_str(), run)
          ->ArgNames({"P", "m"})
          ->Unit(benchmark::kMillisecond)
          ->Args({64, 8192})
          ->Args({1024, 8192});
    };
    add("store_floor", store_floor<Generator>);
    add("generate", generate<Generator>);
    add("generate_fresh", generate_fresh<Generator>);
    add("generate_one_rank", generate_one_rank<Generator>);
  });
  return true;
}();

}  // namespace
