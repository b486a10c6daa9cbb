// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// An order in which a graph's nodes can run, or the cycle that prevents it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
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

/// One entry of an execution order: a node's op with what it waits for. All that a timeline needs, in the order in
/// which it needs it: it reads these records from the first to the last and nothing else.
struct step {
  op what;
  std::uint32_t lane;
  /// The edge to it from a step that is not before it on its lane, or `graph_link::none()`; `node()` is that step's
  /// position. Of several the first; see `execution_order::further_waits`.
  graph_link awaited;
};

/// A topological order of a graph, found once and used by every timeline of it.
///
/// Found by running the lanes: each goes on until a node waits for one that has not run. Time linear in nodes and
/// edges, whatever the order of the ranks: a blocked lane is woken once, by the node that it waits for.
/// 24 bytes a node.
class execution_order {
 public:
  /// A wait of a step that has more than one; `step::awaited` is the first.
  struct further_wait {
    std::uint32_t position;
    graph_link awaited;
  };

  execution_order() = default;
  constexpr explicit execution_order(op_graph const& graph) : execution_order(graph, execution_order()) {}
  /// In the memory of an order that is no longer needed, where that is large enough.
  constexpr execution_order(op_graph const& graph, execution_order&& reuse)
      : steps_(std::move(reuse.steps_)),
        nodes_(std::move(reuse.nodes_)),
        positions_(std::move(reuse.positions_)),
        further_waits_(std::move(reuse.further_waits_)) {
    steps_.resize_uninitialised(graph.size());
    nodes_.resize_uninitialised(graph.size());
    positions_.resize_uninitialised(graph.size() + 1);
    std::fill(positions_.begin(), positions_.end(), pending);
    positions_[graph.size()] = graph_link::none().node();  // of nobody, which has always run
    further_waits_.clear();
    run(graph);
  }

  /// The nodes in an order in which all edges point forward; the members of a pair stand side by side. Where there is
  /// a cycle, those nodes that can run.
  [[nodiscard]] constexpr std::span<step const> steps() const noexcept { return steps_.view().subspan(0, count_); }
  /// Whether the step at `position` and the next one are an overlapped pair.
  [[nodiscard]] constexpr bool opens_pair(std::size_t position) const noexcept {
    return steps_[position].what.overlaps_next() && position + 1 < count_ &&
           steps_[position + 1].lane == steps_[position].lane;
  }
  /// The node of a step.
  [[nodiscard]] constexpr node_id node(std::size_t position) const noexcept { return node_id{nodes_[position]}; }
  /// Where a node stands in `steps()`. Precondition: it can run.
  [[nodiscard]] constexpr std::uint32_t position(node_id n) const noexcept { return positions_[n.value]; }
  /// The waits that do not fit into the steps, by position. A wait for an earlier op of the same lane is in neither.
  [[nodiscard]] constexpr std::span<further_wait const> further_waits() const noexcept {
    return {further_waits_.data(), further_waits_.size()};
  }

