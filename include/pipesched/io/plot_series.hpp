// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What a plot shows: lines over two axes, or points with names.

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

}  // namespace v0
}  // namespace pipesched
