// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// When each op starts and ends under a cost model.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/core/buffer.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/graph/op_graph.hpp>

namespace pipesched {
inline namespace v0 {

/// Start and end of every node, from 0, in the cost model's unit.
///
/// start(node) = max(end of the node before it on its stream, over incoming edges: end(from) + latency); an overlapped
/// pair starts when both members can, and ends at once. Two times a node.
template <time_value T>
class timeline {
 public:
  /// A timeline that shares `order`, which must outlive it.
  /// Throws `schedule_error` where the graph cannot run (a deadlock, a missing producer) and `parameter_error` for a
  /// duration or latency that is negative, not a number, or so long that times overflow.
  template <cost_model Cost>
  constexpr timeline(op_graph const& graph, execution_order const& order, Cost const& cost) : shared_(&order) {
    run(graph, cost);
  }
  /// The same in the memory of a timeline that is no longer needed, where that is large enough.
  template <cost_model Cost>
  constexpr timeline(op_graph const& graph, execution_order const& order, Cost const& cost, timeline&& reuse)
      : shared_(&order), start_(std::move(reuse.start_)), end_(std::move(reuse.end_)) {
    run(graph, cost);
  }
  /// A timeline that keeps its order.
  template <cost_model Cost>
  constexpr timeline(op_graph const& graph, execution_order&& order, Cost const& cost) : owned_(std::move(order)) {
    run(graph, cost);
  }

  [[nodiscard]] constexpr T start(node_id n) const noexcept { return start_[order().position(n)]; }
  [[nodiscard]] constexpr T end(node_id n) const noexcept { return end_[order().position(n)]; }
  [[nodiscard]] constexpr T duration(node_id n) const noexcept { return end(n) - start(n); }
  /// The last end.
  [[nodiscard]] constexpr T makespan() const noexcept { return makespan_; }

  /// The order of the steps, and the times in that order: the fast way through a large timeline.
  [[nodiscard]] constexpr execution_order const& order() const noexcept { return shared_ ? *shared_ : owned_; }
  [[nodiscard]] constexpr view<T> starts() const noexcept { return start_.view(); }
  [[nodiscard]] constexpr view<T> ends() const noexcept { return end_.view().first(start_.size()); }

 private:
  template <cost_model Cost>
  constexpr void run(op_graph const& graph, Cost const& cost) {
    auto const& order = this->order();
    require(check_cost(cost, graph.stages()));
    detail::require_runnable(graph, order);
    auto const steps = order.steps();
    start_.resize_uninitialised(steps.size());
    end_.resize_uninitialised(steps.size() + 1);
    T* const start = start_.data();
    T* const end = end_.data();
    duration_limit<T> const limit(2 * steps.size());
    detail::vector<T> clocks(std::size_t(graph.lanes()), T{0});  // the last end of each lane
    T* const clock = clocks.data();
    // Half of the steps wait for nothing. They read an end that no latency makes late: cheaper than to guess which.
    auto const size = std::uint32_t(steps.size());
    end[size] = -limit.longest();

    detail::prepared_cost<Cost> const times(cost);

    auto const arrival = [&](graph_link awaited, int rank) {
      auto const from = std::min(awaited.node(), size);
      T latency = 0;
      if constexpr (times.has_one_latency) {
        latency = awaited.remote() ? times.latency() : T{0};
      } else if (awaited.remote() && from != size) {
        latency = times.transfer_time(graph.rank_of_lane(steps[from].lane), rank);
        limit.check("latency", latency);
      }
      return end[from] + latency;
    };
    if constexpr (times.has_one_latency) limit.check("latency", times.latency());

    auto further = order.further_waits().begin();
    auto const no_further = order.further_waits().end();
    for (std::uint32_t at = 0; at < size; ++at) {
      // Nearly all steps are in no pair and have no further wait: a loop of their own, whose few variables are all in
      // registers, takes half the time.
      for (auto const plain = further == no_further ? size : further->position; at < plain; ++at) {
        step const s = steps[at];
        if (s.what.overlaps_next()) break;
        int const rank = graph.rank_of_lane(s.lane);
        T const begin = std::max(clock[s.lane], arrival(s.awaited, rank));
        T const duration = times.op_time(s.what, rank);
        limit.check("duration", duration);
        start[at] = begin;
        end[at] = begin + duration;
        clock[s.lane] = begin + duration;
      }
      if (at == size) break;

      step const& s = steps[at];
      int const rank = graph.rank_of_lane(s.lane);
      bool const pair = order.opens_pair(at);
      T begin = std::max(clock[s.lane], arrival(s.awaited, rank));
      if (pair) begin = std::max(begin, arrival(steps[at + 1].awaited, rank));
      for (; further != no_further && further->position <= at + pair; ++further)
        begin = std::max(begin, arrival(further->awaited, rank));
      T const duration =
          pair ? pipesched::pair_time(cost, s.what, steps[at + 1].what, rank) : times.op_time(s.what, rank);
      limit.check("duration", duration);
      std::fill_n(start + at, 1 + pair, begin);
      std::fill_n(end + at, 1 + pair, begin + duration);
      at += pair;
      clock[s.lane] = begin + duration;
    }
    makespan_ = *std::max_element(clocks.begin(), clocks.end());
  }

  execution_order const* shared_ = nullptr;
  execution_order owned_;
  detail::buffer<T> start_;  // by position in the order
  detail::buffer<T> end_;
  T makespan_ = 0;
};

/// The timeline of a graph whose order is at hand and outlives it; another cost model costs no new search.
template <cost_model Cost>
[[nodiscard]] constexpr timeline<time_of<Cost>> make_timeline(op_graph const& graph, execution_order const& order,
                                                              Cost const& cost) {
  return timeline<time_of<Cost>>(graph, order, cost);
}

/// In the memory of a timeline that is no longer needed, where that is large enough: of the last of many cost models.
template <cost_model Cost>
[[nodiscard]] constexpr timeline<time_of<Cost>> make_timeline(op_graph const& graph, execution_order const& order,
                                                              Cost const& cost, timeline<time_of<Cost>>&& reuse) {
  return timeline<time_of<Cost>>(graph, order, cost, std::move(reuse));
}

template <cost_model Cost>
[[nodiscard]] constexpr timeline<time_of<Cost>> make_timeline(op_graph const& graph, execution_order&& order,
                                                              Cost const& cost) {
  return timeline<time_of<Cost>>(graph, std::move(order), cost);
}

/// The timeline of a graph.
template <cost_model Cost>
[[nodiscard]] constexpr timeline<time_of<Cost>> make_timeline(op_graph const& graph, Cost const& cost) {
  return timeline<time_of<Cost>>(graph, execution_order(graph), cost);
}

}  // namespace v0
}  // namespace pipesched
