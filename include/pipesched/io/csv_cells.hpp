// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The lines of a text and the cells of a comma-separated line.

#include <cstddef>
#include <string_view>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Takes one line, without its end, from the front of `text`. Lines end with LF, CRLF or CR; an end after the last
/// line is not one more line.
[[nodiscard]] constexpr std::string_view take_line(std::string_view& text) noexcept {
  auto const length = text.find_first_of("\r\n");
  auto const line = text.substr(0, length);
  if (length == std::string_view::npos) {
    text = {};
    return line;
  }
  bool const two = text[length] == '\r' && length + 1 < text.size() && text[length + 1] == '\n';
  text.remove_prefix(length + (two ? 2 : 1));
  return line;
}

/// One cell: what stands between the commas, without blanks around it and without quotes.
struct csv_cell {
  std::string_view text;
  std::size_t column;   ///< where `text` begins in its line, from 0
  bool broken = false;  ///< a quote that is not closed, or text beside a quoted one
};

/// The cells of one line, one after another. A quoted cell ends with its line at the latest.
class csv_cells {
 public:
  constexpr explicit csv_cells(std::string_view line) noexcept : line_(line) {}

  /// Whether there is another cell; an empty line has none.
  [[nodiscard]] constexpr bool more() const noexcept { return at_ <= line_.size() && !line_.empty(); }

  [[nodiscard]] constexpr csv_cell next() noexcept {
    auto begin = at_;
    while (begin < line_.size() && blank(line_[begin])) ++begin;
    bool const quoted = begin < line_.size() && line_[begin] == '"';
    auto end = quoted ? end_of_quotes(begin + 1) : begin;
    bool const open = quoted && end == line_.size();
    auto const comma = line_.find(',', open ? end : end + (quoted ? 1 : 0));
    auto const stop = comma == std::string_view::npos ? line_.size() : comma;
    at_ = stop + 1;
    bool broken = open;
    if (quoted && !open) {
      for (auto i = end + 1; i < stop; ++i) broken = broken || !blank(line_[i]);
      if (!broken) ++begin;
    }
    if (!quoted || broken) end = stop;
    while (begin < end && blank(line_[begin])) ++begin;
    while (begin < end && blank(line_[end - 1])) --end;
    return {line_.substr(begin, end - begin), begin, broken};
  }

 private:
  [[nodiscard]] static constexpr bool blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\v' || c == '\f'; }
  /// The closing quote of a cell, or the end of the line; a doubled quote does not close.
  [[nodiscard]] constexpr std::size_t end_of_quotes(std::size_t i) const noexcept {
    for (; i < line_.size(); ++i) {
      if (line_[i] != '"') continue;
      if (i + 1 == line_.size() || line_[i + 1] != '"') return i;
      ++i;
    }
    return line_.size();
  }

  std::string_view line_;
  std::size_t at_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
