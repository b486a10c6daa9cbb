// SPDX-License-Identifier: MIT
#include "cost_file.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

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

}  // namespace

cost_file read_cost_file(std::string const& path) {
  auto const text = read_file(path);
  auto const root = json::parse(text, nullptr, false);
  if (root.is_discarded()) throw usage_error(path + ": not a JSON document");
  if (!root.is_object()) throw usage_error(path + ": must be a JSON object");
  cost_file result;
  for (auto const& [key, value] : root.items()) {
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
