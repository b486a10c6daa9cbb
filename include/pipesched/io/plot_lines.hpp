// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The lines of a plot, so that those that coincide can be told apart, and their legend.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <pipesched/core/vector.hpp>
#include <pipesched/io/append.hpp>
#include <pipesched/io/markup_text.hpp>
#include <pipesched/io/picture_style.hpp>
#include <pipesched/io/plot_area.hpp>
#include <pipesched/io/plot_series.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Equal lines are one with all their names. Where only a part coincides, that part is striped in the colours of all
/// that share it, and a point that several share is a ring.
class plot_lines {
 public:
  plot_lines(plot_area const& area, std::vector<plot_series> const& lines) : area_(area) {
    for (auto const& series : lines) add_line(series);
  }

  [[nodiscard]] std::string draw() {
    draw_segments();
    draw_points();
    for (std::size_t i = 0; i < lines_.size(); ++i) draw_key(i);
    return text_;
  }
  /// Where the legend ends, once it is drawn.
  [[nodiscard]] double legend_bottom() const noexcept { return legend_y_; }

 private:
  struct place {
    double x, y;  // in pixels
  };
  struct line {
    std::vector<std::string> names;
    vector<place> places;
    std::vector<plot_point> points;
  };
  /// A part of a line: from a point to the next, or where both are the same, one point.
  struct part {
    std::size_t line;
    std::size_t from;
    std::size_t to;
  };

  /// Whether nobody would see a difference.
  [[nodiscard]] static bool near(place a, place b) noexcept {
    return std::abs(a.x - b.x) < 1.2 && std::abs(a.y - b.y) < 1.2;
  }
  [[nodiscard]] bool near(part a, part b) const noexcept {
    return near(place_of(a.line, a.from), place_of(b.line, b.from)) &&
           near(place_of(a.line, a.to), place_of(b.line, b.to));
  }
  [[nodiscard]] place place_of(std::size_t i, std::size_t point) const noexcept { return lines_[i].places[point]; }

  void add_line(plot_series const& series) {
    auto const same =
        std::find_if(lines_.begin(), lines_.end(), [&](auto const& l) { return l.points == series.points; });
    if (same != lines_.end()) return same->names.push_back(series.name);
    vector<place> places;
    for (auto const& p : series.points) places.push_back({area_.x_of(p.x), area_.y_of(p.y)});
    lines_.push_back({{series.name}, std::move(places), series.points});
  }

  /// The parts of all lines, each `length` points long, those that nobody would see a difference between together.
  [[nodiscard]] vector<vector<part>> groups_of(std::size_t length) const {
    vector<vector<part>> groups;
    for (std::size_t i = 0; i < lines_.size(); ++i)
      for (std::size_t p = 0; p + length < lines_[i].places.size(); ++p) {
        part const next{i, p, p + length};
        auto const like = std::find_if(groups.begin(), groups.end(), [&](auto const& g) { return near(g[0], next); });
        if (like == groups.end())
          groups.push_back({next});
        else
          like->push_back(next);
      }
    return groups;
  }

  void draw_segments() {
    constexpr std::size_t stripe = 7;
    std::vector<std::string> alone(lines_.size());
    std::string striped;
    for (auto const& group : groups_of(1))
      for (std::size_t k = 0; k < group.size(); ++k) {
        auto const from = place_of(group[k].line, group[k].from);
        auto const to = place_of(group[k].line, group[k].to);
        auto const path = fmt::format("M{} {}L{} {}", pixels(from.x), pixels(from.y), pixels(to.x), pixels(to.y));
        if (group.size() == 1)
          alone[group[k].line] += path;
        else
          detail::append(striped,
                         "<path d=\"{}\" stroke=\"{}\" stroke-width=\"2.2\" stroke-dasharray=\"{} {}\" "
                         "stroke-dashoffset=\"-{}\" fill=\"none\"/>\n",
                         path, color(group[k].line), stripe, stripe * (group.size() - 1), stripe * k);
      }
    for (std::size_t i = 0; i < lines_.size(); ++i)
      if (!alone[i].empty())
        add("<path d=\"{}\" stroke=\"{}\" stroke-width=\"1.8\" stroke-dasharray=\"{}\" fill=\"none\"/>\n", alone[i],
            color(i), dashes(i));
    text_ += striped;
  }

