// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// ZB-H2: no bubble where F = I = W, for twice the memory of 1F1B.

#include <cstdint>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/writer.hpp>
#include <pipesched/schedules/zb_h1.hpp>

namespace pipesched {
inline namespace v0 {

/// The handmade ZB-H2 (Qi et al., arXiv 2401.10241, figure 3, bottom). Twice the warm-up of ZB-H1 fills the bubble
/// before the first backward, twice the delay of the weights that after the last: the rows are a parallelogram, and a
/// rank that started later ends later.
///
/// Bubble, by span (last end - own first start), m >= 2P, W <= min(F,I): (P-1)(F+I-2W), which is (P-1)(F+B-3W), with
/// B = I+W the full backward.
/// Peak activations on rank r: 2P-2r-1 until I, and 2r more of which only W is left. Any P, m >= 1.
struct zb_h2 {
  int ranks;
  int microbatches;

  static constexpr schedule_info info{"zb-h2", "ranks, microbatches", "none", "arXiv 2401.10241"};

  [[nodiscard]] constexpr check_result check() const {
    return first_violation({placement::check_size(ranks, ranks), at_least("microbatches", microbatches, 1)});
  }
  [[nodiscard]] constexpr auto placement() const { return placement::linear(ranks); }
  [[nodiscard]] constexpr std::int64_t operations(int) const { return std::int64_t{3} * microbatches; }

  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    stage_writer stage(out, rank);
    detail::write_with_delayed_weights(stage, microbatches, 2 * (ranks - 1 - rank), 2 * rank);
  }
};

}  // namespace v0
}  // namespace pipesched
