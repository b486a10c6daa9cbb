// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// DualPipe: microbatches enter at both ends, and the forward of one flow overlaps with the backward of the other.

#include <algorithm>
#include <cstdint>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/writer.hpp>

namespace pipesched {
inline namespace v0 {

namespace detail {

/// One of the two flows of microbatches through a rank.
struct dual_pipe_flow {
  int stage;
  int replica;
  int first_microbatch;
};

/// What the eight steps of a rank depend on.
struct dual_pipe_rank {
  std::int64_t depth;         ///< ranks from an entry to the middle, both included
  std::int64_t index;         ///< the rank's distance from the nearer entry; depth - 1 in the middle
  std::int64_t microbatches;  ///< of each flow
  dual_pipe_flow flow_0;      ///< the one whose entry is near
  dual_pipe_flow flow_1;      ///< the one whose end is near
};

/// The eight steps of one rank. The comments name them as the original does: n times these ops, where its "B" of zero
/// bubble is I here, and "&" joins an overlapped pair.
template <op_sink Sink>
constexpr void emit_dual_pipe(dual_pipe_rank const& rank, Sink& out) {
  auto const to_middle = rank.depth - 1 - rank.index;
  auto const from_entry = rank.index + 1;
  auto const overlapped = rank.microbatches - 2 * rank.depth + from_entry;

  stage_writer zero(out, rank.flow_0.stage, rank.flow_0.replica, rank.flow_0.first_microbatch);
  stage_writer one(out, rank.flow_1.stage, rank.flow_1.replica, rank.flow_1.first_microbatch);
  writer_pair flows(zero, one);
  auto f0 = [&] { zero.forward(); };
  auto f1 = [&] { one.forward(); };
  auto b0 = [&] { zero.backward(); };
  auto b1 = [&] { one.backward(); };
  auto i0 = [&] { zero.backward_input(); };
  auto i1 = [&] { one.backward_input(); };
  auto w1 = [&] { one.backward_weight(); };
  auto f0_b1 = [&] { overlap(zero, one); };
  auto f1_b0 = [&] { overlap(one, zero); };

  // One queue holds the weights of both flows, first in, first out. Step 6 puts in `from_entry` of them by turns, flow
  // 0 last; step 7 those of flow 0 alone.
  auto by_turns = from_entry;
  auto w = [&] {
    if (by_turns > 0 && by_turns % 2 == 0)
      one.backward_weight();
    else
      zero.backward_weight();
    --by_turns;
  };

  // 1. nF0
  repeat(flows, 2 * to_middle, f0);
  // 2. nF0F1
  repeat(flows, from_entry, f0, f1);
  // 3. nI1W1F1
  repeat(flows, to_middle, i1, w1, f1);
  // 4. nF0&B1F1&B0, the main step; its first F0 and B1 do not overlap in the middle, where that would cost time
  bool const in_middle = to_middle == 0;
  if (in_middle) f0(), b1(), f1_b0();
  repeat(flows, overlapped - in_middle, f0_b1, f1_b0);
  // 5. nB1F1&B0
  repeat(flows, to_middle, b1, f1_b0);
  // 6. nB1B0, the later half of them without their weights
  repeat(flows, from_entry / 2, b1, b0);
  if (from_entry % 2 != 0) b1(), i0();
  repeat(flows, from_entry / 2, i1, i0);
  // 7. nWI0
  repeat(to_middle, w, i0);
  // 8. nW
  repeat(from_entry, w);
}

}  // namespace detail

/// DualPipe (DeepSeek-V3, arXiv 2412.19437, section 3.2.1, and the open repository deepseek-ai/DualPipe): two flows of
/// microbatches, one from each end, so that each rank holds two stages and 2 copies of a share of the model.
/// Microbatches 0..m/2-1 enter at rank 0, the others at rank P-1.
///
/// Limits: P and m even, m >= 2P.
/// Bubble, for max(F, B) <= F&B <= F + B, with F&B the time of a pair and k = P/2 - 1: in the middle
/// k(F&B + max(F, I) - W - min(W, I)) - [F < I] min(k(I - F), F), and (pairs(middle) - pairs(r))(F + B - F&B) less on
/// rank r, where pairs(r) = m - 3P/2 + 1 + h - [h = k], h = min(r, P - 1 - r). For F = I >= W the middle's is the
/// paper's k(F&B + B - 3W); it is every rank's where F&B = F + B.
/// Peak activations: P + 1 on every rank.
struct dual_pipe {
  int ranks;
  int microbatches;

  static constexpr schedule_info info{"dualpipe", "ranks, microbatches",
                                      "ranks and microbatches even, microbatches >= 2 * ranks", "arXiv 2412.19437"};

  [[nodiscard]] constexpr check_result check() const {
    return first_violation({placement::check_size(ranks, ranks, 2), multiple_of("ranks", ranks, 2, "two equal halves"),
                            multiple_of("microbatches", microbatches, 2, "half of them enter at each end"),
                            at_least("microbatches", microbatches, std::int64_t{2} * ranks, "2 * ranks")});
  }
  [[nodiscard]] constexpr auto placement() const { return placement::bidirectional(ranks); }
  [[nodiscard]] constexpr std::int64_t operations(int rank) const {
    return std::int64_t{2} * microbatches + ranks - 1 - std::min(rank, ranks - 1 - rank);  // all F and B; then the W
  }

  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    int const index = std::min(rank, ranks - 1 - rank);
    int const half = microbatches / 2;
    int const near = rank < ranks / 2 ? 0 : 1;  // the replica that enters at the nearer end
    int const far = 1 - near;

    detail::emit_dual_pipe({.depth = ranks / 2,
                            .index = index,
                            .microbatches = half,
                            .flow_0 = {index, near, near * half},
                            .flow_1 = {ranks - 1 - index, far, far * half}},
                           out);
  }
};

}  // namespace v0
}  // namespace pipesched