  void draw_points() {
    for (auto const& group : groups_of(0)) {
      std::string title;  // what a pointer on it shows
      for (auto const& p : group) {
        auto const& value = lines_[p.line].points[p.from];
        title += fmt::format("{}{}: {:.4g}, {:.4g}", title.empty() ? "" : "; ",
                             markup_text(in_one_row(lines_[p.line].names)), value.x, value.y);
      }
      auto const at = place_of(group[0].line, group[0].from);
      if (group.size() == 1)
        draw_marker(group[0].line, at, title);
      else
        add("<path class=\"ring\" transform=\"translate({} {})\" d=\"{}\" fill=\"#fff\" stroke=\"#222\" "
            "stroke-width=\"1.2\"><title>{}</title></path>\n",
            pixels(at.x), pixels(at.y), markers[0], title);
    }
  }

  void draw_marker(std::size_t i, place at, std::string_view title) {
    add("<path transform=\"translate({} {})\" d=\"{}\" fill=\"{}\"><title>{}</title></path>\n", pixels(at.x),
        pixels(at.y), marker(i), color(i), title);
  }

  /// A sample, and beside it the names in as many rows as they need.
  void draw_key(std::size_t i) {
    double const x = area_.right() + 14;
    add("<path d=\"M{} {}h26\" stroke=\"{}\" stroke-width=\"1.8\" stroke-dasharray=\"{}\" fill=\"none\"/>", pixels(x),
        pixels(legend_y_ - 4), color(i), dashes(i));
    draw_marker(i, {x + 13, legend_y_ - 4}, markup_text(lines_[i].names[0]));
    for (auto const& row : in_rows(lines_[i].names, 24)) {
      add("<text x=\"{}\" y=\"{}\">{}</text>\n", pixels(x + 34), pixels(legend_y_), markup_text(row));
      legend_y_ += 14;
    }
    legend_y_ += 4;
  }

  /// Colours that the colour-blind tell apart (Okabe and Ito). With eight markers to seven colours no two of 28 lines
  /// have both in common, nor colour and dashes.
  static constexpr std::array<std::string_view, 7> colors{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                          "#e69f00", "#56b4e9", "#000000"};
  static constexpr std::array<std::string_view, 4> dash_patterns{"none", "7 3", "2 2", "9 3 2 3"};
  static constexpr std::array<std::string_view, 8> markers{
      "M-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0z",           // circle
      "M-2.8-2.8h5.6v5.6h-5.6z",                                    // square
      "M0-4l3.8 6.6h-7.6z",                                         // triangle
      "M0-4.2l4.2 4.2-4.2 4.2-4.2-4.2z",                            // diamond
      "M0 4l3.8-6.6h-7.6z",                                         // triangle upside down
      "M-1.2-4h2.4v2.8h2.8v2.4h-2.8v2.8h-2.4v-2.8h-2.8v-2.4h2.8z",  // plus
      "M-3.7-2.1l1.6-1.6 2.1 2.1 2.1-2.1 1.6 1.6-2.1 2.1 2.1 2.1-1.6 1.6-2.1-2.1-2.1 2.1-1.6-1.6 2.1-2.1z",  // cross
      "M-4.4-1.5h8.8v3h-8.8z"};                                                                              // bar

  [[nodiscard]] static std::string_view color(std::size_t i) { return colors[i % colors.size()]; }
  [[nodiscard]] static std::string_view dashes(std::size_t i) {
    return dash_patterns[i / colors.size() % dash_patterns.size()];
  }
  [[nodiscard]] static std::string_view marker(std::size_t i) { return markers[i % markers.size()]; }

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    detail::append(text_, format, std::forward<Args>(args)...);
  }

  plot_area const& area_;
  vector<line> lines_;
  double legend_y_ = plot_area::top + 10;
  std::string text_;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
