// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Programs as rows of ops, with one place marked.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <pipesched/core/fault.hpp>
#include <pipesched/core/schedule.hpp>

namespace pipesched {
inline namespace v0 {
namespace testing {

/// One rank's program around a place, and a line of '^' below the op that stands there:
///
///     rank 1: 1F0 1B0 1F1 1F1 1B1
///                         ^^^
///
/// A position of -1 marks nothing and shows the beginning. Empty where the rank does not exist.
[[nodiscard]] inline std::string marked_row(schedule const& s, program_place place, std::int64_t around = 8) {
  if (place.rank < 0 || place.rank >= s.ranks()) return {};
  auto const program = s.program(place.rank);
  auto const size = std::int64_t(program.size());
  auto const first = std::max<std::int64_t>(0, place.position - around);
  auto const after = std::min(size, std::max<std::int64_t>(place.position, around) + around + 1);
  std::string row = fmt::format("rank {}:{}", place.rank, first > 0 ? " ..." : "");
  std::string marks;
  for (auto i = first; i < after; ++i) {
    bool const second_of_pair = i > 0 && program[std::size_t(i) - 1].overlaps_next();
    row += second_of_pair && i > first ? '+' : ' ';
    auto const text = to_string(program[std::size_t(i)]);
    if (i == place.position) marks = std::string(row.size(), ' ') + std::string(text.size(), '^');
    row += text;
  }
  if (after < size) row += " ...";
  row += '\n';
  if (!marks.empty()) row += marks + '\n';
  return row;
}

}  // namespace testing
}  // namespace v0
}  // namespace pipesched
