// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A timeline as an SVG picture: one row per rank and stream, time from left to right.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <pipesched/analysis/memory.hpp>
#include <pipesched/analysis/streams.hpp>
#include <pipesched/analysis/timeline.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/io/append.hpp>
#include <pipesched/io/markup_text.hpp>
#include <pipesched/io/picture_style.hpp>
#include <pipesched/io/svg_lane.hpp>
#include <pipesched/io/svg_looks.hpp>
#include <pipesched/io/svg_memory.hpp>

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
        scale_{streams_.size() > 1 ? 124.0 : 60.0, choose_scale()},
        width_(double(times.makespan()) * scale_.per_time) {}

  [[nodiscard]] std::string draw() {
    double y = draw_title();
    double const axis = y + 14;
    y = axis + 6;
    auto head = std::exchange(text_, {});
    std::int64_t const most_held = options_.memory ? find_most_held() : 0;
    for (int rank = 0; rank < graph_.ranks(); ++rank) {
      y = draw_rank(rank, y);
      if (options_.memory) y = draw_memory(rank, y, most_held);
      y += rank_gap;
    }
    auto const rows = std::exchange(text_, std::move(head));
    draw_axis(axis, y);
    text_ += rows;  // on the grid
    y = draw_legend(y + 10);
    return frame(y + 8);
  }

 private:
  static constexpr double rank_gap = 5;
  static constexpr double memory_height = 26;
  static constexpr double right = 44;  // room for the last tick's number and the memory's peak

  /// Pixels per time: as many as let most labels fit, and no more than there is room for. An op that is far shorter
  /// than most does not stretch the picture for all.
  [[nodiscard]] double choose_scale() const {
    double const makespan = std::max(double(times_.makespan()), 1e-300);
    double sum = 0;
    double blocks = 0;
    double longest = 1;
    double needed = 0;
    auto const look_at = [&](std::uint32_t first, std::uint32_t) {
      double const duration = double(times_.duration(node_id{first}));
      if (duration <= 0) return;
      double const label = svg_text_width(looks_.labels()(graph_.node(node_id{first}))) + 2;
      sum += duration;
      ++blocks;
      longest = std::max(longest, label);
      needed = std::max(needed, label / duration);
    };
    for (int rank = 0; rank < graph_.ranks(); ++rank)
      for (auto s : streams_) for_each_block(graph_, graph_.lane_of(rank, s), look_at);
    if (blocks > 0) needed = std::min(needed, longest / (sum / blocks) * 2);
    return std::min(std::max(needed, 400 / makespan), options_.max_width / makespan);
  }

  double draw_title() {
    title_ = markup_text(title_of(graph_));
    add("<text class=\"title\" x=\"8\" y=\"20\">{}</text>\n", title_);
    if (options_.caption.empty()) return 28;
    add("<text x=\"8\" y=\"37\">{}</text>\n", markup_text(options_.caption));
    return 44;
  }

  void draw_axis(double y, double bottom) {
    double const step = round_step(std::max(48.0, width_ / 16) / scale_.per_time);
    std::string grid;
    for (std::int64_t tick = 0; double(tick) * step <= double(times_.makespan()) * (1 + 1e-9); ++tick) {
      double const time = double(tick) * step;
      auto const x = pixels(scale_.x_of(time));
      detail::append(grid, "M{} {}V{}", x, pixels(y + 3), pixels(bottom));
      add("<text class=\"tick\" x=\"{}\" y=\"{}\">{:.6g}</text>\n", x, pixels(y), time);
    }
    add("<text x=\"8\" y=\"{}\">time</text>\n<path class=\"grid\" d=\"{}\"/>\n", pixels(y), grid);
  }

  double draw_rank(int rank, double y) {
    add("<g><title>rank {}</title>\n<text x=\"8\" y=\"{}\">rank {}</text>\n", rank, pixels(y + svg_row_height / 2 + 4),
        rank);
    double const top = y;
    for (auto s : streams_) {
      if (streams_.size() > 1) draw_row_name(name_of(s), y + svg_row_height / 2 + 4);
      add("<path class=\"idle\" d=\"M{} {}h{}v{}h-{}z\"/>\n", pixels(scale_.left), pixels(y), pixels(width_),
          pixels(svg_row_height), pixels(width_));
      text_ += svg_lane<T>(graph_, times_, scale_, looks_, y).draw(graph_.lane_of(rank, s));
      y += svg_row_height;
    }
    if (graph_.streams() > 1) frame_lowered_pairs(rank, top, y - top);
    text_ += "</g>\n";
    return y;
  }

  void draw_row_name(std::string_view name, double y) {
    add("<text class=\"row\" x=\"{}\" y=\"{}\">{}</text>\n", pixels(scale_.left - 6), pixels(y), name);
  }

  /// The events of a lowered pair share no slot, but the time from its first to its last, on all streams.
  void frame_lowered_pairs(int rank, double y, double height) {
    svg_frames frames;
    for (auto const& pair : pairs_of(graph_, times_, rank))
      frames.add(scale_.x_of(double(pair.start)), y, double(pair.duration()) * scale_.per_time, height);
    text_ += frames.text();
  }

  [[nodiscard]] std::int64_t find_most_held() const {
    std::int64_t most = 0;
    for (int rank = 0; rank < graph_.ranks(); ++rank)
      most = std::max(most, peak_activations(graph_, rank, options_.sizes).held);
    return most;
  }

  /// All ranks' curves have one scale.
  double draw_memory(int rank, double y, std::int64_t most_held) {
    double const bottom = y + memory_height;
    auto const curve =
        draw_memory_curve(graph_, times_, rank, options_.sizes, scale_, bottom, memory_height - 4, most_held);
    add("<g><title>rank {}: activations, at most {}</title><path class=\"memory\" d=\"{}\"/>\n", rank, curve.peak,
        curve.path);
    draw_row_name("memory", bottom - 8);
    add("<text class=\"peak\" x=\"{}\" y=\"{}\">{}</text></g>\n", pixels(scale_.left + width_ + 4), pixels(bottom - 8),
        curve.peak);
    return bottom;
  }

  double draw_legend(double y) {
    double x = 8;
    auto const reserve = [&](double width) {
      if (x > 8 && x + width > total_width()) {
        x = 8;
        y += 20;
      }
      return std::exchange(x, x + width);
    };
    auto const width_of = [](std::string_view words) { return 5.6 * double(words.size()) + 12; };
    for (auto const& [sample, words] : looks_.legend(has_pairs())) {
      double const at = reserve(26 + width_of(words));
      add("<path {} d=\"M{} {}h20v12h-20z\"/><text x=\"{}\" y=\"{}\">{}</text>\n", sample, pixels(at), pixels(y),
          pixels(at + 26), pixels(y + 10), words);
    }
    std::string_view const numbers = "number: microbatch";
    double const at = reserve(width_of(numbers));
    add("<text x=\"{}\" y=\"{}\">{}</text>\n", pixels(at), pixels(y + 10), numbers);
    return y + 14;
  }

  [[nodiscard]] bool has_pairs() const {
    auto const ops = graph_.nodes();
    return std::any_of(ops.begin(), ops.end(), [](op o) { return o.overlaps_next() || o.in_pair(); });
  }

  [[nodiscard]] double total_width() const noexcept { return std::max(scale_.left + width_ + right, 420.0); }

  /// The whole file around what has been drawn.
  [[nodiscard]] std::string frame(double height) const {
    auto const w = pixels(total_width());
    auto const h = pixels(height);
    auto patterns = looks_.patterns();
    if (!patterns.empty()) patterns = "<defs>\n" + patterns + "</defs>\n";
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\">\n"
        "<title>{2}</title>\n<style>\n{3}{4}</style>\n{5}<path fill=\"#fff\" d=\"M0 0h{0}v{1}H0z\"/>\n{6}</svg>\n",
        w, h, title_, style, looks_.rules(), patterns, text_);
  }

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    detail::append(text_, format, std::forward<Args>(args)...);
  }

  static constexpr std::string_view style =
      "text{font:11px Helvetica,Arial,\"DejaVu Sans\",sans-serif;fill:#222}\n"
      ".title{font-size:14px;font-weight:bold}\n"
      ".tick{text-anchor:middle;fill:#555}.row{text-anchor:end;fill:#555;font-size:10px}.peak{fill:#555}\n"
      ".label,.half{text-anchor:middle;font-size:10px;fill:#000;pointer-events:none}.half{font-size:9.5px}\n"
      ".idle{fill:#f1f1f1}.grid{stroke:#ccc;stroke-width:.5;fill:none}\n"
      ".op{stroke:#fff;stroke-width:.6}.run{fill:none}\n"
      ".pair{fill:none;stroke:#000;stroke-width:1.2}.thin{stroke-width:.5}.cut{fill:none;stroke:#000}\n"
      ".memory{fill:#d9d9d9;stroke:#555;stroke-width:.8}\n";

  op_graph const& graph_;
  timeline<T> const& times_;
  svg_options const& options_;
  svg_looks looks_;
  vector<stream> streams_;
  svg_scale scale_;
  double width_;  // of the time axis
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
