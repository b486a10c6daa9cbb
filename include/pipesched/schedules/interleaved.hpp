// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Interleaved 1F1B: several chunks of the model on each rank, for a smaller bubble.

#include <algorithm>
#include <cstdint>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/writer.hpp>
#include <pipesched/schedules/looped.hpp>

namespace pipesched {
inline namespace v0 {

/// Interleaved 1F1B (Narayanan et al., arXiv 2104.04473, figure 4, bottom), in the order of Megatron-LM, whose
/// microbatch group is `group`. On v chunks a rank r holds the stages r, r+P, ..., r+(v-1)P.
///
/// Bubble, F and B of one chunk: (P-1)(F+B) where every group has P microbatches or more; (v(P-m)+m-1)(F+B) for m < P.
/// A small latency C adds (2Pv-2)C where P divides m and m >= 2P. The rates that the Zero Bubble paper prints (arXiv
/// 2401.10241, tables 8 and 9) have P*C less: there only a group's first microbatch waits for what the last rank sends
/// to the first, and back. Peak activations: min(m*v, (v-1)N+2(P-1-r)+1) chunks on rank r, N the group.
///
/// Any P, m, v >= 1. A group above m is one group of m. A group is refused where it makes a dependency cycle, which
/// happens only on two chunks and more, between two groups of together less than 2(P-1) microbatches.
/// With one chunk the warm-up is still this schedule's, 2(P-1-r): that is `eager_one_f_one_b`, not `one_f_one_b`.
struct interleaved {
  int ranks;
  int microbatches;
  int chunks = 2;
  int group = 0;  ///< microbatches that run on a chunk before the next chunk's turn; 0 chooses the best

  static constexpr schedule_info info{"interleaved-1f1b", "ranks, microbatches, chunks, group",
                                      "group: none that makes a dependency cycle", "arXiv 2104.04473; Megatron-LM"};

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
    auto b = [&] { stages.backward(); };
    repeat(stages, warmup, f);
    repeat(stages, steady, f, b);
    repeat(stages, warmup, b);
  }

 private:
  [[nodiscard]] constexpr detail::loop_shape shape() const { return {ranks, microbatches, chunks, group}; }
  /// A forward to rank P-1 and its gradient back: two steps for each rank between.
  [[nodiscard]] constexpr std::int64_t lead(int rank) const { return 2 * (std::int64_t{ranks} - 1 - rank); }
};

}  // namespace v0
}  // namespace pipesched
