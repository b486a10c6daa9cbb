// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Where the points of a plot are in its picture, and its axes.

#include <cmath>
#include <string>

#include <fmt/format.h>

#include <pipesched/io/append.hpp>
#include <pipesched/io/markup_text.hpp>
#include <pipesched/io/picture_style.hpp>
#include <pipesched/io/plot_series.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

class plot_area {
 public:
  static constexpr double left = 56;
  static constexpr double top = 36;
  static constexpr double bottom = 316;

  /// `right` is where the area ends, in pixels.
  plot_area(plot const& what, double right) : what_(what), right_(right) { find_limits(); }

  [[nodiscard]] double right() const noexcept { return right_; }

  [[nodiscard]] double x_of(double x) const {
    double const share =
        what_.logarithmic_x ? std::log2(x / x_min_) / std::log2(x_max_ / x_min_) : (x - x_min_) / (x_max_ - x_min_);
    return left + share * (right_ - left);
  }
  [[nodiscard]] double y_of(double y) const { return bottom - y / y_max_ * (bottom - top); }

  /// Title, axes and grid.
  [[nodiscard]] std::string draw() const {
    std::string text;
    std::string grid;
    detail::append(text, "<text x=\"{}\" y=\"20\" font-size=\"14\" font-weight=\"bold\">{}</text>\n", pixels(left),
                   markup_text(what_.title));
    for_each_x_tick([&](double x) {
      auto const at = pixels(x_of(x));
      detail::append(grid, "M{} {}V{}", at, pixels(top), pixels(bottom + 4));
      detail::append(text, "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{:.4g}</text>\n", at, pixels(bottom + 17),
                     x);
    });
    double const step = round_step(y_max_ / 8);
    for (int tick = 0; tick * step <= y_max_; ++tick) {
      auto const at = y_of(tick * step);
      detail::append(grid, "M{} {}H{}", pixels(left - 4), pixels(at), pixels(right_));
      detail::append(text, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.4g}</text>\n", pixels(left - 7),
                     pixels(at + 4), tick * step);
    }
    detail::append(text, "<path class=\"grid\" d=\"{}\" stroke=\"#ddd\" fill=\"none\"/>\n", grid);
    detail::append(text, "<path class=\"axes\" d=\"M{} {}V{}H{}\" stroke=\"#444\" fill=\"none\"/>\n", pixels(left),
                   pixels(top), pixels(bottom), pixels(right_));
    detail::append(text, "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", pixels((left + right_) / 2),
                   pixels(bottom + 36), markup_text(what_.x_label));
    detail::append(text, "<text transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                   pixels((top + bottom) / 2), markup_text(what_.y_label));
    return text;
  }

 private:
  void find_limits() {
    bool first = true;
    for (auto const* group : {&what_.lines, &what_.marks})
      for (auto const& series : *group)
        for (auto const& p : series.points) {
          if (first || p.x > x_max_) x_max_ = p.x;
          if (first || p.x < x_min_) x_min_ = p.x;
          if (first || p.y > y_max_) y_max_ = p.y;
          first = false;
        }
    if (!what_.logarithmic_x) x_min_ = 0;
    if (what_.logarithmic_x && !(x_min_ > 0)) x_min_ = 1;  // no points
    if (!(x_max_ > x_min_)) x_max_ = x_min_ + 1;
    if (!(y_max_ > 0)) y_max_ = 1;
    if (!what_.logarithmic_x) x_max_ *= 1.04;
    y_max_ *= 1.06;
  }

  template <class Visit>
  void for_each_x_tick(Visit&& visit) const {
    if (what_.logarithmic_x) {
      for (double x = std::exp2(std::ceil(std::log2(x_min_) - 1e-9)); x <= x_max_ * (1 + 1e-9); x *= 2) visit(x);
      return;
    }
    double const step = round_step((x_max_ - x_min_) / 9);
    for (int tick = 0; tick * step <= x_max_; ++tick) visit(tick * step);
  }

  plot const& what_;
  double right_;
  double x_min_ = 0;
  double x_max_ = 1;
  double y_max_ = 1;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
