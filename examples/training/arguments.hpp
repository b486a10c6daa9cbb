// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What all training programs make of their command lines.

#include <charconv>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace training {

/// The whole number that `text` is. Throws `invalid_argument`, which names the argument, where it is none.
inline int number_of(std::string_view argument, std::string_view text) {
  int number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range)
    throw std::invalid_argument(std::string(argument).append(" = ").append(text).append(" is too large"));
  if (error != std::errc() || end != text.data() + text.size())
    throw std::invalid_argument(std::string(argument).append(" = ").append(text).append(", must be a whole number"));
  return number;
}

inline bool is_option(std::string_view word) { return word.substr(0, 1) == "-"; }

[[noreturn]] inline void refuse(std::string_view word) {
  throw std::invalid_argument(std::string(word).append(": no such argument; --help lists them"));
}

}  // namespace training
