// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// ZB-H1: 1F1B with the weights' backward split off and run where 1F1B would wait.

#include <algorithm>
#include <cstdint>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/writer.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// 1F1B with split backwards: every W follows its microbatch's I with `delay` other I between, and the last `delay` W
/// end the row. They fill the bubble at its end; one microbatch of delay for each of the ranks that wait longer.
template <class Writer>
constexpr void write_with_delayed_weights(Writer const& fresh, std::int64_t forwards, std::int64_t warmup,
                                          std::int64_t delay) {
  Writer stage = fresh;  // a copy of its own, which compilers keep in registers
  warmup = std::min(warmup, forwards);
  delay = std::min(delay, forwards);
  std::int64_t const steady = forwards - warmup;
  std::int64_t const delay_in_steady = std::min(delay, steady);
  std::int64_t const delay_in_cooldown = delay - delay_in_steady;  // none where there are enough microbatches

  auto f = [&] { stage.forward(); };
  auto i = [&] { stage.backward_input(); };
  auto w = [&] { stage.backward_weight(); };
  repeat(stage, warmup, f);
  repeat(stage, delay_in_steady, f, i);
  repeat(stage, steady - delay_in_steady, f, i, w);
  repeat(stage, delay_in_cooldown, i);
  repeat(stage, warmup - delay_in_cooldown, i, w);
  repeat(stage, delay, w);
}

}  // namespace detail

/// ZB-H1 (Qi et al., arXiv 2401.10241, figure 3, top): the memory of 1F1B and, where F = I = W, a third of its bubble.
/// Rank r warms up as 1F1B does and is r microbatches late with its weights. Sources differ for m <= P; this is the
/// order of torch's InterleavedZeroBubble.
///
/// Bubble, m >= P: (P-1)(F+I-min(F,I,W)). Peak activations, released at W: min(m, P) on every rank; released at I,
/// m > P: P-r on rank r. Any P, m >= 1.
struct zb_h1 {
  int ranks;
  int microbatches;

  static constexpr schedule_info info{"zb-h1", "ranks, microbatches", "none", "arXiv 2401.10241"};

  [[nodiscard]] constexpr check_result check() const {
    return first_violation({placement::check_size(ranks, ranks), at_least("microbatches", microbatches, 1)});
  }
  [[nodiscard]] constexpr auto placement() const { return placement::linear(ranks); }
  [[nodiscard]] constexpr std::int64_t operations(int) const { return std::int64_t{3} * microbatches; }

  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    stage_writer stage(out, rank);
    detail::write_with_delayed_weights(stage, microbatches, ranks - 1 - rank, rank);
  }
};

}  // namespace v0
}  // namespace pipesched
