// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Reads and writes measured times as CSV: one op a line.

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <pipesched/analysis/measured_cost.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/io/csv_cells.hpp>
#include <pipesched/io/diagnostic.hpp>
#include <pipesched/io/measured_name.hpp>

namespace pipesched {
inline namespace v0 {

/// What was read from a file of measured times.
struct measured_times {
  std::vector<measured_op> ops = {};
  std::vector<diagnostic> diagnostics = {};
};

namespace detail {

/// The number that the whole of `text` writes, if it is finite.
[[nodiscard]] inline std::optional<double> whole_number_text(std::string_view text) {
  double value = 0;
  auto const end = text.data() + text.size();
  auto const [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || !std::isfinite(value)) return {};
  return value;
}

/// Reads the lines of one file of measured times.
class measured_csv_reader {
 public:
  [[nodiscard]] measured_times read(std::string_view text) {
    if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
    for (std::int64_t line = 1; !text.empty(); ++line) {
      auto const cells = cells_of(take_line(text));
      if (cells.empty() || (cells.size() == 1 && cells[0].text.empty())) continue;
      if (!header_known_ && take_header(cells)) continue;
      read_line(line, cells);
    }
    if (left_out_ > 0)
      times_.diagnostics.push_back({.kind = "too_many", .message = fmt::format("{} more lines are wrong", left_out_)});
    return std::move(times_);
  }

 private:
  static constexpr std::size_t max_columns = 64;
  static constexpr std::size_t max_diagnostics = 10000;
  static constexpr std::size_t none = ~std::size_t{0};

  [[nodiscard]] static vector<csv_cell> cells_of(std::string_view line) {
    vector<csv_cell> result;
    for (csv_cells cells(line); cells.more() && result.size() < max_columns;) result.push_back(cells.next());
    return result;
  }

  /// Finds out what the columns are. True where the line is a header, which names them.
  [[nodiscard]] bool take_header(vector<csv_cell> const& cells) {
    header_known_ = true;
    std::size_t rank = none;
    std::size_t name = none;
    std::size_t duration = none;
    std::size_t start = none;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (cells[i].text == "rank") rank = i;
      if (cells[i].text == "op" || cells[i].text == "action" || cells[i].text == "name") name = i;
      if (cells[i].text == "duration") duration = i;
      if (cells[i].text == "start") start = i;
    }
    bool const is_header = name != none && duration != none;
    if (is_header) {
      rank_ = rank;
      name_ = name;
      duration_ = duration;
      start_ = start;
    } else if (parse_measured_name(cells[0].text)) {
      rank_ = none;
      name_ = 0;
      duration_ = 1;
      start_ = 2;
    }
    return is_header;
  }

  void read_line(std::int64_t line, vector<csv_cell> const& cells) {
    auto const text = [&](std::size_t column) {
      return column < cells.size() ? cells[column].text : std::string_view{};
    };
    auto const complain = [&](std::size_t column, std::string_view message, std::string_view expected) {
      if (times_.diagnostics.size() >= max_diagnostics) {
        ++left_out_;
        return;
      }
      std::size_t const at = column < cells.size() ? cells[column].column : 0;
      times_.diagnostics.push_back({.kind = "bad_measurement",
                                    .line = line,
                                    .column = std::int64_t(at) + 1,
                                    .op = printable(text(column)),
                                    .message = std::string(message),
                                    .expected = std::string(expected)});
    };
    auto measured = parse_measured_name(text(name_));
    if (!measured) return complain(name_, "is no op", "<stage><F, B, I or W><microbatch>");
    auto const duration = whole_number_text(text(duration_));
    if (!duration || *duration < 0) return complain(duration_, "is no duration", "a number of at least 0");
    measured->duration = *duration;
    if (!text(start_).empty()) {
      auto const start = whole_number_text(text(start_));
      if (!start) return complain(start_, "is no start", "a number");
      measured->start = *start;
    }
    if (!text(rank_).empty()) {
      auto const rank = whole_number_text(text(rank_));
      if (!rank || *rank < 0 || *rank >= max_stages || *rank != std::floor(*rank))
        return complain(rank_, "is no rank", fmt::format("a whole number from 0 to {}", max_stages - 1));
      measured->rank = int(*rank);
    }
    times_.ops.push_back(*measured);
  }

  measured_times times_;
  bool header_known_ = false;
  std::size_t rank_ = 0;
  std::size_t name_ = 1;
  std::size_t duration_ = 2;
  std::size_t start_ = 3;
  std::int64_t left_out_ = 0;
};

}  // namespace detail

/// Reads measured times: lines of `rank,op,duration[,start]` or `op,duration[,start]`, or columns in any order below a
/// header that names them. Never throws for what is in `text`.
[[nodiscard]] inline measured_times read_measured_csv(std::string_view text) {
  return detail::measured_csv_reader().read(text);
}

/// Measured times as CSV with a header; what was not recorded is left blank.
[[nodiscard]] inline std::string write_measured_csv(view<measured_op> run) {
  std::string text = "rank,op,duration,start\n";
  for (auto const& m : run) {
    if (m.rank >= 0) text += fmt::format("{}", m.rank);
    text += fmt::format(",{},{},", measured_name(m), m.duration);
    if (m.has_start()) text += fmt::format("{}", m.start);
    text += '\n';
  }
  return text;
}

}  // namespace v0
}  // namespace pipesched
