// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Every built-in schedule of one shape, for tests that hold for all of them. Compiled once, as sixteen generators are
/// much to compile.

#include <vector>

#include <pipesched/core/schedule.hpp>

namespace test_support {

/// Each built-in schedule that the shape allows; those without a parameter `chunks` stand with chunks = 1.
[[nodiscard]] std::vector<pipesched::schedule> built_in_schedules(int ranks, int chunks, int microbatches);

/// Each built-in schedule with its default parameters. Throws where one does not allow the shape.
[[nodiscard]] std::vector<pipesched::schedule> default_schedules(int ranks, int microbatches);

/// Calls `visit(schedule)` for each of `built_in_schedules`.
template <class Visit>
void for_each_built_in(int ranks, int chunks, int microbatches, Visit&& visit) {
  for (auto const& s : built_in_schedules(ranks, chunks, microbatches)) visit(s);
}

}  // namespace test_support
