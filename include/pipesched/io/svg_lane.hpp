// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The ops of one row of an SVG.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <pipesched/analysis/timeline.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/io/append.hpp>
#include <pipesched/io/picture_style.hpp>
#include <pipesched/io/svg_looks.hpp>
#include <pipesched/io/svg_runs.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Where times are from left to right, in pixels.
struct svg_scale {
  double left;      // where time 0 is
  double per_time;  // pixels
  [[nodiscard]] double x_of(double time) const noexcept { return left + time * per_time; }
};

inline constexpr double svg_row_height = 24;

/// Of a label of ops or events in Helvetica or Arial, 10 pixels; a little more than a browser takes, so that a label
/// never touches the next op.
[[nodiscard]] inline double svg_text_width(std::string_view label) noexcept {
  auto const width = [](char c) {
    switch (c) {
      case 'W': return 9.6;
      case 'M':
      case 'm': return 8.5;
      case 'I':
      case 'i': return 3.0;
      case 'F': return 6.3;
      default: return c == 'w' || (c >= 'A' && c <= 'Z') ? 7.4 : 5.8;
    }
  };
  double sum = 0;
  for (char const c : label) sum += width(c);
  return sum;
}

/// A frame around a pair. One that is drawn narrow gets a thin line, or nothing would be seen of the pair.
class svg_frames {
 public:
  void add(double x, double y, double width, double height) {
    if (width <= 3) return;
    detail::append(width < 14 ? thin_ : thick_, "M{} {}h{}v{}h-{}z", pixels(x + 0.5), pixels(y + 0.5),
                   pixels(width - 1), pixels(height - 1), pixels(width - 1));
  }
  [[nodiscard]] std::string text() const {
    std::string all;
    if (!thick_.empty()) all += "<path class=\"pair\" d=\"" + thick_ + "\"/>\n";
    if (!thin_.empty()) all += "<path class=\"pair thin\" d=\"" + thin_ + "\"/>\n";
    return all;
  }

 private:
  std::string thick_;
  std::string thin_;
};

/// Draws the ops of one lane. Those with a label stand alone; those without are merged with their like. Of a pair the
/// forward is the upper half, the backward the lower.
template <time_value T>
class svg_lane {
 public:
  svg_lane(op_graph const& graph, timeline<T> const& times, svg_scale scale, svg_looks& looks, double y)
      : graph_(graph),
        times_(times),
        scale_(scale),
        looks_(looks),
        y_(y),
        tolerance_(std::max(double(times.makespan()) * 1e-9, 1e-300)) {}

  [[nodiscard]] std::string draw(int lane) {
    std::vector<run_merger> whole(looks_.count(), run_merger(tolerance_));
    std::vector<run_merger> upper = whole;
    std::vector<run_merger> lower = whole;
    run_merger pairs(tolerance_);
    for_each_block(graph_, lane, [&](std::uint32_t first, std::uint32_t after) {
      double const start = double(times_.start(node_id{first}));
      double const length = double(times_.duration(node_id{first}));
      if (length <= 0) return;
      if (after - first == 2) {
        bool const labelled = !label_of(first).empty() && !label_of(first + 1).empty();
        add_op(first, labelled, upper, y_, half);
        add_op(first + 1, labelled, lower, y_ + half, half);
        pairs.add(start, length);
      } else {
        add_op(first, !label_of(first).empty(), whole, y_, svg_row_height);
      }
    });
    std::string text;
    add_runs(text, whole, y_, svg_row_height);
    add_runs(text, upper, y_, half);
    add_runs(text, lower, y_ + half, half);
    text += labelled_;
    add_frames(text, pairs.runs());
    return text;
  }

 private:
  static constexpr double half = svg_row_height / 2;

