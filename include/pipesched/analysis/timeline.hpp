// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// When each op starts and ends under a cost model.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/core/buffer.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/graph/op_graph.hpp>

namespace pipesched {
inline namespace v0 {

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

/// Start and end of every node, from 0, in the cost model's unit.
///
/// start(node) = max(end of the node before it on its stream, over incoming edges: end(from) + latency); an overlapped
/// pair starts when both members can, and ends at once.
template <time_value T>
class timeline {
 public:
  /// Throws `schedule_error` where the graph cannot run (a deadlock, a missing producer) and `parameter_error` for a
  /// duration or latency that is negative, not a number, or so long that times overflow.
  template <cost_model Cost>
  constexpr timeline(op_graph const& graph, execution_order const& order, Cost const& cost)
      : start_(graph.size()), end_(graph.size()) {
    detail::require_runnable(graph, order);
    auto const nodes = order.nodes();
    auto const lanes = order.lanes();
    int const streams = graph.streams();
    std::vector<T> clock(std::size_t(graph.lanes()), T{0});

    auto const ready = [&](std::uint32_t node, int rank, T time) {
      for (link l : graph.links_in(node_id{node})) {
        T arrival = end_[l.node()];
        if (l.remote())
          arrival += checked_duration("latency", transfer_time(cost, graph.rank_of(node_id{l.node()}), rank),
                                      2 * graph.size());
        time = std::max(time, arrival);
      }
      return time;
    };

    for (std::size_t at = 0; at < nodes.size(); ++at) {
      auto const node = nodes[at];
      auto const lane = lanes[at];
      int const rank = int(lane) / streams;
      op const o = graph.node(node_id{node});
      bool const pair = graph.opens_pair(node, graph.lane_end(int(lane)));
      T start = ready(node, rank, clock[lane]);
      if (pair) start = ready(node + 1, rank, start);
      T const duration =
          pair ? pipesched::pair_time(cost, o, graph.node(node_id{node + 1}), rank) : op_time(cost, o, rank);
      T const end = start + checked_duration("duration", duration, 2 * graph.size());
      start_[node] = start;
      end_[node] = end;
      if (pair) {
        start_[node + 1] = start;
        end_[node + 1] = end;
        ++at;
      }
      clock[lane] = end;
      makespan_ = std::max(makespan_, end);
    }
  }

  [[nodiscard]] constexpr T start(node_id n) const noexcept { return start_[n.value]; }
  [[nodiscard]] constexpr T end(node_id n) const noexcept { return end_[n.value]; }
  [[nodiscard]] constexpr T duration(node_id n) const noexcept { return end_[n.value] - start_[n.value]; }
  /// The last end.
  [[nodiscard]] constexpr T makespan() const noexcept { return makespan_; }
  [[nodiscard]] constexpr std::size_t size() const noexcept { return start_.size(); }

 private:
  detail::buffer<T> start_;
  detail::buffer<T> end_;
  T makespan_ = 0;
};

/// The timeline of a graph whose order is at hand; another cost model costs no new search for it.
template <cost_model Cost>
[[nodiscard]] constexpr timeline<time_of<Cost>> make_timeline(op_graph const& graph, execution_order const& order,
                                                              Cost const& cost) {
  return timeline<time_of<Cost>>(graph, order, cost);
}

/// The timeline of a graph.
template <cost_model Cost>
[[nodiscard]] constexpr timeline<time_of<Cost>> make_timeline(op_graph const& graph, Cost const& cost) {
  return make_timeline(graph, execution_order(graph), cost);
}

}  // namespace v0
}  // namespace pipesched
