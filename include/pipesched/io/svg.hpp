// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A timeline as an SVG picture: one row per rank and stream, time from left to right.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <pipesched/analysis/memory.hpp>
#include <pipesched/analysis/streams.hpp>
#include <pipesched/analysis/timeline.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/io/markup_text.hpp>
#include <pipesched/io/op_label.hpp>
#include <pipesched/io/picture_style.hpp>
#include <pipesched/io/svg_ops.hpp>

namespace pipesched {
inline namespace v0 {

struct svg_options {
  double max_width = 1600;   ///< of the time axis, in pixels; a short timeline takes what its labels need
  bool memory = false;       ///< the activations held over time, under each rank
  memory_model sizes = {};   ///< what the memory curve counts in
  std::string caption = {};  ///< a line under the title
};

namespace detail {

template <time_value T>
class svg_picture {
 public:
  svg_picture(op_graph const& graph, timeline<T> const& times, svg_options const& options)
      : graph_(graph),
        times_(times),
        options_(options),
        looks_(graph.where()),
        streams_(drawn_streams(graph, times)),
        used_(looks_.count(), false) {
    left_ = streams_.size() > 1 ? 124 : 60;
    scale_ = choose_scale();
    width_ = double(times.makespan()) * scale_;
  }

  [[nodiscard]] std::string draw() {
    double y = draw_title();
    double const axis = y + 14;
    y = axis + 6;
    auto const rows = std::move(text_);
    text_.clear();
    std::int64_t const most_held = options_.memory ? find_most_held() : 0;
    for (int rank = 0; rank < graph_.ranks(); ++rank) {
      y = draw_rank(rank, y);
      if (options_.memory) y = draw_memory(rank, y, most_held);
      y += rank_gap;
    }
    auto const ops = std::exchange(text_, rows);
    draw_axis(axis, y);
    text_ += ops;
    y = draw_legend(y + 10);
    return frame(y + 8);
  }

 private:
  static constexpr double row_height = 22;
  static constexpr double rank_gap = 5;
  static constexpr double memory_height = 26;
  static constexpr double right = 44;  // room for the last tick's number and the memory's peak
  static constexpr double character = 6.1;

  [[nodiscard]] static double text_width(std::size_t characters) noexcept { return character * double(characters); }
  [[nodiscard]] double x_of(double time) const noexcept { return left_ + time * scale_; }

  template <class Visit>
  void for_each_drawn_block(Visit&& visit) const {
    for (int rank = 0; rank < graph_.ranks(); ++rank)
      for (auto s : streams_) for_each_block(graph_, graph_.lane_of(rank, s), visit);
  }

  /// Pixels per time: as many as let most labels fit, and no more than there is room for. An op that is far shorter
  /// than most does not stretch the picture for all.
  [[nodiscard]] double choose_scale() const {
    double const makespan = std::max(double(times_.makespan()), 1e-300);
    double sum = 0;
    double blocks = 0;
    double longest = 1;
    double needed = 0;
    for_each_drawn_block([&](std::uint32_t first, std::uint32_t) {
      double const duration = double(times_.duration(node_id{first}));
      if (duration <= 0) return;
      double const label = text_width(looks_.labels()(graph_.node(node_id{first})).size()) + 2;
      sum += duration;
      ++blocks;
      longest = std::max(longest, label);
      needed = std::max(needed, label / duration);
    });
    if (blocks > 0) needed = std::min(needed, longest / (sum / blocks) * 2);
    return std::min(std::max(needed, 400 / makespan), options_.max_width / makespan);
  }

  double draw_title() {
    auto const title =
        fmt::format("{}: {} ranks, {} stages, {} microbatches", graph_.name().empty() ? "timeline" : graph_.name(),
                    graph_.ranks(), graph_.stages(), graph_.microbatches());
    title_ = markup_text(title);
    add("<text class=\"title\" x=\"{}\" y=\"20\">{}</text>\n", 8, title_);
    if (options_.caption.empty()) return 28;
    add("<text x=\"8\" y=\"37\">{}</text>\n", markup_text(options_.caption));
    return 44;
  }

  void draw_axis(double y, double bottom) {
    double const step = round_step(std::max(48.0, width_ / 16) / scale_);
    std::string grid;
    for (std::int64_t tick = 0; double(tick) * step <= double(times_.makespan()) * (1 + 1e-9); ++tick) {
      double const time = double(tick) * step;
      auto const x = pixels(x_of(time));
      fmt::format_to(std::back_inserter(grid), "M{} {}V{}", x, pixels(y + 3), pixels(bottom));
      add("<text class=\"tick\" x=\"{}\" y=\"{}\">{:.6g}</text>\n", x, pixels(y), time);
    }
    add("<text x=\"8\" y=\"{}\">time</text>\n<path class=\"grid\" d=\"{}\"/>\n", pixels(y), grid);
  }

  double draw_rank(int rank, double y) {
    add("<g><title>rank {}</title>\n<text x=\"8\" y=\"{}\">rank {}</text>\n", rank, pixels(y + row_height / 2 + 4),
        rank);
    double const top = y;
    for (auto s : streams_) {
      if (streams_.size() > 1)
        add("<text class=\"stream\" x=\"{}\" y=\"{}\">{}</text>\n", pixels(left_ - 6), pixels(y + row_height / 2 + 4),
            name_of(s));
      add("<path class=\"idle\" d=\"M{} {}h{}v{}h-{}z\"/>\n", pixels(left_), pixels(y), pixels(width_),
          pixels(row_height), pixels(width_));
      draw_lane(graph_.lane_of(rank, s), y);
      y += row_height;
    }
    if (graph_.streams() > 1) frame_lowered_pairs(rank, top, y - top);
    text_ += "</g>\n";
    return y;
  }

  /// Ops with a label stand alone; those without are merged with their like. Of a pair the forward is the upper half,
  /// the backward the lower.
  void draw_lane(int lane, double y) {
    double const tolerance = std::max(double(times_.makespan()) * 1e-9, 1e-300);
    std::vector<run_merger> whole(looks_.count(), run_merger(tolerance));
    std::vector<run_merger> upper = whole;
    std::vector<run_merger> lower = whole;
    run_merger frames(tolerance);
    std::string labels;
    for_each_block(graph_, lane, [&](std::uint32_t first, std::uint32_t after) {
      double const start = double(times_.start(node_id{first}));
      double const length = double(times_.duration(node_id{first}));
      if (length <= 0) return;
      bool const pair = after - first == 2;
      bool const labelled = pair ? add_half(labels, first, y, 0) && add_half(labels, first + 1, y, 1)
                                 : add_labelled(labels, first, y, row_height);
      if (!labelled) {
        auto const look = [&](std::uint32_t n) { return looks_.number(looks_(graph_.node(node_id{n}))); };
        (pair ? upper : whole)[look(first)].add(start, length);
        if (pair) lower[look(first + 1)].add(start, length);
      }
      if (pair) frames.add(start, length);
    });
    add_runs(whole, y, row_height);
    add_runs(upper, y, row_height / 2);
    add_runs(lower, y + row_height / 2, row_height / 2);
    text_ += labels;
    add_frames(frames.runs(), y);
  }

  /// Pairs that touch share one frame, cut into pairs where they are wide enough to be told apart.
  void add_frames(std::vector<op_run> const& runs, double y) {
    std::string outline;
    for (auto const& run : runs) {
      bool const touching = run.count > 1 && (run.period - run.length) * scale_ < 0.01;
      double const whole = touching ? run.period * double(run.count) : run.length;
      for (std::int64_t i = 0; i < (touching ? 1 : run.count); ++i)
        if (whole * scale_ > 3) add_outline(outline, run.start + run.period * double(i), whole, y, row_height);
      if (touching && run.period * scale_ > 5)
        add("<path class=\"cut\" stroke-width=\"{}\" stroke-dasharray=\"1.2 {:.7g}\" d=\"M{} {}h{}\"/>\n",
            pixels(row_height), run.period * scale_ - 1.2, pixels(x_of(run.start + run.period) - 0.6),
            pixels(y + row_height / 2), pixels((whole - 1.5 * run.period) * scale_));
    }
    if (!outline.empty()) add("<path class=\"pair\" d=\"{}\"/>\n", outline);
  }

  void add_runs(std::vector<run_merger> const& looks, double y, double height) {
    for (std::size_t look = 0; look < looks.size(); ++look) {
      if (looks[look].runs().empty()) continue;
      used_[look] = true;
      add("<g class=\"l{}\">", look);
      for (auto const& run : looks[look].runs()) text_ += svg_run(run, scale_, left_, y, height);
      text_ += "</g>\n";
    }
  }

  /// Adds an op with its label, or where there is no room its microbatch, and what a pointer on it shows; false where
  /// not even that fits.
  bool add_labelled(std::string& out, std::uint32_t n, double y, double height) {
    op const o = graph_.node(node_id{n});
    double const width = double(times_.duration(node_id{n})) * scale_;
    auto label = looks_.labels()(o);
    if (text_width(label.size()) > width) label = fmt::format("{}", o.microbatch());
    if (text_width(label.size()) > width) return false;
    double const start = double(times_.start(node_id{n}));
    auto const look = looks_.number(looks_(o));
    used_[look] = true;
    bool const half = height < row_height;
    fmt::format_to(std::back_inserter(out),
                   "<path class=\"l{} op\" d=\"M{} {}h{}v{}h-{}z\"><title>{}: {:.6g} to {:.6g}</title></path>"
                   "<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>\n",
                   look, pixels(x_of(start)), pixels(y), pixels(width), pixels(height), pixels(width), to_string(o),
                   start, double(times_.end(node_id{n})), half ? "half" : "label", pixels(x_of(start) + width / 2),
                   pixels(y + height / 2 + (half ? 3.2 : 3.7)), label);
    return true;
  }
  bool add_half(std::string& out, std::uint32_t n, double y, int which) {
    return add_labelled(out, n, y + which * row_height / 2, row_height / 2);
  }

  void add_outline(std::string& out, double start, double length, double y, double height) const {
    auto const width = pixels(length * scale_ - 1);
    fmt::format_to(std::back_inserter(out), "M{} {}h{}v{}h-{}z", pixels(x_of(start) + 0.5), pixels(y + 0.5), width,
                   pixels(height - 1), width);
  }

  /// The events of a lowered pair share no slot, but the time from its first to its last, on all streams.
  void frame_lowered_pairs(int rank, double y, double height) {
    std::string outline;
    for (auto const& pair : pairs_of(graph_, times_, rank))
      if (double(pair.duration()) * scale_ > 3)
        add_outline(outline, double(pair.start), double(pair.duration()), y, height);
    if (!outline.empty()) add("<path class=\"pair\" d=\"{}\"/>\n", outline);
  }

  [[nodiscard]] std::int64_t find_most_held() const {
    std::int64_t most = 0;
    for (int rank = 0; rank < graph_.ranks(); ++rank)
      most = std::max(most, peak_activations(graph_, rank, options_.sizes).held);
    return most;
  }

  /// All ranks' curves have one scale. Changes closer than half a pixel are one: of the most that is held meanwhile.
  double draw_memory(int rank, double y, std::int64_t most_held) {
    double const bottom = y + memory_height;
    auto const level = [&](std::int64_t held) {
      return bottom - (most_held > 0 ? double(held) / double(most_held) : 0) * (memory_height - 4);
    };
    auto curve = fmt::format("M{} {}", pixels(left_), pixels(bottom));
    double drawn = bottom;
    auto const draw_to = [&](double column, std::int64_t held) {
      if (std::abs(level(held) - drawn) < 0.5) return;
      drawn = level(held);
      fmt::format_to(std::back_inserter(curve), "H{}V{}", pixels(left_ + column / 2), pixels(drawn));
    };
    std::int64_t peak = 0;
    std::int64_t most = 0;  // within the column
    std::int64_t held = 0;
    double column = 0;
    for (auto const& point : memory_curve(graph_, times_, rank, options_.sizes)) {
      double const here = std::floor(double(point.time) * scale_ * 2);
      if (here > column) {
        draw_to(column, most);
        draw_to(column + 1, held);
        column = here;
        most = 0;
      }
      held = point.held;
      most = std::max(most, held);
      peak = std::max(peak, held);
    }
    draw_to(column, most);
    add("<g><title>rank {}: activations, at most {}</title><path class=\"memory\" d=\"{}H{}V{}z\"/>"
        "<text class=\"stream\" x=\"{}\" y=\"{}\">memory</text><text class=\"peak\" x=\"{}\" y=\"{}\">{}</text></g>\n",
        rank, peak, curve, pixels(left_ + width_), pixels(bottom), pixels(left_ - 6), pixels(bottom - 8),
        pixels(left_ + width_ + 4), pixels(bottom - 8), peak);
    return bottom;
  }

  double draw_legend(double y) {
    double x = 8;
    std::vector<bool> hues(std::size_t(op_hues), false);
    for (std::size_t look = 0; look < used_.size(); ++look)
      if (used_[look]) hues[look / 2 / std::size_t(looks_.shades())] = true;
    auto const entry = [&](std::string const& sample, std::string_view words) {
      double const width = 26 + text_width(words.size()) + 14;
      if (x > 8 && x + width > total_width()) {
        x = 8;
        y += 20;
      }
      add("<path {} d=\"M{} {}h20v12h-20z\"/><text x=\"{}\" y=\"{}\">{}</text>\n", sample, pixels(x), pixels(y),
          pixels(x + 26), pixels(y + 10), words);
      x += width;
    };
    for (int hue = 0; hue < op_hues; ++hue)
      if (hues[std::size_t(hue)]) {
        auto const look = looks_.number(op_look{op_hue(hue), 0, false});
        used_[look] = true;
        entry(fmt::format("class=\"l{}\"", look), legend_of(op_hue(hue)));
      }
    if (has_pairs()) entry("class=\"pair\"", "overlapped pair");
    if (auto const variants = variants_legend(looks_); !variants.empty())
      entry(looks_.directions() ? "fill=\"url(#up)\" stroke=\"#777\"" : "fill=\"#999\"", variants);
    add("<text x=\"{}\" y=\"{}\">number: microbatch</text>\n", pixels(x), pixels(y + 10));
    return y + 14;
  }

  [[nodiscard]] bool has_pairs() const {
    auto const ops = graph_.nodes();
    return std::any_of(ops.begin(), ops.end(), [](op o) { return o.overlaps_next() || o.in_pair(); });
  }

  [[nodiscard]] double total_width() const noexcept { return std::max(left_ + width_ + right, 420.0); }

  /// The whole file around what has been drawn.
  [[nodiscard]] std::string frame(double height) const {
    auto const w = pixels(total_width());
    auto const h = pixels(height);
    std::string all = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\">\n"
        "<title>{2}</title>\n<style>\n{3}",
        w, h, title_, style);
    bool hatching = looks_.directions();
    std::string patterns;
    for (std::size_t look = 0; look < used_.size(); ++look) {
      if (!used_[look]) continue;
      auto const shades = std::size_t(looks_.shades());
      op_look const what{op_hue(look / 2 / shades), int(look % shades), look / shades % 2 == 1};
      auto const color = looks_.color(what);
      if (what.hatched) {
        fmt::format_to(std::back_inserter(all), ".l{0}{{fill:url(#h{0})}}.l{0} .run{{stroke:url(#h{0})}}\n", look);
        fmt::format_to(std::back_inserter(patterns), hatched_pattern, fmt::format("h{}", look), color);
      } else {
        fmt::format_to(std::back_inserter(all), ".l{0}{{fill:{1}}}.l{0} .run{{stroke:{1}}}\n", look, color);
      }
    }
    if (hatching) fmt::format_to(std::back_inserter(patterns), hatched_pattern, "up", "#fff");
    all += "</style>\n";
    if (!patterns.empty()) all += "<defs>\n" + patterns + "</defs>\n";
    fmt::format_to(std::back_inserter(all), "<path fill=\"#fff\" d=\"M0 0h{}v{}H0z\"/>\n{}</svg>\n", w, h, text_);
    return all;
  }

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  static constexpr std::string_view hatched_pattern =
      "<pattern id=\"{0}\" patternUnits=\"userSpaceOnUse\" width=\"5\" height=\"5\">"
      "<path fill=\"{1}\" d=\"M0 0h5v5H0z\"/><path stroke=\"#000\" stroke-opacity=\".22\" d=\"M-1 1l2-2M0 5l5-5M4 "
      "6l2-2\"/>"
      "</pattern>\n";
  static constexpr std::string_view style =
      "text{font:11px Helvetica,Arial,\"DejaVu Sans\",sans-serif;fill:#222}\n"
      ".title{font-size:14px;font-weight:bold}\n"
      ".tick{text-anchor:middle;fill:#555}.stream{text-anchor:end;fill:#555;font-size:10px}.peak{fill:#555}\n"
      ".label,.half{text-anchor:middle;font-size:10px;fill:#111;pointer-events:none}.half{font-size:9px}\n"
      ".idle{fill:#f1f1f1}.grid{stroke:#ccc;stroke-width:.5;fill:none}\n"
      ".op{stroke:#fff;stroke-width:.6}.run{fill:none}\n"
      ".pair{fill:none;stroke:#000;stroke-width:1.2}.cut{fill:none;stroke:#000}\n"
      ".memory{fill:#d9d9d9;stroke:#555;stroke-width:.8}\n";

  op_graph const& graph_;
  timeline<T> const& times_;
  svg_options const& options_;
  op_looks looks_;
  std::vector<stream> streams_;
  std::vector<bool> used_;  // by number of the look
  double left_;             // where time 0 is
  double scale_;            // pixels per time
  double width_;            // of the time axis
  std::string title_;
  std::string text_;
};

}  // namespace detail

/// Draws the timeline of `graph`: an op shows its letter and microbatch where they fit, or the microbatch alone; runs
/// of equal ops without a label are one element, so that the file stays small at any number of microbatches. Overlapped
/// pairs are framed. Ops that take no time, such as transfers that only have a latency, are left out. `times` must be a
/// timeline of `graph`.
template <time_value T>
[[nodiscard]] std::string svg(op_graph const& graph, timeline<T> const& times, svg_options const& options = {}) {
  return detail::svg_picture<T>(graph, times, options).draw();
}

}  // namespace v0
}  // namespace pipesched
