// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Interleaved zero bubble: ZB-H1 over several chunks on each rank.

#include <cstdint>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/schedules/looped.hpp>
#include <pipesched/schedules/zb_h1.hpp>

namespace pipesched {
inline namespace v0 {

/// Interleaved 1F1B with split backwards, as torch's InterleavedZeroBubble runs it: the warm-up is P-1-r beyond the
/// first v-1 passes, half of `interleaved`'s lead, and the weights are r chunk passes late. One chunk is ZB-H1.
///
/// Bubble, chunk times, P dividing m, W <= min(F,I): (P-1)(F+I-W). Peak activations, released at W: v*P chunks.
///
/// Any P, m, v >= 1, also where torch refuses m. A group is refused where it makes a dependency cycle: on two chunks
/// and more, between two groups of together less than P-1 microbatches.
struct interleaved_zb {
  int ranks;
  int microbatches;
  int chunks = 2;
  int group = 0;  ///< microbatches that run on a chunk before the next chunk's turn; 0 chooses the best

  static constexpr schedule_info info{"interleaved-zb", "ranks, microbatches, chunks, group",
                                      "group: none that makes a dependency cycle",
                                      "torch.distributed.pipelining, InterleavedZeroBubble"};

  [[nodiscard]] constexpr check_result check() const { return shape().check(lead(0)); }
  [[nodiscard]] constexpr auto placement() const { return placement::loop(ranks, chunks); }
  [[nodiscard]] constexpr std::int64_t operations(int) const { return 3 * shape().forwards(); }

  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    detail::loop_writer stages(out, shape(), rank);
    detail::write_with_delayed_weights(stages, shape().forwards(), shape().all_but_one_pass() + lead(rank), rank);
  }

 private:
  [[nodiscard]] constexpr detail::loop_shape shape() const { return {ranks, microbatches, chunks, group}; }
  [[nodiscard]] constexpr std::int64_t lead(int rank) const { return std::int64_t{ranks} - 1 - rank; }
};

}  // namespace v0
}  // namespace pipesched
