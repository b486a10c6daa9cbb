// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The turn in which each op runs where ranks take turns: the clock of communication plans.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <pipesched/core/buffer.hpp>
#include <pipesched/graph/edge.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/graph/op_graph.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Where ranks take turns in ascending order, and each runs its next op, or pair, if what it needs is there: the turn
/// in which each node runs, counted for each rank from 0. `AtOnce`: what a rank sends is there for the ranks whose turn
/// comes after its own; else from the next turn on. Throws `schedule_error` where some ops never run.
///
/// Found rank by rank: each goes on until a node waits for one that has no turn yet, which wakes it.
template <bool AtOnce>
[[nodiscard]] constexpr buffer<std::uint32_t> count_turns(op_graph const& graph) {
  // What is held of a node without a turn: that, and the first of the ranks that wait for it.
  constexpr std::uint32_t pending_bit = 0x80000000;
  constexpr std::uint32_t nobody = 0x7FFFFFFF;
  struct cursor {
    std::uint32_t next;          // its next node
    std::uint32_t turn;          // the first that it has not had
    std::uint32_t next_waiting;  // of the ranks that wait for the same node
  };
  buffer<std::uint32_t> turns(graph.size(), pending_bit | nobody);
  std::vector<cursor> ranks;
  std::vector<std::uint32_t> ready;
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    ranks.push_back(cursor{graph.lane_begin(rank), 0, nobody});
    ready.push_back(std::uint32_t(graph.ranks() - 1 - rank));
  }
  while (!ready.empty()) {
    auto const rank = ready.back();
    ready.pop_back();
    auto const begin = graph.lane_begin(int(rank));
    auto const end = graph.lane_end(int(rank));
    auto& at = ranks[rank];
    // Raises the rank's turn to where a node can run; false where that is not known yet.
    auto const await_inputs = [&](std::uint32_t node) {
      for (graph_link l : graph.links_in(node_id{node})) {
        if (l.node() >= begin && l.node() < at.next) continue;  // the program's order says it
        auto& other = turns[l.node()];
        if ((other & pending_bit) != 0) {
          at.next_waiting = other & ~pending_bit;
          other = pending_bit | rank;
          return false;
        }
        at.turn = std::max(at.turn, other + (AtOnce && l.node() < begin ? 0 : 1));
      }
      return true;
    };
    while (at.next < end) {
      auto const after = at.next + (graph.opens_pair(at.next, end) ? 2 : 1);
      if (!await_inputs(at.next) || (after > at.next + 1 && !await_inputs(at.next + 1))) break;
      for (; at.next < after; ++at.next) {
        for (auto waiting = turns[at.next] & ~pending_bit; waiting != nobody; waiting = ranks[waiting].next_waiting)
          ready.push_back(waiting);
        turns[at.next] = at.turn;
      }
      ++at.turn;
    }
  }
  for (int rank = 0; rank < graph.ranks(); ++rank)
    if (ranks[std::size_t(rank)].next < graph.lane_end(rank)) require_runnable(graph, execution_order(graph));
  return turns;
}

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
