// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The plots that help to choose a schedule.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <pipesched/io/picture_style.hpp>
#include <pipesched/io/plot.hpp>

namespace pipesched {
inline namespace v0 {

namespace detail {

[[nodiscard]] inline std::string shape_text(int ranks, std::int64_t microbatches) {
  return counted(ranks, "rank", "ranks") + ", " + counted(microbatches, "microbatch", "microbatches");
}

}  // namespace detail

/// The points that no other beats: no other has as little of both x and y, and less of one. In order of x; equal points
/// once.
[[nodiscard]] inline std::vector<plot_point> pareto_front(std::vector<plot_point> points) {
  std::sort(points.begin(), points.end(),
            [](plot_point a, plot_point b) { return a.x < b.x || (a.x == b.x && a.y < b.y); });
  std::vector<plot_point> front;
  for (auto const& point : points)
    if (front.empty() || point.y < front.back().y) front.push_back(point);
  return front;
}

/// The share of bubble over the number of microbatches, a line per schedule: x = m, y = bubble fraction in percent.
[[nodiscard]] inline plot bubble_plot(int ranks, std::vector<plot_series> schedules) {
  return plot{.title = "Bubble against microbatches, " + detail::counted(ranks, "rank", "ranks"),
              .x_label = "microbatches",
              .y_label = "idle share of all rank time, %",
              .lines = std::move(schedules),
              .logarithmic_x = true};
}

/// What is held against what is idle, a point per schedule, with the front of those that no other beats: x = peak
/// activations, in the unit that `unit` names, y = bubble fraction in percent.
[[nodiscard]] inline plot memory_plot(int ranks, std::int64_t microbatches, std::string const& unit,
                                      std::vector<plot_series> schedules) {
  std::vector<plot_point> all;
  for (auto const& schedule : schedules) all.insert(all.end(), schedule.points.begin(), schedule.points.end());
  return plot{.title = "Memory against bubble, " + detail::shape_text(ranks, microbatches),
              .x_label = "peak activations of a rank, " + unit,
              .y_label = "idle share of all rank time, %",
              .marks = std::move(schedules),
              .front = pareto_front(std::move(all))};
}

/// The communication that nothing hides over how much there is of it, a line per schedule: x = time of an all-to-all
/// over that of the computation beside it, y = share of all rank time in percent.
[[nodiscard]] inline plot exposed_plot(int ranks, std::int64_t microbatches, std::vector<plot_series> schedules) {
  return plot{.title = "Exposed communication, " + detail::shape_text(ranks, microbatches),
              .x_label = "communication / computation of a layer",
              .y_label = "exposed communication, % of rank time",
              .lines = std::move(schedules)};
}

}  // namespace v0
}  // namespace pipesched
