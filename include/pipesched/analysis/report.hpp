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
  std::vector<stage_copy> stages;  ///< by replica, then stage
  std::int64_t operations;         ///< nodes of its compute stream
  T busy;                          ///< sum of the durations on the compute stream, a pair counted once
  T idle;                          ///< makespan - busy
  T first_start;                   ///< 0 for a rank without ops
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

/// Counts the forwards of a rank before its first backward that alternate with none; see `rank_report::warmup`.
class warmup_counter {
 public:
  constexpr void block(std::int64_t forwards, bool backward, bool pair) noexcept {
    if (backward && !seen_backward_) {
      seen_backward_ = true;
      first_is_pair_ = pair;
    }
    (seen_backward_ ? after_ : before_) += forwards;
  }
  [[nodiscard]] constexpr std::int64_t count() const noexcept {
    return seen_backward_ && after_ > 0 && !first_is_pair_ && before_ > 0 ? before_ - 1 : before_;
  }

 private:
  std::int64_t before_ = 0;
  std::int64_t after_ = 0;
  bool seen_backward_ = false;
  bool first_is_pair_ = false;
};

/// What is known of a rank while its ops go by in order of the timeline.
template <time_value T>
struct rank_progress {
  T clock = 0;
  std::int64_t held = 0;
  phase_tracker<T> phases;
  warmup_counter warmup;
};

/// The link that let a block, the step at `first` and those up to `after`, start when it did; null where it was the
/// end of the op before.
template <time_value T, cost_model Cost>
constexpr graph_link const* awaited_link(op_graph const& graph, timeline<T> const& times, Cost const& cost,
                                         std::size_t first, std::size_t after) {
  auto const steps = times.order().steps();
  for (auto at = first; at < after; ++at)
    for (graph_link const& l : graph.links_in(node_id{steps[at].node})) {
      node_id const from{l.node()};
      int const rank = graph.rank_of_lane(steps[at].lane);
      T const latency = l.remote() ? transfer_time(cost, graph.rank_of(from), rank) : T{0};
      if (times.end(from) + latency == times.starts()[first]) return &l;
    }
  return nullptr;
}

/// Attributes the gap from `clock` to the start of a block to what it waited for. Where that is an event of the same
/// chunk on another stream, the gap is that event's only while it ran; before, it is that of what the event waited for.
template <time_value T, cost_model Cost>
constexpr void attribute_gap(op_graph const& graph, timeline<T> const& times, Cost const& cost, std::size_t first,
                             std::size_t after, T clock, idle_by_cause<T>& cause) {
  T until = times.starts()[first];
  while (until > clock) {
    auto const* const awaited = awaited_link(graph, times, cost, first, after);
    auto const kind = awaited ? awaited->kind() : edge_kind::program;
    bool const goes_on = kind == edge_kind::chunk && times.start(node_id{awaited->node()}) > clock;
    T const from = goes_on ? times.start(node_id{awaited->node()}) : clock;
    cause.waiting[std::size_t(kind)] += until - from;
    if (!goes_on) return;
    until = from;
    first = times.order().position(node_id{awaited->node()});
    after = first + 1;
  }
}

