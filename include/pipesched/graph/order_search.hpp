// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// How an execution order is found.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/prefetch.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>
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

/// A wait of a step that has more than one; `step::awaited` is the first.
struct further_wait {
  std::uint32_t position;
  graph_link awaited;
};

namespace detail {

/// What an execution order consists of.
struct order_parts {
  buffer<step> steps = {};
  buffer<std::uint32_t> positions = {};  // of each node
  vector<further_wait> further_waits = {};
  std::size_t count = 0;  // of the steps that could be found
  vector<blocked_lane> blocked = {};
};

/// Runs all lanes of a graph, each until its next node waits for one that has not run, and writes down what runs.
///
/// Which lane goes on next decides over the time, not over the result's being right. First the lanes are visited in
/// waves, without knowing whether they can go on: the processor foresees a fixed way through them, and does the work of
/// one lane while it waits for the memory of another. That suits pipelines whose ranks are numbered along the stages.
/// Where too many visits are in vain, a lane is visited only when it is woken, by the node that it waits for; so the
/// time is linear in nodes and edges, whatever waits for what.
class order_search {
 public:
  constexpr order_search(op_graph const& graph, order_parts& found) : graph_(graph), found_(found) {
    found.steps.resize_uninitialised(graph.size());
    found.positions.resize_uninitialised(graph.size() + 1);
    std::fill(found.positions.begin(), found.positions.end(), pending);
    found.positions[graph.size()] = graph_link::none().node();  // of nobody, which has always run
    found.further_waits.clear();
    found.blocked.clear();
    ops_ = graph.nodes().data();
    places_ = graph.places_in();
    steps_ = found.steps.data();
    positions_ = found.positions.data();
    for (int lane = 0; lane < graph.lanes(); ++lane)
      lanes_.push_back(cursor{graph.lane_begin(lane), graph.lane_end(lane), graph.lane_begin(lane), no_lane});
  }

  constexpr void run() {
    run_in_waves();
    if (count_ < graph_.size()) run_by_waking();
    if (count_ < graph_.size()) list_blocked();
    found_.count = count_;
  }

 private:
  // What `positions` holds of a node that has not run: that, and the first of the lanes that wait for it, if any.
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

  /// A lane as it is run: what the loops change is a copy of their own, so as to be in registers.
  struct run_state {
    std::uint32_t lane;
    std::uint32_t begin;
    std::uint32_t end;
    std::uint32_t next;
    std::uint32_t count;   ///< steps so far, of all lanes
    std::uint32_t* woken;  ///< where the next lane goes that a node wakes; null where none waits
  };

  // Templates before their callers: clang 16 calls no other in constant expressions.

  template <bool Waking>
  constexpr void run_node(run_state& at, op what, graph_link awaited) {
    steps_[at.count] = step{what, at.lane, awaited};
    auto& position = positions_[at.next];
    if constexpr (Waking) {
      auto const waiting = position & ~pending_bit;
      *at.woken = waiting;  // whether anyone waits is as good as random to the processor, so nothing branches on it
      at.woken += waiting != no_lane;
    }
    position = at.count;
    ++at.next;
    ++at.count;
  }

  /// A link to the position of a node, where that is on another rank; `none()` stays what it is.
  [[nodiscard]] static constexpr graph_link on_other_rank(graph_link l, std::uint32_t position) noexcept {
    return l.remote() ? l.to(position) : graph_link::none();
  }

