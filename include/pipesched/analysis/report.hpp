// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Every figure of a schedule, from its op graph and timeline alone.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/figures.hpp>
#include <pipesched/analysis/folded.hpp>
#include <pipesched/analysis/idle.hpp>
#include <pipesched/analysis/memory.hpp>
#include <pipesched/analysis/timeline.hpp>
#include <pipesched/core/concepts.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/graph/op_graph.hpp>

namespace pipesched {
inline namespace v0 {

namespace detail {

/// What is known of a rank while its ops go by in order of the timeline.
template <time_value T>
struct rank_progress {
  T clock = 0;
  std::int64_t held = 0;
  phase_tracker<T> phases;
  warmup_counter warmup;
};

/// What let a block start when it did: an edge and the step it comes from.
struct start_cause {
  edge_kind kind = edge_kind::program;  // where it was no edge that is looked at
  std::size_t position = 0;
};

/// Whether a block that starts at `start` can have waited for an edge from `from`.
template <time_value T, cost_model Cost>
constexpr bool arrives_at(op_graph const& graph, timeline<T> const& times, Cost const& cost, std::size_t from,
                          graph_link edge, std::uint32_t to_lane, T start) {
  auto const from_rank = [&] { return graph.rank_of_lane(times.order().steps()[from].lane); };
  T const latency = edge.remote() ? transfer_time(cost, from_rank(), graph.rank_of_lane(to_lane)) : T{0};
  return times.ends()[from] + latency == start;
}

/// The edge that ended a rank's gap: one that the steps of the block from `first` to `after` wait for. The edges from
/// earlier ops of its lane, which the steps leave out, ended before the gap.
template <time_value T, cost_model Cost>
constexpr start_cause cause_of_gap(op_graph const& graph, timeline<T> const& times, Cost const& cost, std::size_t first,
                                   std::size_t after) {
  auto const& order = times.order();
  T const start = times.starts()[first];
  for (auto at = first; at < after; ++at) {
    step const& s = order.steps()[at];
    if (s.awaited == graph_link::none()) continue;
    auto const is_cause = [&](graph_link l) { return arrives_at(graph, times, cost, l.node(), l, s.lane, start); };
    if (is_cause(s.awaited)) return {s.awaited.kind(), s.awaited.node()};
    for (auto const& wait : order.further_waits_of(at))
      if (is_cause(wait.awaited)) return {wait.awaited.kind(), wait.awaited.node()};
  }
  return {};
}

/// The edge that let the event at `position` start when it did, of all that lead to it.
template <time_value T, cost_model Cost>
constexpr start_cause cause_of_event_start(op_graph const& graph, timeline<T> const& times, Cost const& cost,
                                           std::size_t position) {
  auto const& order = times.order();
  for (graph_link l : graph.links_in(order.node(graph, position))) {
    auto const from = order.position(node_id{l.node()});
    if (arrives_at(graph, times, cost, from, l, order.steps()[position].lane, times.starts()[position]))
      return {l.kind(), from};
  }
  return {};
}

/// Attributes the gap from `clock` to the start of a block to what it waited for. Where that is an event of the same
/// chunk on another stream, the gap is that event's only while it ran; before, it is that of what the event waited for.
template <time_value T, cost_model Cost>
constexpr void attribute_gap(op_graph const& graph, timeline<T> const& times, Cost const& cost, std::size_t first,
                             std::size_t after, T clock, idle_by_cause<T>& cause) {
  T until = times.starts()[first];
  auto awaited = cause_of_gap(graph, times, cost, first, after);
  while (until > clock) {
    bool const goes_on = awaited.kind == edge_kind::chunk && times.starts()[awaited.position] > clock;
    T const from = goes_on ? times.starts()[awaited.position] : clock;
    cause.waiting[std::size_t(awaited.kind)] += until - from;
    if (!goes_on) return;
    until = from;
    awaited = cause_of_event_start(graph, times, cost, awaited.position);
  }
}

/// Fills in what follows from the ops' times; one pass over the steps, in the order of the timeline.
template <time_value T, cost_model Cost>
constexpr void report_ranks(op_graph const& graph, timeline<T> const& times, Cost const& cost,
                            memory_model const& memory, std::vector<rank_report<T>>& ranks) {
  auto const& order = times.order();
  auto const steps = order.steps();
  vector<rank_progress<T>> progress(ranks.size(), rank_progress<T>{});
  for (std::size_t at = 0; at < steps.size();) {
    auto const after = at + (order.opens_pair(at) ? 2 : 1);
    auto const r = std::size_t(graph.rank_of_lane(steps[at].lane));
    if (int(steps[at].lane) != graph.lane_of(int(r), stream::compute)) {
      at = after;
      continue;
    }
    auto& rank = ranks[r];
    auto& now = progress[r];
    auto const first = std::size_t(graph.lane_begin(int(steps[at].lane))) + std::size_t(rank.operations);  // its node
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
      int const layer = graph.layer(node_id{first + (member - at)});
      bool const is_forward = pass_of(o.kind()) == pass::forward;
      (is_forward ? forward : backward) = true;
      if (o.in_pair()) forward = backward = true;  // a lowered pair is one block, whichever its event is
      if (o.kind() == op_kind::forward || (o.kind() == op_kind::attention_forward && layer == 0)) ++chunk_forwards;
      now.held += memory.taken(o, layer);
      if (now.held > rank.peak_activations) {
        rank.peak_activations = now.held;
        rank.peak_op = o;
        rank.peak_position = rank.operations;
        rank.peak_time = start;
      }
      ++rank.operations;
    }
    for (auto member = at; member < after; ++member)
      now.held -= memory.freed(steps[member].what, graph.layer(node_id{first + (member - at)}));
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

}  // namespace detail

/// All figures, from a graph, its timeline, and the cost model that made it (which the attribution of idle time asks
/// for latencies).
template <time_value T, cost_model Cost>
[[nodiscard]] constexpr report<T> make_report(op_graph const& graph, timeline<T> const& times, Cost const& cost,
                                              memory_model const& memory = {}) {
  auto all = detail::blank_report<T>(graph.where(), graph.microbatches());
  all.operations = std::int64_t(graph.size());
  all.makespan = times.makespan();
  detail::report_ranks(graph, times, cost, memory, all.per_rank);
  detail::report_totals(all);
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
/// Without a schedule or a graph in memory where the generator allows it: see `analyze_folded`.
template <schedule_generator G, cost_model Cost = uniform_cost<>>
[[nodiscard]] constexpr report<time_of<Cost>> analyze(G const& generator, Cost const& cost = {},
                                                      memory_model const& memory = {}) {
  if (auto folded = analyze_folded(generator, cost, memory)) return *std::move(folded);
  return analyze(build_graph(generator), cost, memory);
}
/// \}

}  // namespace v0
}  // namespace pipesched
