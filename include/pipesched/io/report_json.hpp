// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A report as JSON.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <pipesched/analysis/report.hpp>
#include <pipesched/analysis/streams.hpp>
#include <pipesched/io/append.hpp>
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
  detail::append(text,
                 R"("schedule": {}, "ranks": {}, "stages": {}, "chunks": {}, "microbatches": {}, "operations": {},)",
                 json_string(schedule), all.ranks, all.stages, all.chunks, all.microbatches, all.operations);
  detail::append(text, "\n \"makespan\": {}, \"ideal\": {}, \"bubble_time\": {}, \"bubble_fraction\": {}, ",
                 json_number(all.makespan), json_mean(all.busy_total, all.ranks), json_number(all.bubble_time),
                 json_fraction(all.bubble_fraction));
  detail::append(text, "\"bubble_ratio\": {}, \"span_bubble_rate\": {},", json_fraction(all.bubble_ratio),
                 json_fraction(all.span_bubble_rate));
  detail::append(text, "\n \"utilization\": {}, \"steady_utilization\": {},", json_fraction(all.utilization),
                 json_fraction(all.steady_utilization));
  detail::append(text, "\n \"peak_activations\": {}, \"parameter_copies\": {}", all.peak_activations,
                 all.parameter_copies);
  return text;
}

/// The members of a rank's object.
template <time_value T>
[[nodiscard]] std::string json_rank(rank_report<T> const& r) {
  auto const stages = stages_text(r.stages, ", ");
  return fmt::format(R"("rank": {}, "stages": [{}], "busy": {}, "idle": {}, "first_start": {}, "last_end": {}, )"
                     R"("peak_activations": {}, "parameter_copies": {}, "warmup": {})",
                     r.rank, stages, json_number(r.busy), json_number(r.idle), json_number(r.first_start),
                     json_number(r.last_end), r.peak_activations, r.parameter_copies, r.warmup);
}

/// What is exposed and hidden of the all-to-alls, and the overlapped pairs, of a rank or of all.
template <class Streams>
[[nodiscard]] std::string json_overlap(Streams const& streams, auto exposed, auto hidden) {
  return fmt::format(R"("exposed_communication": {}, "hidden_communication": {}, "mean_pair": {}, )"
                     R"("pair_utilization": {})",
                     json_number(exposed), json_number(hidden), json_fraction(streams.mean_pair),
                     json_fraction(streams.pair_utilization));
}

/// The streams of a rank: one object per stream, and in it one per kind of event.
template <time_value T>
[[nodiscard]] std::string json_streams(rank_streams_report<T> const& r) {
  auto const exposure = [](stream on, auto const& part) {
    if (on == stream::compute) return std::string();
    return fmt::format(R"(, "exposed": {}, "hidden": {})", json_number(part.exposed), json_number(part.hidden));
  };
  std::string text = "\"streams\": {";
  for (auto on : {stream::compute, stream::all_to_all, stream::p2p}) {
    auto const& s = r.of(on);
    detail::append(text, R"({}"{}": {{"busy": {}, "idle": {}{}, "kinds": {{)", on == stream::compute ? "" : ",\n    ",
                   name_of(on), json_number(s.busy), json_number(s.idle), exposure(on, s));
    for (auto const& of_kind : s.kinds)
      detail::append(text, R"({}"{}": {{"count": {}, "busy": {}{}}})", &of_kind == s.kinds.data() ? "" : ", ",
                     name_of(of_kind.kind), of_kind.count, json_number(of_kind.busy), exposure(on, of_kind));
    text += "}}";
  }
  return text + "}";
}

}  // namespace detail

/// One JSON object, with a newline at its end: the figures over all ranks, then those of each rank under "per_rank".
/// Times are whole numbers where the report's are. Keys always come in the same order.
template <time_value T>
[[nodiscard]] std::string report_json(report<T> const& all, std::string_view schedule) {
  std::string text = "{" + detail::json_figures(all, schedule) + ",\n \"per_rank\": [";
  for (std::size_t i = 0; i < all.per_rank.size(); ++i) {
    text += i == 0 ? "\n  {" : ",\n  {";
    text += detail::json_rank(all.per_rank[i]) + "}";
  }
  text += "]}\n";
  return text;
}

/// The same for a graph of mixture-of-experts events, with what their communication costs: "exposed_communication",
/// "hidden_communication" (of the all-to-alls), "mean_pair" (the effective F&B) and "pair_utilization" over all ranks
/// and of each, and the streams of each rank by kind of event.
template <time_value T>
[[nodiscard]] std::string report_json(report<T> const& all, streams_report<T> const& streams,
                                      std::string_view schedule) {
  std::string text = "{" + detail::json_figures(all, schedule) + ",\n " +
                     detail::json_overlap(streams, streams.exposed_communication, streams.hidden_communication) +
                     ",\n \"per_rank\": [";
  for (std::size_t i = 0; i < all.per_rank.size(); ++i) {
    auto const& r = streams.per_rank[i];
    text += i == 0 ? "\n  {" : ",\n  {";
    text += detail::json_rank(all.per_rank[i]) + ",\n   " +
            detail::json_overlap(r, r.exposed_communication(), r.hidden_communication()) + ",\n   " +
            detail::json_streams(r) + "}";
  }
  return text + "]}\n";
}

}  // namespace v0
}  // namespace pipesched