  /// Runs nodes of a plain pipeline for as long as they are in no pair and wait for one node of another rank at most.
  /// Nearly all are so, and a loop for them alone has few enough variables to take half the time. Returns the node that
  /// the next one waits for, or `no_node`.
  template <bool Waking>
  [[gnu::always_inline]] constexpr std::uint32_t run_plain_nodes(run_state& at) {
    auto const nobody = std::uint32_t(graph_.size());
    while (at.next < at.end) {
      op const what = ops_[at.next];
      auto const first = places_[2 * std::size_t{at.next}];
      auto const second = places_[2 * std::size_t{at.next} + 1];
      auto const first_position = positions_[std::min(first.node(), nobody)];
      auto const second_position = positions_[std::min(second.node(), nobody)];
      if (!has_run(first_position | second_position))
        return Waking && has_run(first_position) ? second.node() : first.node();
      if (what.overlaps_next() || on_other_rank(second, second_position) != graph_link::none()) break;
      run_node<Waking>(at, what, on_other_rank(first, first_position));
    }
    return no_node;
  }

  /// Whether a lane's program says already that the other end of a link has run, so that there is nothing to wait for.
  [[nodiscard]] static constexpr bool follows(graph_link l, std::uint32_t lane_begin, std::uint32_t block) noexcept {
    return l == graph_link::none() || l.node() - lane_begin < block - lane_begin;
  }

  /// Finds what the step at `position` waits for, a node of a lane's next block. Returns a node that has not run, or
  /// `no_node`.
  constexpr std::uint32_t find_waits(view<graph_link> links, run_state const& at, std::uint32_t position,
                                     graph_link& awaited) {
    for (graph_link l : links) {
      if (follows(l, at.begin, at.next)) continue;
      auto const other = positions_[l.node()];
      if (!has_run(other)) return l.node();
      if (awaited == graph_link::none())
        awaited = l.to(other);
      else
        found_.further_waits.push_back(further_wait{position, l.to(other)});
    }
    return no_node;
  }

  /// Runs the next node, or pair of nodes, whatever they wait for. Returns a node that has not run, or `no_node`.
  template <bool Waking>
  constexpr std::uint32_t run_block(run_state& at) {
    bool const pair = graph_.opens_pair(at.next, at.end);
    auto const first_node = at.next;
    auto awaited = graph_link::none();
    auto awaited_by_second = graph_link::none();
    auto missing = find_waits(graph_.links_in(node_id{at.next}), at, at.count, awaited);
    if (pair && missing == no_node)
      missing = find_waits(graph_.links_in(node_id{at.next + 1}), at, at.count + 1, awaited_by_second);
    if (missing != no_node) {
      auto& waits = found_.further_waits;
      while (!waits.empty() && waits.back().position >= at.count) waits.pop_back();
      return missing;
    }
    run_node<Waking>(at, graph_.node(node_id{first_node}), awaited);
    if (pair) run_node<Waking>(at, graph_.node(node_id{first_node + 1}), awaited_by_second);
    return no_node;
  }

  /// Runs a lane until its next block waits for a node that has not run. Returns that, or `no_node` at its end.
  template <bool Waking>
  constexpr std::uint32_t run_lane(run_state& at) {
    auto missing = no_node;
    while (at.next < at.end && missing == no_node) {
      if (places_ != nullptr) missing = run_plain_nodes<Waking>(at);
      if (at.next < at.end && missing == no_node) missing = run_block<Waking>(at);
    }
    return missing;
  }

  /// Visits the lanes from the first to the last, and after each those before it, downwards, for as long as they go on.
  /// In a pipeline activations go up and gradients go down, so each of the last `depth` lanes goes on by a step: a few
  /// lanes, whose memory is in the cache, go a long way before the next ones do. From the last lane it goes down to the
  /// first. Ends where nothing can go on, or where more visits were in vain than nodes have run.
  constexpr void run_in_waves() {
    int const last = int(lanes_.size()) - 1;
    int const depth = std::min(24, last + 1);  // a deeper way down fits no cache where rows are a power of two long
    std::size_t in_vain = 0;
    std::uint32_t before = 0;
    do {
      before = count_;
      for (int top = 0; top < last + depth; ++top) {
        if (top + 2 <= last) prefetch_lane(lanes_[std::size_t(top) + 2], 2 * depth);
        run_downwards(std::min(top, last), top == last ? -1 : std::max(top - depth, -1));
      }
      in_vain += std::size_t(last + depth);  // one for each way down, at most
    } while (count_ != before && count_ < graph_.size() && in_vain <= lanes_.size() + count_);
  }

