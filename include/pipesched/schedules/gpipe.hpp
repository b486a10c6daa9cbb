// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// GPipe: all forwards, then all backwards.

#include <cstdint>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/writer.hpp>

namespace pipesched {
inline namespace v0 {

/// GPipe (Huang et al., arXiv 1811.06965). Backwards run in the forwards' order, as torch and Megatron-LM run them.
///
/// Bubble: (P-1)(F+B). Peak activations: m on every rank. Any P, m >= 1.
struct gpipe {
  int ranks;
  int microbatches;

  static constexpr schedule_info info{"gpipe", "ranks, microbatches", "none", "arXiv 1811.06965"};

  [[nodiscard]] constexpr check_result check() const {
    return first_violation({placement::check_size(ranks, ranks), at_least("microbatches", microbatches, 1)});
  }
  [[nodiscard]] constexpr auto placement() const { return placement::linear(ranks); }
  [[nodiscard]] constexpr std::int64_t operations(int) const { return std::int64_t{2} * microbatches; }

  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    stage_writer stage(out, rank);
    repeat(stage, microbatches, [&] { stage.forward(); });
    repeat(stage, microbatches, [&] { stage.backward(); });
  }
};

}  // namespace v0
}  // namespace pipesched
