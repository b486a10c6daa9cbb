// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A table of text whose columns are as wide as their widest cell.

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <pipesched/core/vector.hpp>
#include <pipesched/io/append.hpp>

namespace pipesched {
inline namespace v0 {

/// Cells right-aligned, two blanks between columns; the first `left` columns left-aligned.
class text_table {
 public:
  explicit text_table(std::vector<std::string> header, std::size_t left = 0) : left_(left) { add(std::move(header)); }

  /// One more line. A line that is shorter than the header ends early.
  void add(std::vector<std::string> cells) {
    widths_.resize(std::max(widths_.size(), cells.size()), 0);
    for (std::size_t i = 0; i < cells.size(); ++i) widths_[i] = std::max(widths_[i], cells[i].size());
    lines_.push_back(std::move(cells));
  }

  /// The columns of the widest line.
  [[nodiscard]] std::size_t width() const noexcept {
    std::size_t sum = widths_.empty() ? 0 : 2 * (widths_.size() - 1);
    for (auto const column : widths_) sum += column;
    return sum;
  }

  [[nodiscard]] std::string text() const {
    std::string all;
    for (auto const& line : lines_) {
      for (std::size_t i = 0; i < line.size(); ++i) {
        if (i > 0) all += "  ";
        if (i >= left_)
          detail::append(all, "{:>{}}", line[i], widths_[i]);
        else if (i + 1 < line.size())
          detail::append(all, "{:<{}}", line[i], widths_[i]);
        else
          all += line[i];
      }
      all += '\n';
    }
    return all;
  }

 private:
  std::size_t left_;
  std::vector<std::vector<std::string>> lines_;
  detail::vector<std::size_t> widths_;
};

}  // namespace v0
}  // namespace pipesched
