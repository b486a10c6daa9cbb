// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Eager 1F1B: twice the warm-up, so that a slow link between two ranks does not stall them.

#include <algorithm>
#include <cstdint>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/writer.hpp>

namespace pipesched {
inline namespace v0 {

/// 1F1B with the warm-up doubled to 2(P-1-r) forwards (Zhuang et al., arXiv 2211.05322; also what the order
/// of interleaved 1F1B comes to with one chunk). In the steady state a rank has one microbatch in flight to each
/// neighbour, whose transfer runs under another one's computing.
///
/// Bubble: (P-1)(F+B), as 1F1B without latency. Peak activations: min(m, 2(P-r)-1) on rank r. Any P, m >= 1.
struct eager_one_f_one_b {
  int ranks;
  int microbatches;

  static constexpr schedule_info info{"eager-1f1b", "ranks, microbatches", "none", "arXiv 2211.05322"};

  [[nodiscard]] constexpr check_result check() const {
    return first_violation({placement::check_size(ranks, ranks), at_least("microbatches", microbatches, 1)});
  }
  [[nodiscard]] constexpr auto placement() const { return placement::linear(ranks); }
  [[nodiscard]] constexpr std::int64_t operations(int) const { return std::int64_t{2} * microbatches; }

  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    int const warmup = std::min(2 * (ranks - 1 - rank), microbatches);
    int const steady = microbatches - warmup;

    stage_writer stage(out, rank);
    repeat(stage, warmup, [&] { stage.forward(); });
    repeat(stage, steady, [&] { stage.forward().backward(); });
    repeat(stage, warmup, [&] { stage.backward(); });
  }
};

}  // namespace v0
}  // namespace pipesched
