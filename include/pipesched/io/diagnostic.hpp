// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What is wrong with a schedule or a file, in words.

#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <pipesched/core/view.hpp>
#include <pipesched/io/json_text.hpp>

namespace pipesched {
inline namespace v0 {

/// One thing that is wrong: where, with which op, what, and what was expected.
struct diagnostic {
  std::string kind;            ///< a name that stays: that of a `fault_kind`, or of what a file's reader reports
  int rank = -1;               ///< the rank, or row of a file, from 0; -1 where it is of no rank
  std::int64_t position = -1;  ///< the place in the rank's program, or cell of the row, from 0; -1 where it has none
  std::int64_t line = 0;       ///< of a file, from 1; 0 where there is no file
  std::int64_t column = 0;     ///< the byte of the line, from 1
  std::string op = {};         ///< the op as text; the token of a file where it is none
  std::string message = {};    ///< what is wrong
  std::string expected = {};   ///< what would have been right; may be empty

  friend bool operator==(diagnostic const&, diagnostic const&) = default;
};

/// One line: "rank 1, position 4, 3B0: waits for 3F0, which comes later on the same rank".
[[nodiscard]] inline std::string to_string(diagnostic const& d) {
  std::string text;
  auto const append = [&](std::string_view part) {
    if (!text.empty()) text += ", ";
    text += part;
  };
  if (d.rank >= 0) append(fmt::format("rank {}", d.rank));
  if (d.position >= 0) append(fmt::format("position {}", d.position));
  if (d.rank < 0 && d.line > 0) append(fmt::format("line {}, column {}", d.line, d.column));
  if (!d.op.empty()) append(d.op);
  if (!text.empty()) text += ": ";
  text += d.message;
  if (!d.expected.empty()) text += fmt::format("; expected {}", d.expected);
  return text;
}

/// A JSON array of objects with the members of `diagnostic`; those that are not set are left out.
[[nodiscard]] inline std::string to_json(view<diagnostic> diagnostics) {
  std::string text = "[";
  for (auto const& d : diagnostics) {
    text += text.size() > 1 ? ",\n {\"kind\": " : "{\"kind\": ";
    detail::append_json_string(text, d.kind);
    if (d.rank >= 0) text += fmt::format(", \"rank\": {}", d.rank);
    if (d.position >= 0) text += fmt::format(", \"position\": {}", d.position);
    if (d.line > 0) text += fmt::format(", \"line\": {}, \"column\": {}", d.line, d.column);
    auto const append = [&](std::string_view key, std::string_view value) {
      if (value.empty()) return;
      text += fmt::format(", \"{}\": ", key);
      detail::append_json_string(text, value);
    };
    append("op", d.op);
    append("message", d.message);
    append("expected", d.expected);
    text += "}";
  }
  return text + "]\n";
}

namespace detail {

/// Text from outside, fit to be shown: not longer than `limit` bytes, everything but printable ASCII as \xNN.
[[nodiscard]] inline std::string printable(std::string_view text, std::size_t limit = 40) {
  std::string shown;
  for (char const c : text.substr(0, limit)) {
    if (c >= ' ' && c <= '~')
      shown += c;
    else
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  if (text.size() > limit) shown += "...";
  return shown;
}

}  // namespace detail

}  // namespace v0
}  // namespace pipesched
