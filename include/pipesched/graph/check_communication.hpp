// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Whether programs with sends and receives exchange what their chunk ops need.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <pipesched/core/fault.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/sort.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/graph/fault_list.hpp>
#include <pipesched/graph/graph_builder.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// What an action has to do with a message, in the order in which it should happen.
enum class message_role : std::uint8_t { producer, send, wait, receive, consumer };
inline constexpr std::size_t message_roles = 5;

/// The part that an action has in one message. A message is known by its direction, the stage that receives it and the
/// microbatch: never by its peers alone.
struct message_part {
  std::uint64_t message;
  message_role role;
  int rank;
  std::uint32_t position;
};

[[nodiscard]] constexpr std::uint64_t message_of(bool backward, int receiver, std::int64_t microbatch) noexcept {
  // A stage of -1, which the gradient of stage 0 would go to, becomes one that no placement has.
  return std::uint64_t(backward) << 63 | std::uint64_t(receiver + 1) << 32 | std::uint64_t(microbatch);
}

class communication_check {
 public:
  constexpr communication_check(placement const& where, view<std::vector<op>> programs, fault_list& faults)
      : where_(where), programs_(programs), faults_(faults) {}

  constexpr void run(bool look_for_deadlock) {
    collect();
    detail::sort(parts_, [](message_part const& a, message_part const& b) {
      if (a.message != b.message) return a.message < b.message;
      if (a.role != b.role) return a.role < b.role;
      return a.rank != b.rank ? a.rank < b.rank : a.position < b.position;
    });
    for (std::size_t i = 0; i < parts_.size();) {
      auto end = i + 1;
      while (end < parts_.size() && parts_[end].message == parts_[i].message) ++end;
      check_message(view<message_part>(parts_).subspan(i, end - i));
      i = end;
    }
    check_channels();
    if (look_for_deadlock) check_waiting();
  }

 private:
  /// A send and its receive.
  struct exchange {
    message_part send;
    message_part receive;
    message_part consumer;
  };

  constexpr void collect() {
    for (std::size_t rank = 0; rank < programs_.size(); ++rank)
      for (std::size_t i = 0; i < programs_[rank].size(); ++i) {
        op const o = programs_[rank][i];
        int const s = o.stage();
        auto const add = [&](bool backward, int receiver, message_role role) {
          parts_.push_back({message_of(backward, receiver, o.microbatch()), role, int(rank), std::uint32_t(i)});
        };
        switch (o.kind()) {
          case op_kind::forward:
            if (s + 1 < where_.stages()) add(false, s + 1, message_role::producer);
            if (s > 0) add(false, s, message_role::consumer);
            break;
          case op_kind::backward:
          case op_kind::backward_input:
            if (s > 0) add(true, s - 1, message_role::producer);
            if (s + 1 < where_.stages()) add(true, s, message_role::consumer);
            break;
          case op_kind::send_forward: add(false, s + 1, message_role::send); break;
          case op_kind::recv_forward: add(false, s, message_role::receive); break;
          case op_kind::send_backward: add(true, s - 1, message_role::send); break;
          case op_kind::recv_backward: add(true, s, message_role::receive); break;
          case op_kind::wait_send_forward: add(false, s + 1, message_role::wait); break;
          case op_kind::wait_send_backward: add(true, s - 1, message_role::wait); break;
          default: break;
        }
      }
  }

  [[nodiscard]] constexpr op at(message_part const& p) const { return programs_[std::size_t(p.rank)][p.position]; }
  [[nodiscard]] static constexpr program_place place(message_part const& p) { return {p.rank, p.position}; }
  constexpr void report(fault_kind kind, message_part const& what, op other, program_place other_where) {
    faults_.add({kind, at(what), place(what), other, other_where});
  }
  constexpr void report(fault_kind kind, message_part const& what, message_part const& other) {
    report(kind, what, at(other), place(other));
  }
  /// The op of `kind` that belongs to the same microbatch, on another stage.
  [[nodiscard]] static constexpr op expected(op o, op_kind kind, int stage) {
    return {kind, stage_id{stage}, microbatch_id{o.microbatch()}};
  }

