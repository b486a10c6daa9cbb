// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Where the forward, the gradient op and the weight op of a (stage, microbatch) stand in a list of ops.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/sort.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>

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

  /// What is known of the ops of one role and stage, `block_size` microbatches at a time.
  struct block {
    static constexpr std::uint32_t no_lane = 0xFFFFFFFF;
    static constexpr std::uint32_t many_lanes = 0xFFFFFFFE;

    std::uint32_t lane = no_lane;    ///< that has all of them; `no_lane` where there are none
    bool has_full_backward = false;  ///< which no W may follow
  };
  static constexpr std::int64_t block_size = 256;

  /// Lane i of `ops` begins at `lane_begin[i]`, where the last one ends; all are one lane where that is not said. As
  /// they are read anyway, they can be copied to `copy` by the way. Throws `parameter_error` where the stage or the
  /// microbatch of a chunk op does not exist.
  constexpr op_index(view<op> ops, int stages, std::int64_t microbatches, vector<std::uint32_t> const& lane_begin = {},
                     op* copy = nullptr)
      : stages_(stages), microbatches_(microbatches), roles_(2) {
    if (has_room_for_table(ops) && fill_table(ops, lane_begin, copy)) return;
    roles_ = 3;
    if (has_room_for_table(ops))
      fill_table(ops, lane_begin, copy);
    else
      fill_list(ops, copy);
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

  /// \name The table
  /// Precondition: there is one, and the stage exists.
  /// \{
  [[nodiscard]] constexpr bool has_rows() const noexcept { return table_.size() != 0; }
  /// Whether any op has the role: others have no rows.
  [[nodiscard]] constexpr bool has_rows_of(op_role role) const noexcept { return int(role) < roles_; }
  /// The positions of one role's ops on a stage, one for each microbatch.
  [[nodiscard]] constexpr std::uint32_t const* row(op_role role, int stage) const noexcept {
    return table_.data() + slot_of(role, stage, 0);
  }
  /// The part of a row that has the microbatch.
  [[nodiscard]] constexpr block block_at(op_role role, int stage, std::int64_t microbatch) const noexcept {
    return blocks_[block_number(role, stage, microbatch)];
  }
  [[nodiscard]] constexpr std::int64_t microbatches() const noexcept { return microbatches_; }
  /// \}

 private:
  struct entry {
    std::uint64_t key;
    std::uint32_t position;
  };

  /// The rows that a lane's ops went to last, each with a key that tells ops of one block from all others. Few kinds of
  /// ops take turns, so that almost each finds its row here.
  struct open_rows {
    static constexpr std::size_t size = 32;
    std::array<std::uint64_t, size> keys;
    std::array<std::uint32_t*, size> rows{};

    constexpr open_rows() noexcept {
      for (auto& key : keys) key = ~std::uint64_t{0};
    }
    [[nodiscard]] static constexpr std::uint64_t key_of(op o) noexcept {
      return o.packed() / std::uint64_t{block_size};
    }
    /// By a hash of all but the microbatch.
    [[nodiscard]] static constexpr std::size_t place_of(op o) noexcept {
      return std::uint32_t(o.packed() >> 32) * 0x9E3779B1U >> 27;
    }
  };

  [[nodiscard]] constexpr bool has_room_for_table(view<op> ops) const noexcept {
    return roles_ * stages_ * microbatches_ <= 4 * std::int64_t(ops.size()) + 4096;
  }

  /// Returns false where it meets a W and has no place for any: schedules without are not searched for one beforehand.
  constexpr bool fill_table(view<op> ops, vector<std::uint32_t> const& lane_begin, op* copy) {
    table_ = buffer<std::uint32_t>(slot_of(op_role::forward, stages_, 0), none);
    blocks_.assign(block_number(op_role::forward, stages_, 0), block{});
    if (lane_begin.empty()) return fill_lane(ops, 0, std::uint32_t(ops.size()), 0, copy);
    for (auto lane = lane_begin.size() - 1; lane-- > 0;)
      if (!fill_lane(ops, lane_begin[lane], lane_begin[lane + 1], std::uint32_t(lane), copy)) return false;
    return true;
  }
  /// From the last op to the first, which is the one that stays.
  constexpr bool fill_lane(view<op> ops, std::uint32_t begin, std::size_t end, std::uint32_t lane, op* copy) {
    auto const* const from = ops.data();
    auto const microbatches = microbatches_;  // the member would be loaded again after each store
    open_rows open;
    for (auto i = end; i-- > begin;) {
      op const o = from[i];
      if (copy != nullptr) copy[i].assign_packed(o.packed());
      auto const at = open_rows::place_of(o);
      if (open.keys[at] != open_rows::key_of(o)) [[unlikely]] {
        if (!is_chunk_op(o.kind())) continue;
        if (!has_rows_of(role_of(o.kind()))) return false;
        if (!exists(o)) refuse_first(ops);
        open.keys[at] = open_rows::key_of(o);
        open.rows[at] = open_row(o, lane);
      }
      if (o.microbatch() >= microbatches) [[unlikely]]
        refuse_first(ops);
      open.rows[at][o.microbatch()] = std::uint32_t(i);
    }
    return true;
  }
  /// The row of an op, where its block has been told of its lane.
  [[nodiscard]] [[gnu::noinline]] constexpr std::uint32_t* open_row(op o, std::uint32_t lane) {
    auto const role = role_of(o.kind());
    auto& known = blocks_[block_number(role, o.stage(), o.microbatch())];
    known.lane = known.lane == block::no_lane || known.lane == lane ? lane : block::many_lanes;
    known.has_full_backward |= o.kind() == op_kind::backward;
    return table_.data() + slot_of(role, o.stage(), 0);
  }

  constexpr void fill_list(view<op> ops, op* copy) {
    if (copy != nullptr) std::copy(ops.begin(), ops.end(), copy);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (!is_chunk_op(ops[i].kind())) continue;
      if (!exists(ops[i])) refuse_first(ops);
      list_.push_back(entry{key_of(role_of(ops[i].kind()), ops[i].stage(), ops[i].microbatch()), std::uint32_t(i)});
    }
    detail::sort(list_, [](entry a, entry b) { return a.key != b.key ? a.key < b.key : a.position < b.position; });
  }

  [[nodiscard]] constexpr bool exists(op o) const noexcept {
    return o.stage() < stages_ && o.microbatch() < microbatches_;
  }
  /// The first chunk op of a stage or a microbatch that does not exist; there is one.
  constexpr void refuse_first(view<op> ops) const {
    for (op o : ops)
      if (is_chunk_op(o.kind()))
        require(first_violation({at_most("stage", o.stage(), stages_ - 1, "stages - 1"),
                                 at_most("microbatch", o.microbatch(), microbatches_ - 1, "microbatches - 1")}));
  }

  /// [stage][role][microbatch]
  [[nodiscard]] constexpr std::size_t slot_of(op_role role, int stage, std::int64_t microbatch) const noexcept {
    return row_number(role, stage) * std::size_t(microbatches_) + std::size_t(microbatch);
  }
  /// [stage][role][microbatch / block_size]
  [[nodiscard]] constexpr std::size_t block_number(op_role role, int stage, std::int64_t microbatch) const noexcept {
    auto const blocks_of_row = (microbatches_ + block_size - 1) / block_size;
    return row_number(role, stage) * std::size_t(blocks_of_row) + std::size_t(microbatch / block_size);
  }
  [[nodiscard]] constexpr std::size_t row_number(op_role role, int stage) const noexcept {
    return std::size_t(stage) * std::size_t(roles_) + std::size_t(role);
  }
  [[nodiscard]] static constexpr std::uint64_t key_of(op_role role, int stage, std::int64_t microbatch) noexcept {
    return std::uint64_t(role) << 48 | std::uint64_t(stage) << 32 | std::uint64_t(microbatch);
  }

  int stages_;
  std::int64_t microbatches_;
  std::int64_t roles_;
  buffer<std::uint32_t> table_;
  vector<block> blocks_;
  vector<entry> list_;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
