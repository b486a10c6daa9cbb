// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A report as text: the figures with what they mean, and a table of the ranks.

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <pipesched/analysis/critical_path.hpp>
#include <pipesched/analysis/report.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/io/append.hpp>
#include <pipesched/io/stage_list.hpp>
#include <pipesched/io/text_table.hpp>

namespace pipesched {
inline namespace v0 {

/// A time for people: a whole number as it is, another with seven significant digits.
template <time_value T>
[[nodiscard]] std::string time_text(T time) {
  if constexpr (std::integral<T>) {
    return fmt::format("{}", time);
  } else {
    constexpr T every_whole_number_is_exact = T(1e15);
    bool const whole = time == std::trunc(time) && std::abs(time) < every_whole_number_is_exact;
    return whole ? fmt::format("{:.0f}", time) : fmt::format("{:.7g}", time);
  }
}

/// "27.27 %", or "none".
[[nodiscard]] inline std::string percent_text(std::optional<double> share) {
  return share ? fmt::format("{:.2f} %", *share * 100) : "none";
}

namespace detail {

/// Idle time of all ranks together, by what it waited for.
template <time_value T>
[[nodiscard]] std::string idle_causes_text(report<T> const& all) {
  std::string text;
  auto const add = [&](std::string_view cause, T idle) {
    if (idle > T{0}) detail::append(text, "{}{} {}", text.empty() ? "" : ", ", cause, time_text(idle));
  };
  for (std::size_t kind = 0; kind < idle_by_cause<T>{}.waiting.size(); ++kind) {
    T sum = 0;
    for (auto const& r : all.per_rank) sum += r.idle_cause.waiting[kind];
    add(name_of(edge_kind(kind)), sum);
  }
  T finished = 0;
  for (auto const& r : all.per_rank) finished += r.idle_cause.finished;
  add("after the last op", finished);
  return text.empty() ? "nothing" : text;
}

template <time_value T>
[[nodiscard]] std::string rank_table(report<T> const& all) {
  text_table table(
      {"rank", "stages", "busy", "idle", "warmup", "steady", "cooldown", "from", "to", "peak", "at", "copies"});
  for (auto const& r : all.per_rank)
    table.add({fmt::format("{}", r.rank), stages_text(r.stages, ","), time_text(r.busy), time_text(r.idle),
               time_text(r.idle_phase.warmup), time_text(r.idle_phase.steady), time_text(r.idle_phase.cooldown),
               time_text(r.first_start), time_text(r.last_end), fmt::format("{}", r.peak_activations),
               time_text(r.peak_time), fmt::format("{}", r.parameter_copies)});
  return table.text();
}

}  // namespace detail

/// The figures over all ranks with their meaning, then a table with a line per rank: its idle time in all and by phase,
/// when it starts and ends, the peak of its activations and when that is reached. `unit`: what a node of the graph is.
template <time_value T>
[[nodiscard]] std::string report_text(report<T> const& all, std::string_view schedule,
                                      std::string_view unit = "operations") {
  std::string text = fmt::format("{}: {} ranks, {} stages, {} microbatches, {} {}\n\n", schedule, all.ranks, all.stages,
                                 all.microbatches, all.operations, unit);
  auto const line = [&](std::string_view figure, std::string const& value, std::string_view meaning) {
    detail::append(text, "{:<20}{:>12}   {}\n", figure, value, meaning);
  };
  line("makespan", time_text(all.makespan), "last end, from 0");
  line("ideal", time_text(all.ideal), "mean busy time of a rank");
  line("bubble time", time_text(all.bubble_time), "idle time of the rank that idles most");
  line("bubble fraction", percent_text(all.bubble_fraction), "idle / (ranks x makespan)");
  line("bubble ratio", percent_text(all.bubble_ratio), "idle / busy");
  line("span bubble rate", percent_text(all.span_bubble_rate), "of the longest first start to last end");
  line("utilization", percent_text(all.utilization), "busy / (ranks x makespan)");
  line("steady utilization", percent_text(all.steady_utilization), "from first backward to last forward, mean");
  line("peak activations", fmt::format("{}", all.peak_activations), "stage activations of the rank with most");
  line("parameter copies", fmt::format("{}", all.parameter_copies), "of the rank with most");
  text += "\n" + detail::rank_table(all);
  text += "\nidle, by what was waited for: " + detail::idle_causes_text(all) + "\n";
  return text;
}

/// The figures that a picture is read with, in one line.
template <time_value T>
[[nodiscard]] std::string figures_text(report<T> const& all, std::string_view between = ", ") {
  return fmt::format("makespan {}, bubble {}{}idle {} of all rank time, peak {} activations, {} parameter cop{}",
                     time_text(all.makespan), time_text(all.bubble_time), between, percent_text(all.bubble_fraction),
                     all.peak_activations, all.parameter_copies, all.parameter_copies == 1 ? "y" : "ies");
}
/// The same after the schedule's name, in two lines that a terminal has room for.
template <time_value T>
[[nodiscard]] std::string summary_text(report<T> const& all, std::string_view schedule) {
  return fmt::format("{}: {}\n", schedule, figures_text(all, "\n"));
}

/// The critical path in one line of at most `most` ops: its length in ops, and the ops by where they run. An event
/// of a chunk with several layers ends with its layer: "0ATTN_F3.1".
[[nodiscard]] inline std::string critical_path_text(op_graph const& graph, view<critical_step> path,
                                                    std::size_t most = 16) {
  // Events of several layers of one chunk have the same name.
  bool has_layers = false;
  for (auto const& step : path) has_layers = has_layers || graph.layer(step.node) > 0;
  std::string text = fmt::format("critical path, {} ops:", path.size());
  for (std::size_t i = 0; i < path.size(); ++i) {
    bool const left_out = path.size() > most && i >= most / 2 && i + most / 2 < path.size();
    if (left_out) {
      if (i == most / 2) text += " ...";
      continue;
    }
    text += " " + to_string(graph.node(path[i].node));
    if (has_layers) text += fmt::format(".{}", graph.layer(path[i].node));
  }
  return text + "\n";
}

}  // namespace v0
}  // namespace pipesched
