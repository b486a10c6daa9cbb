// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// How messages are carried: the transports that a communication plan is checked against.

#include <cstdint>
#include <string_view>

#include <pipesched/core/error.hpp>
#include <pipesched/graph/communication_plan.hpp>

namespace pipesched {
inline namespace v0 {

/// What orders the messages of a rank, and what a send waits for.
///
/// In the three queues, a rank's compute runs beside its communication: sends and receives are put into queues in the
/// order of the program, each when the ops before it have ended. Every queue is worked off in order, and its first
/// entry passes when the other end is first in its queue too (a rendezvous). A consumer waits for its receive.
enum class transport_kind : std::uint8_t {
  async,            ///< nothing is ordered and no send waits; a consumer waits for its message
  direction_queue,  ///< a queue per rank, peer and direction: NCCL with two communicators per pair of ranks
  pair_queue,       ///< a queue per rank and peer: one communicator per pair of ranks
  rank_queue,       ///< one queue per rank: one communicator and stream for all
  blocking,         ///< no queue: the program itself stops at each send and receive until both ends are there
  bounded,          ///< as blocking, but a send passes while fewer than K messages to that rank await their receive
};

/// The name as the command line writes it.
[[nodiscard]] constexpr std::string_view name_of(transport_kind kind) noexcept {
  switch (kind) {
    case transport_kind::async: return "async";
    case transport_kind::direction_queue: return "dir-queue";
    case transport_kind::pair_queue: return "pair-queue";
    case transport_kind::rank_queue: return "rank-queue";
    case transport_kind::blocking: return "blocking";
    case transport_kind::bounded: return "bounded";
  }
  return "?";
}

inline constexpr transport_kind all_transports[] = {transport_kind::async,      transport_kind::direction_queue,
                                                    transport_kind::pair_queue, transport_kind::rank_queue,
                                                    transport_kind::blocking,   transport_kind::bounded};

/// A transport, and the messages that it buffers from one rank to another where that is bounded.
struct transport_model {
  transport_kind kind = transport_kind::async;
  std::int64_t buffered = 1;  ///< K of `bounded`; no buffer at all is `blocking`

  [[nodiscard]] constexpr check_result check() const {
    return kind == transport_kind::bounded ? at_least("buffered", buffered, 1, "none: blocking") : check_result{};
  }
};

/// Whether the plans of a policy cannot hang under a transport, for every schedule that can run, built in or not.
/// Eager, parity and grouped plans cannot under any: `detail::plan_writer` says why. Receives just in time follow the
/// order of the consumers instead of one order of messages, so that only a transport that orders nothing is safe: 1F1B
/// hangs with one queue per rank or pair, and ZB-V with one per direction.
[[nodiscard]] constexpr bool is_deadlock_free(comm_policy policy, transport_kind transport) noexcept {
  switch (policy) {
    case comm_policy::eager:
    case comm_policy::parity:
    case comm_policy::grouped: return true;
    case comm_policy::just_in_time: return transport == transport_kind::async;
    case comm_policy::custom: return false;  // nothing is known of it: check it
  }
  return false;
}

}  // namespace v0
}  // namespace pipesched
