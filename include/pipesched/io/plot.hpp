// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A small plot as SVG: lines or labelled points over two axes.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <pipesched/io/markup_text.hpp>
#include <pipesched/io/picture_style.hpp>

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
  std::vector<plot_series> lines = {};  ///< each with a colour and dashes of its own, named in the legend
  std::vector<plot_series> marks = {};  ///< points named where they are
  std::vector<plot_point> front = {};   ///< drawn as steps behind the marks
  bool logarithmic_x = false;           ///< to the base 2; every x must be > 0
};

namespace detail {

class plot_picture {
 public:
  explicit plot_picture(plot const& what) : what_(what) { find_limits(); }

  static constexpr double width = 640;

  /// What stands in the picture, whose upper left corner is at 0, 0.
  [[nodiscard]] std::string draw() {
    draw_axes();
    draw_front();
    for (std::size_t i = 0; i < what_.lines.size(); ++i) draw_line(i);
    draw_marks();
    return std::move(text_);
  }
  /// Once it is drawn.
  [[nodiscard]] double height() const noexcept { return std::max(bottom + 48, legend_y_ + 10); }

 private:
  static constexpr double left = 56;
  static constexpr double top = 36;
  static constexpr double right = 456;
  static constexpr double bottom = 316;

  template <class Visit>
  void for_each_point(Visit&& visit) const {
    for (auto const* group : {&what_.lines, &what_.marks})
      for (auto const& series : *group)
        for (auto const& point : series.points) visit(point);
  }

  void find_limits() {
    bool first = true;
    for_each_point([&](plot_point p) {
      if (first || p.x > x_max_) x_max_ = p.x;
      if (first || p.x < x_min_) x_min_ = p.x;
      if (first || p.y > y_max_) y_max_ = p.y;
      first = false;
    });
    if (!what_.logarithmic_x) x_min_ = 0;
    if (what_.logarithmic_x && !(x_min_ > 0)) x_min_ = 1;  // no points
    if (!(x_max_ > x_min_)) x_max_ = x_min_ + 1;
    if (!(y_max_ > 0)) y_max_ = 1;
    if (!what_.logarithmic_x) x_max_ *= 1.04;
    y_max_ *= 1.06;
  }

  [[nodiscard]] double x_of(double x) const {
    double const share =
        what_.logarithmic_x ? std::log2(x / x_min_) / std::log2(x_max_ / x_min_) : (x - x_min_) / (x_max_ - x_min_);
    return left + share * (right - left);
  }
  [[nodiscard]] double y_of(double y) const { return bottom - y / y_max_ * (bottom - top); }

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  void draw_axes() {
    add("<text x=\"{}\" y=\"20\" font-size=\"14\" font-weight=\"bold\">{}</text>\n", pixels(left),
        markup_text(what_.title));
    std::string grid;
    auto const x_tick = [&](double x) {
      auto const at = pixels(x_of(x));
      fmt::format_to(std::back_inserter(grid), "M{} {}V{}", at, pixels(top), pixels(bottom + 4));
      add("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{:.4g}</text>\n", at, pixels(bottom + 17), x);
    };
    if (what_.logarithmic_x) {
      for (double x = std::exp2(std::ceil(std::log2(x_min_) - 1e-9)); x <= x_max_ * (1 + 1e-9); x *= 2) x_tick(x);
    } else {
      double const step = round_step((x_max_ - x_min_) / 9);
      for (int tick = 0; tick * step <= x_max_; ++tick) x_tick(tick * step);
    }
    double const step = round_step(y_max_ / 8);
    for (int tick = 0; tick * step <= y_max_; ++tick) {
      auto const at = y_of(tick * step);
      fmt::format_to(std::back_inserter(grid), "M{} {}H{}", pixels(left - 4), pixels(at), pixels(right));
      add("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.4g}</text>\n", pixels(left - 7), pixels(at + 4), tick * step);
    }
    add("<path d=\"{}\" stroke=\"#ddd\" fill=\"none\"/>\n", grid);
    add("<path d=\"M{} {}V{}H{}\" stroke=\"#444\" fill=\"none\"/>\n", pixels(left), pixels(top), pixels(bottom),
        pixels(right));
    add("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", pixels((left + right) / 2), pixels(bottom + 36),
        markup_text(what_.x_label));
    add("<text transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
        pixels((top + bottom) / 2), markup_text(what_.y_label));
  }

  /// Everything up and to the right of the steps is worse than a point of the front.
  void draw_front() {
    if (what_.front.empty()) return;
    std::string path;
    for (std::size_t i = 0; i < what_.front.size(); ++i) {
      auto const x = pixels(x_of(what_.front[i].x));
      auto const y = pixels(y_of(what_.front[i].y));
      if (i == 0)
        fmt::format_to(std::back_inserter(path), "M{} {}V{}", x, pixels(top), y);
      else
        fmt::format_to(std::back_inserter(path), "H{}V{}", x, y);
    }
    add("<path d=\"{}H{}\" stroke=\"#0072b2\" stroke-width=\"1.5\" stroke-dasharray=\"6 3\" fill=\"none\"/>\n", path,
        pixels(right));
    draw_key("#0072b2", "6 3", "Pareto front");
  }

