// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// DualPipeV: half of a DualPipe, folded so that the two flows are the two ways of a V.

#include <cstdint>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/writer.hpp>
#include <pipesched/schedules/dual_pipe.hpp>

namespace pipesched {
inline namespace v0 {

/// DualPipeV (the open repository deepseek-ai/DualPipe; the "cut in half" of sail-sg): the first half of the ranks of a
/// DualPipe on 2P ranks. Stages s and 2P-1-s are on one rank, so the way down is its flow 0, the way up its flow 1, and
/// no stage is held twice.
///
/// Limits: m >= 2P.
/// Bubble: as `dual_pipe` with k = P - 1, the last rank as the middle and pairs(r) = 2m - 3P + r + 1 - [r = P - 1];
/// times of one stage, of which a rank has two.
/// Peak activations: 2P + 1 chunks on every rank.
struct dual_pipe_v {
  int ranks;
  int microbatches;

  static constexpr schedule_info info{"dualpipe-v", "ranks, microbatches", "microbatches >= 2 * ranks",
                                      "github.com/deepseek-ai/DualPipe"};

  [[nodiscard]] constexpr check_result check() const {
    return first_violation({placement::check_size(ranks, std::int64_t{2} * ranks),
                            at_least("microbatches", microbatches, std::int64_t{2} * ranks, "2 * ranks")});
  }
  [[nodiscard]] constexpr auto placement() const { return placement::v(ranks); }
  [[nodiscard]] constexpr std::int64_t operations(int rank) const {
    return std::int64_t{4} * microbatches + 2 * ranks - 1 - rank;  // all F and B; then the W
  }

  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    detail::emit_dual_pipe({.depth = ranks,
                            .index = rank,
                            .microbatches = microbatches,
                            .flow_0 = {rank, 0, 0},
                            .flow_1 = {2 * ranks - 1 - rank, 0, 0}},
                           out);
  }
};

}  // namespace v0
}  // namespace pipesched
