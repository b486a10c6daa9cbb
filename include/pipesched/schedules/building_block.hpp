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
    if (what >= v_slot::weight) what = free_slot();
    change_by(what, 1);
    return what;
  }
  [[nodiscard]] constexpr v_slot::use free_slot() const { return waiting > 0 ? v_slot::weight : v_slot::idle; }
  constexpr void undo(v_slot::use what) { change_by(what, -1); }

  friend constexpr bool operator==(v_load, v_load) = default;

 private:
  static constexpr std::array<std::int8_t, 6> held_by{1, 1, 0, 0, -1, 0};
  static constexpr std::array<std::int8_t, 6> waiting_by{0, 0, 1, 1, -1, 0};

  constexpr void change_by(v_slot::use what, std::int32_t times) {
    held += times * held_by[what];
    waiting += times * waiting_by[what];
  }
};

/// A rank's blocks as they repeat, with each weight in the first free slot.
class repeated_block {
 public:
  repeated_block() = default;
  constexpr repeated_block(building_block const& of, std::int32_t microbatches)
      : first_{of.lower_forward, of.upper_forward, of.upper_backward, of.lower_backward}, microbatches_(microbatches) {
    in_period_.fill(v_slot::idle);
    for (auto what : {v_slot::lower_forward, v_slot::upper_forward, v_slot::upper_backward, v_slot::lower_backward})
      in_period_[std::size_t(first_[what] % building_block::period)] = what;
  }

  /// The forward or backward in a slot, which is at some place of its period; `idle` where there is none. `count`: how
  /// many of each there were before.
  [[nodiscard]] constexpr v_slot::use at(std::int32_t slot, std::size_t place,
                                         std::array<std::int32_t, 4> const& count) const {
    auto const what = in_period_[place];
    if (what == v_slot::idle || slot < first_[what] || count[what] == microbatches_) return v_slot::idle;
    return what;
  }
  /// The slot from which on nothing runs any more. The blocks leave two slots of a period free for the weights of its
  /// two backwards, so that no more than two wait at the end.
  [[nodiscard]] constexpr std::int32_t end() const {
    return *std::max_element(first_.begin(), first_.end()) + building_block::period * (microbatches_ - 1) + 1 + 2;
  }
  /// The most that the rank holds.
  [[nodiscard]] constexpr std::int32_t most_held() const {
    // It lets go of nothing before the first backward, and holds no more from period to period once all kinds run.
    auto const begin = first_[v_slot::upper_backward];
    auto const end = first_[v_slot::lower_backward] + 2 * building_block::period;
    std::array<std::int32_t, 4> count{};
    v_load now;
    for (auto what : {v_slot::lower_forward, v_slot::upper_forward}) {
      auto const until_then = (begin - first_[what] + building_block::period - 1) / building_block::period;
      count[what] = std::clamp(until_then, 0, microbatches_);
      now.held += count[what];
    }
    std::int32_t most = now.held;
    for (auto t = begin; t < end; ++t) {
      auto const what = now.pass(at(t, std::size_t(t % building_block::period), count));
      if (what < v_slot::weight) ++count[what];
      most = std::max(most, now.held);
    }
    return most;
  }

 private:
  std::array<std::int32_t, 4> first_{};
  std::int32_t microbatches_ = 0;
  std::array<v_slot::use, building_block::period> in_period_{};
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
