// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Drives one rank's lowered program: a compute stream and the streams of its communication beside it.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <pipesched/analysis/timeline.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/graph/moe_events.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/runtime/handler.hpp>

namespace pipesched {
inline namespace v0 {

/// A node of a lowered graph as a handler sees it.
struct event {
  op what;
  int layer;              ///< within its chunk
  std::uint32_t message;  ///< of a send, and of the receive on the other rank: unique in the step, equal at both ends
  int peer;               ///< the rank at the other end of a message; -1 for other events
};

/// Runs the events of a rank, for an lvalue `h` and an `event e`:
///  - `h.compute(e)`: attention or MLP; returns when it is done, or in the compute stream;
///  - `h.start(e)`: begins a dispatch or combine (an all-to-all), or a send to another pipeline rank, and returns;
///  - `h.finish(e)`: until what `start(e)` began has ended; a dependent event is next;
///  - `h.receive(e)`: until the result of another pipeline rank is there; `e.what` is the SEND that brings it.
/// Answers, exceptions, and the optional `before`, `after` and `stop` are those of `compute_handler`; for a dispatch,
/// combine or send, `before` comes before its `start` and `after` after its `finish`.
template <class H>
concept event_handler = requires(H& h, event const& e) {
  h.compute(e);
  h.start(e);
  h.finish(e);
  h.receive(e);
};

/// What one rank runs of a lowered graph, in the order of a timeline. All ranks must use timelines of equal times: then
/// they follow one order of all events in which each waits for earlier ones alone, and no rank hangs; and the members
/// of an expert-parallel group, which run the same program, issue their collectives in one order.
class event_program {
 public:
  /// The graph must outlive the program. Throws `parameter_error` for a rank that the graph does not have.
  template <time_value T>
  event_program(op_graph const& lowered, execution_order const& order, timeline<T> const& times, int rank)
      : graph_(&lowered),
        rank_(checked(lowered, rank)),
        first_(lowered.lane_begin(lowered.lane_of(rank, stream::compute))),
        after_(lowered.lane_end(lowered.lane_of(rank, stream(lowered.streams() - 1)))) {
    for (auto n = first_; n < after_; ++n) nodes_.push_back(n);
    std::sort(nodes_.begin(), nodes_.end(), [&](std::uint32_t a, std::uint32_t b) {
      auto const start_a = times.start(node_id{a});
      auto const start_b = times.start(node_id{b});
      return start_a != start_b ? start_a < start_b : order.position(node_id{a}) < order.position(node_id{b});
    });
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] op_graph const& graph() const noexcept { return *graph_; }
  /// The rank's nodes in the order in which they are run at the latest; communication may start earlier.
  [[nodiscard]] view<std::uint32_t> nodes() const noexcept { return nodes_; }
  /// The rank's nodes are [first_node(), after_last_node()).
  [[nodiscard]] std::uint32_t first_node() const noexcept { return first_; }
  [[nodiscard]] std::uint32_t after_last_node() const noexcept { return after_; }

  [[nodiscard]] event event_at(std::uint32_t node) const noexcept {
    node_id const n{node};
    op const what = graph_->node(n);
    bool const is_own = node >= first_ && node < after_;
    auto const to = graph_->links_out(n);
    int peer = -1;
    if (!is_own)
      peer = graph_->rank_of(n);
    else if (stream_of(what.kind()) == stream::p2p && !to.empty())
      peer = graph_->rank_of(node_id{to.front().node()});
    return {what, graph_->layer(n), node, peer};
  }

 private:
  [[nodiscard]] static int checked(op_graph const& graph, int rank) {
    require(first_violation({at_least("rank", rank, 0), at_most("rank", rank, graph.ranks() - 1, "ranks - 1")}));
    return rank;
  }

  op_graph const* graph_;
  int rank_;
  std::uint32_t first_;
  std::uint32_t after_;
  detail::vector<std::uint32_t> nodes_;
};

namespace detail {

/// One run of one rank's events.
template <event_handler Handler>
class event_run {
 public:
  event_run(event_program const& program, Handler& handler, run_report& report)
      : program_(program),
        graph_(program.graph()),
        handler_(handler),
        report_(report),
        state_(program.after_last_node() - program.first_node(), state::ahead),
        position_(state_.size()) {
    for (std::size_t i = 0; i < position_.size(); ++i) position_[program.nodes()[i] - program.first_node()] = i;
    for (auto s : {stream::all_to_all, stream::p2p})
      if (int(s) < graph_.streams()) {
        auto const lane = graph_.lane_of(program.rank(), s);
        lanes_.push_back({graph_.lane_begin(lane), graph_.lane_end(lane)});
      }
  }

  [[nodiscard]] run_status all() {
    auto const nodes = program_.nodes();
    for (auto node : nodes) {
      if (state_of(node) != state::ahead) continue;
      if (auto const status = run(node); status != run_status::completed) return status;
      if (auto const status = start_what_is_ready(); status != run_status::completed) return status;
    }
    for (auto node : nodes)
      if (auto const status = settle(node); status != run_status::completed) return status;
    return run_status::completed;
  }

 private:
  enum class state : std::uint8_t { ahead, started, done };

  /// The nodes of a communication stream that have not been started.
  struct lane_rest {
    std::uint32_t next;
    std::uint32_t end;
  };

  [[nodiscard]] bool is_own(std::uint32_t node) const noexcept {
    return node >= program_.first_node() && node < program_.after_last_node();
  }
  state& state_of(std::uint32_t node) noexcept { return state_[node - program_.first_node()]; }
  void stand_at(std::uint32_t node) noexcept {
    report_.position = position_[node - program_.first_node()];
    report_.at = graph_.node(node_id{node});
  }
  [[nodiscard]] bool is_received(std::uint32_t node) const noexcept {
    return std::find(received_.begin(), received_.end(), node) != received_.end();
  }

  /// Waits for what a node needs, then computes it or starts it.
  [[nodiscard]] run_status run(std::uint32_t node) {
    for (graph_link l : graph_.links_in(node_id{node})) {
      auto const status = is_own(l.node()) ? settle(l.node()) : receive(l.node(), node);
      if (status != run_status::completed) return status;
    }
    forget_received(node);
    if (stream_of(graph_.node(node_id{node}).kind()) == stream::compute) return compute(node);
    return start(node);
  }

  [[nodiscard]] run_status compute(std::uint32_t node) {
    stand_at(node);
    state_of(node) = state::done;
    auto const e = program_.event_at(node);
    return with_hooks(handler_, e, [&] { return status_of([&] { return handler_.compute(e); }); });
  }

  [[nodiscard]] run_status start(std::uint32_t node) {
    stand_at(node);
    state_of(node) = state::started;
    auto const e = program_.event_at(node);
    auto const status = before(handler_, e);
    return status == run_status::completed ? status_of([&] { return handler_.start(e); }) : status;
  }

  /// Until a node that has been started has ended.
  [[nodiscard]] run_status settle(std::uint32_t node) {
    if (state_of(node) != state::started) return run_status::completed;
    stand_at(node);
    state_of(node) = state::done;
    auto const e = program_.event_at(node);
    auto const status = status_of([&] { return handler_.finish(e); });
    if (status == run_status::timed_out && e.peer >= 0)
      report_.reason = "not received by rank " + std::to_string(e.peer);
    return status == run_status::completed ? after(handler_, e) : status;
  }

  /// Until the result that another rank's `send` brings is there. Several events of a chunk may need it.
  [[nodiscard]] run_status receive(std::uint32_t send, std::uint32_t consumer) {
    if (is_received(send)) return run_status::completed;
    stand_at(consumer);
    auto const e = program_.event_at(send);
    received_.push_back(send);
    auto const status = status_of([&] { return handler_.receive(e); });
    if (status == run_status::timed_out) report_.reason = "no message from rank " + std::to_string(e.peer);
    return status;
  }

  /// `received_` holds the few results that further events of their chunk still need.
  void forget_received(std::uint32_t consumer) {
    std::erase_if(received_, [&](std::uint32_t send) {
      auto const to = graph_.links_out(node_id{send});
      return std::all_of(to.begin(), to.end(),
                         [&](graph_link l) { return l.node() == consumer || state_of(l.node()) != state::ahead; });
    });
  }

  /// Starts the communication whose inputs are there, so that it runs beside the next computation. It waits for
  /// nothing, and so what it starts follows from the program alone and is the same on every expert-parallel rank.
  [[nodiscard]] run_status start_what_is_ready() {
    for (auto& lane : lanes_)
      for (; lane.next < lane.end; ++lane.next) {
        if (state_of(lane.next) != state::ahead) continue;
        auto const inputs = graph_.links_in(node_id{lane.next});
        bool const ready = std::all_of(inputs.begin(), inputs.end(), [&](graph_link l) {
          return is_own(l.node()) ? state_of(l.node()) == state::done : is_received(l.node());
        });
        if (!ready) break;
        forget_received(lane.next);
        if (auto const status = start(lane.next); status != run_status::completed) return status;
      }
    return run_status::completed;
  }

  event_program const& program_;
  op_graph const& graph_;
  Handler& handler_;
  run_report& report_;
  vector<state> state_;           // of the rank's nodes
  vector<std::size_t> position_;  // the same
  vector<lane_rest> lanes_;
  std::vector<std::uint32_t> received_;  // sends of other ranks
};

}  // namespace detail

/// Runs the events of one rank. Computation runs in the order of the program; a dispatch, combine or send starts as
/// soon as its inputs are computed and its stream's earlier events have started, and is finished right before the first
/// event that needs it. So communication is under way while the other chunk of an overlapped pair computes. Returns and
/// reports as the runs of chunk programs do; `position` is that in `event_program::nodes()`.
template <event_handler Handler>
run_report run(event_program const& program, Handler& handler) {
  return detail::guarded(program.rank(), handler, [&](run_report& report) {
    return detail::event_run<Handler>(program, handler, report).all();
  });
}

}  // namespace v0
}  // namespace pipesched
