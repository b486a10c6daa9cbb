// SPDX-License-Identifier: MIT
#include "cost_file.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <pipesched/io/json_reader.hpp>

#include "files.hpp"
#include "usage_error.hpp"

namespace {

using nlohmann::json;

decimal time_of(std::string const& where, json const& value) {
  if (!value.is_number()) throw usage_error(fmt::format("{}: must be a number", where));
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t(INT64_MAX))
    return {value.get<double>(), std::nullopt};
  auto const time =
      value.is_number_integer() ? decimal::of(value.get<std::int64_t>()) : decimal::of(value.get<double>());
  if (!(time.real >= 0)) throw usage_error(fmt::format("{} = {}, must be at least 0", where, value.dump()));
  return time;
}

std::vector<decimal> times_of(std::string const& where, json const& value) {
  if (!value.is_array()) return {time_of(where, value)};
  if (value.empty()) throw usage_error(where + ": must have one time per stage");
  std::vector<decimal> times;
  for (std::size_t i = 0; i < value.size(); ++i) times.push_back(time_of(fmt::format("{}[{}]", where, i), value[i]));
  return times;
}

/// The first key that an object of the text gives twice, of which the parser would keep the last; "" where none is.
std::string repeated_key(std::string const& text) {
  std::string repeated;
  std::vector<std::vector<std::string>> keys;  // of the objects that are open
  auto const look = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key) {
      auto& known = keys.back();
      auto const& key = value.get_ref<std::string const&>();
      if (repeated.empty() && std::find(known.begin(), known.end(), key) != known.end()) repeated = key;
      known.push_back(key);
    }
    return true;
  };
  [[maybe_unused]] auto const value = json::parse(text, look, false);
  return repeated;
}

[[noreturn]] void refuse(std::string const& path, std::vector<pipesched::diagnostic> const& diagnostics) {
  throw usage_error(path + ": " + to_string(diagnostics.front()));
}

cost_file measured_file(std::string const& path, std::string_view text) {
  auto read = pipesched::read_measured_times(text);
  if (!read.diagnostics.empty()) refuse(path, read.diagnostics);
  if (read.ops.empty()) throw usage_error(path + ": holds no time of an op");
  cost_file result;
  result.measured = std::move(read.ops);
  return result;
}

}  // namespace

cost_file read_cost_file(std::string const& path) {
  auto const text = read_file(path);
  auto const first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first == std::string::npos || text[first] != '{') return measured_file(path, text);
  std::vector<pipesched::diagnostic> diagnostics;
  auto const document = pipesched::detail::parse_json(text, diagnostics);
  if (!document) refuse(path, diagnostics);
  bool const of_schedule = document->contains("costs");
  if (!of_schedule && (document->contains("measured") || document->contains("traceEvents")))
    return measured_file(path, text);
  if (auto const key = repeated_key(text); !key.empty()) throw usage_error(path + ": " + key + ": given twice");
  auto const& costs = of_schedule ? document->at("costs") : *document;
  if (!costs.is_object()) throw usage_error(path + ": costs: must be an object");
  cost_file result;
  for (auto const& [key, value] : costs.items()) {
    auto const where = path + ": " + key;
    if (key == "forward")
      result.forward = times_of(where, value);
    else if (key == "backward_input")
      result.backward_input = times_of(where, value);
    else if (key == "backward_weight")
      result.backward_weight = times_of(where, value);
    else if (key == "overlapped")
      result.overlapped = times_of(where, value);
    else if (key == "latency")
      result.latency = time_of(where, value);
    else
      throw usage_error(where + ": unknown; known are forward, backward_input, backward_weight, overlapped, latency");
  }
  return result;
}
