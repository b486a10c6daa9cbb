// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What a plot shows: lines over two axes, or points with names.

#include <cstddef>
#include <string>
#include <vector>

namespace pipesched {
inline namespace v0 {

struct plot_point {
  double x;
  double y;
  friend constexpr bool operator==(plot_point, plot_point) = default;
};

struct plot_series {
  std::string name;
  std::vector<plot_point> points;  ///< of a line in order of x
};

/// What a plot shows. Axes start at 0, a logarithmic one at the smallest x.
struct plot {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<plot_series> lines = {};  ///< each with a colour, dashes and markers of its own, named in the legend
  std::vector<plot_series> marks = {};  ///< points named where they are
  std::vector<plot_point> front = {};   ///< drawn as steps behind the marks; marks on it are filled
  bool logarithmic_x = false;           ///< to the base 2; every x must be > 0
};

namespace detail {

/// Names with commas between them, in rows of about `length` characters.
[[nodiscard]] inline std::vector<std::string> in_rows(std::vector<std::string> const& names, std::size_t length) {
  std::vector<std::string> rows;
  for (std::size_t n = 0; n < names.size(); ++n) {
    auto const name = names[n] + (n + 1 < names.size() ? "," : "");
    if (rows.empty() || rows.back().size() + 1 + name.size() > length)
      rows.push_back(name);
    else
      rows.back() += " " + name;
  }
  return rows;
}

/// "a, b"
[[nodiscard]] inline std::string in_one_row(std::vector<std::string> const& names) {
  return in_rows(names, static_cast<std::size_t>(-1)).at(0);
}

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
