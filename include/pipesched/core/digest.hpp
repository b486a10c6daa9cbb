// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A fingerprint that ranks compare before step 0: equal schedules have equal digests, on every compiler.

#include <cstdint>

namespace pipesched {
inline namespace v0 {

/// A running 64-bit fingerprint of whole numbers, in order. It guards against mistakes, not against an attacker.
class digest {
 public:
  constexpr void add(std::uint64_t word) noexcept {
    // One round of MurmurHash3's 64-bit finaliser over the running state.
    std::uint64_t mixed = (state_ ^ word) * 0xff51afd7ed558ccdULL;
    mixed = (mixed ^ (mixed >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    state_ = (mixed ^ (mixed >> 33)) + 0x9e3779b97f4a7c15ULL;
  }
  [[nodiscard]] constexpr std::uint64_t value() const noexcept { return state_; }

 private:
  std::uint64_t state_ = 0x70697065736368ULL;
};

}  // namespace v0
}  // namespace pipesched
