// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// From a schedule to its communication plan: where each send and receive stands.

#include <concepts>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/graph/communication_plan.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/graph/plan_writer.hpp>

namespace pipesched {
inline namespace v0 {

/// The communication plan of a graph of chunk ops. Skip connections and the user's own edges between different ranks
/// are messages like all others; ops on one rank exchange none. Time linear in ops and messages, times the logarithm of
/// a rank's number of peers.
///
/// Sources: eager is the lowering of torch.distributed.pipelining, whose rows for interleaved 1F1B are in its tests.
/// Parity and grouped are what Megatron-LM does between two ops, written once and for every schedule.
/// Under which transports each of them cannot hang: see `is_deadlock_free`.
/// Throws `schedule_error` where the schedule cannot run, `parameter_error` for `comm_policy::custom` and for a graph
/// of events.
///
/// A template, as the one below, so that nothing of it is compiled where no plan is made.
template <std::same_as<op_graph> Graph>
[[nodiscard]] constexpr communication_plan plan_communication(Graph const& graph,
                                                              comm_policy policy = comm_policy::eager) {
  require(first_violation({at_most("policy", int(policy), int(comm_policy::grouped), "custom plans are read, not made"),
                           at_most("streams", graph.streams(), 1, "a plan is made before lowering to events")}));
  if (!graph.missing().empty()) detail::require_runnable(graph, execution_order(graph));
  switch (policy) {
    case comm_policy::just_in_time: return detail::plan_writer<comm_policy::just_in_time>(graph).take();
    case comm_policy::parity: return detail::plan_writer<comm_policy::parity>(graph).take();
    case comm_policy::grouped: return detail::plan_writer<comm_policy::grouped>(graph).take();
    default: return detail::plan_writer<comm_policy::eager>(graph).take();
  }
}

/// The communication plan of a schedule, or of the one that a generator makes. Throws as above, and `parameter_error`
/// as `build_graph` does.
template <class Source>
  requires(std::same_as<Source, schedule> || schedule_generator<Source>)
[[nodiscard]] constexpr communication_plan plan_communication(Source const& source,
                                                              comm_policy policy = comm_policy::eager,
                                                              graph_options const& options = {}) {
  return plan_communication(build_graph(source, options), policy);
}

}  // namespace v0
}  // namespace pipesched
