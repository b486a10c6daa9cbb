// SPDX-License-Identifier: MIT
#include "decimal.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "usage_error.hpp"

decimal decimal::of(double value) {
  constexpr double exact = 9007199254740992.0;  // 2^53: beyond it a double has no fraction to lose
  if (std::trunc(value) == value && std::abs(value) <= exact) return of(static_cast<std::int64_t>(value));
  return {value, std::nullopt};
}

decimal parse_time(std::string_view parameter, std::string_view text) {
  auto const* const end = text.data() + text.size();
  std::int64_t whole = 0;
  if (auto const [rest, error] = std::from_chars(text.data(), end, whole); error == std::errc{} && rest == end) {
    if (whole < 0) throw usage_error(fmt::format("{} = {}, must be at least 0", parameter, text));
    return decimal::of(whole);
  }
  double real = 0;
  auto const [rest, error] = std::from_chars(text.data(), end, real);
  if (error == std::errc::result_out_of_range && rest == end)
    throw usage_error(fmt::format("{} = {}, must be at most {}", parameter, text, std::numeric_limits<double>::max()));
  if (error != std::errc{} || rest != end || std::isnan(real))
    throw usage_error(fmt::format("{} = {}, must be a number", parameter, text.empty() ? "''" : text));
  if (real < 0) throw usage_error(fmt::format("{} = {}, must be at least 0", parameter, text));
  if (std::isinf(real))
    throw usage_error(fmt::format("{} = {}, must be at most {}", parameter, text, std::numeric_limits<double>::max()));
  return decimal::of(real);
}

std::int64_t parse_count(std::string_view parameter, std::string_view text, std::int64_t least) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  auto const* const end = text.data() + text.size();
  std::int64_t value = 0;
  auto const [rest, error] = std::from_chars(text.data(), end, value);
  if (rest != end || error == std::errc::invalid_argument)
    throw usage_error(fmt::format("{} = {}, must be a whole number", parameter, text.empty() ? "''" : text));
  bool const too_large = error != std::errc{} ? text.front() != '-' : value > most;
  if (too_large) throw usage_error(fmt::format("{} = {}, must be at most {}", parameter, text, most));
  if (error != std::errc{} || value < least)
    throw usage_error(fmt::format("{} = {}, must be at least {}", parameter, text, least));
  return value;
}
