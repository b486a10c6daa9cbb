// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The moment at which a wait of a transport is given up.

#include <chrono>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// `time_out` from now, or the last moment that the clock has: a time-out may be as long as its type allows, for a user
/// who wants none. Its past, for one below 0.
[[nodiscard]] inline std::chrono::steady_clock::time_point deadline_after(std::chrono::nanoseconds time_out) {
  using time_point = std::chrono::steady_clock::time_point;
  auto const now = std::chrono::steady_clock::now();
  return time_out < time_point::max() - now ? now + time_out : time_point::max();
}

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
