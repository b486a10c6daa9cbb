// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// An order in which a graph's nodes can run, or the cycle that prevents it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/error.hpp>
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

/// One entry of an execution order: a node with what it waits for, as positions in the order. All that a timeline
/// needs, in the order in which it needs it: it reads these records from the first to the last and nothing else.
struct step {
  op what;
  std::uint32_t node;
  std::uint32_t lane;
  std::uint32_t previous;  ///< the step before it on its lane, or `execution_order::nothing`
  std::uint32_t awaited;   ///< a further step that it waits for, or `nothing`; `remote_bit` set where on another rank

  static constexpr std::uint32_t remote_bit = 0x80000000;
  [[nodiscard]] constexpr std::uint32_t awaited_position() const noexcept { return awaited & ~remote_bit; }
  [[nodiscard]] constexpr bool awaits_remote() const noexcept { return (awaited & remote_bit) != 0; }
};

/// A topological order of a graph, found once and used by every timeline of it.
///
/// Found by running the lanes: each goes on until a node waits for one that has not run. Time linear in nodes and
/// edges, whatever the order of the ranks: a blocked lane is woken once, by the node that it waits for.
/// 28 bytes a node.
class execution_order {
 public:
  /// The position of no step: it stands for time 0.
  static constexpr std::uint32_t nothing = 0x0FFFFFFF;

  /// A wait of a step that has more than one; `step::awaited` is the first.
  struct further_wait {
    std::uint32_t position;
    std::uint32_t awaited;
  };

  execution_order() = default;
  constexpr explicit execution_order(op_graph const& graph) : steps_(graph.size()), positions_(graph.size(), pending) {
    run(graph);
  }

  /// The nodes in an order in which all edges point forward; the members of a pair stand side by side. Where there is
  /// a cycle, those nodes that can run.
  [[nodiscard]] constexpr std::span<step const> steps() const noexcept { return steps_.view().subspan(0, count_); }
  /// Whether the step at `position` and the next one are an overlapped pair.
  [[nodiscard]] constexpr bool opens_pair(std::size_t position) const noexcept {
    if (!steps_[position].what.overlaps_next() || position + 1 >= count_) return false;
    auto const& next = steps_[position + 1];
    return next.lane == steps_[position].lane && next.node == steps_[position].node + 1;
  }
  /// Where a node stands in `steps()`. Precondition: it can run.
  [[nodiscard]] constexpr std::uint32_t position(node_id n) const noexcept { return positions_[n.value]; }
  /// The waits that do not fit into the steps, by position. A wait for an earlier op of the same lane is in neither.
  [[nodiscard]] constexpr std::span<further_wait const> further_waits() const noexcept {
    return {further_waits_.data(), further_waits_.size()};
  }

  /// Whether every node can run.
  [[nodiscard]] constexpr bool complete() const noexcept { return count_ == steps_.size(); }
  /// The lanes that cannot finish, in order of lanes; empty where the order is complete.
  [[nodiscard]] constexpr std::span<blocked_lane const> blocked() const noexcept {
    return {blocked_.data(), blocked_.size()};
  }

  /// The cycle, or nothing where the order is complete. Each entry waits for its `awaited`, which is the next entry's
  /// node or comes after it on the same stream; the last one's leads back to the first.
  [[nodiscard]] constexpr std::vector<blocked_lane> cycle(op_graph const& graph) const {
    if (blocked_.empty()) return {};
    std::vector<std::size_t> entry_of_lane(std::size_t(graph.lanes()), blocked_.size());
    for (std::size_t entry = 0; entry < blocked_.size(); ++entry)
      entry_of_lane[std::size_t(blocked_[entry].lane)] = entry;
    std::vector<std::size_t> visited(blocked_.size(), 0);  // the step at which it was passed, from 1
    std::vector<blocked_lane> path;
    std::size_t at = 0;
    while (visited[at] == 0) {
      path.push_back(blocked_[at]);
      visited[at] = path.size();
      at = entry_of_lane[std::size_t(graph.lane_of(blocked_[at].awaited))];
    }
    return {path.begin() + std::ptrdiff_t(visited[at] - 1), path.end()};
  }

