// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The building blocks of a V: one microbatch's ops on each rank, repeated at a fixed interval.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Slots of unit time on one rank: of microbatch 0's forward down and up again, and of its backward down and up again.
/// Each further microbatch has the same, a period later: F, F, I, I and the two W, which take what slots are left.
struct building_block {
  static constexpr int period = 6;

  std::int32_t lower_forward;
  std::int32_t upper_forward;
  std::int32_t upper_backward;
  std::int32_t lower_backward;
};

/// What a rank of a V runs in a slot.
struct v_slot {
  /// The first four in the order in which a microbatch runs them. The weights of both stages are one queue: which is
  /// which does not matter to memory.
  enum use : std::uint8_t { lower_forward, upper_forward, upper_backward, lower_backward, weight, idle };

  [[nodiscard]] static constexpr bool is_forward(use u) { return u <= upper_forward; }
  [[nodiscard]] static constexpr bool is_backward(use u) { return u == upper_backward || u == lower_backward; }
};

/// What a rank holds after a slot, and how many of its weights wait.
struct v_load {
  std::int32_t held = 0;
  std::int32_t waiting = 0;

  /// One slot with that forward or backward, or with a weight where one waits. Returns what runs.
  constexpr v_slot::use pass(v_slot::use what) {
    if (what >= v_slot::weight) what = waiting > 0 ? v_slot::weight : v_slot::idle;
    change_by(what, 1);
    return what;
  }
  constexpr void undo(v_slot::use what) { change_by(what, -1); }

  friend constexpr bool operator==(v_load, v_load) = default;

 private:
  constexpr void change_by(v_slot::use what, std::int32_t times) {
    held += times * (int{v_slot::is_forward(what)} - int{what == v_slot::weight});
    waiting += times * (int{v_slot::is_backward(what)} - int{what == v_slot::weight});
  }
};

/// A rank's blocks as they repeat, slot after slot, with each weight in the first free one.
class repeated_block {
 public:
  constexpr repeated_block(building_block const& of, std::int32_t microbatches)
      : first_{of.lower_forward, of.upper_forward, of.upper_backward, of.lower_backward},
        left_{microbatches, microbatches, microbatches, microbatches} {
    in_period_.fill(v_slot::idle);
    for (auto what : {v_slot::lower_forward, v_slot::upper_forward, v_slot::upper_backward, v_slot::lower_backward})
      in_period_[std::size_t(first_[what] % building_block::period)] = what;
  }

  /// The slot from which on nothing runs any more. The blocks leave two slots of a period free for the weights of its
  /// two backwards, so that no more than two wait at the end.
  [[nodiscard]] constexpr std::int32_t end() const {
    return *std::max_element(first_.begin(), first_.end()) + building_block::period * (left_[0] - 1) + 1 + 2;
  }
  /// The most that the rank holds: once all four kinds of ops run, it holds no more from one period to the next.
  [[nodiscard]] constexpr std::int32_t most_held() const {
    auto block = *this;
    std::int32_t most = 0;
    for (auto t = block.slot_; t < first_[v_slot::lower_backward] + 2 * building_block::period; ++t) {
      block.next();
      most = std::max(most, block.now_.held);
    }
    return most;
  }

  /// What runs in the next slot.
  constexpr v_slot::use next() {
    auto what = in_period_[place_];
    if (what != v_slot::idle && (slot_ < first_[what] || left_[what]-- <= 0)) what = v_slot::idle;
    ++slot_;
    place_ = place_ + 1 == in_period_.size() ? 0 : place_ + 1;
    return now_.pass(what);
  }

 private:
  std::array<std::int32_t, 4> first_;
  std::array<std::int32_t, 4> left_;
  std::array<v_slot::use, building_block::period> in_period_{};
  std::size_t place_ = 0;
  std::int32_t slot_ = 0;
  v_load now_;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
