// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// From a schedule to its communication plan: where each send and receive stands.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/concepts.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/graph/communication_plan.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/graph/op_graph.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// A set of ranks that is walked in ascending order.
class rank_set {
 public:
  constexpr explicit rank_set(int ranks) : words_((std::size_t(ranks) + 63) / 64, 0) {}

  constexpr void insert(int rank) noexcept { words_[std::size_t(rank) / 64] |= std::uint64_t{1} << (rank % 64); }

  /// Takes out the lowest rank that is at least `from`; -1 where there is none.
  constexpr int take(int from) noexcept {
    auto word = std::size_t(from) / 64;
    if (word >= words_.size()) return -1;
    auto bits = words_[word] & (~std::uint64_t{0} << (from % 64));
    while (bits == 0) {
      if (++word == words_.size()) return -1;
      bits = words_[word];
    }
    int const bit = std::countr_zero(bits);
    words_[word] &= ~(std::uint64_t{1} << bit);
    return int(word * 64) + bit;
  }

 private:
  std::vector<std::uint64_t> words_;
};

/// Writes the rows of a plan, policy by policy.
class plan_writer {
 public:
  constexpr plan_writer(op_graph const& graph, comm_policy policy)
      : graph_(&graph),
        plan_{graph.where(), graph.microbatches(), policy},
        first_message_(graph.size() + 1),
        position_(graph.size()) {
    list_messages();
  }

  /// The receives directly before their consumer.
  constexpr void lower_just_in_time() {
    for (int rank = 0; rank < graph_->ranks(); ++rank)
      for (auto node = graph_->lane_begin(rank); node < graph_->lane_end(rank);) {
        auto const after = end_of_block(rank, node);
        for (auto n = node; n < after; ++n)
          for (graph_link l : graph_->links_in(node_id{n}))
            if (l.remote()) append_receive(message_between(l.node(), n));
        append_block(rank, node, after);
        for (auto id = first_message_[node]; id < first_message_[after]; ++id) append_send(id);
        node = after;
      }
  }

  /// Sweeps over the ranks in ascending order; each runs its next op where what it needs has been sent. `deliver`, if
  /// at once, puts each message into both rows when its producer has run, so that the ranks after it in the sweep have
  /// it already; else at the end of the sweep, in the order that `in_order` gives to the messages of the sweep.
  ///
  /// Both ends of a message enter their rows at one moment. So the moments are one order of all messages that every row
  /// follows, with the producer before and the consumer after each: the first message of it that has not passed is
  /// next on both its ranks, whatever queues there are, and no transport hangs.
  template <class InOrder>
  constexpr void lower_in_sweeps(bool at_once, InOrder&& in_order) {
    int const ranks = graph_->ranks();
    std::vector<std::uint32_t> next;
    rank_set now(ranks);
    rank_set later(ranks);
    buffer<std::uint8_t> has_run(graph_->size(), 0);
    std::vector<std::uint32_t> to_send;
    std::vector<std::uint32_t> to_mark;
    for (int rank = 0; rank < ranks; ++rank) {
      next.push_back(graph_->lane_begin(rank));
      later.insert(rank);
    }
    bool running = true;
    while (running) {
      running = false;
      std::swap(now, later);
      for (int rank = now.take(0); rank >= 0; rank = now.take(rank + 1)) {
        auto& node = next[std::size_t(rank)];
        if (node == graph_->lane_end(rank)) continue;
        auto const after = end_of_block(rank, node);
        if (!is_ready(has_run, node, after)) continue;  // the message that it waits for brings it back
        running = true;
        append_block(rank, node, after);
        later.insert(rank);
        for (auto id = first_message_[node]; id < first_message_[after]; ++id) {
          if (!at_once) {
            to_send.push_back(id);
            continue;
          }
          append_send(id);
          append_receive(id);
          int const receiver = plan_.messages[id].to_rank;
          (receiver > rank ? now : later).insert(receiver);
        }
        for (; node < after; ++node)
          if (at_once)
            has_run[node] = 1;
          else
            to_mark.push_back(node);
      }
      if (at_once) continue;
      in_order(to_send);
      for (auto id : to_send) later.insert(plan_.messages[id].to_rank);
      for (auto node : to_mark) has_run[node] = 1;
      to_send.clear();
      to_mark.clear();
    }
    for (int rank = 0; rank < ranks; ++rank)
      if (next[std::size_t(rank)] != graph_->lane_end(rank)) require_runnable(*graph_, execution_order(*graph_));
  }

