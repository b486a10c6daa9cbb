// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// From a schedule to its communication plan: where each send and receive stands.

#include <concepts>
#include <utility>

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

namespace detail {

template <std::same_as<op_graph> Graph>
[[nodiscard]] constexpr communication_plan plan_communication(Graph const& graph, comm_policy policy,
                                                              communication_plan::parts reuse) {
  require(first_violation({at_most("policy", int(policy), int(comm_policy::grouped), "custom plans are read, not made"),
                           at_most("streams", graph.streams(), 1, "a plan is made before lowering to events")}));
  if (!graph.missing().empty()) require_runnable(graph, execution_order(graph));
  switch (policy) {
    case comm_policy::just_in_time: return plan_writer<comm_policy::just_in_time>(graph, std::move(reuse)).take();
    case comm_policy::parity: return plan_writer<comm_policy::parity>(graph, std::move(reuse)).take();
    case comm_policy::grouped: return plan_writer<comm_policy::grouped>(graph, std::move(reuse)).take();
    default: return plan_writer<comm_policy::eager>(graph, std::move(reuse)).take();
  }
}

}  // namespace detail

/// The communication plan of a graph of chunk ops. Skip connections and the user's own edges between different ranks
/// are messages like all others; ops on one rank exchange none. Time linear in ops and messages; grouped, where those
/// who exchange are no neighbours, times the logarithm of the ranks. 8 bytes an op while it is made.
///
/// Sources: eager is the lowering of torch.distributed.pipelining, whose rows for interleaved 1F1B are in its tests.
/// Parity and grouped are what Megatron-LM does between two ops, written once and for every schedule.
/// Under which transports each of them cannot hang: see `is_deadlock_free`.
/// Throws `schedule_error` where the schedule cannot run, `parameter_error` for `comm_policy::custom` and for a graph
/// of events.
///
/// Templates, as the one below, so that nothing of them is compiled where no plan is made.
/// \{
template <std::same_as<op_graph> Graph>
[[nodiscard]] constexpr communication_plan plan_communication(Graph const& graph,
                                                              comm_policy policy = comm_policy::eager) {
  return detail::plan_communication(graph, policy, {graph.where(), graph.microbatches(), policy});
}
/// In the memory of a plan that is no longer needed, where that is large enough.
template <std::same_as<op_graph> Graph>
[[nodiscard]] constexpr communication_plan plan_communication(Graph const& graph, communication_plan&& reuse,
                                                              comm_policy policy = comm_policy::eager) {
  return detail::plan_communication(graph, policy, std::move(reuse).take_parts());
}
/// \}

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
