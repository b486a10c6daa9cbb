// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Chimera: pipelines in both directions, merged so that each fills the bubbles of the others.

#include <cstdint>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/schedules/chimera_lane.hpp>

namespace pipesched {
inline namespace v0 {

/// What Chimera does with more microbatches than ranks (section 3.5 of the paper).
enum class chimera_scaling : std::uint8_t {
  /// Units of D microbatches one after another. They fit without bubbles between them where F = B.
  direct_concatenation,
  /// Two forwards to a slot, one backward: they fit where B = 2F. Holds twice the activations.
  forward_doubling,
  /// The same order. `microbatches` then counts halves: two halves run forward as one, each runs backward alone, in
  /// half the time and memory.
  backward_halving,
};

/// Chimera (Li and Hoefler, SC 2021, arXiv 2107.06925): 2f copies of the model, f of them running down the ranks and f
/// up, with entries D/f ranks apart (section 3.6; the placement is `placement::bidirectional`). The paper's D is P, its
/// N is m. Microbatches are dealt to the pipelines evenly, in the order of the replicas.
///
/// Limits: P even; 2f even and a divisor of P. Any m: slots that have no microbatch stay empty.
/// Bubble, direct concatenation, m = K P: (D/f - 2)(max(F, B) + (K - 1)|F - B|). Where F = B that is the fraction
/// (D - 2f)/(2fN + D - 2f) of the makespan 2N + D/f - 2, and for f = 1 it holds for every even m >= P.
/// Bubble, forward doubling, B = 2F, m a multiple of 2P: (D/(2f) - 1)(F + B).
/// Peak activations, m = K P: from D - D/(2f) + 1 to D over the ranks; at most 2D where forwards are doubled.
/// Parameters: a share of 2f copies.
struct chimera {
  int ranks;
  int microbatches;
  int pipelines = 2;
  chimera_scaling scaling = chimera_scaling::direct_concatenation;

  static constexpr schedule_info info{"chimera", "ranks, microbatches, pipelines",
                                      "ranks even, pipelines even and a divisor of ranks", "arXiv 2107.06925"};

  [[nodiscard]] constexpr check_result check() const {
    return first_violation({placement::check_size(ranks, ranks), at_least("pipelines", pipelines, 2),
                            at_most("pipelines", pipelines, max_replicas),
                            multiple_of("ranks", ranks, 2, "an odd number puts two ops in one slot"),
                            multiple_of("pipelines", pipelines, 2, "as many run down as up"),
                            multiple_of("ranks", ranks, pipelines, "pipelines: their entries are equally far apart"),
                            at_least("microbatches", microbatches, 1)});
  }
  [[nodiscard]] constexpr auto placement() const { return placement::bidirectional(ranks, pipelines); }
  [[nodiscard]] constexpr std::int64_t operations(int) const { return std::int64_t{2} * microbatches; }

  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    bool const doubled = scaling != chimera_scaling::direct_concatenation;
    detail::chimera_grid const grid{ranks, pipelines, microbatches, doubled ? 2 : 1};
    auto const from_top = rank % grid.distance;
    auto const from_bottom = (ranks - 1 - rank) % grid.distance;
    int const nearer = from_top < from_bottom ? 0 : 1;  // the direction that reaches this rank first
    auto const position = [&](int direction) { return direction == 0 ? rank : ranks - 1 - rank; };

    detail::chimera_lane first(grid, position(nearer), nearer);
    detail::chimera_lane second(grid, position(1 - nearer), 1 - nearer);
    auto const alone = (second.start() - first.start() + 1) / 2;
    detail::in_turns(alone, out, first);
    detail::in_turns(grid.slots() - alone, out, second, first);
    detail::in_turns(alone, out, second);
  }
};

}  // namespace v0
}  // namespace pipesched
