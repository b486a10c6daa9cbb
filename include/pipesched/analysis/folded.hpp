// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The figures of a generator without its schedule or graph in memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/figures.hpp>
#include <pipesched/analysis/folded_jump.hpp>
#include <pipesched/analysis/folded_layout.hpp>
#include <pipesched/analysis/folded_run.hpp>
#include <pipesched/analysis/memory.hpp>
#include <pipesched/core/concepts.hpp>
#include <pipesched/core/folded_program.hpp>
#include <pipesched/core/schedule.hpp>

namespace pipesched {
inline namespace v0 {

/// How much of an analysis was run, and how much followed from what was run: see `analyze_folded`.
struct analysis_effort {
  std::int64_t simulated_operations = 0;
  std::int64_t skipped_operations = 0;  ///< of a steady state that repeats
};

namespace detail {

/// The programs of all ranks; none where a program is not what its generator writes one by one.
template <schedule_generator G>
constexpr std::optional<std::vector<folded_program>> fold_programs(G const& generator) {
  int const ranks = generator.placement().ranks();
  std::vector<folded_program> programs;
  if constexpr (emits_together<G>) {
    if (programs_depend(generator)) {
      std::int64_t operations = 0;
      for (auto length : lengths_of(generator)) operations += length;
      require(at_most("operations", operations, max_operations, "programs that follow from a simulation"));
      std::vector<program_folder> folders(std::size_t(ranks), program_folder{});
      auto out = [&](int rank, op o) { folders[std::size_t(rank)](o); };
      generator.emit_all(out);
      for (auto& folder : folders) programs.push_back(folder.finish());
      return programs;
    }
  }
  std::int64_t single_ops = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    program_folder folder(single_ops);
    generator.emit(rank, folder);
    if (!folder.faithful()) return {};
    single_ops = folder.single_ops();
    programs.push_back(folder.finish());
  }
  return programs;
}

/// A rank's figures, from the order of its ops and from their run.
template <cost_model Cost>
constexpr void report_rank(rank_report<time_of<Cost>>& figures, typename folded_layout<Cost>::rank_order const& order,
                           typename folded_run<Cost>::rank_state const& ran, time_of<Cost> makespan) {
  figures.operations = order.operations;
  figures.warmup = order.warmup;
  figures.peak_activations = order.peak;
  figures.peak_op = order.peak_op;
  figures.peak_position = order.peak_position;
  figures.peak_time = ran.peak_start;
  figures.busy = ran.busy;
  figures.idle = makespan - ran.busy;
  figures.first_start = ran.first_start;
  figures.last_end = ran.clock;
  figures.idle_cause.waiting[std::size_t(edge_kind::activation)] = ran.waiting[0];
  figures.idle_cause.waiting[std::size_t(edge_kind::gradient)] = ran.waiting[1];
  figures.idle_cause.finished = makespan - ran.clock;
  figures.idle_phase = ran.phases.idle(figures.idle_cause.finished);
  figures.steady_utilization = ran.phases.steady_utilization();
}

}  // namespace detail

/// All figures of the schedule that `generator` makes, the same as from its graph, in memory in proportion to the ranks
/// and the microbatches in flight between them, not to the ops.
///
/// Each rank's program is folded (`fold_program`) and run from there, each rank for as long as its inputs are there.
/// Where the times are whole numbers and the cost model is `same_for_all_microbatches`, a steady state that repeats is
/// found and only its first repetitions are run: then the time does not depend on the number of microbatches either.
///
/// Nothing where this does not apply, and the graph has to say what is wrong if anything is: where a stage's forwards,
/// its backwards or its weights do not run in the order of the microbatches, up or down and without a gap; where an op
/// stands on another rank than its placement's, or before what it needs on its own rank; where the schedule deadlocks.
/// `effort` says how much was run. Throws `parameter_error` for a wrong shape or cost, for times that may overflow, and
/// for more than `max_operations` ops that the generator writes one by one.
template <schedule_generator G, cost_model Cost = uniform_cost<>>
[[nodiscard]] constexpr std::optional<report<time_of<Cost>>> analyze_folded(G const& generator, Cost const& cost = {},
                                                                            memory_model const& memory = {},
                                                                            analysis_effort* effort = nullptr) {
  using T = time_of<Cost>;
  detail::require_shape(generator);
  auto programs = detail::fold_programs(generator);
  if (!programs) return {};
  auto const where = generator.placement();
  auto const microbatches = std::int64_t(generator.microbatches);
  detail::folded_layout<Cost> const layout(*std::move(programs), where, microbatches, cost, memory);
  if (!layout.regular()) return {};

  detail::folded_run<Cost> run(layout);
  std::int64_t skipped = 0;
  if constexpr (detail::steady_state<Cost>::applies) {
    detail::steady_state<Cost> steady(run);
    // From time to time, each time after as much again: what repeats is found early, and looking for it costs little.
    std::int64_t visits = 4 * std::int64_t{where.ranks()};
    for (; run.run(visits); visits += visits / 2) skipped += steady.jump();
  } else {
    while (run.run(detail::unlimited)) {
    }
  }
  if (!run.all_stopped()) return {};

  auto all = detail::blank_report<T>(where, microbatches);
  all.operations = layout.operations();
  for (auto const& rank : run.ranks()) all.makespan = std::max(all.makespan, rank.clock);
  for (std::size_t r = 0; r < all.per_rank.size(); ++r)
    detail::report_rank<Cost>(all.per_rank[r], layout.ranks()[r], run.ranks()[r], all.makespan);
  detail::report_totals(all);
  if (effort) *effort = {all.operations - skipped, skipped};
  return all;
}

}  // namespace v0
}  // namespace pipesched