  constexpr void check_message(view<message_part> parts) {
    message_part const* found[message_roles] = {};
    for (auto const& p : parts) {
      auto& first = found[std::size_t(p.role)];
      if (first == nullptr)
        first = &p;
      else if (is_communication(at(p).kind()))
        report(fault_kind::duplicate_op, p, *first);
    }
    auto const part = [&](message_role role) { return found[std::size_t(role)]; };
    auto const* producer = part(message_role::producer);
    auto const* consumer = part(message_role::consumer);
    auto const* send = part(message_role::send);
    auto const* receive = part(message_role::receive);
    auto const* wait = part(message_role::wait);
    bool const backward = parts.front().message >> 63 != 0;
    int const receiver = int((parts.front().message >> 32) & 0x1FFFF) - 1;
    int const sender = backward ? receiver + 1 : receiver - 1;
    auto const send_kind = backward ? op_kind::send_backward : op_kind::send_forward;
    auto const receive_kind = backward ? op_kind::recv_backward : op_kind::recv_forward;

    if (wait && (!send || send->rank != wait->rank || send->position > wait->position))
      report(fault_kind::wait_without_send, *wait, expected(at(*wait), send_kind, sender), {});
    bool const ends_exist = sender >= 0 && sender < where_.stages() && receiver >= 0 && receiver < where_.stages();
    if (!ends_exist || (producer && consumer && producer->rank == consumer->rank)) {
      for (auto const* message : {send, receive})
        if (message) report(fault_kind::needless_message, *message, at(*message), {});
      return;
    }
    if (send && producer) {
      if (send->rank != producer->rank)
        report(fault_kind::wrong_rank, *send, at(*producer), {producer->rank, -1});
      else if (send->position < producer->position)
        report(fault_kind::send_before_producer, *send, *producer);
    }
    if (receive && consumer) {
      if (receive->rank != consumer->rank)
        report(fault_kind::wrong_rank, *receive, at(*consumer), {consumer->rank, -1});
      else if (receive->position > consumer->position)
        report(fault_kind::receive_after_use, *receive, *consumer);
    }
    if (send && receive) {
      if (consumer) exchanges_.push_back({*send, *receive, *consumer});
    } else if (send) {
      report(fault_kind::unpaired_send, *send, expected(at(*send), receive_kind, receiver),
             {consumer ? consumer->rank : where_.rank_of(receiver), -1});
    } else if (receive) {
      report(fault_kind::unpaired_receive, *receive, expected(at(*receive), send_kind, sender),
             {producer ? producer->rank : where_.rank_of(sender), -1});
    } else if (producer && consumer) {
      report(fault_kind::missing_send, *producer, expected(at(*producer), send_kind, sender), {consumer->rank, -1});
      report(fault_kind::missing_receive, *consumer, expected(at(*consumer), receive_kind, receiver),
             {producer->rank, -1});
    }
  }

  /// Messages from one rank to another arrive in the order in which they are sent: the k-th receive takes the k-th
  /// send.
  constexpr void check_channels() {
    auto const by = [](auto position) {
      return [position](exchange const& a, exchange const& b) {
        if (a.send.rank != b.send.rank) return a.send.rank < b.send.rank;
        if (a.receive.rank != b.receive.rank) return a.receive.rank < b.receive.rank;
        return position(a) < position(b);
      };
    };
    auto received = exchanges_;
    detail::sort(exchanges_, by([](exchange const& e) { return e.send.position; }));
    detail::sort(received, by([](exchange const& e) { return e.receive.position; }));
    bool broken = false;  // the channel at hand: its first break says it all
    for (std::size_t i = 0; i < exchanges_.size(); ++i) {
      auto const& sent = exchanges_[i].send;
      if (i > 0 &&
          (sent.rank != exchanges_[i - 1].send.rank || exchanges_[i].receive.rank != exchanges_[i - 1].receive.rank))
        broken = false;
      if (broken || received[i].send.position == sent.position) continue;
      broken = true;
      report(fault_kind::channel_order, sent, received[i].receive);
    }
  }

  /// Looks for a deadlock of ranks that wait for nothing but data: sends and receives run beside the compute ops.
  constexpr void check_waiting() {
    vector<std::size_t> first{0};
    for (auto const& program : programs_) first.push_back(first.back() + program.size());
    if (std::int64_t(first.back()) > max_nodes) return;
    graph_builder builder(where_, 1);
    for (std::size_t rank = 0; rank < programs_.size(); ++rank)
      for (op o : programs_[rank]) builder.add(o, int(rank));
    auto const node = [&](message_part const& p) {
      return graph_builder::handle{std::uint32_t(first[std::size_t(p.rank)] + p.position)};
    };
    for (auto const& e : exchanges_)
      if (e.send.rank != e.consumer.rank) builder.add_edge(node(e.send), node(e.consumer), edge_kind::activation);
    auto const graph = builder.build();
    execution_order const order(graph);
    if (order.complete()) return;
    auto const place = [&](node_id n) {
      int const rank = graph.rank_of(n);
      return program_place{rank, std::int64_t(n.value) - std::int64_t(first[std::size_t(rank)])};
    };
    auto const add = [&](fault_kind kind, blocked_lane const& lane) {
      faults_.add({kind, graph.node(lane.node), place(lane.node), graph.node(lane.awaited), place(lane.awaited)});
    };
    for (auto const& step : order.cycle(graph)) add(fault_kind::deadlock, step);
    for (auto const& lane : order.blocked()) add(fault_kind::blocked_rank, lane);
  }

  placement const& where_;
  view<std::vector<op>> programs_;
  fault_list& faults_;
  vector<message_part> parts_;
  vector<exchange> exchanges_;
};

}  // namespace detail

/// How programs with communication are checked.
struct communication_options {
  /// Whether to look for a deadlock; of no use where the chunk ops alone have one.
  bool look_for_deadlock = true;
  /// The most faults that are listed.
  std::size_t max_faults = 10000;
};

/// What is wrong with the sends and receives of programs, one program per rank of `where`: messages without their
/// other end, on a rank that has nothing to do with them, that nobody needs, out of order with the ops that make and
/// use them, or received in another order than sent on the same channel (one rank to another); and a deadlock that
/// comes of them where every wait is for data alone. SEND names the sender's stage, RECV the receiver's. The chunk ops
/// themselves are the matter of `check`. Time in proportion to n log n.
[[nodiscard]] constexpr detail::vector<fault> check_communication(placement const& where,
                                                                  view<std::vector<op>> programs,
                                                                  communication_options const& options = {}) {
  detail::fault_list faults(options.max_faults);
  detail::communication_check(where, programs, faults).run(options.look_for_deadlock);
  return faults.take();
}

}  // namespace v0
}  // namespace pipesched
