// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Everything that is wrong with a schedule, in one pass.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/concepts.hpp>
#include <pipesched/core/fault.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/graph/check_structure.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/graph/fault_list.hpp>
#include <pipesched/graph/op_graph.hpp>

namespace pipesched {
inline namespace v0 {

/// How a schedule is checked.
struct check_options {
  /// Skip connections and edges of the user's own, which an order must also keep to.
  graph_options graph = {};
  /// The most faults that are listed; one more says how many there are beside.
  std::size_t max_faults = 10000;
};

namespace detail {

/// Reports each op that needs one which comes later on its own rank, or in its own pair, and marks it.
constexpr void check_order_on_ranks(schedule const& s, op_graph const& graph, fault_list& faults,
                                    buffer<bool>& redundant) {
  for (int lane = 0; lane < graph.lanes(); ++lane) {
    auto const begin = graph.lane_begin(lane);
    auto const end = graph.lane_end(lane);
    for (auto block = begin; block < end;) {
      auto const after = block + (graph.opens_pair(block, end) ? 2 : 1);
      for (auto node = block; node < after; ++node)
        for (graph_link l : graph.links_in(node_id{node}))
          if (!l.remote() && l.node() >= block && !redundant[node]) {
            faults.add({fault_kind::order_on_rank, s.ops()[node], place_of(s, node), s.ops()[l.node()],
                        place_of(s, l.node())});
            redundant[node] = true;
          }
      block = after;
    }
  }
}

/// The ops that are not redundant; `origin` says which entry of `schedule::ops()` each of them was.
[[nodiscard]] constexpr schedule without(schedule const& s, buffer<bool> const& redundant,
                                         vector<std::uint32_t>& origin) {
  vector<vector<op>> programs;
  for (int rank = 0; rank < s.ranks(); ++rank) {
    vector<op> program;
    auto const first = s.offsets()[std::size_t(rank)];
    for (std::size_t i = 0; i < s.program(rank).size(); ++i) {
      if (redundant[first + i]) {
        if (!program.empty() && i > 0 && !redundant[first + i - 1]) program.back() = program.back().alone();
        continue;
      }
      program.push_back(s.program(rank)[i]);
      origin.push_back(std::uint32_t(first + i));
    }
    programs.push_back(program);
  }
  return schedule(s.where(), s.microbatches(), programs);
}

/// Reports the cycle, if the graph has one, and what each rank that cannot go on waits for. `origin` leads from the
/// graph's nodes to the entries of `schedule::ops()`; empty where they are the same.
constexpr void check_deadlock(schedule const& s, op_graph const& graph, view<std::uint32_t> origin,
                              fault_list& faults) {
  execution_order const order(graph);
  if (order.complete()) return;
  auto const report = [&](fault_kind kind, blocked_lane const& lane) {
    auto const place = [&](node_id n) { return place_of(s, origin.empty() ? n.value : origin[n.value]); };
    faults.add({kind, graph.node(lane.node), place(lane.node), graph.node(lane.awaited), place(lane.awaited)});
  };
  for (auto const& step : order.cycle(graph)) report(fault_kind::deadlock, step);
  for (auto const& lane : order.blocked()) report(fault_kind::blocked_rank, lane);
}

}  // namespace detail

/// Everything that is wrong with a schedule: ops that are missing, doubled, of a wrong kind or on a wrong rank;
/// backwards that do not pair up; an order on a rank, or between ranks, that cannot run. Empty for one that can train,
/// or that runs forward only. One pass finds all independent faults: what already has a fault is set aside before a
/// deadlock is looked for. Time linear in the ops where the ids have no wide gaps.
/// Throws `parameter_error` for a skip connection or an edge that does not exist.
[[nodiscard]] constexpr detail::vector<fault> check(schedule const& s, check_options const& options = {}) {
  detail::fault_list faults(options.max_faults);
  detail::buffer<bool> redundant(s.ops().size(), false);
  detail::check_each_op(s, faults);
  detail::completeness_check(s, faults).run(redundant);

  auto const graph = build_graph(s, options.graph);
  detail::check_order_on_ranks(s, graph, faults, redundant);
  if (std::any_of(redundant.begin(), redundant.end(), [](bool r) { return r; })) {
    detail::vector<std::uint32_t> origin;
    auto const rest = detail::without(s, redundant, origin);
    auto options_of_rest = options.graph;
    options_of_rest.edges.clear();  // their ends may be among what is set aside
    detail::check_deadlock(s, build_graph(rest, options_of_rest), origin, faults);
  } else {
    detail::check_deadlock(s, graph, {}, faults);
  }
  return faults.take();
}

/// The same of the schedule that `generator` makes. Throws `parameter_error` where its own check fails.
template <schedule_generator G>
[[nodiscard]] constexpr detail::vector<fault> check(G const& generator, check_options const& options = {}) {
  return check(generate(generator), options);
}

/// Whether nothing is wrong: `static_assert(is_valid(mine{.ranks = 4, .microbatches = 8}))`.
template <class Schedule>
[[nodiscard]] constexpr bool is_valid(Schedule const& s) {
  return check(s).empty();
}

}  // namespace v0
}  // namespace pipesched
