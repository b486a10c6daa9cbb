// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What V-Half and V-Min share: squeezed building blocks for any number of microbatches and any times.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/folding.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/schedules/building_block.hpp>
#include <pipesched/schedules/pass_times.hpp>
#include <pipesched/schedules/squeezed_blocks.hpp>
#include <pipesched/schedules/v_weight_filling.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Writes a rank's slots as ops. Which stage a weight is of is found here: of those that wait, the upper stage's first.
class v_row_writer {
 public:
  constexpr v_row_writer(int rank, int ranks)
      : next_{forward(stage_id{rank}, microbatch_id{0}), forward(stage_id{2 * ranks - 1 - rank}, microbatch_id{0})},
        upper_weight_(next_[v_slot::upper_forward].as(op_kind::backward_weight)),
        lower_weight_(next_[v_slot::lower_forward].as(op_kind::backward_weight)) {
    next_[v_slot::upper_backward] = next_[v_slot::upper_forward].as(op_kind::backward_input);
    next_[v_slot::lower_backward] = next_[v_slot::lower_forward].as(op_kind::backward_input);
  }

  template <op_sink Sink>
  constexpr void operator()(v_slot::use use, Sink& out) {
    bool const upper_waits = upper_weight_.microbatch() < next_[v_slot::upper_backward].microbatch();
    op& next = use < v_slot::weight ? next_[use] : upper_waits ? upper_weight_ : lower_weight_;
    out(next);
    next = next.next_microbatch();
  }
  /// Goes on as if it had written that many more microbatches.
  constexpr void skip(std::int64_t microbatches) {
    for (op& next : next_) next = next.microbatches_later(microbatches);
    upper_weight_ = upper_weight_.microbatches_later(microbatches);
    lower_weight_ = lower_weight_.microbatches_later(microbatches);
  }

 private:
  std::array<op, 4> next_;
  op upper_weight_;
  op lower_weight_;
};

/// The squeezed programs of a step. Between warm-up and cool-down they repeat with every microbatch, so no more
/// microbatches are squeezed than these two need; the others are repetitions.
class squeezed_v {
 public:
  /// `wave`: by how many slots each rank is steady later than the rank before it.
  template <class Block>
  constexpr squeezed_v(int ranks, std::int64_t microbatches, Block const& block, int wave)
      // As many as are in the pipeline together, and what is between the warm-up and the cool-down.
      : repetitions_(std::max<std::int64_t>(microbatches - (block(0).lower_backward / building_block::period + 4), 0)),
        blocks_(ranks, int(microbatches - repetitions_), block, wave) {}

  [[nodiscard]] constexpr int ranks() const { return blocks_.ranks(); }

  /// The program of a rank, what is repeated as such where the sink can take it so.
  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    v_row_writer write(rank, ranks());
    auto const uses = blocks_.program(rank);
    auto const steady = blocks_.steady_from(rank);
    for (auto use : uses.first(steady)) write(use, out);
    if (repetitions_ > 0) {
      std::array<op, building_block::period> ops{};
      auto store = [next = ops.begin()](op o) mutable { *next++ = o; };
      for (auto ahead = write; auto use : uses.subspan(steady, ops.size())) ahead(use, store);
      auto const repetition = [&](std::int64_t number) {
        for (op o : ops) out(o.microbatches_later(number));
      };
      if constexpr (folding_sink<Sink>) {
        out.begin_run();
        repetition(0);
        out.next_iteration();
        repetition(1);
        out.end_run(repetitions_);
      } else {
        for (std::int64_t number = 0; number < repetitions_; ++number) repetition(number);
      }
      write.skip(repetitions_);
    }
    for (auto use : uses.subspan(steady)) write(use, out);
  }

  [[nodiscard]] constexpr std::int64_t operations() const {
    return std::int64_t(blocks_.program(0).size()) + building_block::period * repetitions_;
  }
  /// What the n-th op of a rank is.
  [[nodiscard]] constexpr v_slot::use at(int rank, std::int64_t n) const {
    if (auto const steady = std::int64_t(blocks_.steady_from(rank)); n > steady)
      n -= building_block::period * std::min((n - steady) / building_block::period, repetitions_);
    return blocks_.program(rank)[std::size_t(n)];
  }

 private:
  std::int64_t repetitions_;
  squeezed_blocks blocks_;
};

/// One step in time, with the forwards and backwards of `order` and the weights where `v_pipeline` puts them.
/// Returns how long each rank idled.
template <rank_op_sink Sink>
constexpr vector<instant> fill_weights(squeezed_v const& order, std::int64_t microbatches, pass_times const& times,
                                       std::int64_t memory, weight_plan const& plan, Sink& out) {
  int const ranks = order.ranks();
  v_pipeline pipeline(ranks, microbatches, times, memory, plan, out);
  vector<std::int64_t> next(std::size_t(ranks), 0);
  // By turns, so that the ranks stay close together in time.
  for (std::int64_t left = 4 * microbatches * ranks; left > 0;)
    for (int rank = 0; rank < ranks; ++rank) {
      auto& n = next[std::size_t(rank)];
      while (n < order.operations() && order.at(rank, n) >= v_slot::weight) ++n;
      if (n == order.operations()) continue;
      auto const use = order.at(rank, n);
      auto const way = use == v_slot::lower_forward || use == v_slot::lower_backward ? v_way::lower : v_way::upper;
      bool const forward = v_slot::is_forward(use);
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
/// `memory`: the most chunks that a rank holds. `wave`: see `squeezed_v`.
template <class Block, rank_op_sink Sink>
constexpr void emit_squeezed_v(int ranks, std::int64_t microbatches, pass_times const& times, std::int64_t memory,
                               Block const& block, int wave, Sink& out) {
  squeezed_v const order(ranks, microbatches, block, wave);
  if (times.equal()) {
    for (int rank = 0; rank < ranks; ++rank) {
      if constexpr (requires { out.wants(rank); })
        if (!out.wants(rank)) continue;
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
