// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What keeps a graph from running, whether it comes from a schedule, was lowered to events, or was built by hand.

#include <cstddef>
#include <cstdint>

#include <pipesched/core/fault.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/graph/fault_list.hpp>
#include <pipesched/graph/op_graph.hpp>

namespace pipesched {
inline namespace v0 {

/// The ops that nodes need and that no rank runs, then the steps of a deadlock's cycle and what each blocked stream
/// waits for. Empty for a graph that runs to its end. Places are positions on a stream: `graph.program(rank,
/// graph.stream_of(n))[position]`. Time linear in nodes and edges.
///
/// Whether a graph has *all* ops that a step needs is a question about the schedule: `check(schedule)`.
[[nodiscard]] constexpr detail::vector<fault> check(op_graph const& graph, std::size_t max_faults = 10000) {
  detail::fault_list faults(max_faults);
  auto const place = [&](node_id n) {
    auto const lane = graph.lane_of(n);
    return program_place{graph.rank_of(n), std::int64_t{n.value} - graph.lane_begin(lane)};
  };
  for (auto const& m : graph.missing()) {
    bool const forward = m.expected.kind() == op_kind::forward;
    bool const of_weights = pass_of(graph.node(m.node).kind()) == pass::backward_weight;
    auto const kind = forward      ? fault_kind::missing_forward
                      : of_weights ? fault_kind::missing_input
                                   : fault_kind::missing_backward;
    program_place const nowhere{graph.where().rank_of(m.expected.stage(), m.expected.replica()), -1};
    faults.add({kind, m.expected, nowhere, graph.node(m.node), place(m.node)});
  }
  execution_order const order(graph);
  auto const report = [&](fault_kind kind, blocked_lane const& lane) {
    faults.add({kind, graph.node(lane.node), place(lane.node), graph.node(lane.awaited), place(lane.awaited)});
  };
  for (auto const& step : order.cycle(graph)) report(fault_kind::deadlock, step);
  for (auto const& lane : order.blocked()) report(fault_kind::blocked_rank, lane);
  return faults.take();
}

}  // namespace v0
}  // namespace pipesched
