// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Puts the sends and receives of a graph into its rows, policy by policy.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <pipesched/core/buffer.hpp>
#include <pipesched/graph/communication_plan.hpp>
#include <pipesched/graph/count_turns.hpp>
#include <pipesched/graph/edge.hpp>
#include <pipesched/graph/op_graph.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Writes the rows of a plan.
///
/// A policy gives a *moment*, a turn and a place within it, to each op and to both ends of each message; a row is what
/// happens on its rank, in the order of moments. All policies but just in time give both ends of a message one moment,
/// after that of its producer and before that of its consumer. Then moments, and ids where they are equal, are one
/// order of all messages that every row follows: the first message of it that has not passed is next on both its ranks,
/// whatever queues there are, and no transport hangs.
template <comm_policy Policy>
class plan_writer {
 public:
  constexpr explicit plan_writer(op_graph const& graph)
      : graph_(&graph),
        plan_{graph.where(), graph.microbatches(), Policy},
        turn_(count_turns<(Policy == comm_policy::eager)>(graph)),
        position_(graph.size()) {
    list_messages();
    list_arrivals();
    for (int rank = 0; rank < graph.ranks(); ++rank) write_row(rank);
    for (auto& m : plan_.messages) {
      m.producer = position_[m.producer];
      m.consumer = position_[m.consumer];
    }
  }

  [[nodiscard]] constexpr communication_plan take() { return communication_plan(std::move(plan_)); }

 private:
  using moment = std::uint64_t;
  static constexpr std::uint32_t after_receives = 0xFFFFFFFF;  // a place that no node has

  [[nodiscard]] static constexpr moment moment_in(std::uint32_t turn, std::uint32_t place) noexcept {
    return moment{turn} << 32 | place;
  }
  [[nodiscard]] constexpr moment moment_of_op(std::uint32_t node, int rank) const noexcept {
    if constexpr (Policy == comm_policy::eager) return moment_in(turn_[node], std::uint32_t(rank));
    if constexpr (Policy == comm_policy::just_in_time) return moment_in(turn_[node], after_receives);
    return moment_in(turn_[node], 0);  // all ranks at once, before they exchange
  }
  [[nodiscard]] constexpr moment moment_of_send(message const& m) const noexcept {
    auto const from = std::uint32_t(m.from_rank);
    auto const to = std::uint32_t(m.to_rank);
    if constexpr (Policy == comm_policy::eager) return moment_in(turn_[m.producer], from);
    if constexpr (Policy == comm_policy::just_in_time) return moment_in(turn_[m.producer], after_receives);
    if constexpr (Policy == comm_policy::parity) return moment_in(turn_[m.producer], from % 2);
    // Pairs of ranks one after another, those that an even rank begins first: neighbours exchange in two rounds.
    auto const low = std::min(from, to);
    return moment_in(turn_[m.producer], (low % 2) << 31 | (low / 2) << 16 | std::max(from, to));
  }
  [[nodiscard]] constexpr moment moment_of_receive(message const& m) const noexcept {
    if constexpr (Policy == comm_policy::just_in_time) return moment_in(turn_[m.consumer], m.consumer);
    return moment_of_send(m);
  }

