// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Schedules side by side, as a table and as JSON.

#include <string>
#include <string_view>

#include <fmt/format.h>

#include <pipesched/analysis/comparison.hpp>
#include <pipesched/io/report_json.hpp>
#include <pipesched/io/report_text.hpp>
#include <pipesched/io/text_table.hpp>

namespace pipesched {
inline namespace v0 {

/// A table with a line per schedule: its shape, its bubble, and what it holds and sends in comparable units.
class comparison_table {
 public:
  template <time_value T>
  void add(std::string_view schedule, comparison<T> const& c) {
    auto const& all = c.figures;
    table_.add({std::string(schedule), fmt::format("{}", all.ranks), fmt::format("{}", all.stages),
                time_text(all.makespan), time_text(all.bubble_time), percent(all.bubble_fraction),
                percent(all.span_bubble_rate), fmt::format("{:.4g}", c.activation_parts),
                fmt::format("{:.4g}", c.parameter_parts), fmt::format("{:.4g}", c.messages_per_microbatch)});
  }
  [[nodiscard]] std::string text() const { return table_.text(); }

 private:
  static std::string percent(double share) { return fmt::format("{:.2f}%", share * 100); }

  text_table table_{{"schedule", "P", "S", "makespan", "bubble", "of time", "of span", "peak", "params", "p2p"}, 1};
};

/// One object: the figures of `report_json` without the ranks', then those in comparable units.
template <time_value T>
[[nodiscard]] std::string comparison_json(std::string_view schedule, comparison<T> const& c) {
  return fmt::format(
      "{{{},\n \"stages_held\": {}, \"messages\": {}, \"messages_of_busiest_rank\": {},\n"
      " \"relative_makespan\": {}, \"activation_parts\": {}, \"parameter_parts\": {}, "
      "\"messages_per_microbatch\": {}}}",
      detail::json_figures(c.figures, schedule), c.stages_held, c.messages.total, c.messages.busiest,
      detail::json_fraction(c.relative_makespan), detail::json_fraction(c.activation_parts),
      detail::json_fraction(c.parameter_parts), detail::json_fraction(c.messages_per_microbatch));
}

}  // namespace v0
}  // namespace pipesched
