// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A report as JSON.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <pipesched/analysis/report.hpp>
#include <pipesched/io/json_text.hpp>
#include <pipesched/io/stage_list.hpp>

namespace pipesched {
inline namespace v0 {

namespace detail {

[[nodiscard]] inline std::string json_string(std::string_view value) {
  std::string text;
  append_json_string(text, value);
  return text;
}

template <time_value T>
[[nodiscard]] std::string json_number(T value) {
  std::string text;
  if constexpr (std::integral<T>)
    append_json_number(text, std::int64_t{value});
  else
    append_json_number(text, double(value));
  return text;
}

/// A figure that is never meant as a whole number, with a ".0" where it happens to be one; null for nothing.
[[nodiscard]] inline std::string json_fraction(std::optional<double> value) {
  if (!value) return "null";
  auto text = json_number(*value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

/// A sum divided by a count: whole where the times are and the division leaves no rest.
template <time_value T>
[[nodiscard]] std::string json_mean(T sum, int count) {
  if constexpr (std::integral<T>)
    if (sum % count == 0) return json_number(sum / count);
  return json_number(static_cast<double>(sum) / count);
}

/// The figures over all ranks, as the members of an object.
template <time_value T>
[[nodiscard]] std::string json_figures(report<T> const& all, std::string_view schedule) {
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out,
                 R"("schedule": {}, "ranks": {}, "stages": {}, "chunks": {}, "microbatches": {}, "operations": {},)",
                 json_string(schedule), all.ranks, all.stages, all.chunks, all.microbatches, all.operations);
  fmt::format_to(out, "\n \"makespan\": {}, \"ideal\": {}, \"bubble_time\": {}, \"bubble_fraction\": {}, ",
                 json_number(all.makespan), json_mean(all.busy_total, all.ranks), json_number(all.bubble_time),
                 json_fraction(all.bubble_fraction));
  fmt::format_to(out, "\"bubble_ratio\": {}, \"span_bubble_rate\": {},", json_fraction(all.bubble_ratio),
                 json_fraction(all.span_bubble_rate));
  fmt::format_to(out, "\n \"utilization\": {}, \"steady_utilization\": {},", json_fraction(all.utilization),
                 json_fraction(all.steady_utilization));
  fmt::format_to(out, "\n \"peak_activations\": {}, \"parameter_copies\": {}", all.peak_activations,
                 all.parameter_copies);
  return text;
}

template <time_value T>
[[nodiscard]] std::string json_rank(rank_report<T> const& r) {
  auto const stages = stages_text(r.stages, ", ");
  return fmt::format(R"({{"rank": {}, "stages": [{}], "busy": {}, "idle": {}, "first_start": {}, "last_end": {}, )"
                     R"("peak_activations": {}, "parameter_copies": {}, "warmup": {}}})",
                     r.rank, stages, json_number(r.busy), json_number(r.idle), json_number(r.first_start),
                     json_number(r.last_end), r.peak_activations, r.parameter_copies, r.warmup);
}

}  // namespace detail

/// One JSON object, with a newline at its end: the figures over all ranks, then those of each rank under "per_rank".
/// Times are whole numbers where the report's are. Keys always come in the same order.
template <time_value T>
[[nodiscard]] std::string report_json(report<T> const& all, std::string_view schedule) {
  std::string text = "{" + detail::json_figures(all, schedule) + ",\n \"per_rank\": [";
  for (std::size_t i = 0; i < all.per_rank.size(); ++i) {
    text += i == 0 ? "\n  " : ",\n  ";
    text += detail::json_rank(all.per_rank[i]);
  }
  text += "]}\n";
  return text;
}

}  // namespace v0
}  // namespace pipesched
