// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Strings and numbers as JSON writes them.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <pipesched/io/append.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// The length of the UTF-8 sequence that `text` begins with, or 0 where it is none: overlong forms, surrogates and
/// values beyond U+10FFFF are refused.
[[nodiscard]] inline std::size_t utf8_length(std::string_view text) noexcept {
  auto const byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  auto const follows = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  auto const first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!follows(1) || !follows(2)) return 0;
    return (first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) ? 0 : 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!follows(1) || !follows(2) || !follows(3)) return 0;
    return (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F) ? 0 : 4;
  }
  return 0;
}

/// Appends `value` as a JSON string. Bytes that are no UTF-8 become U+FFFD: JSON has no way to write them.
inline void append_json_string(std::string& out, std::string_view value) {
  out += '"';
  while (!value.empty()) {
    auto const length = utf8_length(value);
    char const c = value.front();
    if (length == 0) {
      out += "\\ufffd";
    } else if (length > 1) {
      out.append(value.substr(0, length));
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      detail::append(out, "\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
    value.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

/// Appends a number: whole ones without a point, others in the fewest digits that read back equal, `null` where JSON
/// has no such number.
inline void append_json_number(std::string& out, std::int64_t value) { detail::append(out, "{}", value); }
inline void append_json_number(std::string& out, double value) {
  if (!std::isfinite(value))
    out += "null";
  else
    detail::append(out, "{}", value);
}

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
