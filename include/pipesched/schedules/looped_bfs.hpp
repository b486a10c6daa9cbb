// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Looped breadth-first: all microbatches on a chunk before the next chunk's turn.

#include <cstdint>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/schedules/looped.hpp>

namespace pipesched {
inline namespace v0 {

/// Breadth-first pipeline parallelism (Lamy-Poirier, arXiv 2211.05953), which gathers and reduces a chunk's weights
/// once per step. Backwards undo the forwards: the last chunk first, and within a chunk the last microbatch first.
///
/// Bubble, F and B of one chunk: (P-1)(F+B) for m >= P; (v(P-m)+m-1)(F+B) for m < P. Peak activations: m*v chunks.
/// Any P, m, v >= 1.
struct looped_bfs {
  int ranks;
  int microbatches;
  int chunks = 2;

  static constexpr schedule_info info{"looped-bfs", "ranks, microbatches, chunks", "none", "arXiv 2211.05953"};

  [[nodiscard]] constexpr check_result check() const {
    return detail::loop_shape{ranks, microbatches, chunks, 0}.check_sizes();
  }
  [[nodiscard]] constexpr auto placement() const { return placement::loop(ranks, chunks); }
  [[nodiscard]] constexpr std::int64_t operations(int) const { return std::int64_t{2} * microbatches * chunks; }

  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int microbatch = 0; microbatch < microbatches; ++microbatch)
        out(forward(stage_id{rank + chunk * ranks}, microbatch_id{microbatch}));
    for (int chunk = chunks - 1; chunk >= 0; --chunk)
      for (int microbatch = microbatches - 1; microbatch >= 0; --microbatch)
        out(backward(stage_id{rank + chunk * ranks}, microbatch_id{microbatch}));
  }
};

}  // namespace v0
}  // namespace pipesched
