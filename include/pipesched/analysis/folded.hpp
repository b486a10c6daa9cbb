// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The figures of a generator without its schedule or graph in memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/figures.hpp>
#include <pipesched/analysis/folded_jump.hpp>
#include <pipesched/analysis/folded_layout.hpp>
#include <pipesched/analysis/folded_order.hpp>
#include <pipesched/analysis/folded_run.hpp>
#include <pipesched/analysis/memory.hpp>
#include <pipesched/core/concepts.hpp>
#include <pipesched/core/folded_program.hpp>

namespace pipesched {
inline namespace v0 {

/// How much of an analysis was run, and how much followed from what was run: see `analyze_folded`.
struct analysis_effort {
  std::int64_t simulated_operations = 0;
  std::int64_t skipped_operations = 0;  ///< of a steady state that repeats
};

namespace detail {

/// A rank's figures, from the order of its ops and from their run.
template <cost_model Cost>
constexpr void report_rank(rank_report<time_of<Cost>>& figures, rank_order const& order,
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

/// All figures of a folded schedule, the same as from its graph, in memory in proportion to the ranks and the
/// microbatches in flight between them, not to the ops.
///
/// Each rank runs for as long as its inputs are there. Where the times are exact (whole numbers, or reals no sum of
/// which is rounded, as of 1.5 and 0.25) and the cost model is `same_for_all_microbatches`, a steady state that repeats
/// is found and only its first repetitions are run: then the time does not depend on the number of microbatches either.
///
/// Nothing where this does not apply, and the graph has to say what is wrong if anything is: where a stage's forwards,
/// its backwards or its weights do not run in the order of the microbatches, up or down and, but for weights, without a
/// gap; where an op stands on another rank than its placement's, or before what it needs on its own rank; where the
/// schedule deadlocks.
/// `effort` says how much was run. Throws `parameter_error` for a wrong cost and for times that may overflow.
template <cost_model Cost = uniform_cost<>>
[[nodiscard]] constexpr std::optional<report<time_of<Cost>>> analyze_folded(folded_schedule const& folded,
                                                                            Cost const& cost = {},
                                                                            memory_model const& memory = {},
                                                                            analysis_effort* effort = nullptr) {
  using T = time_of<Cost>;
  require(check_cost(cost, folded.where.stages()));
  detail::folded_order const order(folded, memory);
  if (!order.regular()) return {};
  detail::folded_layout<Cost> const layout(folded, cost);
  bool const can_skip = detail::steady_state<Cost>::applies_to(layout);
  detail::folded_run<Cost> run(layout, order, can_skip ? detail::pace::ahead : detail::pace::in_step);
  std::int64_t skipped = 0;
  if constexpr (detail::steady_state<Cost>::applies) {
    detail::steady_state<Cost> steady(run);
    // From time to time, each time after as much again: what repeats is found early, and looking for it costs little.
    std::int64_t visits = 4 * std::int64_t{folded.where.ranks()};
    // Ranks that wait for one another come back from time to time; a single one has to be stopped.
    bool const unconnected = run.channels().empty();
    auto const run_on = [&] {
      if (unconnected) run.stop_after(visits);
      bool const more = run.run(visits);
      run.stop_at_end();
      return unconnected ? !run.all_stopped() : more;
    };
    for (; can_skip && run_on(); visits += visits / 2) skipped += steady.jump();
  }
  while (run.run(detail::unlimited)) {
  }
  if (!run.all_stopped()) return {};

  auto all = detail::blank_report<T>(folded.where, folded.microbatches);
  all.operations = layout.operations();
  for (auto const& rank : run.ranks()) all.makespan = std::max(all.makespan, rank.clock);
  for (std::size_t r = 0; r < all.per_rank.size(); ++r)
    detail::report_rank<Cost>(all.per_rank[r], order.ranks()[r], run.ranks()[r], all.makespan);
  detail::report_totals(all);
  if (effort) *effort = {all.operations - skipped, skipped};
  return all;
}

/// The same of the schedule that `generator` makes. Throws as above, and as `fold` does.
template <schedule_generator G, cost_model Cost = uniform_cost<>>
[[nodiscard]] constexpr std::optional<report<time_of<Cost>>> analyze_folded(G const& generator, Cost const& cost = {},
                                                                            memory_model const& memory = {},
                                                                            analysis_effort* effort = nullptr) {
  auto const folded = fold(generator);
  if (!folded) return {};
  return analyze_folded(*folded, cost, memory, effort);
}

}  // namespace v0
}  // namespace pipesched
