// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Puts the sends and receives of a graph into its rows, policy by policy.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/prefetch.hpp>
#include <pipesched/core/sort.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/communication_plan.hpp>
#include <pipesched/graph/count_messages.hpp>
#include <pipesched/graph/edge.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/graph/rank_set.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Writes the rows of a plan as torch's greedy lowering does: ranks take turns in ascending order, and each runs its
/// next op or overlapped pair, if all messages to it are there, and sends what comes of it. A rank for which something
/// is missing takes no turns until that has come, so that the time is in proportion to ops and messages, not to turns.
///
/// What the policies differ in is when a message is written into the two rows. All but just in time write both ends of
/// it at once, after its producer and before its consumer. Then the order in which messages are written is one that
/// every row follows: the first message of it that has not passed is next on both its ranks, whatever queues there are,
/// and no transport hangs.
template <comm_policy Policy>
class plan_writer {
 public:
  /// In the memory of `reuse`. Throws `schedule_error` where some ops never run.
  constexpr plan_writer(op_graph const& graph, communication_plan::parts reuse)
      : graph_(graph),
        plan_(std::move(reuse)),
        counts_(graph),
        active_(graph.ranks()),
        ops_(graph.nodes().data()),
        places_out_(graph.places_out_of_nodes()),
        nodes_(counts_.nodes.data()) {
    plan_.where = graph.where();
    plan_.microbatches = graph.microbatches();
    plan_.policy = Policy;
    lay_out();
    while (!active_.empty()) take_turns();
    for (int rank = 0; rank < graph.ranks(); ++rank)
      if (ranks_[rank].node < ranks_[rank].end) require_runnable(graph, execution_order(graph));
  }

  [[nodiscard]] constexpr communication_plan take() { return communication_plan(std::move(plan_)); }

 private:
  // What a rank sends is there for those whose turn comes after its own; else all run before any of them sends.
  static constexpr bool sends_at_once = Policy == comm_policy::eager || Policy == comm_policy::just_in_time;
  // Both ends of a message are written as soon as it is sent.
  static constexpr bool writes_at_once = Policy == comm_policy::eager || Policy == comm_policy::parity;

  static constexpr std::uint32_t no_message = plan_entry::no_message;
  static constexpr std::uint32_t no_node = 0xFFFFFFFF;

  /// Where a rank is. 32 bytes, which is found by a shift.
  struct rank_state {
    std::uint32_t begin;    // its first node
    std::uint32_t end;      // one past its last
    std::uint32_t node;     // its next one
    std::uint32_t entry;    // where the next entry of its row goes
    std::uint32_t message;  // the id of the next one that it sends
    std::uint32_t stuck;    // the node for which something is missing, or `no_node`
    std::uint32_t unused[2];
  };
  /// An op or an overlapped pair that has run.
  struct block {
    std::uint32_t rank;
    std::uint32_t node;
    std::uint32_t members;
    std::uint32_t entry;  // of the first member; the other's is the next
  };

  constexpr void lay_out() {
    for (int replica = 0; replica < graph_.where().replicas(); ++replica)
      for (int stage = 0; stage < graph_.stages(); ++stage)
        home_.push_back(std::uint32_t(graph_.where().rank_of(stage, replica)));
    std::uint32_t messages = 0;
    plan_.row_begin.assign(1, 0);
    for (int rank = 0; rank < graph_.ranks(); ++rank) {
      auto const begin = graph_.lane_begin(rank);
      auto const end = graph_.lane_end(rank);
      auto const [sent, received] = counts_.ranks[std::size_t(rank)];
      rank_states_.push_back({begin, end, begin, plan_.row_begin.back(), messages, no_node, {}});
      plan_.row_begin.push_back(plan_.row_begin.back() + end - begin + sent + received);
      messages += sent;
      if (begin < end) active_.insert(std::uint32_t(rank));
    }
    plan_.messages.resize_uninitialised(messages);
    plan_.entries.resize_uninitialised(plan_.row_begin.back());
    if (rank_states_.size() > 128) many_ranks_ = std::uint32_t(rank_states_.size());
    ranks_ = rank_states_.data();
    entries_ = plan_.entries.data();
    messages_ = plan_.messages.data();
  }

  /// A turn of every rank that can.
  constexpr void take_turns() {
    for (auto rank = active_.first_from(0); rank != rank_set::none; rank = active_.first_from(rank + 1)) {
      fetch_rank_after(rank);
      auto const node = ranks_[rank].node;
      if (ops_[node].overlaps_next() && node + 1 < ranks_[rank].end)
        run<2>(rank, node);
      else
        run<1>(rank, node);
    }
    if constexpr (Policy == comm_policy::parity)
      for (auto const parity : {0U, 1U})
        for (auto const& ran : blocks_)
          if (ran.rank % 2 == parity) send_outputs(ran);
    if constexpr (Policy == comm_policy::grouped) {
      for (auto const& ran : blocks_) send_outputs(ran);
      write_groups();
    }
    blocks_.clear();
  }

