// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The chain of ops that makes the step as long as it is.

#include <algorithm>
#include <optional>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/timeline.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/op_graph.hpp>

namespace pipesched {
inline namespace v0 {

/// A node of the critical path and the edge that made it start when it did; none for the first.
struct critical_step {
  node_id node;
  std::optional<edge_kind> waited_for;
  friend constexpr bool operator==(critical_step const&, critical_step const&) = default;
};

/// The edge that made a node start when it did: along its program where that came last, else the first edge whose
/// result arrived just then, at the node or its partner in a pair (`to` is the member that waited). None for a node
/// that starts at 0.
template <time_value T, cost_model Cost>
[[nodiscard]] constexpr std::optional<edge> cause_of_start(op_graph const& graph, timeline<T> const& times,
                                                           Cost const& cost, node_id node) {
  if (times.start(node) == T{0}) return {};
  auto const mate = graph.partner(node);
  auto const first = mate ? std::min(node, *mate) : node;
  if (first.value > graph.lane_begin(graph.lane_of(node)) && times.end(node_id{first.value - 1}) == times.start(node))
    return edge{node_id{first.value - 1}, node, edge_kind::program};
  std::optional<edge> cause;
  auto const find_cause = [&](node_id n) {
    for (graph_link l : graph.links_in(n)) {
      node_id const from{l.node()};
      T const latency = l.remote() ? transfer_time(cost, graph.rank_of(from), graph.rank_of(n)) : T{0};
      if (!cause && times.end(from) + latency == times.start(n)) cause = edge{from, n, l.kind()};
    }
  };
  find_cause(node);
  if (mate) find_cause(*mate);
  return cause;
}

/// One longest chain from time 0 to the makespan: each node starts the moment its predecessor's result is there. Of
/// several, the one that follows the program where it can. Of an overlapped pair the member that was waited for, or
/// that waited, stands for both.
template <time_value T, cost_model Cost>
[[nodiscard]] constexpr detail::vector<critical_step> critical_path(op_graph const& graph, timeline<T> const& times,
                                                                    Cost const& cost) {
  detail::vector<critical_step> path;
  if (graph.size() == 0) return path;
  node_id at{0};
  for (std::uint32_t n = 0; n < graph.size(); ++n)
    if (times.end(node_id{n}) > times.end(at)) at = node_id{n};

  for (;;) {
    path.push_back(critical_step{at, {}});
    auto const cause = cause_of_start(graph, times, cost, at);
    if (!cause) break;
    path.back() = critical_step{cause->to, cause->kind};
    at = cause->from;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace v0
}  // namespace pipesched