  /// Colours that the colour-blind tell apart (Okabe and Ito), each with every dash pattern before one comes twice.
  void draw_line(std::size_t i) {
    constexpr std::array<std::string_view, 7> colors{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                     "#e69f00", "#56b4e9", "#000000"};
    constexpr std::array<std::string_view, 4> dashes{"none", "7 3", "2 2", "9 3 2 3"};
    auto const color = colors[i % colors.size()];
    auto const dash = dashes[i / colors.size() % dashes.size()];
    auto const& series = what_.lines[i];
    std::string path;
    std::string dots;
    for (auto const& p : series.points) {
      fmt::format_to(std::back_inserter(path), "{}{} {}", path.empty() ? 'M' : 'L', pixels(x_of(p.x)),
                     pixels(y_of(p.y)));
      fmt::format_to(std::back_inserter(dots),
                     "<circle cx=\"{}\" cy=\"{}\" r=\"2.4\"><title>{}: {:.4g}, {:.4g}</title></circle>",
                     pixels(x_of(p.x)), pixels(y_of(p.y)), markup_text(series.name), p.x, p.y);
    }
    add("<path d=\"{}\" stroke=\"{}\" stroke-width=\"1.8\" stroke-dasharray=\"{}\" fill=\"none\"/>\n<g "
        "fill=\"{}\">{}</g>\n",
        path, color, dash, color, dots);
    draw_key(color, dash, series.name);
  }

  void draw_key(std::string_view color, std::string_view dash, std::string_view name) {
    add("<path d=\"M{} {}h26\" stroke=\"{}\" stroke-width=\"1.8\" stroke-dasharray=\"{}\" fill=\"none\"/>"
        "<text x=\"{}\" y=\"{}\">{}</text>\n",
        pixels(right + 14), pixels(legend_y_ - 4), color, dash, pixels(right + 46), pixels(legend_y_),
        markup_text(name));
    legend_y_ += 17;
  }

  /// Names stand beside their points, those of equal points together, and one under the other where they would touch.
  void draw_marks() {
    std::vector<plot_series> named;
    for (auto const& series : what_.marks)
      for (auto const& point : series.points) {
        auto const same = std::find_if(named.begin(), named.end(), [&](auto const& other) {
          return std::abs(x_of(other.points[0].x) - x_of(point.x)) < 3 &&
                 std::abs(y_of(other.points[0].y) - y_of(point.y)) < 3;
        });
        if (same == named.end())
          named.push_back(plot_series{series.name, {point}});
        else
          same->name += ", " + series.name;
      }
    std::stable_sort(named.begin(), named.end(),
                     [](auto const& a, auto const& b) { return a.points[0].y > b.points[0].y; });
    struct placed {
      double x, y, width;
    };
    std::vector<placed> labels;
    std::string names;
    std::string dots;  // above the names, so that none is hidden
    for (auto const& mark : named) {
      double const x = x_of(mark.points[0].x);
      double const y = y_of(mark.points[0].y);
      double const room = 6.0 * double(mark.name.size());
      bool const before = x + 8 + room > right;
      placed label{before ? x - 8 - room : x + 8, y + 4, room};
      for (auto const& other : labels)
        if (label.x < other.x + other.width && other.x < label.x + label.width && label.y < other.y + 13)
          label.y = std::max(label.y, other.y + 13);
      labels.push_back(label);
      fmt::format_to(
          std::back_inserter(dots),
          "<circle cx=\"{}\" cy=\"{}\" r=\"4\" fill=\"#d55e00\"><title>{}: {:.4g}, {:.4g}</title></circle>\n",
          pixels(x), pixels(y), markup_text(mark.name), mark.points[0].x, mark.points[0].y);
      fmt::format_to(std::back_inserter(names), "<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n",
                     pixels(before ? x - 8 : x + 8), pixels(label.y), before ? "end" : "start", markup_text(mark.name));
    }
    add("<g paint-order=\"stroke\" stroke=\"#fff\" stroke-width=\"3\">\n{}</g>\n{}", names, dots);
  }

  plot const& what_;
  double x_min_ = 0;
  double x_max_ = 1;
  double y_max_ = 1;
  double legend_y_ = top + 10;
  std::string text_;
};

}  // namespace detail

/// Draws plots, in rows of `columns`. Their points must be finite.
[[nodiscard]] inline std::string svg(std::span<plot const> plots, int columns = 2) {
  std::string all;
  double width = 0;
  double top = 0;
  double height = 0;  // of the row
  std::string title;
  for (std::size_t i = 0; i < plots.size(); ++i) {
    auto const column = i % std::size_t(columns);
    if (column == 0) top += std::exchange(height, 0);
    double const left = double(column) * detail::plot_picture::width;
    detail::plot_picture picture(plots[i]);
    auto const body = picture.draw();
    fmt::format_to(std::back_inserter(all), "<g transform=\"translate({} {})\">\n{}</g>\n", detail::pixels(left),
                   detail::pixels(top), body);
    width = std::max(width, left + detail::plot_picture::width);
    height = std::max(height, picture.height());
    title += (i > 0 ? "; " : "") + detail::markup_text(plots[i].title);
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\">\n"
      "<title>{2}</title>\n<path fill=\"#fff\" d=\"M0 0h{0}v{1}H0z\"/>\n"
      "<g font-family=\"Helvetica,Arial,'DejaVu Sans',sans-serif\" font-size=\"11\" fill=\"#222\">\n{3}</g>\n</svg>\n",
      detail::pixels(width), detail::pixels(top + height), title, all);
}

/// Draws one plot.
[[nodiscard]] inline std::string svg(plot const& what) { return svg(std::span<plot const>(&what, 1)); }

}  // namespace v0
}  // namespace pipesched
