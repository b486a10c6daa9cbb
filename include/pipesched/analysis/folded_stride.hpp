// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// By how much ranks come further where all of them repeat something.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/folded_layout.hpp>
#include <pipesched/analysis/folded_state.hpp>
#include <pipesched/core/folding.hpp>
#include <pipesched/core/vector.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// How a rank comes further by as many microbatches as all others do.
struct rank_stride {
  bool by_turns;            ///< of its round; else by iterations of its run
  std::int64_t iterations;  ///< turns or iterations
  std::int64_t operations;  ///< of one of them
};

/// The shortest strides, by rank; none where a rank has stopped, repeats nothing, or repeats what has no common
/// multiple with the others'.
template <cost_model Cost>
[[nodiscard]] constexpr vector<rank_stride> equal_strides(folded_layout<Cost> const& layout,
                                                          vector<folded_rank_state<time_of<Cost>>> const& ranks) {
  vector<rank_stride> strides;
  std::int64_t microbatches = 1;
  for (auto const& r : ranks) {
    if (r.position == r.stop) return {};
    auto const& round = layout.rounds()[r.round];
    auto const& run = layout.runs()[r.run];
    bool const by_turns = round.times > 1;
    auto const advance = by_turns ? round.advance : run.advance < 0 ? -run.advance : run.advance;
    if (advance == 0) return {};
    strides.push_back({by_turns, advance, by_turns ? round.operations : run.operations});
    microbatches = std::max(microbatches, advance);
  }
  for (auto& s : strides) {
    if (microbatches % s.iterations != 0) return {};
    s.iterations = microbatches / s.iterations;
  }
  return strides;
}

/// How many strides a rank can make without a stop, nor leaving what it repeats.
template <cost_model Cost>
[[nodiscard]] constexpr std::int64_t strides_left(folded_layout<Cost> const& layout,
                                                  folded_rank_state<time_of<Cost>> const& r, rank_stride const& s) {
  auto const left = s.by_turns ? layout.rounds()[r.round].times - 1 - r.turn : r.times - 1 - r.iteration;
  return std::min(left, (r.halt - r.position) / s.operations) / s.iterations;
}

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
