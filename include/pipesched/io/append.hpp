// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Formatted text at the end of a string.

#include <string>
#include <utility>

#include <fmt/core.h>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Not `fmt::format_to`: that is compiled again in each file that calls it, which costs a second, where `fmt::format`
/// is in the library.
template <class... Args>
void append(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
  text += fmt::format(format, std::forward<Args>(args)...);
}

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
