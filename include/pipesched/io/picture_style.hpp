// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What the pictures have in common: which streams they show, and how an op looks.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <pipesched/analysis/timeline.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/moe_events.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/io/op_label.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// The streams worth a row: compute, all-to-all where there are any ops, transfers where they take time.
template <time_value T>
[[nodiscard]] vector<stream> drawn_streams(op_graph const& graph, timeline<T> const& times) {
  vector<stream> drawn{stream::compute};
  auto const is_drawn = [&](int rank, stream s) {
    auto const lane = graph.lane_of(rank, s);
    for (auto n = graph.lane_begin(lane); n < graph.lane_end(lane); ++n)
      if (s == stream::all_to_all || times.duration(node_id{n}) > T{0}) return true;
    return false;
  };
  for (int s = 1; s < graph.streams(); ++s)
    for (int rank = 0; rank < graph.ranks(); ++rank)
      if (is_drawn(rank, stream(s))) {
        drawn.push_back(stream(s));
        break;
      }
  return drawn;
}

/// What the colour of an op stands for.
enum class op_hue : std::uint8_t { forward, backward, backward_input, backward_weight, communication, other };
inline constexpr int op_hues = 6;

[[nodiscard]] constexpr op_hue hue_of(op_kind kind) noexcept {
  if (!has_microbatch(kind)) return op_hue::other;
  if (stream_of(kind) != stream::compute) return op_hue::communication;
  if (kind == op_kind::backward) return op_hue::backward;
  switch (pass_of(kind)) {
    case pass::forward: return op_hue::forward;
    case pass::backward_input: return op_hue::backward_input;
    case pass::backward_weight: return op_hue::backward_weight;
  }
  return op_hue::other;
}

struct rgb {
  int red, green, blue;
};

/// Blue against orange and yellow stays apart for every common colour blindness; the steps in lightness (W, F, I, B)
/// stay apart in a print without colour. Black text is readable on all, and on their shades.
[[nodiscard]] constexpr rgb color_of(op_hue hue) noexcept {
  switch (hue) {
    case op_hue::forward: return {0xAE, 0xDA, 0xF8};
    case op_hue::backward: return {0xD5, 0x6C, 0x2F};
    case op_hue::backward_input: return {0xEE, 0x9E, 0x3A};
    case op_hue::backward_weight: return {0xFC, 0xF0, 0xBC};
    case op_hue::communication: return {0x9F, 0x86, 0xCE};
    case op_hue::other: return {0xC8, 0xC8, 0xC8};
  }
  return {0, 0, 0};
}

[[nodiscard]] constexpr std::string_view legend_of(op_hue hue) noexcept {
  switch (hue) {
    case op_hue::forward: return "forward";
    case op_hue::backward: return "backward";
    case op_hue::backward_input: return "backward for the input";
    case op_hue::backward_weight: return "backward for the weights";
    case op_hue::communication: return "communication";
    case op_hue::other: return "parameters";
  }
  return "";
}

/// How an op looks: its hue says the kind, its shade tells the chunks of a rank apart, or the copies that run in one
/// direction, and hatching marks those that run up, from the last rank.
struct op_look {
  op_hue hue;
  int shade;
  bool hatched;
  friend constexpr bool operator==(op_look, op_look) = default;
};

class op_looks {
 public:
  explicit op_looks(placement const& where)
      : labels_(where),
        directions_(labels_.directions()),
        shades_(directions_ ? std::max(1, labels_.variants() / 2) : labels_.variants()) {}

  [[nodiscard]] op_labels const& labels() const noexcept { return labels_; }
  [[nodiscard]] int shades() const noexcept { return shades_; }
  [[nodiscard]] bool directions() const noexcept { return directions_; }

  [[nodiscard]] op_look operator()(op o) const noexcept {
    int const variant = labels_.variant(o);
    return {hue_of(o.kind()), variant % shades_, directions_ && variant >= shades_};
  }
  /// All looks in a row without gaps: hue, then hatching, then shade.
  [[nodiscard]] std::size_t number(op_look look) const noexcept {
    return (std::size_t(look.hue) * 2 + look.hatched) * std::size_t(shades_) + std::size_t(look.shade);
  }
  [[nodiscard]] std::size_t count() const noexcept { return std::size_t(op_hues) * 2 * std::size_t(shades_); }

  /// "#aedaf8": later chunks are darker, but not so dark that a label could not be read.
  [[nodiscard]] std::string color(op_look look) const {
    double const light = shades_ > 1 ? 1 - 0.15 * look.shade / (shades_ - 1) : 1.0;
    auto const part = [&](int value) { return int(std::lround(value * light)); };
    auto const base = color_of(look.hue);
    return fmt::format("#{:02x}{:02x}{:02x}", part(base.red), part(base.green), part(base.blue));
  }

 private:
  op_labels labels_;
  bool directions_;
  int shades_;
};

/// The text in words of how variants of a rank are told apart; empty where there is one.
[[nodiscard]] inline std::string variants_legend(op_looks const& looks) {
  auto const& labels = looks.labels();
  std::string_view const letters = labels.variants() == 2  ? ", lower case"
                                   : labels.variants() > 2 ? ", last letter"
                                                           : "";
  if (looks.directions())
    return fmt::format("hatched{}: up, from the last rank{}", letters,
                       looks.shades() > 1 ? "; darker: a further copy" : "");
  return looks.shades() > 1 ? fmt::format("darker{}: later stages of the rank", letters) : "";
}

/// "1 rank", "4 ranks"
[[nodiscard]] inline std::string counted(std::int64_t count, std::string_view one, std::string_view several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

/// What a picture of a timeline is titled with, not yet as markup.
[[nodiscard]] inline std::string title_of(op_graph const& graph) {
  return fmt::format("{}: {}, {}, {}", graph.name().empty() ? "timeline" : graph.name(),
                     counted(graph.ranks(), "rank", "ranks"), counted(graph.stages(), "stage", "stages"),
                     counted(graph.microbatches(), "microbatch", "microbatches"));
}

/// A length in pixels: two decimals at most.
[[nodiscard]] inline std::string pixels(double value) {
  auto text = fmt::format("{:.2f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

/// Round times for the ticks of an axis: the smallest of 1, 2, 5, 10, 20, ... that is at least `least`.
[[nodiscard]] inline double round_step(double least) {
  double step = std::pow(10, std::floor(std::log10(least)));
  for (double const factor : {2.0, 2.5, 2.0})
    if (step < least) step *= factor;
  return step;
}

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