  /// Those of one step. Time logarithmic in their number.
  [[nodiscard]] constexpr std::span<further_wait const> further_waits_of(std::size_t position) const noexcept {
    auto const before = [](further_wait const& w, std::size_t p) { return w.position < p; };
    auto const first = std::lower_bound(further_waits_.begin(), further_waits_.end(), position, before);
    auto const last = std::lower_bound(first, further_waits_.end(), position + 1, before);
    return {first, last};
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
  static constexpr std::uint32_t no_node = 0xFFFFFFFF;

  [[nodiscard]] static constexpr bool has_run(std::uint32_t position) noexcept { return (position & pending_bit) == 0; }

  /// Where a lane stands.
  struct cursor {
    std::uint32_t next;          ///< its next node
    std::uint32_t end;           ///< one past its last
    std::uint32_t begin;         ///< its first
    std::uint32_t next_waiting;  ///< the next lane that waits for the same node
  };

  /// Runs the lanes that are ready, the last one woken first: what it waited for is in the cache still.
  constexpr void run(op_graph const& graph) {
    std::vector<cursor> lanes;
    for (int lane = 0; lane < graph.lanes(); ++lane)
      lanes.push_back(cursor{graph.lane_begin(lane), graph.lane_end(lane), graph.lane_begin(lane), no_lane});
    std::vector<std::uint32_t> ready;
    for (auto lane = std::uint32_t(lanes.size()); lane-- > 0;) ready.push_back(lane);
    ready.push_back(no_lane);  // `run_lane` writes one more than it wakes
    auto* top = ready.data() + lanes.size();
    while (top != ready.data()) {
      auto const lane = *--top;
      top = run_lane(graph, lanes, lane, top);
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

  /// A lane as it is run: what the loops change is a copy of their own, so as to be in registers.
  struct run_state {
    std::uint32_t lane;
    std::uint32_t begin;
    std::uint32_t end;
    std::uint32_t next;
    std::uint32_t count;   ///< steps so far, of all lanes
    std::uint32_t* woken;  ///< where the next lane goes that a node wakes
  };

  /// Runs a lane until its next block waits for a node that has not run. Writes the lanes that its nodes wake to
  /// `woken` and returns the end of them.
  constexpr std::uint32_t* run_lane(op_graph const& graph, std::vector<cursor>& lanes, std::uint32_t lane,
                                    std::uint32_t* woken) {
    // Others that waited for the same node: seldom any, so it costs less here than where the node ran.
    for (auto other = std::exchange(lanes[lane].next_waiting, no_lane); other != no_lane;
         other = std::exchange(lanes[other].next_waiting, no_lane))
      *woken++ = other;

    run_state at{lane, lanes[lane].begin, lanes[lane].end, lanes[lane].next, std::uint32_t(count_), woken};
    auto missing = no_node;
    while (at.next < at.end && missing == no_node) {
      if (graph.places_in() != nullptr) missing = run_plain_nodes(graph, at);
      if (at.next < at.end && missing == no_node) missing = run_block(graph, at);
    }
    if (missing != no_node) {
      lanes[lane].next_waiting = positions_[missing] & ~pending_bit;
      positions_[missing] = pending_bit | lane;
    }
    lanes[lane].next = at.next;
    count_ = at.count;
    return at.woken;
  }

  constexpr void run_node(run_state& at, op what, graph_link awaited) {
    steps_[at.count] = step{what, at.lane, awaited};
    nodes_[at.count] = at.next;
    auto const waiting = positions_[at.next] & ~pending_bit;
    positions_[at.next] = at.count;
    *at.woken = waiting;  // whether anyone waits is as good as random to the processor, so nothing branches on it
    at.woken += waiting != no_lane;
    ++at.next;
    ++at.count;
  }

  /// Runs nodes of a plain pipeline for as long as they are in no pair and wait for one node of another rank at most.
  /// Nearly all are so, and a loop for them alone has few enough variables to take half the time. Returns the node that
  /// the next one waits for, or `no_node`.
  constexpr std::uint32_t run_plain_nodes(op_graph const& graph, run_state& state) {
    run_state at = state;
    auto const* const ops = graph.nodes().data();
    auto const* const places = graph.places_in();
    auto const nobody = std::uint32_t(steps_.size());
    auto missing = no_node;
    while (at.next < at.end) {
      op const what = ops[at.next];
      auto const first = places[2 * std::size_t{at.next}];
      auto const second = places[2 * std::size_t{at.next} + 1];
      auto const first_position = positions_[std::min(first.node(), nobody)];
      auto const second_position = positions_[std::min(second.node(), nobody)];
      if (!has_run(first_position | second_position)) {
        missing = has_run(first_position) ? second.node() : first.node();
        break;
      }
      if (what.overlaps_next() || on_other_rank(second, second_position) != graph_link::none()) break;
      run_node(at, what, on_other_rank(first, first_position));
    }
    state = at;
    return missing;
  }

  /// A link to the position of a node, where that is on another rank; `none()` stays what it is.
  [[nodiscard]] static constexpr graph_link on_other_rank(graph_link l, std::uint32_t position) noexcept {
    return l.remote() ? l.to(position) : graph_link::none();
  }

  /// Runs the next node, or pair of nodes, whatever they wait for. Returns a node that has not run, or `no_node`.
  constexpr std::uint32_t run_block(op_graph const& graph, run_state& at) {
    bool const pair = graph.opens_pair(at.next, at.end);
    auto const first_node = at.next;
    auto awaited = graph_link::none();
    auto awaited_by_second = graph_link::none();
    auto missing = find_waits(graph.links_in(node_id{at.next}), at, at.count, awaited);
    if (pair && missing == no_node)
      missing = find_waits(graph.links_in(node_id{at.next + 1}), at, at.count + 1, awaited_by_second);
    if (missing != no_node) {
      while (!further_waits_.empty() && further_waits_.back().position >= at.count) further_waits_.pop_back();
      return missing;
    }
    run_node(at, graph.node(node_id{first_node}), awaited);
    if (pair) run_node(at, graph.node(node_id{first_node + 1}), awaited_by_second);
    return no_node;
  }

  /// Whether a lane's program says already that the other end of a link has run, so that there is nothing to wait for.
  [[nodiscard]] static constexpr bool follows(graph_link l, std::uint32_t lane_begin, std::uint32_t block) noexcept {
    return l == graph_link::none() || l.node() - lane_begin < block - lane_begin;
  }

  /// Finds what the step at `position` waits for, a node of a lane's next block. Returns a node that has not run, or
  /// `no_node`.
  constexpr std::uint32_t find_waits(std::span<graph_link const> links, run_state const& at, std::uint32_t position,
                                     graph_link& awaited) {
    for (graph_link l : links) {
      if (follows(l, at.begin, at.next)) continue;
      auto const other = positions_[l.node()];
      if (!has_run(other)) return l.node();
      if (awaited == graph_link::none())
        awaited = l.to(other);
      else
        further_waits_.push_back(further_wait{position, l.to(other)});
    }
    return no_node;
  }

  /// The first link of a lane's next block whose other end has not run.
  [[nodiscard]] constexpr graph_link const* first_wait(op_graph const& graph, cursor const& at,
                                                       std::uint32_t node) const noexcept {
    for (graph_link const& l : graph.links_in(node_id{node}))
      if (!follows(l, at.begin, at.next) && !has_run(positions_[l.node()])) return &l;
    return nullptr;
  }

  detail::buffer<step> steps_;
  detail::buffer<std::uint32_t> nodes_;      // of each step
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
