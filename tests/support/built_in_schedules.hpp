// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Every built-in schedule of one shape, for tests that hold for all of them.

#include <pipesched/core/schedule.hpp>
#include <pipesched/schedules/registry.hpp>

namespace test_support {

/// Calls `visit(schedule)` for each built-in schedule that the shape allows; those without a parameter `chunks` stand
/// with chunks = 1.
template <class Visit>
void for_each_built_in(int ranks, int chunks, int microbatches, Visit&& visit) {
  pipesched::for_each_schedule([&]<class Generator>() {
    Generator generator{};
    generator.ranks = ranks;
    generator.microbatches = microbatches;
    if constexpr (requires { generator.chunks; })
      generator.chunks = chunks;
    else if (chunks != 1)
      return;
    if (!generator.check()) visit(pipesched::generate(generator));
  });
}

}  // namespace test_support
