// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The named points of a plot, and the front of those that no other beats.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
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

/// Names stand beside their points, where they hide no other point and no other name; equal points share a name.
class plot_marks {
 public:
  plot_marks(plot_area const& area, plot const& what) : area_(area), what_(what) {
    for (auto const& series : what.marks)
      for (auto const& point : series.points) add_mark(series.name, point);
    for (auto const& point : what.front) reserve_step(point);
    std::stable_sort(marks_.begin(), marks_.end(), [](auto const& a, auto const& b) { return a.y < b.y; });
    for (auto const& m : marks_) taken_.push_back({m.x - radius, m.y - radius, 2 * radius, 2 * radius});
  }

  [[nodiscard]] std::string draw() {
    std::string text = draw_front();
    std::string names;
    std::string dots;  // above the names
    for (auto const& m : marks_) {
      auto const rows = in_rows(m.names, 40);
      box const at = place_name(m, rows);
      taken_.push_back(at);
      for (std::size_t row = 0; row < rows.size(); ++row)
        detail::append(names, "<text x=\"{}\" y=\"{}\">{}</text>\n", pixels(at.x),
                       pixels(at.y + row_height * double(row + 1) - 3), markup_text(rows[row]));
      bool const best = std::find(what_.front.begin(), what_.front.end(), m.point) != what_.front.end();
      detail::append(dots,
                     "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{}\" stroke=\"#d55e00\" stroke-width=\"1.6\">"
                     "<title>{}: {:.4g}, {:.4g}</title></circle>\n",
                     pixels(m.x), pixels(m.y), pixels(radius), best ? "#d55e00" : "#fff",
                     markup_text(in_one_row(m.names)), m.point.x, m.point.y);
    }
    return text + "<g class=\"halo\" paint-order=\"stroke\" stroke=\"#fff\" stroke-width=\"3\">\n" + names + "</g>\n" +
           dots;
  }

 private:
  static constexpr double radius = 4;
  static constexpr double row_height = 13;

  struct mark {
    std::vector<std::string> names;
    plot_point point;
    double x, y;  // in pixels
  };
  struct box {
    double x, y, width, height;
    [[nodiscard]] double overlap(box const& o) const noexcept {
      double const across = std::min(x + width, o.x + o.width) - std::max(x, o.x);
      double const down = std::min(y + height, o.y + o.height) - std::max(y, o.y);
      return across > 0 && down > 0 ? across * down : 0;
    }
  };

  void add_mark(std::string const& name, plot_point point) {
    double const x = area_.x_of(point.x);
    double const y = area_.y_of(point.y);
    for (auto& other : marks_)
      if (std::abs(other.x - x) < 1 && std::abs(other.y - y) < 1) {
        other.names.push_back(name);
        return;
      }
    marks_.push_back({{name}, point, x, y});
  }

  /// The corner of the front at a point: up, and on to the next point.
  void reserve_step(plot_point point) {
    double const x = area_.x_of(point.x);
    double const y = area_.y_of(point.y);
    double above = plot_area::top;
    double next = area_.right();
    for (auto const& other : what_.front) {
      if (other.x < point.x) above = std::max(above, area_.y_of(other.y));
      if (other.x > point.x) next = std::min(next, area_.x_of(other.x));
    }
    taken_.push_back({x - 1, above, 2, y - above});
    taken_.push_back({x, y - 1, next - x, 2});
  }

  /// The first place around the point where nothing else is, else the one that hides least.
  [[nodiscard]] box place_name(mark const& m, std::vector<std::string> const& rows) const {
    std::size_t longest = 0;
    for (auto const& row : rows) longest = std::max(longest, row.size());
    double const width = 5.6 * double(longest);
    double const height = row_height * double(rows.size());
    double const right = m.x + radius + 4;
    double const left = m.x - radius - 4 - width;
    double const above = m.y - radius - 3 - height;
    double const below = m.y + radius + 3;
    double const beside = m.y - height / 2;
    struct corner {
      double x, y;
    };
    std::array<corner, 12> const places{{{right, beside},
                                         {left, beside},
                                         {m.x - width / 2, above},
                                         {m.x - width / 2, below},
                                         {right, beside - 9},
                                         {right, beside + 9},
                                         {left, beside - 9},
                                         {left, beside + 9},
                                         {right, below},
                                         {left, below},
                                         {right, above},
                                         {left, above}}};
    box best{};
    double least = std::numeric_limits<double>::infinity();
    for (auto const& place : places) {
      box const name{place.x, place.y, width, height};
      double hidden = 100 * outside(name);
      for (auto const& other : taken_) hidden += name.overlap(other);
      if (hidden < least) {
        least = hidden;
        best = name;
      }
    }
    return best;
  }

  /// How far a name is out of the area; on its right there is some room.
  [[nodiscard]] double outside(box const& name) const noexcept {
    return std::max(0.0, plot_area::left - name.x) + std::max(0.0, name.x + name.width - area_.right() - 36) +
           std::max(0.0, name.y + name.height - plot_area::bottom) + std::max(0.0, plot_area::top - 10 - name.y);
  }

  /// Everything up and to the right of the steps is worse than a point of the front.
  [[nodiscard]] std::string draw_front() const {
    if (what_.front.empty()) return {};
    std::string path;
    for (auto const& point : what_.front) {
      auto const x = pixels(area_.x_of(point.x));
      auto const y = pixels(area_.y_of(point.y));
      path += path.empty() ? fmt::format("M{} {}V{}", x, pixels(plot_area::top), y) : fmt::format("H{}V{}", x, y);
    }
    auto const line = [](std::string const& along) {
      return fmt::format(
          "<path d=\"{}\" stroke=\"#0072b2\" stroke-width=\"1.5\" stroke-dasharray=\"6 3\" fill=\"none\"/>\n", along);
    };
    return line(path + "H" + pixels(area_.right())) + line(fmt::format("M{} 16h26", pixels(area_.right() - 104))) +
           fmt::format("<text x=\"{}\" y=\"20\">Pareto front</text>\n", pixels(area_.right() - 72));
  }

  plot_area const& area_;
  plot const& what_;
  vector<mark> marks_;
  vector<box> taken_;  // by points and names
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
