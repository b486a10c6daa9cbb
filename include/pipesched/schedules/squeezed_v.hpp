// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What V-Half and V-Min share: squeezed building blocks for any number of microbatches and any times.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/folding.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/schedules/building_block.hpp>
#include <pipesched/schedules/pass_times.hpp>
#include <pipesched/schedules/v_weight_filling.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// The squeezed programs of a step. Between warm-up and cool-down they repeat with every microbatch, so no more
/// microbatches are squeezed than these two need; the others are repetitions.
class squeezed_v {
 public:
  template <class Block>
  constexpr squeezed_v(int ranks, std::int64_t microbatches, Block const& block)
      : microbatches_(microbatches),
        repetitions_(std::max<std::int64_t>(microbatches - (2 * std::int64_t{ranks} + 2), 0)) {
    squeezed_blocks const blocks(ranks, microbatches - repetitions_, block);
    rows_.resize(std::size_t(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      auto& r = rows_[std::size_t(rank)];
      r.ops.reserve(std::size_t(6 * (microbatches - repetitions_)));
      auto append = [&](op o) { r.ops.push_back(o); };
      blocks.emit(rank, append);
      // A place in the steady phase: behind the first backwards of the rank, before its last forwards.
      op const steady = backward_input(stage_id{rank}, microbatch_id{ranks / 2});
      if (repetitions_ > 0) r.steady = std::find(r.ops.begin(), r.ops.end(), steady) - r.ops.begin();
    }
  }

  [[nodiscard]] constexpr int ranks() const { return int(rows_.size()); }
  [[nodiscard]] constexpr std::int64_t operations() const { return 6 * microbatches_; }

  /// The program of a rank, what is repeated as such where the sink can take it so.
  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    auto const& r = rows_[std::size_t(rank)];
    auto const write = [&](std::int64_t begin, std::int64_t end, std::int64_t microbatches_later) {
      for (auto n = begin; n < end; ++n) out(r.ops[std::size_t(n)].microbatches_later(microbatches_later));
    };
    auto const repetition = [&](std::int64_t number) { write(r.steady, r.steady + squeezed_blocks::period, number); };
    write(0, r.steady, 0);
    if constexpr (folding_sink<Sink>) {
      if (repetitions_ > 0) {
        out.begin_run();
        repetition(0);
        out.next_iteration();
        repetition(1);
        out.end_run(repetitions_);
      }
    } else {
      for (std::int64_t number = 0; number < repetitions_; ++number) repetition(number);
    }
    write(r.steady, std::int64_t(r.ops.size()), repetitions_);
  }

  /// The n-th op of a rank.
  [[nodiscard]] constexpr op at(int rank, std::int64_t n) const {
    auto const& r = rows_[std::size_t(rank)];
    if (n < r.steady) return r.ops[std::size_t(n)];
    auto const repetition = std::min((n - r.steady) / squeezed_blocks::period, repetitions_);
    op const first = r.ops[std::size_t(n - repetition * squeezed_blocks::period)];
    return {first.kind(), stage_id{first.stage()}, microbatch_id{first.microbatch() + repetition}};
  }

 private:
  struct row {
    std::vector<op> ops;
    std::int64_t steady = 0;
  };

  std::int64_t microbatches_;
  std::int64_t repetitions_;
  std::vector<row> rows_;
};

/// One step in time, with the forwards and backwards of `order` and the weights where `v_pipeline` puts them.
/// Returns how long each rank idled.
template <rank_op_sink Sink>
constexpr std::vector<instant> fill_weights(squeezed_v const& order, std::int64_t microbatches, pass_times const& times,
                                            std::int64_t memory, weight_plan const& plan, Sink& out) {
  int const ranks = order.ranks();
  v_pipeline pipeline(ranks, microbatches, times, memory, plan, out);
  std::vector<std::int64_t> next(std::size_t(ranks), 0);
  // By turns, so that the ranks stay close together in time.
  for (std::int64_t left = 4 * microbatches * ranks; left > 0;)
    for (int rank = 0; rank < ranks; ++rank) {
      auto& n = next[std::size_t(rank)];
      while (n < order.operations() && order.at(rank, n).kind() == op_kind::backward_weight) ++n;
      if (n == order.operations()) continue;
      op const o = order.at(rank, n);
      auto const way = o.stage() == rank ? v_way::lower : v_way::upper;
      bool const forward = o.kind() == op_kind::forward;
      if (!(forward ? pipeline.forward_has_input(rank, way) : pipeline.backward_has_input(rank, way))) continue;
      forward ? pipeline.fill_and_forward(rank, way) : pipeline.fill_and_backward(rank, way);
      ++n;
      --left;
    }
  for (int rank = 0; rank < ranks; ++rank)
    while (pipeline.weights_wait(rank)) pipeline.weight(rank);
  return pipeline.idle();
}

/// All programs of a schedule of squeezed building blocks.
/// `memory`: the most chunks that a rank holds.
template <class Block, rank_op_sink Sink>
constexpr void emit_squeezed_v(int ranks, std::int64_t microbatches, pass_times const& times, std::int64_t memory,
                               Block const& block, Sink& out) {
  squeezed_v const order(ranks, microbatches, block);
  if (times.equal()) {
    for (int rank = 0; rank < ranks; ++rank) {
      if constexpr (requires { out.row(rank); }) {
        order.emit(rank, out.row(rank));
      } else {
        auto row = [&](op o) { out(rank, o); };
        order.emit(rank, row);
      }
    }
    return;
  }
  auto const plan = plan_weights([&](weight_plan const& candidate) {
    any_sink nowhere;
    return fill_weights(order, microbatches, times, memory, candidate, nowhere);
  });
  fill_weights(order, microbatches, times, memory, plan, out);
}

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
