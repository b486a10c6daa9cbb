// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Where a rank's idle time goes: to which phase of the step, and to what it waited for.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/timeline.hpp>
#include <pipesched/graph/op_graph.hpp>

namespace pipesched {
inline namespace v0 {

/// A rank's steady phase: from the start of its first backward to the end of its last forward.
template <time_value T>
struct phase_bounds {
  T steady_begin;
  T steady_end;
};

/// Idle time of one rank by the phase it falls in: before, within and after the steady phase. Where there is none (no
/// forward ends after the first backward starts), the first backward's start divides warm-up from cool-down; without
/// backwards the last forward's end does.
template <time_value T>
struct idle_by_phase {
  T warmup = 0;
  T steady = 0;
  T cooldown = 0;
};

/// Idle time of one rank by what it waited for: the type of the edge whose end let the next op start, or nothing, after
/// the rank's last op.
template <time_value T>
struct idle_by_cause {
  std::array<T, 10> waiting = {};  ///< by `edge_kind`
  T finished = 0;                  ///< from the end of the last op to the makespan

  [[nodiscard]] constexpr T of(edge_kind kind) const noexcept { return waiting[std::size_t(kind)]; }
};

namespace detail {

/// Calls `visit(first, after)` for each block of a lane, a lone node or a pair, in order.
template <class Visit>
constexpr void for_each_block(op_graph const& graph, int lane, Visit&& visit) {
  auto const end = graph.lane_end(lane);
  for (auto node = graph.lane_begin(lane); node < end;) {
    auto const after = node + (graph.opens_pair(node, end) ? 2 : 1);
    visit(node, after);
    node = after;
  }
}

/// The type of the edge that the block [first, after) waited for.
template <time_value T, cost_model Cost>
constexpr edge_kind awaited_kind(op_graph const& graph, timeline<T> const& times, Cost const& cost, int rank,
                                 std::uint32_t first, std::uint32_t after) {
  for (auto node = first; node < after; ++node)
    for (link l : graph.links_in(node_id{node})) {
      node_id const from{l.node()};
      T const latency = l.remote() ? transfer_time(cost, graph.rank_of(from), rank) : T{0};
      if (times.end(from) + latency == times.start(node_id{first})) return l.kind();
    }
  return edge_kind::program;
}

[[nodiscard]] constexpr bool is_backward(op_kind kind) noexcept { return pass_of(kind) != pass::forward; }

}  // namespace detail

/// The steady phase of a rank, or nothing where it has none.
template <time_value T>
[[nodiscard]] constexpr std::optional<phase_bounds<T>> steady_phase(op_graph const& graph, timeline<T> const& times,
                                                                    int rank) {
  std::optional<T> first_backward;
  std::optional<T> last_forward;
  auto const lane = graph.lane_of(rank, stream::compute);
  for (auto n = graph.lane_begin(lane); n < graph.lane_end(lane); ++n) {
    if (detail::is_backward(graph.node(node_id{n}).kind())) {
      if (!first_backward) first_backward = times.start(node_id{n});
    } else {
      last_forward = times.end(node_id{n});
    }
  }
  if (!first_backward || !last_forward || *last_forward <= *first_backward) return {};
  return phase_bounds<T>{*first_backward, *last_forward};
}

/// How much of [from, to) lies within [begin, end).
template <time_value T>
[[nodiscard]] constexpr T common_time(T from, T to, T begin, T end) noexcept {
  return std::max(T{0}, std::min(to, end) - std::max(from, begin));
}

}  // namespace v0
}  // namespace pipesched
