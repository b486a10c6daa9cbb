// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Writes a schedule as JSON, with costs and measured times where there are any. The format is in `docs/formats.md`.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/measured_cost.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/io/json_text.hpp>
#include <pipesched/io/measured_name.hpp>
#include <pipesched/io/torch_csv_writer.hpp>

namespace pipesched {
inline namespace v0 {

/// The version of the format that is written, and the newest that is read.
inline constexpr int json_format_version = 1;

/// What a file holds beside the schedule.
struct json_extras {
  stage_cost<double> const* costs = nullptr;  ///< none where null
  view<measured_op> measured = {};            ///< none where empty
};

namespace detail {

/// The first copy of a stage on a rank; 0 where there is none.
[[nodiscard]] inline int copy_on(placement const& where, int stage, int rank) {
  for (int replica = 0; replica < where.replicas(); ++replica)
    if (where.rank_of(stage, replica) == rank) return replica;
  return 0;
}

/// An op as a token; "@replica" follows where the rank does not tell it.
inline void append_token(std::string& out, placement const& where, op o, int rank) {
  append_action(out, o);
  if (where.replicas() > 1 && copy_on(where, o.stage(), rank) != o.replica()) out += fmt::format("@{}", o.replica());
}

inline void append_program(std::string& out, schedule const& s, int rank) {
  auto const program = s.program(rank);
  for (std::size_t i = 0; i < program.size(); ++i) {
    out += i > 0 ? ", \"" : "\"";
    if (program[i].overlaps_next() && i + 1 < program.size()) {
      out += '(';
      append_token(out, s.where(), program[i], rank);
      out += ';';
      append_token(out, s.where(), program[++i], rank);
      out += overlap_suffix;
    } else {
      append_token(out, s.where(), program[i], rank);
    }
    out += '"';
  }
}

template <class Number>
void append_numbers(std::string& out, view<Number> values) {
  out += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ", ";
    append_json_number(out, values[i]);
  }
  out += ']';
}

inline void append_placement(std::string& out, placement const& where) {
  out += fmt::format("{{\"kind\": \"{}\"", name_of(where.kind()));
  if (where.kind() == placement_kind::custom) {
    out += ", \"rank_of_stage\": [";
    for (int replica = 0; replica < where.replicas(); ++replica) {
      std::vector<std::int64_t> ranks;
      for (int stage = 0; stage < where.stages(); ++stage) ranks.push_back(where.rank_of(stage, replica));
      if (replica > 0) out += ", ";
      append_numbers(out, view<std::int64_t>(ranks));
    }
    out += ']';
  }
  out += '}';
}

inline void append_costs(std::string& out, stage_cost<double> const& costs) {
  auto const append = [&](std::string_view name, std::vector<double> const& times) {
    out += fmt::format("\"{}\": ", name);
    append_numbers(out, view<double>(times));
    out += ", ";
  };
  out += '{';
  append("forward", costs.forward);
  append("backward_input", costs.backward_input);
  append("backward_weight", costs.backward_weight);
  if (!costs.overlapped.empty()) append("overlapped", costs.overlapped);
  out += "\"latency\": ";
  append_json_number(out, costs.latency);
  out += '}';
}

inline void append_measured(std::string& out, measured_op const& m) {
  out += fmt::format("{{\"op\": \"{}\", \"duration\": ", measured_name(m));
  append_json_number(out, m.duration);
  if (m.has_start()) {
    out += ", \"start\": ";
    append_json_number(out, m.start);
  }
  if (m.rank >= 0) out += fmt::format(", \"rank\": {}", m.rank);
  out += '}';
}

}  // namespace detail

/// The schedule in this library's own format: everything that `schedule` holds, and `extras`. Reading it back gives
/// equal values.
[[nodiscard]] inline std::string write_json(schedule const& s, json_extras const& extras = {}) {
  std::string out = fmt::format("{{\n\"format\": \"pipesched\", \"version\": {},\n\"name\": ", json_format_version);
  detail::append_json_string(out, s.name());
  out += fmt::format(",\n\"ranks\": {}, \"stages\": {}, \"replicas\": {}, \"microbatches\": {},\n\"placement\": ",
                     s.ranks(), s.stages(), s.where().replicas(), s.microbatches());
  detail::append_placement(out, s.where());
  out += ",\n\"programs\": [";
  for (int rank = 0; rank < s.ranks(); ++rank) {
    out += rank > 0 ? ",\n  [" : "\n  [";
    detail::append_program(out, s, rank);
    out += ']';
  }
  out += ']';
  if (extras.costs != nullptr) {
    out += ",\n\"costs\": ";
    detail::append_costs(out, *extras.costs);
  }
  if (!extras.measured.empty()) {
    out += ",\n\"measured\": [";
    for (std::size_t i = 0; i < extras.measured.size(); ++i) {
      out += i > 0 ? ",\n  " : "\n  ";
      detail::append_measured(out, extras.measured[i]);
    }
    out += ']';
  }
  out += "\n}\n";
  return out;
}

}  // namespace v0
}  // namespace pipesched
