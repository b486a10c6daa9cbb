// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The ops of a schedule, gathered by stage and microbatch.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/sort.hpp>
#include <pipesched/core/view.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// The positions of chunk ops, sorted by stage, microbatch and position. By counting where there are not many more
/// (stage, microbatch) than ops, by comparing else: three ops with microbatch 10^9 cost three entries.
class op_groups {
 public:
  constexpr op_groups(view<op> ops, int stages, std::int64_t microbatches) : ops_(ops) {
    auto const slots = stages * microbatches;
    if (slots <= 4 * std::int64_t(ops.size()) + 4096)
      sort_by_counting(std::size_t(slots), microbatches);
    else
      sort_by_comparing();
  }

  /// Calls `visit(positions)` for each (stage, microbatch) that has ops, in order of stage and then microbatch.
  template <class Visit>
  constexpr void for_each(Visit&& visit) const {
    for (std::size_t i = 0; i < count_;) {
      auto end = i + 1;
      while (end < count_ && key_of(positions_[end]) == key_of(positions_[i])) ++end;
      visit(positions_.view().subspan(i, end - i));
      i = end;
    }
  }

 private:
  /// Stage and microbatch, as they stand in the packed op.
  [[nodiscard]] constexpr std::uint64_t key_of(std::uint32_t position) const noexcept {
    return ops_[position].packed() & 0x0000'FFFF'FFFF'FFFF;
  }

  constexpr void sort_by_counting(std::size_t slots, std::int64_t microbatches) {
    buffer<std::uint32_t> next(slots + 1, 0);
    auto const slot_of = [&](op o) {
      return std::size_t(o.stage()) * std::size_t(microbatches) + std::size_t(o.microbatch());
    };
    for (op o : ops_)
      if (is_chunk_op(o.kind())) ++next[slot_of(o) + 1];
    for (std::size_t slot = 0; slot < slots; ++slot) next[slot + 1] += next[slot];
    count_ = next[slots];
    positions_ = buffer<std::uint32_t>(count_);
    for (std::size_t i = 0; i < ops_.size(); ++i)
      if (is_chunk_op(ops_[i].kind())) positions_[next[slot_of(ops_[i])]++] = std::uint32_t(i);
  }

  constexpr void sort_by_comparing() {
    positions_ = buffer<std::uint32_t>(ops_.size());
    for (std::size_t i = 0; i < ops_.size(); ++i)
      if (is_chunk_op(ops_[i].kind())) positions_[count_++] = std::uint32_t(i);
    detail::sort(positions_.data(), positions_.data() + count_, [&](std::uint32_t a, std::uint32_t b) {
      return key_of(a) != key_of(b) ? key_of(a) < key_of(b) : a < b;
    });
  }

  view<op> ops_;
  buffer<std::uint32_t> positions_;
  std::size_t count_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