  /// Asks for the memory of a lane's next nodes.
  [[gnu::always_inline]] constexpr void prefetch_lane(cursor const& lane, int nodes) const {
    constexpr int at_once = 8;  // ops in a line of the cache
    for (int n = 0; n < nodes; n += at_once) {
      auto const node = std::size_t{lane.next} + std::size_t(n);
      prefetch(ops_, node);
      if (places_ != nullptr) prefetch(places_, 2 * node);
      prefetch(positions_, node);
    }
  }

  /// Runs the lanes from `first` down to the one after `last`, each as far as it can, until one cannot go on.
  constexpr void run_downwards(int first, int last) {
    bool const plain = places_ != nullptr;
    for (auto lane = first; lane > last; --lane) {
      auto& at = lanes_[std::size_t(lane)];
      auto const count = count_;
      run_state state{std::uint32_t(lane), at.begin, at.end, at.next, count, nullptr};
      auto const missing = plain ? run_plain_nodes<false>(state) : no_node;
      at.next = state.next;
      count_ = state.count;
      if (missing == no_node && state.next < state.end) run_rest(std::uint32_t(lane));
      if (count_ == count) break;
    }
  }
  /// Runs a lane behind its plain nodes. Not inlined, for seldom called where speed counts.
  [[gnu::noinline]] constexpr void run_rest(std::uint32_t lane) {
    auto& at = lanes_[lane];
    run_state state{lane, at.begin, at.end, at.next, count_, nullptr};
    run_lane<false>(state);
    at.next = state.next;
    count_ = state.count;
  }

  /// Runs the lanes that are ready, the last one woken first: what it waited for is in the cache still.
  constexpr void run_by_waking() {
    vector<std::uint32_t> ready;
    for (auto lane = std::uint32_t(lanes_.size()); lane-- > 0;) ready.push_back(lane);
    ready.push_back(no_lane);  // a node writes one more than it wakes
    auto* top = ready.data() + lanes_.size();
    while (top != ready.data()) {
      auto const lane = *--top;
      auto& at = lanes_[lane];
      // Others that waited for the same node: seldom any, so it costs less here than where the node ran.
      for (auto other = std::exchange(at.next_waiting, no_lane); other != no_lane;
           other = std::exchange(lanes_[other].next_waiting, no_lane))
        *top++ = other;

      run_state state{lane, at.begin, at.end, at.next, count_, top};
      if (auto const missing = run_lane<true>(state); missing != no_node) {
        at.next_waiting = positions_[missing] & ~pending_bit;
        positions_[missing] = pending_bit | lane;
      }
      at.next = state.next;
      count_ = state.count;
      top = state.woken;
    }
  }

  constexpr void list_blocked() {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      auto const& at = lanes_[lane];
      if (at.next == at.end) continue;
      auto const after = at.next + (graph_.opens_pair(at.next, at.end) ? 2 : 1);
      for (auto node = at.next; node < after; ++node)
        if (graph_link const* wait = first_wait(at, node)) {
          found_.blocked.push_back(blocked_lane{int(lane), node_id{node}, node_id{wait->node()}, wait->kind()});
          break;
        }
    }
  }

  /// The first link of a lane's next block whose other end has not run.
  [[nodiscard]] constexpr graph_link const* first_wait(cursor const& at, std::uint32_t node) const noexcept {
    for (graph_link const& l : graph_.links_in(node_id{node}))
      if (!follows(l, at.begin, at.next) && !has_run(positions_[l.node()])) return &l;
    return nullptr;
  }

  op_graph const& graph_;
  order_parts& found_;
  op const* ops_;
  graph_link const* places_;  // null where a node may have more than two
  step* steps_;
  std::uint32_t* positions_;
  vector<cursor> lanes_;
  std::uint32_t count_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