 private:
  // What `positions_` holds of a node that has not run: that, and the first of the lanes that wait for it, if any.
  static constexpr std::uint32_t pending_bit = 0x80000000;
  static constexpr std::uint32_t no_lane = 0x7FFFFFFF;
  static constexpr std::uint32_t pending = pending_bit | no_lane;

  [[nodiscard]] static constexpr bool has_run(std::uint32_t position) noexcept { return (position & pending_bit) == 0; }

  /// Where a lane stands.
  struct cursor {
    std::uint32_t next;          ///< its next node
    std::uint32_t end;           ///< one past its last
    std::uint32_t begin;         ///< its first
    std::uint32_t last_step;     ///< the position of its last step, or `nothing`
    std::uint32_t next_waiting;  ///< the next lane that waits for the same node
  };

  constexpr void run(op_graph const& graph) {
    std::vector<cursor> lanes;
    std::vector<std::uint32_t> ready;
    for (int lane = 0; lane < graph.lanes(); ++lane)
      lanes.push_back(cursor{graph.lane_begin(lane), graph.lane_end(lane), graph.lane_begin(lane), nothing, no_lane});
    for (auto lane = std::uint32_t(lanes.size()); lane-- > 0;) ready.push_back(lane);

    while (!ready.empty()) {
      auto const lane = ready.back();
      ready.pop_back();
      auto& at = lanes[lane];
      while (at.next < at.end) {
        auto const after = at.next + (graph.opens_pair(at.next, at.end) ? 2 : 1);
        graph_link const* wait = first_wait(graph, at, at.next);
        if (!wait && after > at.next + 1) wait = first_wait(graph, at, at.next + 1);
        if (wait) {
          at.next_waiting = positions_[wait->node()] & ~pending_bit;
          positions_[wait->node()] = pending_bit | lane;
          break;
        }
        auto const previous = at.last_step;  // of both members of a pair
        for (; at.next < after; ++at.next) {
          auto waiting = positions_[at.next] & ~pending_bit;
          append(graph, at, lane, previous);
          for (; waiting != no_lane; waiting = lanes[waiting].next_waiting) ready.push_back(waiting);
        }
      }
    }

    if (complete()) return;
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      auto const& at = lanes[lane];
      if (at.next == at.end) continue;
      auto const after = at.next + (graph.opens_pair(at.next, at.end) ? 2 : 1);
      for (auto node = at.next; node < after; ++node)
        if (graph_link const* wait = first_wait(graph, at, node)) {
          blocked_.push_back(blocked_lane{int(lane), node_id{node}, node_id{wait->node()}, wait->kind()});
          break;
        }
    }
  }

  /// Whether a link leads to a node that its lane has run already, so that program order says all.
  [[nodiscard]] static constexpr bool follows_from_program(graph_link l, cursor const& at) noexcept {
    return l.node() >= at.begin && l.node() < at.next;
  }

  /// The first link into `node`, a member of the lane's next block, whose other end has not run.
  [[nodiscard]] constexpr graph_link const* first_wait(op_graph const& graph, cursor const& at,
                                                       std::uint32_t node) const noexcept {
    for (graph_link const& l : graph.links_in(node_id{node}))
      if (!follows_from_program(l, at) && !has_run(positions_[l.node()])) return &l;
    return nullptr;
  }

  /// The lane's next node becomes the next step.
  constexpr void append(op_graph const& graph, cursor& at, std::uint32_t lane, std::uint32_t previous) {
    step& s = steps_[count_];
    s = step{graph.node(node_id{at.next}), at.next, lane, previous, nothing};
    for (graph_link l : graph.links_in(node_id{at.next})) {
      if (follows_from_program(l, at)) continue;
      auto const awaited = positions_[l.node()] | (l.remote() ? step::remote_bit : 0);
      if (s.awaited == nothing)
        s.awaited = awaited;
      else
        further_waits_.push_back(further_wait{std::uint32_t(count_), awaited});
    }
    positions_[at.next] = at.last_step = std::uint32_t(count_++);
  }

  detail::buffer<step> steps_;
  detail::buffer<std::uint32_t> positions_;  // of each node
  std::vector<further_wait> further_waits_;
  std::size_t count_ = 0;
  std::vector<blocked_lane> blocked_;
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
