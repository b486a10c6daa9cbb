// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Where the forward, the gradient op and the weight op of a (stage, microbatch) stand in a list of ops.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/sort.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// What a microbatch has one of on a stage: its forward, the op that carries its gradient (B or I), its W.
enum class op_role : std::uint8_t { forward, gradient, weight };

[[nodiscard]] constexpr op_role role_of(op_kind kind) noexcept {
  return kind == op_kind::forward           ? op_role::forward
         : kind == op_kind::backward_weight ? op_role::weight
                                            : op_role::gradient;
}

/// Looks up chunk ops by role, stage and microbatch; of several equal ones it knows the first. A table where that is
/// not much larger than the ops themselves, a sorted list else: three ops with microbatch 10^9 cost three entries.
class op_index {
 public:
  static constexpr std::uint32_t none = 0xFFFFFFFF;

  /// Throws `parameter_error` where the stage or the microbatch of a chunk op does not exist.
  constexpr op_index(std::span<op const> ops, int stages, std::int64_t microbatches)
      : stages_(stages), microbatches_(microbatches), roles_(2) {
    if (has_room_for_table(ops) && fill_table(ops)) return;
    roles_ = 3;
    if (has_room_for_table(ops))
      fill_table(ops);
    else
      fill_list(ops);
  }

  /// The position of the op, or `none`; stages and microbatches that do not exist have none.
  [[nodiscard]] constexpr std::uint32_t find(op_role role, int stage, std::int64_t microbatch) const noexcept {
    if (stage < 0 || stage >= stages_ || microbatch < 0 || microbatch >= microbatches_) return none;
    if (has_rows()) return int(role) < roles_ ? table_[slot_of(role, stage, microbatch)] : none;
    auto const key = key_of(role, stage, microbatch);
    auto const at =
        std::lower_bound(list_.begin(), list_.end(), key, [](entry e, std::uint64_t k) { return e.key < k; });
    return at != list_.end() && at->key == key ? at->position : none;
  }
  [[nodiscard]] constexpr std::uint32_t find(op o) const noexcept {
    return find(role_of(o.kind()), o.stage(), o.microbatch());
  }

  /// Whether there is a table.
  [[nodiscard]] constexpr bool has_rows() const noexcept { return table_.size() != 0; }
  /// The positions of one role's ops on a stage, one for each microbatch; null where no op has the role. Precondition:
  /// there is a table, and the stage exists.
  [[nodiscard]] constexpr std::uint32_t const* row(op_role role, int stage) const noexcept {
    return int(role) < roles_ ? table_.data() + slot_of(role, stage, 0) : nullptr;
  }
  [[nodiscard]] constexpr std::int64_t microbatches() const noexcept { return microbatches_; }

  /// The positions of the chunk ops that `find` does not find, for they are not the first.
  [[nodiscard]] constexpr std::span<std::uint32_t const> duplicates() const noexcept { return duplicates_; }

 private:
  struct entry {
    std::uint64_t key;
    std::uint32_t position;
  };

  [[nodiscard]] constexpr bool has_room_for_table(std::span<op const> ops) const noexcept {
    return roles_ * stages_ * microbatches_ <= 4 * std::int64_t(ops.size()) + 4096;
  }

  /// Returns false where it meets a W and has no place for any: schedules without are not searched for one beforehand.
  constexpr bool fill_table(std::span<op const> ops) {
    table_ = buffer<std::uint32_t>(slot_of(op_role::forward, stages_, 0), none);
    duplicates_.clear();
    auto* const table = table_.data();
    std::array<std::size_t, 4> first_of_kind{};  // on stage 0; slot_of() without its branches
    for (auto kind : {op_kind::forward, op_kind::backward, op_kind::backward_input, op_kind::backward_weight})
      first_of_kind[std::size_t(kind)] = slot_of(role_of(kind), 0, 0);
    auto const per_stage = slot_of(op_role::forward, 1, 0);
    auto const last_kind = roles_ == 2 ? op_kind::backward_input : op_kind::backward_weight;
    auto const stages = stages_;  // the members would be loaded again after each store
    auto const microbatches = microbatches_;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      op const o = ops[i];
      if (o.kind() > last_kind) {
        if (is_chunk_op(o.kind())) return false;
        continue;
      }
      if (o.stage() >= stages || o.microbatch() >= microbatches) refuse(o);
      auto& slot = table[first_of_kind[std::size_t(o.kind())] + per_stage * std::size_t(o.stage()) +
                         std::size_t(o.microbatch())];
      if (slot == none)
        slot = std::uint32_t(i);
      else
        duplicates_.push_back(std::uint32_t(i));
    }
    return true;
  }

  constexpr void fill_list(std::span<op const> ops) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (!is_chunk_op(ops[i].kind())) continue;
      if (!exists(ops[i])) refuse(ops[i]);
      list_.push_back(entry{key_of(role_of(ops[i].kind()), ops[i].stage(), ops[i].microbatch()), std::uint32_t(i)});
    }
    detail::sort(list_, [](entry a, entry b) { return a.key != b.key ? a.key < b.key : a.position < b.position; });
  }

  [[nodiscard]] constexpr bool exists(op o) const noexcept {
    return o.stage() < stages_ && o.microbatch() < microbatches_;
  }
  /// Apart, so that the check itself is two comparisons within the caller's loop.
  constexpr void refuse(op o) const {
    require(first_violation({at_most("stage", o.stage(), stages_ - 1, "stages - 1"),
                             at_most("microbatch", o.microbatch(), microbatches_ - 1, "microbatches - 1")}));
  }

  /// [stage][role][microbatch]
  [[nodiscard]] constexpr std::size_t slot_of(op_role role, int stage, std::int64_t microbatch) const noexcept {
    return (std::size_t(stage) * std::size_t(roles_) + std::size_t(role)) * std::size_t(microbatches_) +
           std::size_t(microbatch);
  }
  [[nodiscard]] static constexpr std::uint64_t key_of(op_role role, int stage, std::int64_t microbatch) noexcept {
    return std::uint64_t(role) << 48 | std::uint64_t(stage) << 32 | std::uint64_t(microbatch);
  }

  int stages_;
  std::int64_t microbatches_;
  std::int64_t roles_;
  buffer<std::uint32_t> table_;
  std::vector<entry> list_;
  std::vector<std::uint32_t> duplicates_;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
