// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// An order in which a graph's nodes can run, or the cycle that prevents it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <pipesched/core/error.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/graph/edge.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/graph/order_search.hpp>

namespace pipesched {
inline namespace v0 {

/// A topological order of a graph, found once and used by every timeline of it.
///
/// Time linear in nodes and edges, whatever the order of the ranks. 20 bytes a node.
class execution_order {
 public:
  execution_order() = default;
  constexpr explicit execution_order(op_graph const& graph) : execution_order(graph, execution_order()) {}
  /// In the memory of an order that is no longer needed, where that is large enough.
  constexpr execution_order(op_graph const& graph, execution_order&& reuse) : p_(std::move(reuse.p_)) {
    detail::order_search(graph, p_).run();
  }

  /// The nodes in an order in which all edges point forward; the members of a pair stand side by side. Where there is
  /// a cycle, those nodes that can run.
  [[nodiscard]] constexpr view<step> steps() const noexcept { return p_.steps.view().subspan(0, p_.count); }
  /// Whether the step at `position` and the next one are an overlapped pair.
  [[nodiscard]] constexpr bool opens_pair(std::size_t position) const noexcept {
    return p_.steps[position].what.overlaps_next() && position + 1 < p_.count &&
           p_.steps[position + 1].lane == p_.steps[position].lane;
  }
  /// The node of a step. Time logarithmic in the length of its lane, whose nodes stand in the order one after another.
  [[nodiscard]] constexpr node_id node(op_graph const& graph, std::size_t position) const noexcept {
    auto const lane = int(steps()[position].lane);
    auto const* const begin = p_.positions.data() + graph.lane_begin(lane);
    auto const* const end = p_.positions.data() + graph.lane_end(lane);
    return node_id{graph.lane_begin(lane) + (std::lower_bound(begin, end, position) - begin)};
  }
  /// Where a node stands in `steps()`. Precondition: it can run.
  [[nodiscard]] constexpr std::uint32_t position(node_id n) const noexcept { return p_.positions[n.value]; }
  /// The waits that do not fit into the steps, by position. A wait for an earlier op of the same lane is in neither.
  [[nodiscard]] constexpr view<further_wait> further_waits() const noexcept {
    return {p_.further_waits.data(), p_.further_waits.size()};
  }

  /// Those of one step. Time logarithmic in their number.
  [[nodiscard]] constexpr view<further_wait> further_waits_of(std::size_t position) const noexcept {
    auto const before = [](further_wait const& w, std::size_t p) { return w.position < p; };
    auto const first = std::lower_bound(p_.further_waits.begin(), p_.further_waits.end(), position, before);
    auto const last = std::lower_bound(first, p_.further_waits.end(), position + 1, before);
    return {first, std::size_t(last - first)};
  }

  /// Whether every node can run.
  [[nodiscard]] constexpr bool complete() const noexcept { return p_.count == p_.steps.size(); }
  /// The lanes that cannot finish, in order of lanes; empty where the order is complete.
  [[nodiscard]] constexpr view<blocked_lane> blocked() const noexcept { return {p_.blocked.data(), p_.blocked.size()}; }

  /// The cycle, or nothing where the order is complete. Each entry waits for its `awaited`, which is the next entry's
  /// node or comes after it on the same stream; the last one's leads back to the first.
  [[nodiscard]] constexpr detail::vector<blocked_lane> cycle(op_graph const& graph) const {
    if (p_.blocked.empty()) return {};
    detail::vector<std::size_t> entry_of_lane(std::size_t(graph.lanes()), p_.blocked.size());
    for (std::size_t entry = 0; entry < p_.blocked.size(); ++entry)
      entry_of_lane[std::size_t(p_.blocked[entry].lane)] = entry;
    detail::vector<std::size_t> visited(p_.blocked.size(), 0);  // the step at which it was passed, from 1
    detail::vector<blocked_lane> path;
    std::size_t at = 0;
    while (visited[at] == 0) {
      path.push_back(p_.blocked[at]);
      visited[at] = path.size();
      at = entry_of_lane[std::size_t(graph.lane_of(p_.blocked[at].awaited))];
    }
    return {path.begin() + std::ptrdiff_t(visited[at] - 1), path.end()};
  }

 private:
  detail::order_parts p_;
};

namespace detail {

/// Refuses a graph that cannot be run to its end, with the first reason.
constexpr void require_runnable(op_graph const& graph, execution_order const& order) {
  if (!order.complete()) {
    auto const cycle = order.cycle(graph);
    std::string text = "deadlock:";
    for (auto const& wait : cycle)
      text.append(&wait == cycle.data() ? " " : ", ")
          .append(to_string(graph.node(wait.node)))
          .append(" waits for ")
          .append(to_string(graph.node(wait.awaited)));
    PIPESCHED_FAIL(schedule_error(text));
  }
  if (!graph.missing().empty()) {
    auto const& first = graph.missing().front();
    PIPESCHED_FAIL(schedule_error(to_string(graph.node(first.node))
                                      .append(" needs ")
                                      .append(to_string(first.expected))
                                      .append(", which is in no program")));
  }
}

}  // namespace detail

}  // namespace v0
}  // namespace pipesched
