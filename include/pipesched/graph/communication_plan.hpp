// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The communication plan: each rank's program with its sends and receives in place, and the messages they carry.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/digest.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/sort.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/graph/edge.hpp>

namespace pipesched {
inline namespace v0 {

/// Where the sends and receives of a plan stand. A send always follows its producer; the policies differ in the order
/// of the sends that follow one another, and in where the receives are. `is_deadlock_free(policy, transport)` says
/// under which transports a policy cannot hang.
enum class comm_policy : std::uint8_t {
  eager,         ///< a receive as soon as its message is sent: torch's greedy lowering, row for row. Hangs under none
  just_in_time,  ///< a receive directly before its consumer. Can hang wherever messages are ordered: only async is safe
  parity,        ///< in steps: all ranks run one op and then exchange, even ranks sending first. Hangs under none
  grouped,       ///< in steps; what two ranks exchange in one step is one coalesced group. Hangs under none
  custom,        ///< written by hand, or read from a file: ask `check_transport`
};

[[nodiscard]] constexpr std::string_view name_of(comm_policy policy) noexcept {
  switch (policy) {
    case comm_policy::eager: return "eager";
    case comm_policy::just_in_time: return "just-in-time";
    case comm_policy::parity: return "parity";
    case comm_policy::grouped: return "grouped";
    case comm_policy::custom: return "custom";
  }
  return "?";
}

/// One tensor on its way from one rank to another, by the four places that make up its way; they are indices into
/// `communication_plan::entries()`. A message's id is its own index in `communication_plan::messages()`: the same
/// number on every rank, below 2^30, and that of no other (edge, direction, microbatch) of the step.
struct message {
  /// In the place of `receive` and `consumer`: a plan that was read may have a send that nobody receives.
  static constexpr std::uint32_t nobody = 0xFFFFFFFF;

  std::uint32_t producer;  ///< F, or B or I, on `from_rank`; a user's edge may begin at any chunk op
  std::uint32_t send;
  std::uint32_t receive;
  std::uint32_t consumer;  ///< on `to_rank`
  std::int32_t from_rank;
  std::int32_t to_rank;
  edge_kind kind;  ///< activation, gradient, or the user's own
};

[[nodiscard]] constexpr bool is_send(op_kind kind) noexcept {
  return kind == op_kind::send_forward || kind == op_kind::send_backward;
}
[[nodiscard]] constexpr bool is_receive(op_kind kind) noexcept {
  return kind == op_kind::recv_forward || kind == op_kind::recv_backward;
}

/// One op of a rank's program with communication: a chunk op, or a SEND, RECV or WAIT_SEND of a message. A SEND and its
/// WAIT_SEND name the sender's stage, a RECV the receiver's. Not initialised by default.
struct plan_entry {
  static constexpr std::uint32_t no_message = 0xFFFFFFFF;

  op what;
  std::uint32_t message;   ///< the id, or `no_message` for a chunk op
  bool grouped_with_next;  ///< this and the next entry belong to one coalesced group: started and ended together

  [[nodiscard]] constexpr bool is_communication() const noexcept { return message != no_message; }
  friend constexpr bool operator==(plan_entry const&, plan_entry const&) noexcept = default;
};

static_assert(sizeof(plan_entry) == 16);

/// All messages from one rank to another; what a transport sets up before step 0.
struct channel {
  int from_rank;
  int to_rank;
  std::int64_t messages;
  friend constexpr bool operator==(channel const&, channel const&) = default;
};

/// Each rank's program with sends and receives in place. Immutable; const calls are safe from many threads. Made by
/// `plan_communication`, by `with_send_budget`, or by `read_plan` from programs that somebody else wrote.
class communication_plan {
 public:
  /// The arrays that a plan is made of.
  struct parts {
    placement where;
    std::int64_t microbatches;
    comm_policy policy;
    detail::vector<std::uint32_t> row_begin = {};  // ranks + 1
    detail::buffer<plan_entry> entries = {};       // rank after rank
    detail::buffer<message> messages = {};
  };

  constexpr explicit communication_plan(parts filled) : p_(std::move(filled)) {}
  /// What the plan is made of, for another one to use the memory.
  [[nodiscard]] constexpr parts take_parts() && noexcept { return std::move(p_); }

  [[nodiscard]] constexpr placement const& where() const noexcept { return p_.where; }
  [[nodiscard]] constexpr int ranks() const noexcept { return p_.where.ranks(); }
  [[nodiscard]] constexpr std::int64_t microbatches() const noexcept { return p_.microbatches; }
  [[nodiscard]] constexpr comm_policy policy() const noexcept { return p_.policy; }

  /// The program of one rank, in order. Precondition: `rank` exists.
  [[nodiscard]] constexpr view<plan_entry> program(int rank) const noexcept {
    return entries().subspan(row_begin(rank), row_begin(rank + 1) - row_begin(rank));
  }
  /// All programs, rank after rank; that of `rank` begins at `row_begin(rank)`.
  [[nodiscard]] constexpr view<plan_entry> entries() const noexcept { return p_.entries.view(); }
  [[nodiscard]] constexpr std::uint32_t row_begin(int rank) const noexcept { return p_.row_begin[std::size_t(rank)]; }
  /// The rank whose program holds an entry. Time in proportion to the logarithm of the number of ranks.
  [[nodiscard]] constexpr int rank_of(std::uint32_t entry) const noexcept {
    return int(std::upper_bound(p_.row_begin.begin(), p_.row_begin.end(), entry) - p_.row_begin.begin()) - 1;
  }

  /// All messages, by the place of their producers in the schedule; a message's id is its index.
  [[nodiscard]] constexpr view<message> messages() const noexcept { return p_.messages.view(); }
  /// The message of a SEND, RECV or WAIT_SEND.
  [[nodiscard]] constexpr message const& message_of(plan_entry const& entry) const noexcept {
    return p_.messages[entry.message];
  }
  /// The op whose output or gradient a message carries, and the op that needs it. Precondition: there is one.
  [[nodiscard]] constexpr op producer_of(message const& m) const noexcept {
    return p_.entries[m.producer].what.alone();
  }
  [[nodiscard]] constexpr op consumer_of(message const& m) const noexcept {
    return p_.entries[m.consumer].what.alone();
  }
  /// The rank at the other end of a SEND, RECV or WAIT_SEND.
  [[nodiscard]] constexpr int peer_of(plan_entry const& entry) const noexcept {
    auto const& carried = message_of(entry);
    return is_receive(entry.what.kind()) ? carried.from_rank : carried.to_rank;
  }

  /// Every pair of ranks that a message passes, by sender and then receiver.
  [[nodiscard]] constexpr detail::vector<channel> channels() const {
    detail::vector<channel> result;
    detail::vector<std::int64_t> count(std::size_t(ranks()), 0);
    for (int rank = 0; rank < ranks(); ++rank) {
      detail::vector<int> peers;
      for (auto const& entry : program(rank))
        if (is_send(entry.what.kind()) && count[std::size_t(peer_of(entry))]++ == 0) peers.push_back(peer_of(entry));
      detail::sort(peers);
      for (int peer : peers) result.push_back(channel{rank, peer, std::exchange(count[std::size_t(peer)], 0)});
    }
    return result;
  }

  /// A fingerprint of programs, messages and groups that ranks compare before step 0.
  [[nodiscard]] constexpr std::uint64_t digest() const {
    pipesched::digest result;
    for (int rank = 0; rank < ranks(); ++rank) add_program(result, rank);
    return result.value();
  }
  /// The same of one rank's program. Precondition: `rank` exists.
  [[nodiscard]] constexpr std::uint64_t digest(int rank) const {
    pipesched::digest result;
    add_program(result, rank);
    return result.value();
  }

 private:
  constexpr void add_program(pipesched::digest& result, int rank) const {
    for (auto const& entry : program(rank)) {
      result.add(entry.what.packed());
      result.add(std::uint64_t{entry.message} << 1 | std::uint64_t{entry.grouped_with_next});
    }
    result.add(~std::uint64_t{0});
  }

  parts p_;
};

/// Why an entry stands where it stands, in words: "2RECV_F3 from rank 1: the output of 1F3, for 2F3".
[[nodiscard]] inline std::string reason_of(communication_plan const& plan, plan_entry const& entry) {
  auto text = to_string(entry.what);
  if (!entry.is_communication()) return text.append(": where the schedule has it");
  auto const& carried = plan.message_of(entry);
  text.append(is_receive(entry.what.kind()) ? " from rank " : " to rank ")
      .append(std::to_string(plan.peer_of(entry)))
      .append(pass_of(entry.what.kind()) == pass::forward ? ": the output of " : ": the gradient of ")
      .append(to_string(plan.producer_of(carried)))
      .append(", for ")
      .append(carried.consumer == message::nobody ? "nobody" : to_string(plan.consumer_of(carried)));
  return text;
}

}  // namespace v0
}  // namespace pipesched
