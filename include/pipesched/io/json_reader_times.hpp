// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Reads costs and measured times from JSON, and measured times from a Chrome trace.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/measured_cost.hpp>
#include <pipesched/io/diagnostic.hpp>
#include <pipesched/io/json_reader_document.hpp>
#include <pipesched/io/measured_csv.hpp>
#include <pipesched/io/measured_name.hpp>

namespace pipesched {
inline namespace v0 {

/// Costs from a file, or what is wrong with them.
struct json_costs {
  std::optional<stage_cost<double>> costs = {};
  std::vector<diagnostic> diagnostics = {};
};

namespace detail {

/// One time per stage: an array of them, or one number for all.
[[nodiscard]] inline std::optional<std::vector<double>> stage_times(nlohmann::json const& costs, std::string_view name,
                                                                    int stages, json_members& members) {
  auto const* value = json_members::find(costs, name);
  if (value != nullptr) {
    if (auto const same = json_members::duration_value(*value)) return std::vector<double>(std::size_t(stages), *same);
    if (value->is_array() && value->size() == std::size_t(stages)) {
      std::vector<double> times;
      for (auto const& entry : *value)
        if (auto const time = json_members::duration_value(entry)) times.push_back(*time);
      if (times.size() == value->size()) return times;
    }
  }
  members.complain(name, fmt::format("a time of at least 0, or one for each of {} stages", stages));
  return {};
}

[[nodiscard]] inline std::optional<stage_cost<double>> read_costs(nlohmann::json const& value, int stages,
                                                                  std::vector<diagnostic>& diagnostics) {
  json_members members(diagnostics);
  if (!value.is_object()) {
    members.complain("costs", "an object");
    return {};
  }
  auto forward = stage_times(value, "forward", stages, members);
  auto input = stage_times(value, "backward_input", stages, members);
  auto weight = stage_times(value, "backward_weight", stages, members);
  std::optional<std::vector<double>> overlapped(std::vector<double>{});
  if (value.contains("overlapped")) overlapped = stage_times(value, "overlapped", stages, members);
  std::optional<double> latency = 0.0;
  if (auto const* given = json_members::find(value, "latency")) {
    latency = json_members::duration_value(*given);
    if (!latency) members.complain("latency", "a time of at least 0");
  }
  if (!forward || !input || !weight || !overlapped || !latency) return {};
  return stage_cost<double>{std::move(*forward), std::move(*input), std::move(*weight), std::move(*overlapped),
                            *latency};
}

/// One entry of "measured".
inline void read_measurement(nlohmann::json const& entry, std::size_t index, measured_times& times) {
  auto const complain = [&](std::string_view expected) {
    times.diagnostics.push_back({.kind = "bad_measurement",
                                 .op = fmt::format("measured[{}]", index),
                                 .message = "is no measurement",
                                 .expected = std::string(expected)});
  };
  auto const* name = json_members::find(entry, "op");
  if (name == nullptr || !name->is_string()) return complain("an object with \"op\" and \"duration\"");
  auto measured = parse_measured_name(name->get_ref<std::string const&>());
  if (!measured) return complain("an op such as 0F3");
  auto const* duration = json_members::find(entry, "duration");
  auto const length = duration != nullptr ? json_members::duration_value(*duration) : std::nullopt;
  if (!length) return complain("a duration of at least 0");
  measured->duration = *length;
  if (auto const* start = json_members::find(entry, "start")) {
    if (!start->is_number()) return complain("a number for \"start\"");
    measured->start = start->get<double>();
  }
  if (auto const* rank = json_members::find(entry, "rank")) {
    auto const value = json_members::whole_value(*rank);
    if (!value || *value < 0 || *value >= max_stages) return complain("a rank");
    measured->rank = int(*value);
  }
  times.ops.push_back(*measured);
}

/// Which rank an event of a trace is of: that of the whole file where torch's profiler has written it down
/// ("distributedInfo"), else that of a process which is named "rank 3".
class trace_ranks {
 public:
  explicit trace_ranks(nlohmann::json const& trace, nlohmann::json const& events) {
    if (auto const* info = json_members::find(trace, "distributedInfo"))
      if (auto const* rank = json_members::find(*info, "rank")) of_file_ = rank_value(*rank);
    for (auto const& event : events) {
      auto const* name = json_members::find(event, "name");
      auto const* process = json_members::find(event, "pid");
      auto const* args = json_members::find(event, "args");
      if (name == nullptr || *name != "process_name" || process == nullptr || args == nullptr) continue;
      auto const* label = json_members::find(*args, "name");
      auto const id = json_members::whole_value(*process);
      if (!id || label == nullptr || !label->is_string()) continue;
      std::string_view text = label->get_ref<std::string const&>();
      if (text.substr(0, 5) != "rank ") continue;
      text.remove_prefix(5);
      auto const digits = take_digits(text);
      auto const rank = value_of(digits, max_stages - 1);
      if (!digits.empty() && text.empty() && rank < max_stages) of_process_.emplace_back(*id, int(rank));
    }
    std::sort(of_process_.begin(), of_process_.end());
  }

  /// -1 where nothing tells.
  [[nodiscard]] int of(nlohmann::json const& event) const {
    if (auto const* args = json_members::find(event, "args"))
      if (auto const* rank = json_members::find(*args, "rank")) return rank_value(*rank);
    auto const* process = json_members::find(event, "pid");
    auto const id = process != nullptr ? json_members::whole_value(*process) : std::nullopt;
    if (!id) return of_file_;
    auto const at = std::lower_bound(of_process_.begin(), of_process_.end(), std::pair(*id, 0));
    return at != of_process_.end() && at->first == *id ? at->second : of_file_;
  }

 private:
  [[nodiscard]] static int rank_value(nlohmann::json const& value) {
    auto const rank = json_members::whole_value(value);
    return rank && *rank >= 0 && *rank < max_stages ? int(*rank) : -1;
  }

  int of_file_ = -1;
  std::vector<std::pair<std::int64_t, int>> of_process_;
};

/// One event of a trace, where it is a range that names a chunk op; all others are none of our business.
inline void read_trace_event(nlohmann::json const& event, std::size_t index, trace_ranks const& ranks,
                             measured_times& times) {
  auto const* name = json_members::find(event, "name");
  auto const* phase = json_members::find(event, "ph");
  if (name == nullptr || !name->is_string() || phase == nullptr || *phase != "X") return;
  auto measured = parse_measured_name(name->get_ref<std::string const&>());
  if (!measured || !is_chunk_op(measured->what.kind())) return;
  auto const* start = json_members::find(event, "ts");
  auto const* duration = json_members::find(event, "dur");
  auto const length = duration != nullptr ? json_members::duration_value(*duration) : std::nullopt;
  if (start == nullptr || !start->is_number() || !length) {
    times.diagnostics.push_back({.kind = "bad_measurement",
                                 .op = printable(name->get_ref<std::string const&>()),
                                 .message = fmt::format("event {} has no time", index),
                                 .expected = "numbers for \"ts\" and \"dur\""});
    return;
  }
  measured->start = start->get<double>();
  measured->duration = *length;
  measured->rank = ranks.of(event);
  times.ops.push_back(*measured);
}

}  // namespace detail

/// Costs per stage and kind: `{"forward": .., "backward_input": .., "backward_weight": .., "overlapped": ..,
/// "latency": ..}`, each a time for every stage or an array of one per stage. A file of this library's own format gives
/// those that it holds. Never throws for what is in `text`. Precondition: stages >= 1.
[[nodiscard]] inline json_costs read_json_costs(std::string_view text, int stages) {
  json_costs result;
  auto const document = detail::parse_json(text, result.diagnostics);
  if (!document) return result;
  auto const* inner = detail::json_members::find(*document, "costs");
  result.costs = detail::read_costs(inner != nullptr ? *inner : *document, stages, result.diagnostics);
  return result;
}

/// Measured times from JSON: the "measured" of this library's own format, a bare array of such entries, or a Chrome
/// trace whose ranges are named after ops, with or without "PP:" ("PP:0F3"); a trace's unit is the microsecond. Never
/// throws for what is in `text`.
[[nodiscard]] inline measured_times read_measured_json(std::string_view text) {
  measured_times times;
  auto const document = detail::parse_json(text, times.diagnostics);
  if (!document) return times;
  auto const* trace = detail::json_members::find(*document, "traceEvents");
  auto const* measured = detail::json_members::find(*document, "measured");
  auto const* list = trace != nullptr ? trace : measured != nullptr ? measured : &*document;
  if (!list->is_array()) {
    detail::json_members(times.diagnostics).complain("measured", "an array, \"measured\" or \"traceEvents\"");
    return times;
  }
  detail::trace_ranks const ranks(*document, *list);
  for (std::size_t i = 0; i < list->size(); ++i) {
    auto const& entry = (*list)[i];
    if (trace != nullptr || (entry.is_object() && entry.contains("ph")))
      detail::read_trace_event(entry, i, ranks, times);
    else
      detail::read_measurement(entry, i, times);
  }
  return times;
}

}  // namespace v0
}  // namespace pipesched
