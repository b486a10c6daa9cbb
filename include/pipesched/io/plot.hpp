// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Small plots as SVG: lines or named points over two axes.

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <pipesched/core/view.hpp>
#include <pipesched/io/append.hpp>
#include <pipesched/io/markup_text.hpp>
#include <pipesched/io/picture_style.hpp>
#include <pipesched/io/plot_area.hpp>
#include <pipesched/io/plot_lines.hpp>
#include <pipesched/io/plot_marks.hpp>
#include <pipesched/io/plot_series.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

inline constexpr double plot_width = 640;

struct drawn_plot {
  std::string text;  // its upper left corner is at 0, 0
  double height;
};

/// Lines have a legend on their right; without any the points take its room.
[[nodiscard]] inline drawn_plot draw_plot(plot const& what) {
  plot_area const area(what, what.lines.empty() ? 590 : 448);
  auto text = area.draw();
  plot_lines lines(area, what.lines);
  text += lines.draw();
  text += plot_marks(area, what).draw();
  return {std::move(text), std::max(plot_area::bottom + 48, lines.legend_bottom() + 6)};
}

}  // namespace detail

/// Draws plots, in rows of `columns`. Their points must be finite.
[[nodiscard]] inline std::string svg(view<plot> plots, int columns = 2) {
  std::string all;
  double width = 0;
  double top = 0;
  double height = 0;  // of the row
  std::string title;
  for (std::size_t i = 0; i < plots.size(); ++i) {
    auto const column = i % std::size_t(columns);
    if (column == 0) top += std::exchange(height, 0);
    double const left = double(column) * detail::plot_width;
    auto const drawn = detail::draw_plot(plots[i]);
    detail::append(all, "<g transform=\"translate({} {})\">\n{}</g>\n", detail::pixels(left), detail::pixels(top),
                   drawn.text);
    width = std::max(width, left + detail::plot_width);
    height = std::max(height, drawn.height);
    title += (i > 0 ? "; " : "") + detail::markup_text(plots[i].title);
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\">\n"
      "<title>{2}</title>\n<path class=\"paper\" fill=\"#fff\" d=\"M0 0h{0}v{1}H0z\"/>\n"
      "<g class=\"ink\" font-family=\"Helvetica,Arial,'DejaVu Sans',sans-serif\" font-size=\"11\" "
      "fill=\"#222\">\n{3}</g>\n</svg>\n",
      detail::pixels(width), detail::pixels(top + height), title, all);
}

/// Draws one plot.
[[nodiscard]] inline std::string svg(plot const& what) { return svg(view<plot>(&what, 1)); }

}  // namespace v0
}  // namespace pipesched
