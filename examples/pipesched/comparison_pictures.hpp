// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <pipesched/core/schedule.hpp>
#include <pipesched/io/plots.hpp>

#include "costs.hpp"

/// Makes the schedule of a name with so many microbatches. Throws `pipesched::parameter_error` where it cannot.
using schedule_maker = std::function<pipesched::schedule(std::string const& name, std::int64_t microbatches)>;

/// What `compare` draws: bubble against microbatches, memory against bubble, exposed communication against how much
/// there is of it. A schedule that does not suit a number of microbatches has no point there.
class comparison_pictures {
 public:
  comparison_pictures(std::int64_t ranks, std::int64_t microbatches, cost_options const& cost,
                      std::vector<std::string> schedules, schedule_maker make);

  /// The plots in one picture.
  [[nodiscard]] std::string svg() const { return pipesched::svg(plots_); }
  /// The plots, and under them the timelines of the schedules that suit the shape, as far as a page of them stays
  /// quick; the title says which are left out.
  [[nodiscard]] std::string html() const;

 private:
  [[nodiscard]] pipesched::plot bubbles() const;
  [[nodiscard]] pipesched::plot memory() const;
  [[nodiscard]] pipesched::plot exposed() const;

  std::int64_t ranks_;
  std::int64_t microbatches_;
  cost_options const& cost_;
  std::vector<std::string> schedules_;
  schedule_maker make_;
  std::vector<pipesched::plot> plots_;
};