  /// Messages in the order of their producers, and the length of every row.
  constexpr void list_messages() {
    plan_.messages = buffer<message>(graph_->link_count());  // a bound, of which only what is used is touched
    auto const ranks = std::size_t(graph_->ranks());
    std::vector<std::uint32_t> received(ranks, 0);
    std::uint32_t count = 0;
    for (int rank = 0; rank < graph_->ranks(); ++rank) {
      first_sent_.push_back(count);
      for (auto n = graph_->lane_begin(rank); n < graph_->lane_end(rank); ++n) {
        auto const first = count;
        for (graph_link l : graph_->links_out(node_id{n})) {
          if (!l.remote() || is_listed(first, count, l.node())) continue;
          auto const to = rank_holding(l.node());
          // Where the ops stand is known when all rows are written; until then, their nodes.
          plan_.messages[count++] = message{n, 0, 0, l.node(), rank, to, l.kind()};
          ++received[std::size_t(to)];
        }
      }
    }
    first_sent_.push_back(count);
    plan_.messages.resize_uninitialised(count);
    plan_.row_begin.push_back(0);
    first_arrival_.push_back(0);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      auto const ops = graph_->lane_end(int(rank)) - graph_->lane_begin(int(rank));
      auto const sent = first_sent_[rank + 1] - first_sent_[rank];
      plan_.row_begin.push_back(plan_.row_begin.back() + ops + sent + received[rank]);
      first_arrival_.push_back(first_arrival_.back() + received[rank]);
    }
    plan_.entries = buffer<plan_entry>(plan_.row_begin.back());
  }

  /// The messages to each rank, by id.
  constexpr void list_arrivals() {
    arrivals_ = buffer<std::uint32_t>(plan_.messages.size());
    auto next = first_arrival_;
    for (std::uint32_t id = 0; id < plan_.messages.size(); ++id)
      arrivals_[next[std::size_t(plan_.messages[id].to_rank)]++] = id;
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

  constexpr void write_row(int rank) {
    collect_ends(rank);
    sort_ends();
    auto node = graph_->lane_begin(rank);
    auto const last = graph_->lane_end(rank);
    auto entry = plan_.row_begin[std::size_t(rank)];
    auto const write_ops = [&](moment until) {
      for (; node < last && moment_of_op(node, rank) <= until; ++node) {
        plan_.entries[entry] = plan_entry{graph_->node(node_id{node}), plan_entry::no_message, false};
        position_[node] = entry++;
      }
    };
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      auto const [when, id] = ends_[i];
      write_ops(when);
      bool const group_goes_on = Policy == comm_policy::grouped && i + 1 < ends_.size() && ends_[i + 1].when == when;
      write_end(id, rank, entry++, group_goes_on);
    }
    write_ops(~moment{0});
  }

  constexpr void write_end(std::uint32_t id, int rank, std::uint32_t entry, bool group_goes_on) noexcept {
    auto& m = plan_.messages[id];
    bool const forward =
        m.kind == edge_kind::activation ||
        (m.kind != edge_kind::gradient && graph_->node(node_id{m.producer}).kind() == op_kind::forward);
    if (m.from_rank == rank) {
      m.send = entry;
      auto const kind = forward ? op_kind::send_forward : op_kind::send_backward;
      plan_.entries[entry] = plan_entry{graph_->node(node_id{m.producer}).as(kind), id, group_goes_on};
    } else {
      m.receive = entry;
      auto const kind = forward ? op_kind::recv_forward : op_kind::recv_backward;
      plan_.entries[entry] = plan_entry{graph_->node(node_id{m.consumer}).as(kind), id, group_goes_on};
    }
  }

  /// The send of a message, or its receive.
  struct message_end {
    moment when;
    std::uint32_t id;
  };

  /// What a rank sends and receives, by id: few runs of ascending moments, one for each peer.
  constexpr void collect_ends(int rank) {
    auto arrival = first_arrival_[std::size_t(rank)];
    auto const last_arrival = first_arrival_[std::size_t(rank) + 1];
    auto const first_sent = first_sent_[std::size_t(rank)];
    auto const last_sent = first_sent_[std::size_t(rank) + 1];
    ends_.resize(last_arrival - arrival + last_sent - first_sent, message_end{});
    runs_.assign(1, 0);
    moment latest = 0;
    std::size_t count = 0;
    auto const collect = [&](moment when, std::uint32_t id) {
      if (when < latest) runs_.push_back(count);
      ends_[count++] = message_end{when, id};
      latest = when;
    };
    auto const collect_arrivals = [&](std::size_t below) {
      for (; arrival < last_arrival && arrivals_[arrival] < below; ++arrival)
        collect(moment_of_receive(plan_.messages[arrivals_[arrival]]), arrivals_[arrival]);
    };
    collect_arrivals(first_sent);
    for (auto id = first_sent; id < last_sent; ++id) collect(moment_of_send(plan_.messages[id]), id);
    collect_arrivals(plan_.messages.size());
  }

  /// Sorts a row's ends by moment, equal ones by id: merges neighbouring runs until one is left. `std::stable_sort` is
  /// not constexpr.
  constexpr void sort_ends() {
    while (runs_.size() > 1) {
      merged_.resize(ends_.size(), message_end{});
      auto const at = [&](std::size_t run) {
        return ends_.cbegin() + std::ptrdiff_t(run < runs_.size() ? runs_[run] : ends_.size());
      };
      auto out = merged_.begin();
      for (std::size_t run = 0; run < runs_.size(); run += 2)
        out = std::merge(at(run), at(run + 1), at(run + 1), at(run + 2), out,
                         [](message_end a, message_end b) { return a.when < b.when; });
      std::swap(ends_, merged_);
      for (std::size_t run = 2; run < runs_.size(); run += 2) runs_[run / 2] = runs_[run];
      runs_.resize((runs_.size() + 1) / 2);
    }
  }

  op_graph const* graph_;
  communication_plan::parts plan_;
  buffer<std::uint32_t> turn_;                // by node
  buffer<std::uint32_t> position_;            // by node: its entry
  std::vector<std::uint32_t> first_sent_;     // by rank; ranks + 1
  std::vector<std::uint32_t> first_arrival_;  // by rank; ranks + 1
  buffer<std::uint32_t> arrivals_;            // message ids by receiving rank
  std::vector<message_end> ends_;             // of the row at hand
  std::vector<std::size_t> runs_;             // where the ascending runs among them begin
  std::vector<message_end> merged_;           // room to sort them
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