  /// The turn of a rank: it runs its next block, which begins at `node`, if it can.
  template <std::uint32_t Members>
  [[gnu::always_inline]] constexpr void run(std::uint32_t rank, std::uint32_t node) {
    auto& at = ranks_[rank];
    for (std::uint32_t member = 0; member < Members; ++member)
      if (nodes_[node + member].missing != 0) {
        at.stuck = node + member;
        return active_.erase(rank);
      }
    fetch_next_turn(at);
    if constexpr (Policy == comm_policy::just_in_time)
      for (std::uint32_t member = 0; member < Members; ++member) receive_inputs(node + member);
    block const ran{rank, node, Members, at.entry};
    for (std::uint32_t member = 0; member < Members; ++member) write_op(node + member, at.entry++);
    at.node = node + Members;
    if (at.node == at.end) active_.erase(rank);
    if constexpr (sends_at_once)
      send_outputs(ran);
    else
      blocks_.push_back(ran);
  }

  /// Each rank goes forward in five arrays, and comes back to them when all others have been there: asks for what it
  /// needs in its next turn. More, and the first cache would not hold it for 64 ranks.
  [[gnu::always_inline]] constexpr void fetch_next_turn(rank_state const& at) const {
    prefetch(ops_, at.node + 2);
    prefetch(places_out_, 2 * (std::size_t{at.node} + 2));
    prefetch(nodes_, at.node + 2);
    prefetch(entries_, at.entry + 5);
    prefetch(messages_, at.message + 2);
  }
  /// What many ranks need has left the first cache from turn to turn: asks for that of a rank some places further on.
  [[gnu::always_inline]] constexpr void fetch_rank_after(std::uint32_t rank) const {
    if (rank + 4 >= many_ranks_) return;
    auto const& at = ranks_[rank + 4];
    prefetch(ops_, at.node);
    prefetch(places_out_, 2 * std::size_t{at.node});
    prefetch(nodes_, at.node);
    prefetch(entries_, at.entry);
    prefetch(entries_, at.entry + 3);
    prefetch(messages_, at.message);
  }

  [[gnu::always_inline]] constexpr void write_op(std::uint32_t node, std::uint32_t entry) {
    write_entry(entry, ops_[node], no_message, false);
    for (auto id = nodes_[node].arrived; id != no_message;) id = std::exchange(messages_[id].consumer, entry);
  }
  /// Member by member: an entry that is made as a whole takes another way through memory.
  [[gnu::always_inline]] constexpr void write_entry(std::uint32_t entry, op what, std::uint32_t message,
                                                    bool grouped_with_next) {
    auto& e = entries_[entry];
    e.what.assign_packed(what.packed());
    e.message = message;
    e.grouped_with_next = grouped_with_next;
  }

  [[gnu::always_inline]] constexpr void send_outputs(block const& ran) {
    for (std::uint32_t member = 0; member < ran.members; ++member) {
      auto const node = ran.node + member;
      auto const entry = ran.entry + member;
      if (places_out_ == nullptr) {
        send_many(ran.rank, node, entry);
        continue;
      }
      auto const* const out = places_out_ + 2 * std::size_t{node};
      if (is_message(out[0])) send(ran.rank, ops_[node], entry, out[0]);
      if (is_message(out[1])) send(ran.rank, ops_[node], entry, out[1]);
    }
  }
  constexpr void send_many(std::uint32_t rank, std::uint32_t node, std::uint32_t entry) {
    for_each_link_out(graph_, node, [&](graph_link l, bool is_sent) {
      if (is_sent) send(rank, ops_[node], entry, l);
    });
  }

  /// Sends what a link carries out of an op, whose entry is there.
  [[gnu::always_inline]] constexpr void send(std::uint32_t rank, op output, std::uint32_t producer, graph_link l) {
    auto const consumer = l.node();
    op const input = ops_[consumer];
    auto const to_rank = rank_holding(consumer, input);
    auto& from = ranks_[rank];
    auto& to = ranks_[to_rank];
    auto const id = from.message++;
    auto& m = messages_[id];
    m.producer = producer;
    m.consumer = std::exchange(nodes_[consumer].arrived, id);
    m.from_rank = std::int32_t(rank);
    m.to_rank = std::int32_t(to_rank);
    m.kind = l.kind();
    if constexpr (Policy == comm_policy::grouped)
      put_in_group(m, id, consumer);
    else
      write_send(m, id, from, output);
    if constexpr (writes_at_once) write_receive(m, id, to, output, input);
    if (--nodes_[consumer].missing == 0 && to.stuck == consumer) {
      to.stuck = no_node;
      active_.insert(to_rank);
    }
  }

