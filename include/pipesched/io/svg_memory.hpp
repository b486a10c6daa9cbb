// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The activations that a rank holds over time, as a curve of an SVG.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include <pipesched/analysis/memory.hpp>
#include <pipesched/analysis/timeline.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/io/append.hpp>
#include <pipesched/io/picture_style.hpp>
#include <pipesched/io/svg_lane.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

struct svg_memory_curve {
  std::string path;  // an area, its foot at `bottom`
  std::int64_t peak;
};

/// The curve of one rank, `height` high where `most_held` is held. Changes closer than half a pixel are one: of the
/// most that is held meanwhile.
template <time_value T>
[[nodiscard]] svg_memory_curve draw_memory_curve(op_graph const& graph, timeline<T> const& times, int rank,
                                                 memory_model const& sizes, svg_scale scale, double bottom,
                                                 double height, std::int64_t most_held) {
  auto const level = [&](std::int64_t held) {
    return bottom - (most_held > 0 ? double(held) / double(most_held) : 0) * height;
  };
  svg_memory_curve curve{fmt::format("M{} {}", pixels(scale.left), pixels(bottom)), 0};
  double drawn = bottom;
  auto const draw_to = [&](double column, std::int64_t held) {
    if (std::abs(level(held) - drawn) < 0.5) return;
    drawn = level(held);
    detail::append(curve.path, "H{}V{}", pixels(scale.left + column / 2), pixels(drawn));
  };
  std::int64_t most = 0;  // within the column, half a pixel wide
  std::int64_t held = 0;
  double column = 0;
  for (auto const& point : memory_curve(graph, times, rank, sizes)) {
    double const here = std::floor(double(point.time) * scale.per_time * 2);
    if (here > column) {
      draw_to(column, most);
      draw_to(column + 1, held);
      column = here;
      most = 0;
    }
    held = point.held;
    most = std::max(most, held);
    curve.peak = std::max(curve.peak, held);
  }
  draw_to(column, most);
  detail::append(curve.path, "H{}V{}z", pixels(scale.x_of(double(times.makespan()))), pixels(bottom));
  return curve;
}

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
