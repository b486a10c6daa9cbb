// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

/// A number as a user writes it, which stays a whole number where it is one.
struct decimal {
  double real = 0;
  std::optional<std::int64_t> whole = 0;  ///< nothing where the value is not whole or does not fit

  static decimal of(std::int64_t value) { return {static_cast<double>(value), value}; }
  static decimal of(double value);
};

/// The number that `text` writes in decimal, 0 or more. Throws `usage_error`, which names `parameter`, for anything
/// else: negative, infinite, not a number, beyond what a double can hold.
decimal parse_time(std::string_view parameter, std::string_view text);

/// A whole number from `least` to 2^31 - 1. Throws `usage_error`, which names `parameter` and the bound.
std::int64_t parse_count(std::string_view parameter, std::string_view text, std::int64_t least = 1);