  /// The rank of a node: where the placement says, but for a schedule that keeps to another one.
  [[nodiscard]] [[gnu::always_inline]] constexpr std::uint32_t rank_holding(std::uint32_t node, op o) const noexcept {
    auto copy = std::size_t(o.stage());
    if (o.replica() != 0) copy += std::size_t(o.replica()) * std::size_t(graph_.stages());
    auto const placed = home_[copy];
    if (node >= ranks_[placed].begin && node < ranks_[placed].end) return placed;
    return std::uint32_t(graph_.rank_of(node_id{node}));
  }

  [[gnu::always_inline]] constexpr void write_send(message& m, std::uint32_t id, rank_state& from, op producer,
                                                   bool grouped_with_next = false) {
    m.send = from.entry++;
    auto const kind = is_forward(m.kind, producer) ? op_kind::send_forward : op_kind::send_backward;
    write_entry(m.send, producer.as(kind), id, grouped_with_next);
  }
  [[gnu::always_inline]] constexpr void write_receive(message& m, std::uint32_t id, rank_state& to, op producer,
                                                      op consumer, bool grouped_with_next = false) {
    m.receive = to.entry++;
    auto const kind = is_forward(m.kind, producer) ? op_kind::recv_forward : op_kind::recv_backward;
    write_entry(m.receive, consumer.as(kind), id, grouped_with_next);
  }
  [[nodiscard]] static constexpr bool is_forward(edge_kind kind, op producer) noexcept {
    return kind == edge_kind::activation || (kind != edge_kind::gradient && producer.kind() == op_kind::forward);
  }

  /// Just in time: what a node needs, by id.
  constexpr void receive_inputs(std::uint32_t node) {
    arrived_.clear();
    for (auto id = nodes_[node].arrived; id != no_message; id = messages_[id].consumer) arrived_.push_back(id);
    if (arrived_.size() > 1) detail::sort(arrived_);
    for (auto id : arrived_) {
      auto& m = messages_[id];
      write_receive(m, id, ranks_[m.to_rank], entries_[m.producer].what, ops_[node]);
    }
  }

  /// Grouped: a message waits until all of the turn are there, with those of its pair of ranks. Where it will be
  /// received stands its consumer's node meanwhile.
  constexpr void put_in_group(message& m, std::uint32_t id, std::uint32_t consumer) {
    m.receive = consumer;
    auto const low = std::uint32_t(std::min(m.from_rank, m.to_rank));
    auto const high = std::uint32_t(std::max(m.from_rank, m.to_rank));
    exchanges_[low % 2].push_back(std::uint64_t{low} << 48 | std::uint64_t{high} << 32 | id);
  }
  /// Pairs of ranks exchange one after another, those that an even rank begins first: neighbours in two rounds.
  constexpr void write_groups() {
    for (auto& round : exchanges_) {
      merge_runs(round);
      for (std::size_t i = 0; i < round.size(); ++i) {
        auto const id = std::uint32_t(round[i]);
        auto& m = messages_[id];
        op const output = entries_[m.producer].what;
        op const input = ops_[m.receive];
        bool const goes_on = i + 1 < round.size() && round[i + 1] >> 32 == round[i] >> 32;
        write_send(m, id, ranks_[m.from_rank], output, goes_on);
        write_receive(m, id, ranks_[m.to_rank], output, input, goes_on);
      }
      round.clear();
    }
  }
  /// Sorts: where neighbours exchange, there are one or two ascending runs.
  constexpr void merge_runs(vector<std::uint64_t>& values) {
    while (!std::is_sorted(values.begin(), values.end())) {
      merged_.resize(values.size(), 0);
      auto out = merged_.begin();
      for (auto first = values.begin(); first != values.end();) {
        auto const middle = std::is_sorted_until(first, values.end());
        auto const last = std::is_sorted_until(middle, values.end());
        out = std::merge(first, middle, middle, last, out);
        first = last;
      }
      std::swap(values, merged_);
    }
  }

  op_graph const& graph_;
  communication_plan::parts plan_;
  message_counts counts_;
  vector<rank_state> rank_states_;
  vector<std::uint32_t> home_;                      // by copy of a stage: its rank
  rank_set active_;                                 // the ranks that take turns
  vector<block> blocks_;                            // of this turn, where nothing is sent before it ends
  vector<std::uint32_t> arrived_;                   // just in time: ids, to be put in order
  std::array<vector<std::uint64_t>, 2> exchanges_;  // grouped: the lower rank, the higher one and the id; by round
  vector<std::uint64_t> merged_;                    // room to sort them

  std::uint32_t many_ranks_ = 0;  // the number of ranks, where it is large

  // Where the arrays begin: read through their owners, these would be loaded again after each store.
  op const* ops_;
  graph_link const* places_out_;
  message_counts::node_state* nodes_;
  rank_state* ranks_ = nullptr;
  plan_entry* entries_ = nullptr;
  message* messages_ = nullptr;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
