// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The op: one piece of work of one stage for one microbatch, in eight bytes.

#include <cstdint>
#include <string>
#include <string_view>

#include <pipesched/core/ids.hpp>

namespace pipesched {
inline namespace v0 {

/// What an op does. The first four are what schedules are made of; the others are the events that lowering makes of
/// them. The values are a part of the packed op and never change.
enum class op_kind : std::uint8_t {
  forward = 0,          ///< F
  backward = 1,         ///< B: for the input and the weights together; DeepSeek's "B", torch's FULL_BACKWARD
  backward_input = 2,   ///< I: for the input alone (B_x); "B" in the Zero Bubble papers
  backward_weight = 3,  ///< W: for the weights alone (B_w)

  attention_forward = 16,
  attention_backward_input = 17,
  attention_backward_weight = 18,
  mlp_forward = 20,
  mlp_backward_input = 21,
  mlp_backward_weight = 22,
  dispatch_forward = 24,
  dispatch_backward = 25,  ///< the all-to-all that returns the gradients of what was dispatched
  combine_forward = 28,
  combine_backward = 29,  ///< the all-to-all that sends the gradients of what was combined

  send_forward = 32,
  recv_forward = 33,
  send_backward = 34,
  recv_backward = 35,
  wait_send_forward = 36,
  wait_send_backward = 37,

  unshard = 40,      ///< gathers a stage's sharded parameters
  reshard = 41,      ///< lets go of what `unshard` gathered
  reduce_grad = 42,  ///< sums a stage's gradients over its data-parallel copies
};

/// F, I and W: the direction of the pass that an op belongs to. A full backward counts as `input`.
enum class pass : std::uint8_t { forward, backward_input, backward_weight };

[[nodiscard]] constexpr bool is_chunk_op(op_kind kind) noexcept { return kind <= op_kind::backward_weight; }

/// Whether `kind` is a send, a receive, or the wait for a send.
[[nodiscard]] constexpr bool is_communication(op_kind kind) noexcept {
  return kind >= op_kind::send_forward && kind <= op_kind::wait_send_backward;
}

/// Whether an op of this kind belongs to one microbatch; the others are of the stage as a whole.
[[nodiscard]] constexpr bool has_microbatch(op_kind kind) noexcept { return kind < op_kind::unshard; }

/// Whether `kind` is a backward that a gradient flows through: B or I.
[[nodiscard]] constexpr bool carries_gradient(op_kind kind) noexcept {
  return kind == op_kind::backward || kind == op_kind::backward_input;
}

[[nodiscard]] constexpr pass pass_of(op_kind kind) noexcept {
  switch (kind) {
    case op_kind::forward:
    case op_kind::attention_forward:
    case op_kind::mlp_forward:
    case op_kind::dispatch_forward:
    case op_kind::combine_forward:
    case op_kind::send_forward:
    case op_kind::recv_forward:
    case op_kind::wait_send_forward: return pass::forward;
    case op_kind::backward_weight:
    case op_kind::attention_backward_weight:
    case op_kind::mlp_backward_weight: return pass::backward_weight;
    default: return pass::backward_input;
  }
}

/// The name of a kind as text and CSV write it: F, B, I, W, SEND_F, ...
[[nodiscard]] constexpr std::string_view name_of(op_kind kind) noexcept {
  switch (kind) {
    case op_kind::forward: return "F";
    case op_kind::backward: return "B";
    case op_kind::backward_input: return "I";
    case op_kind::backward_weight: return "W";
    case op_kind::attention_forward: return "ATTN_F";
    case op_kind::attention_backward_input: return "ATTN_I";
    case op_kind::attention_backward_weight: return "ATTN_W";
    case op_kind::mlp_forward: return "MLP_F";
    case op_kind::mlp_backward_input: return "MLP_I";
    case op_kind::mlp_backward_weight: return "MLP_W";
    case op_kind::dispatch_forward: return "DISPATCH_F";
    case op_kind::dispatch_backward: return "DISPATCH_B";
    case op_kind::combine_forward: return "COMBINE_F";
    case op_kind::combine_backward: return "COMBINE_B";
    case op_kind::send_forward: return "SEND_F";
    case op_kind::recv_forward: return "RECV_F";
    case op_kind::send_backward: return "SEND_B";
    case op_kind::recv_backward: return "RECV_B";
    case op_kind::wait_send_forward: return "WAIT_SEND_F";
    case op_kind::wait_send_backward: return "WAIT_SEND_B";
    case op_kind::unshard: return "UNSHARD";
    case op_kind::reshard: return "RESHARD";
    case op_kind::reduce_grad: return "REDUCE_GRAD";
  }
  return "?";
}

/// One op of a rank's program: kind, replica, stage (16 bit), microbatch (32 bit), and its place in an overlapped pair.
/// Eight bytes; trivially copyable; not initialised by default.
class op {
 public:
  op() = default;
  constexpr op(op_kind kind, stage_id stage, microbatch_id microbatch, replica_id replica = replica_id{0}) noexcept
      : bits_(std::uint64_t{microbatch.value} | std::uint64_t{stage.value} << stage_shift |
              std::uint64_t{replica.value} << replica_shift | std::uint64_t(kind) << kind_shift) {}

  [[nodiscard]] constexpr op_kind kind() const noexcept { return op_kind((bits_ >> kind_shift) & 0x3F); }
  [[nodiscard]] constexpr int stage() const noexcept { return int((bits_ >> stage_shift) & 0xFFFF); }
  [[nodiscard]] constexpr int replica() const noexcept { return int((bits_ >> replica_shift) & 0xFF); }
  [[nodiscard]] constexpr std::int64_t microbatch() const noexcept { return std::int64_t(bits_ & 0xFFFFFFFF); }

  /// Whether this op and the next one of its program are an overlapped pair: one slot, one forward and one backward.
  [[nodiscard]] constexpr bool overlaps_next() const noexcept { return (bits_ & overlap_bit) != 0; }
  [[nodiscard]] constexpr op overlapping_next() const noexcept { return from_packed(bits_ | overlap_bit); }
  /// Whether this is an event of a lowered overlapped pair: its pair's other events run on the same rank beside it.
  [[nodiscard]] constexpr bool in_pair() const noexcept { return (bits_ & in_pair_bit) != 0; }
  [[nodiscard]] constexpr op put_in_pair() const noexcept { return from_packed(bits_ | in_pair_bit); }
  /// The same op, outside any pair.
  [[nodiscard]] constexpr op alone() const noexcept { return from_packed(bits_ & ~(overlap_bit | in_pair_bit)); }

  /// The op of another kind for the same stage, replica and microbatch, outside any pair.
  [[nodiscard]] constexpr op as(op_kind kind) const noexcept {
    return from_packed((bits_ & ~(std::uint64_t{0xFF} << kind_shift)) | std::uint64_t(kind) << kind_shift);
  }
  /// The same op of the next microbatch.
  [[nodiscard]] constexpr op next_microbatch() const noexcept { return from_packed(bits_ + 1); }
  [[nodiscard]] constexpr op microbatches_later(std::int64_t count) const noexcept {
    return from_packed(bits_ + std::uint64_t(count));
  }

  /// Bits 0..31 microbatch, 32..47 stage, 48..55 replica, 56..61 kind, 62 event of a pair, 63 opens a pair; the same on
  /// every compiler.
  [[nodiscard]] constexpr std::uint64_t packed() const noexcept { return bits_; }
  [[nodiscard]] static constexpr op from_packed(std::uint64_t bits) noexcept {
    op result;
    result.bits_ = bits;
    return result;
  }

  /// The same as `*this = from_packed(bits)`, but visibly the store of an integer: clang assumes that the copy of a
  /// class may alias anything, and would reload the writer's state after each op.
  constexpr void assign_packed(std::uint64_t bits) noexcept { bits_ = bits; }

  friend constexpr bool operator==(op, op) noexcept = default;

 private:
  static constexpr int stage_shift = 32;
  static constexpr int replica_shift = 48;
  static constexpr int kind_shift = 56;
  static constexpr std::uint64_t in_pair_bit = std::uint64_t{1} << 62;
  static constexpr std::uint64_t overlap_bit = std::uint64_t{1} << 63;

  std::uint64_t bits_;
};

static_assert(sizeof(op) == 8);

/// \name Ops by kind
/// \{
[[nodiscard]] constexpr op forward(stage_id stage, microbatch_id microbatch,
                                   replica_id replica = replica_id{0}) noexcept {
  return {op_kind::forward, stage, microbatch, replica};
}
[[nodiscard]] constexpr op backward(stage_id stage, microbatch_id microbatch,
                                    replica_id replica = replica_id{0}) noexcept {
  return {op_kind::backward, stage, microbatch, replica};
}
[[nodiscard]] constexpr op backward_input(stage_id stage, microbatch_id microbatch,
                                          replica_id replica = replica_id{0}) noexcept {
  return {op_kind::backward_input, stage, microbatch, replica};
}
[[nodiscard]] constexpr op backward_weight(stage_id stage, microbatch_id microbatch,
                                           replica_id replica = replica_id{0}) noexcept {
  return {op_kind::backward_weight, stage, microbatch, replica};
}
/// \}

/// "3F12": stage, kind, microbatch, as torch.distributed.pipelining writes it; "3UNSHARD" where there is none.
[[nodiscard]] inline std::string to_string(op o) {
  auto text = std::to_string(o.stage()).append(name_of(o.kind()));
  if (has_microbatch(o.kind())) text.append(std::to_string(o.microbatch()));
  return text;
}

}  // namespace v0
}  // namespace pipesched
