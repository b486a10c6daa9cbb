// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What can be wrong with the programs of a schedule, as data.

#include <cstdint>
#include <string_view>

#include <pipesched/core/op.hpp>

namespace pipesched {
inline namespace v0 {

/// What is wrong. `fault` says which op each kind is about.
enum class fault_kind : std::uint8_t {
  wrong_kind,            ///< an op that is none of F, B, I, W in a program of chunk ops
  broken_pair,           ///< an overlapped pair that is not one forward and then one backward
  duplicate_op,          ///< the op stands at `other_where` already
  wrong_rank,            ///< the placement puts the op's stage on rank `other_where.rank`
  two_copies,            ///< the microbatch's other ops, `other` one of them, are on another copy of the stage
  missing_stage,         ///< no op at all; `count` stages from this one on
  missing_microbatch,    ///< no op at all; `count` microbatches from this one on
  missing_ops,           ///< the stage has none of the microbatch; `count` microbatches from this one on
  missing_forward,       ///< a backward without its forward
  missing_backward,      ///< a forward without its backward
  missing_input,         ///< a W without its I
  missing_weight,        ///< an I without its W
  two_backwards,         ///< a full backward, `other`, stands beside I or W
  order_on_rank,         ///< needs `other`, which comes later on the same rank, or in the same pair
  deadlock,              ///< one step of a cycle: waits for `other`, which comes after the next step's op
  blocked_rank,          ///< the rank stops at this op, which waits for `other`
  unpaired_send,         ///< a send without its receive `other`
  unpaired_receive,      ///< a receive without its send `other`
  missing_send,          ///< the op's result is needed on another rank, and `other` is not in the program
  missing_receive,       ///< the op needs `other`, which is not in the program
  needless_message,      ///< a message that no two ranks exchange: both stages are on one, or there is no such stage
  send_before_producer,  ///< a send before `other`, which makes what it sends
  receive_after_use,     ///< a receive after `other`, which needs it
  wait_without_send,     ///< a wait for a send that does not come before it
  channel_order,         ///< two ranks' messages in one order sent and in another received; `other` is received first
  not_listed,            ///< `count` more faults
};

[[nodiscard]] constexpr std::string_view name_of(fault_kind kind) noexcept {
  switch (kind) {
    case fault_kind::wrong_kind: return "wrong_kind";
    case fault_kind::broken_pair: return "broken_pair";
    case fault_kind::duplicate_op: return "duplicate_op";
    case fault_kind::wrong_rank: return "wrong_rank";
    case fault_kind::two_copies: return "two_copies";
    case fault_kind::missing_stage: return "missing_stage";
    case fault_kind::missing_microbatch: return "missing_microbatch";
    case fault_kind::missing_ops: return "missing_ops";
    case fault_kind::missing_forward: return "missing_forward";
    case fault_kind::missing_backward: return "missing_backward";
    case fault_kind::missing_input: return "missing_input";
    case fault_kind::missing_weight: return "missing_weight";
    case fault_kind::two_backwards: return "two_backwards";
    case fault_kind::order_on_rank: return "order_on_rank";
    case fault_kind::deadlock: return "deadlock";
    case fault_kind::blocked_rank: return "blocked_rank";
    case fault_kind::unpaired_send: return "unpaired_send";
    case fault_kind::unpaired_receive: return "unpaired_receive";
    case fault_kind::missing_send: return "missing_send";
    case fault_kind::missing_receive: return "missing_receive";
    case fault_kind::needless_message: return "needless_message";
    case fault_kind::send_before_producer: return "send_before_producer";
    case fault_kind::receive_after_use: return "receive_after_use";
    case fault_kind::wait_without_send: return "wait_without_send";
    case fault_kind::channel_order: return "channel_order";
    case fault_kind::not_listed: return "not_listed";
  }
  return "?";
}

/// Where an op stands: `program(rank)[position]`, from 0. A position of -1 means the rank as a whole, or the place
/// where a missing op would belong; a rank of -1 means the whole schedule.
struct program_place {
  int rank = -1;
  std::int64_t position = -1;
  friend constexpr bool operator==(program_place, program_place) noexcept = default;
};

/// One thing that is wrong.
struct fault {
  fault_kind kind;
  op what;                         ///< the op that is wrong, or that is missing
  program_place where;             ///< its place
  op other = op::from_packed(0);   ///< the op that it disagrees with, where the kind has one
  program_place other_where = {};  ///< its place
  std::int64_t count = 1;          ///< how many in a row it stands for: stages, microbatches, or ops of one stage

  friend constexpr bool operator==(fault const&, fault const&) = default;
};

}  // namespace v0
}  // namespace pipesched
