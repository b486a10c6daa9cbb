// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/writer.hpp>

/// kFkB: 1F1B in groups of k, so that a message has k - 1 ops of time to arrive before its op is waited for.
struct k_f_k_b {
  int ranks;
  int microbatches;
  int k;

  static constexpr pipesched::schedule_info info{"kfkb", "ranks, microbatches, k", "k divides microbatches",
                                                 "an example"};

  constexpr pipesched::check_result check() const {
    using namespace pipesched;
    return first_violation({placement::check_size(ranks, ranks), at_least("k", k, 1),
                            at_least("microbatches", microbatches, 1), multiple_of("microbatches", microbatches, k)});
  }
  constexpr auto placement() const { return pipesched::placement::linear(ranks); }

  template <pipesched::op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    using pipesched::repeat;
    int const warmup = std::min(k * (ranks - 1 - rank), microbatches);

    pipesched::stage_writer stage(out, rank);
    repeat(stage, warmup, [&] { stage.forward(); });
    repeat(stage, (microbatches - warmup) / k, [&] {
      repeat(stage, k, [&] { stage.forward(); });
      repeat(stage, k, [&] { stage.backward(); });
    });
    repeat(stage, warmup, [&] { stage.backward(); });
  }
};
