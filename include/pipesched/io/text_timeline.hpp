// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A timeline as text: one row per rank and stream, time from left to right, folded at the width of a terminal.

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/timeline.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/io/append.hpp>
#include <pipesched/io/op_label.hpp>
#include <pipesched/io/picture_style.hpp>

namespace pipesched {
inline namespace v0 {

struct text_timeline_options {
  int width = 80;      ///< columns of a line; time is folded at them. At least 40 are used.
  bool color = false;  ///< with the escape sequences of a terminal that knows 256 colours
};

namespace detail {

/// How many columns a length of time gets: as many as let the labels fit, within reason.
struct time_scale {
  double columns_per_time = 1;
  /// Where the times are whole multiples of a quantum that gets whole columns; 0 elsewhere.
  std::int64_t quantum = 0;
  std::int64_t columns_per_quantum = 0;
  bool gap = true;  ///< one blank column after each op

  template <time_value T>
  [[nodiscard]] std::int64_t column(T time) const noexcept {
    if constexpr (std::integral<T>)
      if (quantum > 0) return static_cast<std::int64_t>(time) / quantum * columns_per_quantum;
    return static_cast<std::int64_t>(std::llround(static_cast<double>(time) * columns_per_time));
  }
};

template <time_value T>
class text_picture {
 public:
  text_picture(op_graph const& graph, timeline<T> const& times, text_timeline_options const& options)
      : graph_(graph),
        times_(times),
        labels_(graph.where()),
        color_(options.color),
        streams_(drawn_streams(graph, times)),
        margin_(row_name(graph.ranks() - 1, 0).size() + 2) {
    auto const room = std::max<std::int64_t>(std::max(options.width, 40) - std::int64_t(margin_), 16);
    choose_scale(room);
  }

  [[nodiscard]] std::string draw() {
    auto const columns = scale_.column(times_.makespan());
    vector<std::uint32_t> next;
    for (int lane = 0; lane < graph_.lanes(); ++lane) next.push_back(graph_.lane_begin(lane));
    for (std::int64_t from = 0; from == 0 || from < columns; from += fold_) {
      auto const to = std::min(from + fold_, columns);
      if (from > 0) text_ += '\n';
      draw_axis(from, to);
      for (int rank = 0; rank < graph_.ranks(); ++rank)
        for (std::size_t row = 0; row < streams_.size(); ++row) {
          auto const lane = graph_.lane_of(rank, streams_[row]);
          detail::append(text_, "{:<{}}", row_name(rank, row), margin_);
          draw_lane(lane, next[std::size_t(lane)], from, to);
          end_line();
        }
    }
    draw_legend();
    return std::move(text_);
  }

 private:
  static constexpr int plain = -1;
  static constexpr int dim = -2;

  [[nodiscard]] std::string row_name(int rank, std::size_t row) const {
    auto name = fmt::format("rank {}", rank);
    if (row > 0) name.assign(name.size(), ' ');
    if (streams_.size() > 1) detail::append(name, " {:<10}", name_of(streams_[row]));
    return name;
  }

  [[nodiscard]] std::string label(std::uint32_t first, std::uint32_t after) const {
    auto text = labels_(graph_.node(node_id{first}));
    if (after - first == 2) text.append("+").append(labels_(graph_.node(node_id{first + 1})));
    return text;
  }
  [[nodiscard]] std::string short_label(std::uint32_t first, std::uint32_t after) const {
    auto text = labels_.letters(graph_.node(node_id{first}));
    if (after - first == 2) text.append("+").append(labels_.letters(graph_.node(node_id{first + 1})));
    return text;
  }

  /// Every label fits its op, but an op that is far shorter than most does not stretch the picture for all.
  void choose_scale(std::int64_t room) {
    double longest_label = 1;
    double mean = 0;
    std::int64_t blocks = 0;
    std::int64_t quantum = 0;
    for_each_block([&](std::uint32_t first, std::uint32_t after) {
      double const duration = double(times_.duration(node_id{first}));
      if constexpr (std::integral<T>)
        quantum = std::gcd(std::gcd(quantum, std::int64_t(times_.start(node_id{first}))),
                           std::int64_t(times_.end(node_id{first})));
      if (duration <= 0) return;
      ++blocks;
      mean += (duration - mean) / double(blocks);
      longest_label = std::max(longest_label, double(label(first, after).size()));
    });
    if (blocks == 0) {
      fold_ = room;
      return;
    }
    auto const needed = [&](int gap) {
      double most = 0;
      double const limit = (longest_label + gap) / (mean / 8);
      for_each_block([&](std::uint32_t first, std::uint32_t after) {
        double const duration = double(times_.duration(node_id{first}));
        if (duration > 0) most = std::max(most, double(label(first, after).size() + std::size_t(gap)) / duration);
      });
      return std::min(most, limit);
    };
    auto const set = [&](int gap) {
      scale_ = time_scale{needed(gap), 0, 0, gap == 1};
      double const per_quantum = std::ceil(scale_.columns_per_time * double(quantum) - 1e-9);
      if (quantum > 0 && scale_.columns_per_time * double(quantum) > 0.75 && per_quantum <= double(room)) {
        scale_.quantum = quantum;
        scale_.columns_per_quantum = std::int64_t(per_quantum);
        scale_.columns_per_time = per_quantum / double(quantum);
      }
    };
    set(1);
    if (scale_.column(times_.makespan()) > room) {
      set(0);  // closer together, where that saves folding
      if (scale_.column(times_.makespan()) > room) set(1);
    }
    fold_ = scale_.quantum > 0 ? room / scale_.columns_per_quantum * scale_.columns_per_quantum : room;
  }

  /// Calls `visit(first, after)` for each block, a lone node or a pair, of every lane.
  template <class Visit>
  void for_each_block(Visit&& visit) const {
    for (int lane = 0; lane < graph_.lanes(); ++lane) {
      auto const end = graph_.lane_end(lane);
      for (auto node = graph_.lane_begin(lane); node < end;) {
        auto const after = after_block(node, end);
        visit(node, after);
        node = after;
      }
    }
  }
  [[nodiscard]] std::uint32_t after_block(std::uint32_t node, std::uint32_t end) const noexcept {
    return node + (graph_.opens_pair(node, end) ? 2 : 1);
  }

  /// Ticks at round times, so far apart that their numbers do not touch.
  void draw_axis(std::int64_t from, std::int64_t to) {
    double const least = 8 / scale_.columns_per_time;
    double step = std::pow(10, std::floor(std::log10(least)));
    for (double const factor : {2.0, 2.5, 2.0})
      if (step < least) step *= factor;
    if (scale_.quantum > 0) step = std::max(1.0, std::ceil(step / double(scale_.quantum))) * double(scale_.quantum);
    std::string line = fmt::format("{:<{}}", "time", margin_);
    for (auto tick = std::int64_t(std::floor(double(from) / scale_.columns_per_time / step));; ++tick) {
      double const time = double(tick) * step;
      auto const column = std::int64_t(std::llround(time * scale_.columns_per_time));
      if (column >= to) break;
      if (column < from) continue;
      auto const at = margin_ + std::size_t(column - from);
      if (line.size() > margin_ && line.size() >= at) continue;
      line.resize(std::max(line.size(), at), ' ');
      detail::append(line, "{:.6g}", time);
    }
    text_ += line;
    end_line();
  }

  void draw_lane(int lane, std::uint32_t& next, std::int64_t from, std::int64_t to) {
    auto const end = graph_.lane_end(lane);
    auto at = from;
    while (next < end) {
      auto const after = after_block(next, end);
      auto const begin = scale_.column(times_.start(node_id{next}));
      auto const finish = scale_.column(times_.end(node_id{next}));
      if (begin >= to && finish > begin) break;
      if (finish == begin) {
        ++hidden_;
      } else {
        if (begin > at) put(std::string(std::size_t(begin - at), '.'), dim);
        draw_block(next, after, begin, finish, from, to);
        at = std::min(finish, to);
      }
      if (finish > to) return;  // goes on in the next fold
      next = after;
    }
    if (to > at) put(std::string(std::size_t(to - at), '.'), dim);
  }

  void draw_block(std::uint32_t first, std::uint32_t after, std::int64_t begin, std::int64_t finish, std::int64_t from,
                  std::int64_t to) {
    auto const visible_begin = std::max(begin, from);
    auto const visible = std::size_t(std::min(finish, to) - visible_begin);
    std::string body = begin < from ? ">" : "";
    std::size_t const gap = scale_.gap && finish <= to && visible > 1 ? 1 : 0;
    auto const room = visible - gap;
    if (auto const whole = label(first, after); body.size() + whole.size() <= room)
      body += whole;
    else if (auto const letters = short_label(first, after); body.size() + letters.size() <= room)
      body += letters;
    else if (body.empty())
      body = letters.substr(0, 1);
    auto const divide = after - first == 2 ? std::min(body.find('+'), room) : room;
    body.resize(room, color_ ? ' ' : '-');
    put(body.substr(0, divide), color_of(graph_.node(node_id{first})));
    if (divide < room) put(body.substr(divide), color_of(graph_.node(node_id{after - 1})));
    if (gap > 0) put(" ", plain);
  }

  [[nodiscard]] int color_of(op o) const noexcept {
    constexpr std::array<std::array<int, 2>, 5> palette{{{117, 75}, {114, 71}, {152, 109}, {222, 179}, {183, 140}}};
    auto const hue = [&]() -> std::size_t {
      if (o.kind() == op_kind::backward) return 1;
      if (o.kind() >= op_kind::dispatch_forward) return 4;
      return pass_of(o.kind()) == pass::forward ? 0 : pass_of(o.kind()) == pass::backward_input ? 2 : 3;
    }();
    return palette[hue][std::size_t(labels_.variant(o) % 2)];
  }

  void put(std::string_view what, int color) {
    if (!color_ || color == plain)
      text_ += what;
    else if (color == dim)
      detail::append(text_, "\x1b[2m{}\x1b[0m", what);
    else
      detail::append(text_, "\x1b[30;48;5;{}m{}\x1b[0m", color, what);
  }

  void end_line() {
    while (!text_.empty() && text_.back() == ' ') text_.pop_back();
    text_ += '\n';
  }

  void draw_legend();

  op_graph const& graph_;
  timeline<T> const& times_;
  op_labels labels_;
  bool color_;
  vector<stream> streams_;
  std::size_t margin_;
  time_scale scale_;
  std::int64_t fold_ = 72;
  std::int64_t hidden_ = 0;  // ops of no width
  std::string text_;
};

/// What the letters that occur mean.
template <time_value T>
void text_picture<T>::draw_legend() {
  struct entry {
    op_kind kind;
    std::string_view meaning;
  };
  constexpr std::array<entry, 4> chunk_ops{{{op_kind::forward, "F forward"},
                                            {op_kind::backward, "B backward"},
                                            {op_kind::backward_input, "I backward-input"},
                                            {op_kind::backward_weight, "W backward-weight"}}};
  std::array<bool, 128> occurs{};
  bool pairs = false;
  for (op o : graph_.nodes()) {
    occurs[std::size_t(o.kind())] = true;
    pairs = pairs || o.overlaps_next();
  }
  std::string line;
  auto const add = [&](std::string_view what) { line.append(line.empty() ? "" : ", ").append(what); };
  for (auto const& e : chunk_ops)
    if (occurs[std::size_t(e.kind)]) add(e.meaning);
  if (pairs) add("F+B overlapped");
  if (!line.empty()) text_ += "\n" + line;
  if (occurs[std::size_t(op_kind::attention_forward)] || occurs[std::size_t(op_kind::mlp_forward)])
    text_ += "\nA attention, M MLP, D dispatch, C combine of F, B, I or W";
  text_ += "\nnumber: microbatch";
  if (labels_.variants() == 2)
    text_ += labels_.directions() ? "; upper case: down from rank 0, lower case: up from the last"
                                  : "; upper case: first stage of the rank, lower case: second";
  else if (labels_.variants() > 2)
    text_ += labels_.directions() ? "; letter after it: which copy of the model, from a"
                                  : "; letter after it: which stage of the rank, from a";
  text_ += "\n";
  if (hidden_ > 0) detail::append(text_, "{} ops are too short to be drawn at this scale\n", hidden_);
}

}  // namespace detail

/// Draws the timeline of `graph`. One column stands for the same length of time everywhere; an op shows its letter and
/// microbatch where they fit, an idle rank dots. A line that begins within an op marks it with '>'.
template <time_value T>
[[nodiscard]] std::string text_timeline(op_graph const& graph, timeline<T> const& times,
                                        text_timeline_options const& options = {}) {
  return detail::text_picture<T>(graph, times, options).draw();
}

}  // namespace v0
}  // namespace pipesched
