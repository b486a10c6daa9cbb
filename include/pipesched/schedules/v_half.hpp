// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// V-Half: a V at half the memory of 1F1B.

#include <cstdint>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/writer.hpp>
#include <pipesched/schedules/building_block.hpp>
#include <pipesched/schedules/pass_times.hpp>
#include <pipesched/schedules/squeezed_v.hpp>

namespace pipesched {
inline namespace v0 {

/// V-Half (Qi et al., "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362): stages r and 2P-1-r on rank
/// r, and a building block whose chunks live half as long as those of 1F1B. Repeated and squeezed in unit times, as the
/// greedy scheduler of sail-sg/zero-bubble-pipeline-parallelism does; the weights of each stage are a queue. For other
/// than equal times the forwards and backwards keep that order, and the weights are put greedily where a rank would
/// idle, first in, first out over both stages.
///
/// Bubble, F = I = W, m >= 2P, by span: 3P-7 for even P (P = 2: 1), 3P-4 for odd P, in times of one op.
/// Peak activations: 2 * ((P+2)/2) chunks of half a stage, where the division is whole.
/// Any P, m >= 1. A row follows from one construction of all rows, of O(P) microbatches however many there are.
struct v_half {
  int ranks;
  int microbatches;
  pass_times times = {};  ///< of one stage, of which a rank has two

  static constexpr schedule_info info{"v-half", "ranks, microbatches, times", "none", "arXiv 2405.15362"};

  [[nodiscard]] constexpr check_result check() const {
    return first_violation({placement::check_size(ranks, std::int64_t{2} * ranks),
                            at_least("microbatches", microbatches, 1), times.check(ranks, microbatches)});
  }
  [[nodiscard]] constexpr auto placement() const { return placement::v(ranks); }
  [[nodiscard]] constexpr std::int64_t operations(int) const { return std::int64_t{6} * microbatches; }
  /// The most chunks of activations that a rank holds.
  [[nodiscard]] constexpr std::int64_t memory() const { return 2 * ((std::int64_t{ranks} + 2) / 2); }
  [[nodiscard]] constexpr bool rows_are_independent() const { return false; }
  [[nodiscard]] constexpr bool programs_repeat() const { return times.equal(); }

  /// When a rank runs the first microbatch in the repeated pattern.
  [[nodiscard]] constexpr detail::building_block block(int rank) const {
    std::int32_t const p = ranks;
    std::int32_t const r = rank;
    // Forwards go down at two slots a rank and up at one; so do backwards. For even P the two would meet in a slot.
    std::int32_t const apart = p % 2 == 0 ? 3 : 0;
    return {.lower_forward = 2 * r,
            .upper_forward = 3 * p - 2 - r,
            .upper_backward = 3 * p - 1 + apart + 2 * r,
            .lower_backward = 6 * p - 2 + apart - r};
  }

  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    detail::one_row_sink<Sink> row{rank, out};
    emit_all(row);
  }
  template <rank_op_sink Sink>
  constexpr void emit_all(Sink& out) const {
    constexpr int wave = 0;  // all ranks are steady in the same slot
    detail::emit_squeezed_v(ranks, microbatches, times, memory(), [&](int rank) { return block(rank); }, wave, out);
  }
};

}  // namespace v0
}  // namespace pipesched
