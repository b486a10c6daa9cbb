// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Every figure of a schedule, from its op graph and timeline alone.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/idle.hpp>
#include <pipesched/analysis/memory.hpp>
#include <pipesched/analysis/timeline.hpp>
#include <pipesched/core/concepts.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/graph/op_graph.hpp>

namespace pipesched {
inline namespace v0 {

/// The figures of one rank. Times are in the cost model's unit, memory in the memory model's.
template <time_value T>
struct rank_report {
  int rank;
  std::vector<stage_copy> stages;
  std::int64_t operations;
  T busy;         ///< sum of the durations on the compute stream, a pair counted once
  T idle;         ///< makespan - busy
  T first_start;  ///< 0 for a rank without ops
  T last_end;
  idle_by_phase<T> idle_phase;
  idle_by_cause<T> idle_cause;
  /// Busy share of the steady phase; none where there is no such phase.
  std::optional<double> steady_utilization;
  /// Forwards that run before the steady alternation of forwards and backwards begins: those before the first backward,
  /// less the one that alternates with it; all of them where no forward follows the first backward.
  std::int64_t warmup;
  std::int64_t peak_activations;
  node_id peak_node;  ///< the first node that reaches the peak
  T peak_time;        ///< when it starts
  int parameter_copies;
};

/// The figures of a schedule: per rank and over all.
template <time_value T>
struct report {
  int ranks;
  int stages;
  int chunks;  ///< stages of one replica per rank, the most of any rank
  std::int64_t microbatches;
  std::int64_t operations;

  T makespan;
  T busy_total;   ///< over all ranks
  T idle_total;   ///< over all ranks
  T bubble_time;  ///< the idle time of the rank that idles most: what closed forms give
  T span;         ///< the longest of the ranks' spans from their first start to their last end

  double ideal;                              ///< mean busy time of a rank
  double bubble_fraction;                    ///< idle_total / (ranks * makespan), in [0,1)
  double bubble_ratio;                       ///< idle_total / busy_total
  double utilization;                        ///< 1 - bubble_fraction
  double span_bubble_rate;                   ///< (span - ideal) / span
  std::optional<double> steady_utilization;  ///< mean over the ranks that have a steady phase

  std::int64_t peak_activations;  ///< the highest over ranks
  int parameter_copies;           ///< the highest over ranks
  std::vector<rank_report<T>> per_rank;
};

namespace detail {

constexpr double share(auto part, auto whole) noexcept {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

/// Forwards before the first backward that alternate with none; see `rank_report::warmup`.
constexpr std::int64_t warmup_forwards(op_graph const& graph, int rank) {
  auto const starts_forward = [&](node_id n) {
    return graph.node(n).kind() == op_kind::forward ||
           (graph.node(n).kind() == op_kind::attention_forward && graph.layer(n) == 0);
  };
  auto const lane = graph.lane_of(rank, stream::compute);
  std::int64_t before = 0;
  std::int64_t after = 0;
  bool seen_backward = false;
  bool in_pair = false;
  for_each_block(graph, lane, [&](std::uint32_t first, std::uint32_t end) {
    bool const has_backward = std::any_of(graph.nodes().begin() + first, graph.nodes().begin() + end,
                                          [](op o) { return is_backward(o.kind()); });
    if (has_backward && !seen_backward) {
      seen_backward = true;
      in_pair = end - first == 2;
    }
    for (auto n = first; n < end; ++n)
      if (starts_forward(node_id{n})) ++(seen_backward ? after : before);
  });
  return seen_backward && after > 0 && !in_pair && before > 0 ? before - 1 : before;
}

template <time_value T, cost_model Cost>
constexpr rank_report<T> report_rank(op_graph const& graph, timeline<T> const& times, Cost const& cost,
                                     memory_model const& memory, int rank) {
  rank_report<T> r{};
  r.rank = rank;
  auto const lane = graph.lane_of(rank, stream::compute);
  r.operations = graph.lane_end(lane) - graph.lane_begin(lane);
  r.first_start = r.operations > 0 ? times.start(node_id{graph.lane_begin(lane)}) : T{0};

  auto const steady = steady_phase(graph, times, rank);
  phase_bounds<T> bounds{times.makespan(), times.makespan()};
  if (steady) {
    bounds = *steady;
  } else {
    T last_forward = 0;
    for (auto n = graph.lane_begin(lane); n < graph.lane_end(lane); ++n) {
      if (is_backward(graph.node(node_id{n}).kind())) {
        last_forward = times.start(node_id{n});
        break;
      }
      last_forward = times.end(node_id{n});
    }
    bounds = {last_forward, last_forward};
  }
  auto const add_gap = [&](T from, T to) {
    r.idle_phase.warmup += common_time(from, to, T{0}, bounds.steady_begin);
    r.idle_phase.steady += common_time(from, to, bounds.steady_begin, bounds.steady_end);
    r.idle_phase.cooldown += common_time(from, to, bounds.steady_end, times.makespan());
  };

  T clock = 0;
  T steady_busy = 0;
  for_each_block(graph, lane, [&](std::uint32_t first, std::uint32_t after) {
    T const start = times.start(node_id{first});
    T const end = times.end(node_id{first});
    if (start > clock) {
      add_gap(clock, start);
      r.idle_cause.waiting[std::size_t(awaited_kind(graph, times, cost, rank, first, after))] += start - clock;
    }
    r.busy += end - start;
    steady_busy += common_time(start, end, bounds.steady_begin, bounds.steady_end);
    clock = end;
  });
  r.last_end = clock;
  r.idle_cause.finished = times.makespan() - clock;
  add_gap(clock, times.makespan());
  r.idle = times.makespan() - r.busy;
  if (steady) r.steady_utilization = share(steady_busy, bounds.steady_end - bounds.steady_begin);

  r.warmup = warmup_forwards(graph, rank);
  auto const peak = pipesched::peak_activations(graph, rank, memory);
  r.peak_activations = peak.held;
  r.peak_node = peak.node;
  r.peak_time = peak.held > 0 ? times.start(peak.node) : T{0};
  return r;
}

}  // namespace detail

/// All figures, from a graph, its timeline, and the cost model that made it (which the attribution of idle time asks
/// for latencies).
template <time_value T, cost_model Cost>
[[nodiscard]] constexpr report<T> make_report(op_graph const& graph, timeline<T> const& times, Cost const& cost,
                                              memory_model const& memory = {}) {
  report<T> all{};
  all.ranks = graph.ranks();
  all.stages = graph.stages();
  all.microbatches = graph.microbatches();
  all.operations = std::int64_t(graph.size());
  all.makespan = times.makespan();

  std::vector<std::vector<stage_copy>> stages(std::size_t(graph.ranks()), std::vector<stage_copy>{});
  for (int stage = 0; stage < graph.stages(); ++stage)
    for (int replica = 0; replica < graph.where().replicas(); ++replica)
      stages[std::size_t(graph.where().rank_of(stage, replica))].push_back(stage_copy{stage, replica});

  double steady_sum = 0;
  std::int64_t steady_ranks = 0;
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    auto r = detail::report_rank(graph, times, cost, memory, rank);
    r.stages = std::move(stages[std::size_t(rank)]);
    std::vector<char> replicas(std::size_t(graph.where().replicas()), 0);
    int first_replica_stages = 0;
    for (auto copy : r.stages) {
      if (!replicas[std::size_t(copy.replica)]) ++r.parameter_copies;
      replicas[std::size_t(copy.replica)] = 1;
      first_replica_stages += copy.replica == r.stages.front().replica;
    }
    all.chunks = std::max(all.chunks, first_replica_stages);
    all.busy_total += r.busy;
    all.idle_total += r.idle;
    all.bubble_time = std::max(all.bubble_time, r.idle);
    all.span = std::max(all.span, r.last_end - r.first_start);
    all.peak_activations = std::max(all.peak_activations, r.peak_activations);
    all.parameter_copies = std::max(all.parameter_copies, r.parameter_copies);
    if (r.steady_utilization) {
      steady_sum += *r.steady_utilization;
      ++steady_ranks;
    }
    all.per_rank.push_back(std::move(r));
  }
  all.ideal = static_cast<double>(all.busy_total) / all.ranks;
  all.bubble_fraction = detail::share(all.idle_total, all.idle_total + all.busy_total);
  all.bubble_ratio = detail::share(all.idle_total, all.busy_total);
  all.utilization = 1.0 - all.bubble_fraction;
  all.span_bubble_rate = detail::share(static_cast<double>(all.span) - all.ideal, all.span);
  if (steady_ranks > 0) all.steady_utilization = steady_sum / static_cast<double>(steady_ranks);
  return all;
}

/// \name From anything to its figures
/// Throws `parameter_error` for a wrong shape or cost, `schedule_error` for a schedule that cannot run.
/// \{
template <cost_model Cost = uniform_cost<>>
[[nodiscard]] constexpr report<time_of<Cost>> analyze(op_graph const& graph, Cost const& cost = {},
                                                      memory_model const& memory = {}) {
  return make_report(graph, make_timeline(graph, cost), cost, memory);
}
template <cost_model Cost = uniform_cost<>>
[[nodiscard]] constexpr report<time_of<Cost>> analyze(schedule const& s, Cost const& cost = {},
                                                      memory_model const& memory = {}) {
  return analyze(build_graph(s), cost, memory);
}
template <schedule_generator G, cost_model Cost = uniform_cost<>>
[[nodiscard]] constexpr report<time_of<Cost>> analyze(G const& generator, Cost const& cost = {},
                                                      memory_model const& memory = {}) {
  return analyze(build_graph(generator), cost, memory);
}
/// \}

}  // namespace v0
}  // namespace pipesched
