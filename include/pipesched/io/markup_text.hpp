// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Text as XML and HTML write it.

#include <cstddef>
#include <string>
#include <string_view>

#include <pipesched/io/json_text.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Appends `text` so that XML and HTML read it as text, in an element or in a quoted attribute. Characters that XML 1.0
/// has no way to write, and bytes that are no UTF-8, become U+FFFD.
inline void append_markup_text(std::string& out, std::string_view text) {
  constexpr std::string_view replacement = "\xEF\xBF\xBD";
  while (!text.empty()) {
    auto const length = utf8_length(text);
    auto const c = text.substr(0, length == 0 ? 1 : length);
    bool const control = static_cast<unsigned char>(c[0]) < 0x20 && c != "\n" && c != "\t";
    if (length == 0 || control || c == "\xEF\xBF\xBE" || c == "\xEF\xBF\xBF")
      out += replacement;
    else if (c == "<")
      out += "&lt;";
    else if (c == ">")
      out += "&gt;";
    else if (c == "&")
      out += "&amp;";
    else if (c == "\"")
      out += "&quot;";
    else if (c == "'")
      out += "&#39;";
    else
      out += c;
    text.remove_prefix(c.size());
  }
}

[[nodiscard]] inline std::string markup_text(std::string_view text) {
  std::string out;
  append_markup_text(out, text);
  return out;
}

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
