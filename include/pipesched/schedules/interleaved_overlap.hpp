// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Interleaved 1F1B whose steady forwards and backwards run as overlapped pairs.

#include <algorithm>
#include <cstdint>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/writer.hpp>
#include <pipesched/schedules/looped.hpp>

namespace pipesched {
inline namespace v0 {

/// Interleaved 1F1B with overlap of the experts' communication, as Megatron-LM's combined 1F1B runs it
/// (`overlap_moe_expert_parallel_comm`): the warm-up of `interleaved` and one forward more; every steady forward and
/// backward are an overlapped pair.
///
/// Makespan, P dividing m, in chunk times, F&B that of a pair: (P-1)(F+B) + (P(v-1)+1)(F+B) + (mv-P(v-1)-1)F&B.
/// Peak activations: min(m*v, (v-1)N+2(P-r)) chunks on rank r, N the group: one more than `interleaved`.
///
/// Any P, m, v >= 1. A group is refused where it makes a dependency cycle: on two chunks and more, between two groups
/// of together less than 2(P-1)+1 microbatches.
struct interleaved_overlap {
  int ranks;
  int microbatches;
  int chunks = 2;
  int group = 0;  ///< microbatches that run on a chunk before the next chunk's turn; 0 chooses the best

  static constexpr schedule_info info{"interleaved-1f1b-overlap", "ranks, microbatches, chunks, group",
                                      "group: none that makes a dependency cycle",
                                      "Megatron-LM, combined 1F1B for mixtures of experts"};

  [[nodiscard]] constexpr check_result check() const { return shape().check(lead(0)); }
  [[nodiscard]] constexpr auto placement() const { return placement::loop(ranks, chunks); }
  [[nodiscard]] constexpr std::int64_t operations(int) const { return 2 * shape().forwards(); }

  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    std::int64_t const forwards = shape().forwards();
    std::int64_t const warmup = std::min(shape().all_but_one_pass() + lead(rank), forwards);
    std::int64_t const steady = forwards - warmup;

    detail::loop_writer stages(out, shape(), rank);
    auto f = [&] { stages.forward(); };
    auto overlapped_f = [&] { stages.overlapped_forward(); };
    auto b = [&] { stages.backward(); };
    repeat(stages, warmup, f);
    repeat(stages, steady, overlapped_f, b);
    repeat(stages, warmup, b);
  }

 private:
  [[nodiscard]] constexpr detail::loop_shape shape() const { return {ranks, microbatches, chunks, group}; }
  [[nodiscard]] constexpr std::int64_t lead(int rank) const { return 2 * (std::int64_t{ranks} - 1 - rank) + 1; }
};

}  // namespace v0
}  // namespace pipesched
