// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Writes the schedule files of torch.distributed.pipelining: one row of actions per rank.

#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <pipesched/core/op.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/io/torch_action.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

inline void append_action(std::string& out, op o) {
  out += fmt::format_int(o.stage()).c_str();
  out += name_of(o.kind());
  if (has_microbatch(o.kind())) out += fmt::format_int(o.microbatch()).c_str();
}

inline void append_row(std::string& out, view<op> program) {
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (i > 0) out += ',';
    bool const pair = program[i].overlaps_next() && i + 1 < program.size();
    if (pair) out += '(';
    append_action(out, program[i]);
    if (!pair) continue;
    out += ';';
    append_action(out, program[++i]);
    out += overlap_suffix;
  }
  out += '\n';
}

}  // namespace detail

/// One row of actions per rank, as torch.distributed.pipelining loads it (`compute_only`). The tokens name no replica:
/// a stage of a bidirectional schedule stands in several rows.
[[nodiscard]] inline std::string write_torch_csv(schedule const& s) {
  std::string text;
  for (int rank = 0; rank < s.ranks(); ++rank) detail::append_row(text, s.program(rank));
  return text;
}

/// The same of programs with communication (`compute_comms`).
[[nodiscard]] inline std::string write_torch_csv(view<std::vector<op>> programs) {
  std::string text;
  for (auto const& program : programs) detail::append_row(text, program);
  return text;
}

}  // namespace v0
}  // namespace pipesched