/// Fills in what follows from the ops' times; one pass over the steps, in the order of the timeline.
template <time_value T, cost_model Cost>
constexpr void report_ranks(op_graph const& graph, timeline<T> const& times, Cost const& cost,
                            memory_model const& memory, std::vector<rank_report<T>>& ranks) {
  auto const& order = times.order();
  auto const steps = order.steps();
  std::vector<rank_progress<T>> progress(ranks.size(), rank_progress<T>{});
  for (std::size_t at = 0; at < steps.size();) {
    auto const after = at + (order.opens_pair(at) ? 2 : 1);
    auto const r = std::size_t(graph.rank_of_lane(steps[at].lane));
    if (int(steps[at].lane) != graph.lane_of(int(r), stream::compute)) {
      at = after;
      continue;
    }
    auto& rank = ranks[r];
    auto& now = progress[r];
    T const start = times.starts()[at];
    T const end = times.ends()[at];
    if (rank.operations == 0) rank.first_start = start;
    if (start > now.clock) {
      now.phases.gap(start - now.clock);
      attribute_gap(graph, times, cost, at, after, now.clock, rank.idle_cause);
    }
    rank.busy += end - start;
    rank.last_end = now.clock = end;

    bool forward = false;
    bool backward = false;
    std::int64_t chunk_forwards = 0;
    for (auto member = at; member < after; ++member) {
      op const o = steps[member].what;
      int const layer = graph.layer(node_id{steps[member].node});
      bool const is_forward = pass_of(o.kind()) == pass::forward;
      (is_forward ? forward : backward) = true;
      if (o.in_pair()) forward = backward = true;  // a lowered pair is one block, whichever its event is
      if (o.kind() == op_kind::forward || (o.kind() == op_kind::attention_forward && layer == 0)) ++chunk_forwards;
      now.held += memory.taken(o, layer);
      if (now.held > rank.peak_activations) {
        rank.peak_activations = now.held;
        rank.peak_node = node_id{steps[member].node};
        rank.peak_time = start;
      }
      ++rank.operations;
    }
    for (auto member = at; member < after; ++member)
      now.held -= memory.freed(steps[member].what, graph.layer(node_id{steps[member].node}));
    now.phases.op(forward, backward, start, end);
    now.warmup.block(chunk_forwards, backward, forward && backward);
    at = after;
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    auto& rank = ranks[r];
    rank.idle = times.makespan() - rank.busy;
    rank.idle_cause.finished = times.makespan() - rank.last_end;
    rank.idle_phase = progress[r].phases.idle(rank.idle_cause.finished);
    rank.steady_utilization = progress[r].phases.steady_utilization();
    rank.warmup = progress[r].warmup.count();
  }
}

/// Fills in what follows from the placement. Returns the most stages of one replica on any rank.
template <time_value T>
constexpr int report_placement(placement const& where, std::vector<rank_report<T>>& ranks) {
  int chunks = 0;
  for (int replica = 0; replica < where.replicas(); ++replica) {
    std::vector<int> held(ranks.size(), 0);
    for (int stage = 0; stage < where.stages(); ++stage) {
      auto const r = std::size_t(where.rank_of(stage, replica));
      ranks[r].stages.push_back(stage_copy{stage, replica});
      if (held[r]++ == 0) ++ranks[r].parameter_copies;
      chunks = std::max(chunks, held[r]);
    }
  }
  return chunks;
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
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    all.per_rank.push_back(rank_report<T>{});
    all.per_rank.back().rank = rank;
  }
  detail::report_ranks(graph, times, cost, memory, all.per_rank);
  all.chunks = detail::report_placement(graph.where(), all.per_rank);

  double steady_sum = 0;
  int steady_ranks = 0;
  for (auto const& rank : all.per_rank) {
    all.busy_total += rank.busy;
    all.idle_total += rank.idle;
    all.bubble_time = std::max(all.bubble_time, rank.idle);
    all.span = std::max(all.span, rank.last_end - rank.first_start);
    all.peak_activations = std::max(all.peak_activations, rank.peak_activations);
    all.parameter_copies = std::max(all.parameter_copies, rank.parameter_copies);
    if (rank.steady_utilization) {
      steady_sum += *rank.steady_utilization;
      ++steady_ranks;
    }
  }
  all.ideal = static_cast<double>(all.busy_total) / all.ranks;
  all.bubble_fraction = detail::share(all.idle_total, all.idle_total + all.busy_total);
  all.bubble_ratio = detail::share(all.idle_total, all.busy_total);
  all.utilization = 1.0 - all.bubble_fraction;
  all.span_bubble_rate = detail::share(static_cast<double>(all.span) - all.ideal, all.span);
  if (steady_ranks > 0) all.steady_utilization = steady_sum / steady_ranks;
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
