// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// 1F1B: one forward, one backward, so that few activations are alive.

#include <algorithm>
#include <cstdint>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/writer.hpp>

namespace pipesched {
inline namespace v0 {

/// 1F1B without flushes inside the step (Narayanan et al., arXiv 2104.04473, figure 4, top).
///
/// Bubble: (P-1)(F+B). Peak activations: min(m, P-r) on rank r. Any P, m >= 1.
struct one_f_one_b {
  int ranks;
  int microbatches;

  static constexpr schedule_info info{"1f1b", "ranks, microbatches", "none", "arXiv 2104.04473"};

  [[nodiscard]] constexpr check_result check() const {
    return first_violation({placement::check_size(ranks, ranks), at_least("microbatches", microbatches, 1)});
  }
  [[nodiscard]] constexpr auto placement() const { return placement::linear(ranks); }
  [[nodiscard]] constexpr std::int64_t operations(int) const { return std::int64_t{2} * microbatches; }

  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    int const warmup = std::min(ranks - 1 - rank, microbatches);
    int const steady = microbatches - warmup;

    stage_writer stage(out, rank);
    repeat(stage, warmup, [&] { stage.forward(); });
    repeat(stage, steady, [&] { stage.forward().backward(); });
    repeat(stage, warmup, [&] { stage.backward(); });
  }
};

}  // namespace v0
}  // namespace pipesched