  /// What fits: letter and microbatch, or the microbatch, or nothing.
  [[nodiscard]] std::string label_of(std::uint32_t n) const {
    op const o = graph_.node(node_id{n});
    double const width = double(times_.duration(node_id{n})) * scale_.per_time;
    auto label = looks_.labels()(o);
    if (svg_text_width(label) > width) label = fmt::format("{}", o.microbatch());
    if (svg_text_width(label) > width) label.clear();
    return label;
  }

  void add_op(std::uint32_t n, bool labelled, std::vector<run_merger>& runs, double y, double height) {
    op const o = graph_.node(node_id{n});
    auto const look = looks_.number(o);
    looks_.use(look);
    double const start = double(times_.start(node_id{n}));
    double const length = double(times_.duration(node_id{n}));
    if (!labelled) return runs[look].add(start, length);
    bool const is_half = height < svg_row_height;
    auto const width = pixels(length * scale_.per_time);
    // With a title, which a pointer on the op shows.
    detail::append(labelled_,
                   "<path class=\"l{} op\" d=\"M{} {}h{}v{}h-{}z\"><title>{}: {:.6g} to {:.6g}</title></path>"
                   "<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>\n",
                   look, pixels(scale_.x_of(start)), pixels(y), width, pixels(height), width, to_string(o), start,
                   double(times_.end(node_id{n})), is_half ? "half" : "label", pixels(scale_.x_of(start + length / 2)),
                   pixels(y + height / 2 + (is_half ? 3.3 : 3.7)), label_of(n));
  }

  void add_runs(std::string& text, std::vector<run_merger> const& looks, double y, double height) const {
    for (std::size_t look = 0; look < looks.size(); ++look) {
      if (looks[look].runs().empty()) continue;
      detail::append(text, "<g class=\"l{}\">", look);
      for (auto const& run : looks[look].runs()) text += run_element(run, y, height);
      text += "</g>\n";
    }
  }

  /// A run as one element: a rectangle where its ops touch each other, else a line as thick as the row is high, dashed
  /// by the ops.
  [[nodiscard]] std::string run_element(op_run const& run, double y, double height) const {
    auto const x = pixels(scale_.x_of(run.start));
    double const gap = (run.period - run.length) * scale_.per_time;
    auto const whole = pixels((run.period * double(run.count - 1) + run.length) * scale_.per_time);
    if (run.count == 1 || gap < 0.01)
      return fmt::format("<path d=\"M{} {}h{}v{}h-{}z\"/>", x, pixels(y), whole, pixels(height), whole);
    return fmt::format("<path class=\"run\" stroke-width=\"{}\" stroke-dasharray=\"{:.7g} {:.7g}\" d=\"M{} {}h{}\"/>",
                       pixels(height), run.length * scale_.per_time, gap, x, pixels(y + height / 2), whole);
  }

  /// Pairs that touch share one frame, cut into pairs where they are wide enough to be told apart.
  void add_frames(std::string& text, vector<op_run> const& runs) const {
    svg_frames frames;
    for (auto const& run : runs) {
      double const period = run.period * scale_.per_time;
      bool const touching = run.count > 1 && period - run.length * scale_.per_time < 0.01;
      double const whole = touching ? period * double(run.count) : run.length * scale_.per_time;
      for (std::int64_t i = 0; i < (touching ? 1 : run.count); ++i)
        frames.add(scale_.x_of(run.start + run.period * double(i)), y_, whole, svg_row_height);
      if (touching && period > 5)
        detail::append(text,
                       "<path class=\"cut\" stroke-width=\"{}\" stroke-dasharray=\"1.2 {:.7g}\" d=\"M{} {}h{}\"/>\n",
                       pixels(svg_row_height), period - 1.2, pixels(scale_.x_of(run.start + run.period) - 0.6),
                       pixels(y_ + svg_row_height / 2), pixels(whole - 1.5 * period));
    }
    text += frames.text();
  }

  op_graph const& graph_;
  timeline<T> const& times_;
  svg_scale scale_;
  svg_looks& looks_;
  double y_;
  double tolerance_;
  std::string labelled_;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