  /// Even ranks send first, then odd ones.
  constexpr void exchange_by_parity(std::vector<std::uint32_t> const& ids) {
    for (int parity : {0, 1})
      for (auto id : ids)
        if (plan_.messages[id].from_rank % 2 == parity) {
          append_send(id);
          append_receive(id);
        }
  }

  /// Pairs of ranks one after another, those that an even rank begins first: neighbours exchange in two rounds. The
  /// messages between two ranks are one group.
  constexpr void exchange_in_groups(std::vector<std::uint32_t>& ids) {
    auto const ends = [&](std::uint32_t id) {
      auto const& m = plan_.messages[id];
      return std::pair{std::uint32_t(std::min(m.from_rank, m.to_rank)),
                       std::uint32_t(std::max(m.from_rank, m.to_rank))};
    };
    auto const key = [&](std::uint32_t id) {
      auto const [low, high] = ends(id);
      return std::uint64_t{low % 2} << 63 | std::uint64_t{low} << 32 | high;
    };
    std::sort(ids.begin(), ids.end(), [&](auto a, auto b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
    for (std::size_t i = 0; i < ids.size(); ++i) {
      bool const group_goes_on = i + 1 < ids.size() && key(ids[i]) == key(ids[i + 1]);
      append_send(ids[i], group_goes_on);
      append_receive(ids[i], group_goes_on);
    }
  }

  [[nodiscard]] constexpr communication_plan take() {
    for (auto& m : plan_.messages) {
      m.producer = position_[m.producer];
      m.consumer = position_[m.consumer];
    }
    return communication_plan(std::move(plan_));
  }

 private:
  /// Messages in the order of their producers, and the length of every row.
  constexpr void list_messages() {
    plan_.messages = buffer<message>(graph_->link_count());  // a bound, of which only what is used is touched
    std::vector<std::uint32_t> length(std::size_t(graph_->ranks()), 0);
    std::uint32_t count = 0;
    for (int rank = 0; rank < graph_->ranks(); ++rank) {
      length[std::size_t(rank)] += graph_->lane_end(rank) - graph_->lane_begin(rank);
      for (auto n = graph_->lane_begin(rank); n < graph_->lane_end(rank); ++n) {
        first_message_[n] = count;
        for (graph_link l : graph_->links_out(node_id{n})) {
          if (!l.remote() || is_listed(first_message_[n], count, l.node())) continue;
          auto const to = rank_holding(l.node());
          // The places of all ops are known when the rows are written; until then, their nodes.
          plan_.messages[count++] = message{n, 0, 0, l.node(), rank, to, l.kind()};
          ++length[std::size_t(rank)];
          ++length[std::size_t(to)];
        }
      }
    }
    first_message_[graph_->size()] = count;
    plan_.messages.resize_uninitialised(count);
    plan_.row_begin.assign(1, 0);
    for (auto l : length) {
      row_end_.push_back(plan_.row_begin.back());
      plan_.row_begin.push_back(plan_.row_begin.back() + l);
    }
    plan_.entries = buffer<plan_entry>(plan_.row_begin.back());
  }

  /// The rank of a node: where the placement says, but for a schedule that keeps to another one.
  [[nodiscard]] constexpr int rank_holding(std::uint32_t node) const noexcept {
    op const o = graph_->node(node_id{node});
    int const placed = graph_->where().rank_of(o.stage(), o.replica());
    if (node >= graph_->lane_begin(placed) && node < graph_->lane_end(placed)) return placed;
    return graph_->rank_of(node_id{node});
  }

  /// Whether a producer's messages, which are few, have one to `consumer`: one tensor is sent once.
  [[nodiscard]] constexpr bool is_listed(std::uint32_t begin, std::uint32_t end,
                                         std::uint32_t consumer) const noexcept {
    while (begin < end && plan_.messages[begin].consumer != consumer) ++begin;
    return begin < end;
  }
  [[nodiscard]] constexpr std::uint32_t message_between(std::uint32_t producer, std::uint32_t consumer) const noexcept {
    auto id = first_message_[producer];
    while (plan_.messages[id].consumer != consumer) ++id;
    return id;
  }

  [[nodiscard]] constexpr std::uint32_t end_of_block(int rank, std::uint32_t node) const noexcept {
    return node + (graph_->opens_pair(node, graph_->lane_end(rank)) ? 2 : 1);
  }
  [[nodiscard]] constexpr bool is_ready(buffer<std::uint8_t> const& has_run, std::uint32_t node,
                                        std::uint32_t after) const noexcept {
    for (; node < after; ++node)
      for (graph_link l : graph_->links_in(node_id{node}))
        if (!has_run[l.node()]) return false;
    return true;
  }

  constexpr std::uint32_t append(int rank, plan_entry entry) noexcept {
    auto const position = row_end_[std::size_t(rank)]++;
    plan_.entries[position] = entry;
    return position;
  }
  constexpr void append_block(int rank, std::uint32_t node, std::uint32_t after) noexcept {
    for (; node < after; ++node)
      position_[node] = append(rank, plan_entry{graph_->node(node_id{node}), plan_entry::no_message, false});
  }
  constexpr void append_send(std::uint32_t id, bool grouped_with_next = false) noexcept {
    auto& m = plan_.messages[id];
    op const producer = graph_->node(node_id{m.producer});
    auto const kind = is_forward(producer) ? op_kind::send_forward : op_kind::send_backward;
    m.send = append(m.from_rank, plan_entry{producer.as(kind), id, grouped_with_next});
  }
  constexpr void append_receive(std::uint32_t id, bool grouped_with_next = false) noexcept {
    auto& m = plan_.messages[id];
    auto const kind = is_forward(graph_->node(node_id{m.producer})) ? op_kind::recv_forward : op_kind::recv_backward;
    m.receive = append(m.to_rank, plan_entry{graph_->node(node_id{m.consumer}).as(kind), id, grouped_with_next});
  }
  [[nodiscard]] static constexpr bool is_forward(op producer) noexcept {
    return pass_of(producer.kind()) == pass::forward;
  }

  op_graph const* graph_;
  communication_plan::parts plan_;
  buffer<std::uint32_t> first_message_;  // by node; nodes + 1
  buffer<std::uint32_t> position_;       // by node: its entry
  std::vector<std::uint32_t> row_end_;   // as far as the rows are written
};

}  // namespace detail

/// The communication plan of a graph of chunk ops. Skip connections and the user's own edges between different ranks
/// are messages like all others; ops on one rank exchange none. Time linear in ops and messages (grouped: n log n in
/// the messages of one step of the pipeline, which are as many as the ranks).
///
/// Sources: eager is the lowering of torch.distributed.pipelining, whose rows for interleaved 1F1B are in its tests.
/// Parity and grouped are what Megatron-LM does between two ops, written once and for every schedule.
/// Under which transports each of them cannot hang: see `is_deadlock_free`.
/// Throws `schedule_error` where the schedule cannot run, `parameter_error` for `comm_policy::custom` and for a graph
/// of events.
[[nodiscard]] constexpr communication_plan plan_communication(op_graph const& graph,
                                                              comm_policy policy = comm_policy::eager) {
  require(first_violation({at_most("policy", int(policy), int(comm_policy::grouped), "custom plans are read, not made"),
                           at_most("streams", graph.streams(), 1, "a plan is made before lowering to events")}));
  if (!graph.missing().empty()) detail::require_runnable(graph, execution_order(graph));
  detail::plan_writer writer(graph, policy);
  switch (policy) {
    case comm_policy::eager: writer.lower_in_sweeps(true, [](auto&) {}); break;
    case comm_policy::parity: writer.lower_in_sweeps(false, [&](auto& ids) { writer.exchange_by_parity(ids); }); break;
    case comm_policy::grouped: writer.lower_in_sweeps(false, [&](auto& ids) { writer.exchange_in_groups(ids); }); break;
    case comm_policy::just_in_time:
    case comm_policy::custom:
      detail::require_runnable(graph, execution_order(graph));
      writer.lower_just_in_time();
      break;
  }
  return writer.take();
}

/// The communication plan of a schedule. Throws as above, and `parameter_error` as `build_graph` does.
[[nodiscard]] constexpr communication_plan plan_communication(schedule const& s,
                                                              comm_policy policy = comm_policy::eager,
                                                              graph_options const& options = {}) {
  return plan_communication(build_graph(s, options), policy);
}

/// The communication plan of the schedule that `generator` makes.
template <schedule_generator G>
[[nodiscard]] constexpr communication_plan plan_communication(G const& generator,
                                                              comm_policy policy = comm_policy::eager,
                                                              graph_options const& options = {}) {
  return plan_communication(generate(generator), policy, options);
}

}  // namespace v0
}  // namespace pipesched
