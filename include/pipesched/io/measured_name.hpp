// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The name of a measured op: "0F3", "(0F7;7B3)OVERLAP_F_B", or either after "PP:", as torch's profiler ranges have it.

#include <optional>
#include <string>
#include <string_view>

#include <pipesched/analysis/measured_cost.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/io/torch_action.hpp>
#include <pipesched/io/torch_csv_writer.hpp>

namespace pipesched {
inline namespace v0 {

/// The name, without "PP:".
[[nodiscard]] inline std::string measured_name(measured_op const& m) {
  if (!m.what.overlaps_next()) return to_string(m.what);
  return "(" + to_string(m.what) + ";" + to_string(m.partner) + std::string(detail::overlap_suffix);
}

/// The op or pair that a range's name tells, with no time yet; nothing where it tells none. Sends and receives are ops
/// too: it is for the caller to leave them out.
[[nodiscard]] inline std::optional<measured_op> parse_measured_name(std::string_view name) {
  if (name.substr(0, 3) == "PP:") name.remove_prefix(3);
  name = detail::stripped(name);
  auto const read = [](std::string_view text) { return detail::parse_action(text, torch_dialect::current); };
  measured_op m{op::from_packed(0), 0};
  if (auto const pair = detail::split_compound(name)) {
    auto const first = read(pair->first);
    auto const second = read(pair->second);
    if (!first || !second || !is_chunk_op(first.what.kind()) || !is_chunk_op(second.what.kind())) return {};
    m.what = first.what.overlapping_next();
    m.partner = second.what;
    return m;
  }
  auto const action = read(name);
  if (!action) return {};
  m.what = action.what;
  return m;
}

}  // namespace v0
}  // namespace pipesched
