// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// One grid of shapes for generators that do not all have the same parameters.

namespace test_support {

/// Calls `visit(generator)` where the shape is allowed. A generator without chunks stands at `chunks` = 1 alone, one
/// without groups at `group` = 0.
template <class Generator, class Visit>
void with_shape(int ranks, int microbatches, int chunks, int group, Visit&& visit) {
  Generator generator{};
  generator.ranks = ranks;
  generator.microbatches = microbatches;
  if constexpr (requires { generator.chunks; })
    generator.chunks = chunks;
  else if (chunks != 1)
    return;
  if constexpr (requires { generator.group; })
    generator.group = group;
  else if (group != 0)
    return;
  if (!generator.check()) visit(generator);
}

}  // namespace test_support
