// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// 1F1B whose steady forwards and backwards run as overlapped pairs: one's all-to-all under the other's computing.

#include <algorithm>
#include <cstdint>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/writer.hpp>

namespace pipesched {
inline namespace v0 {

/// 1F1B with overlap of the experts' communication, as Megatron-LM's combined 1F1B runs it
/// (`overlap_moe_expert_parallel_comm`): the warm-up of `eager_one_f_one_b` and one forward more, so that forward and
/// backward of a steady step are of different microbatches and can be one overlapped pair.
///
/// Makespan, for m >= P and F&B the time of a pair: P(F+B) + (m-1)F&B. Peak activations: min(m, 2(P-r)) on rank r.
/// Any P, m >= 1; a rank whose warm-up is all m forwards has no pairs.
struct one_f_one_b_overlap {
  int ranks;
  int microbatches;

  static constexpr schedule_info info{"1f1b-overlap", "ranks, microbatches", "none",
                                      "Megatron-LM, combined 1F1B for mixtures of experts"};

  [[nodiscard]] constexpr check_result check() const {
    return first_violation({placement::check_size(ranks, ranks), at_least("microbatches", microbatches, 1)});
  }
  [[nodiscard]] constexpr auto placement() const { return placement::linear(ranks); }
  [[nodiscard]] constexpr std::int64_t operations(int) const { return std::int64_t{2} * microbatches; }

  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    int const warmup = std::min(2 * (ranks - 1 - rank) + 1, microbatches);
    int const steady = microbatches - warmup;

    stage_writer stage(out, rank);
    repeat(stage, warmup, [&] { stage.forward(); });
    repeat(stage, steady, [&] { overlap(stage, stage); });
    repeat(stage, warmup, [&] { stage.backward(); });
  }
};

}  // namespace v0
}  // namespace pipesched
