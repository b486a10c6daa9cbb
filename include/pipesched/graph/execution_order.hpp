// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// An order in which a graph's nodes can run, or the cycle that prevents it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <pipesched/core/buffer.hpp>
#include <pipesched/graph/edge.hpp>
#include <pipesched/graph/op_graph.hpp>

namespace pipesched {
inline namespace v0 {

/// A rank's stream that cannot go on: `node` is its next one and waits for `awaited`, which has not run.
struct blocked_lane {
  int lane;
  node_id node;
  node_id awaited;
  edge_kind kind;
};

/// A topological order of a graph, found once and used by every timeline of it.
///
/// Found by running the lanes: each goes on until a node waits for one that has not run. Time linear in nodes and
/// edges, whatever the order of the ranks: a blocked lane is woken once, by the node that it waits for.
class execution_order {
 public:
  constexpr explicit execution_order(op_graph const& graph) : nodes_(graph.size()), lanes_(graph.size()) { run(graph); }

  /// The nodes in an order in which all edges point forward; the members of a pair stand side by side. Where there is
  /// a cycle, those nodes that can run.
  [[nodiscard]] constexpr std::span<std::uint32_t const> nodes() const noexcept {
    return nodes_.view().subspan(0, count_);
  }
  /// The lane of each entry of `nodes()`.
  [[nodiscard]] constexpr std::span<std::uint32_t const> lanes() const noexcept {
    return lanes_.view().subspan(0, count_);
  }
  /// Whether every node can run.
  [[nodiscard]] constexpr bool complete() const noexcept { return count_ == nodes_.size(); }
  /// The lanes that cannot finish, in order of lanes; empty where the order is complete.
  [[nodiscard]] constexpr std::span<blocked_lane const> blocked() const noexcept { return blocked_; }

  /// The cycle, or nothing where the order is complete. Each entry waits for its `awaited`, which is the next entry's
  /// node or comes after it on the same stream; the last one's leads back to the first.
  [[nodiscard]] constexpr std::vector<blocked_lane> cycle(op_graph const& graph) const {
    if (blocked_.empty()) return {};
    std::vector<std::size_t> visited(blocked_.size(), 0);  // the step at which it was passed, from 1
    std::vector<blocked_lane> path;
    std::size_t at = 0;
    while (visited[at] == 0) {
      path.push_back(blocked_[at]);
      visited[at] = path.size();
      at = entry_of(graph.lane_of(blocked_[at].awaited));
    }
    return {path.begin() + std::ptrdiff_t(visited[at] - 1), path.end()};
  }

 private:
  /// What is known of a node: it has run; it has not; or it has not and lanes wait for it, the first of them named.
  static constexpr std::uint32_t has_run = 0xFFFFFFFF;
  static constexpr std::uint32_t pending = 0xFFFFFFFE;
  static constexpr std::uint32_t no_lane = pending;  // ends a list of waiting lanes

  constexpr void run(op_graph const& graph) {
    auto const lanes = std::size_t(graph.lanes());
    detail::buffer<std::uint32_t> state(graph.size(), pending);
    std::vector<std::uint32_t> next_node;
    std::vector<std::uint32_t> next_waiting(lanes, no_lane);
    std::vector<std::uint32_t> ready;
    for (std::size_t lane = 0; lane < lanes; ++lane) next_node.push_back(graph.lane_begin(int(lane)));
    for (std::size_t lane = lanes; lane-- > 0;) ready.push_back(std::uint32_t(lane));

    while (!ready.empty()) {
      auto const lane = ready.back();
      ready.pop_back();
      auto const end = graph.lane_end(int(lane));
      auto& node = next_node[lane];
      while (node < end) {
        auto const after = node + (graph.opens_pair(node, end) ? 2 : 1);
        if (auto const* wait = first_wait(graph, state, node, after)) {
          next_waiting[lane] = state[wait->node()];
          state[wait->node()] = lane;
          break;
        }
        for (; node < after; ++node) {
          nodes_[count_] = node;
          lanes_[count_++] = lane;
          auto waiting = state[node];
          state[node] = has_run;
          while (waiting != no_lane) {
            ready.push_back(waiting);
            waiting = next_waiting[waiting];
          }
        }
      }
    }

    if (complete()) return;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      auto const end = graph.lane_end(int(lane));
      auto const node = next_node[lane];
      if (node == end) continue;
      auto const after = node + (graph.opens_pair(node, end) ? 2 : 1);
      auto const* wait = first_wait(graph, state, node, after);
      auto const is_waiting = [&](std::uint32_t n) {
        for (link const& l : graph.links_in(node_id{n}))
          if (&l == wait) return true;
        return false;
      };
      blocked_.push_back(
          blocked_lane{int(lane), node_id{is_waiting(node) ? node : node + 1}, node_id{wait->node()}, wait->kind()});
    }
  }

  /// The first link into the block [node, after) whose other end has not run.
  [[nodiscard]] static constexpr link const* first_wait(op_graph const& graph,
                                                        detail::buffer<std::uint32_t> const& state, std::uint32_t node,
                                                        std::uint32_t after) noexcept {
    for (; node < after; ++node)
      for (link const& l : graph.links_in(node_id{node}))
        if (state[l.node()] != has_run) return &l;
    return nullptr;
  }

  [[nodiscard]] constexpr std::size_t entry_of(int lane) const noexcept {
    std::size_t entry = 0;
    while (blocked_[entry].lane != lane) ++entry;
    return entry;
  }

  detail::buffer<std::uint32_t> nodes_;
  detail::buffer<std::uint32_t> lanes_;
  std::size_t count_ = 0;
  std::vector<blocked_lane> blocked_;
};

}  // namespace v0
}  // namespace pipesched
