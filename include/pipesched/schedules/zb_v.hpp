// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// ZB-V: each rank holds the two ends of a V, which leaves no bubble at the memory of 1F1B.

#include <cstdint>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/writer.hpp>
#include <pipesched/schedules/pass_times.hpp>
#include <pipesched/schedules/v_weight_filling.hpp>

namespace pipesched {
inline namespace v0 {

namespace detail {

/// The handmade order for F = I = W: F, I, W on the lower stage of a rank, f, i, w on the upper one.
template <op_sink Sink>
constexpr void emit_zb_v(int ranks, std::int64_t microbatches, int rank, Sink& out) {
  auto const to_turn = ranks - 1 - rank;  // where the V goes up again
  auto const from_entry = rank + 1;

  stage_writer lower(out, rank);
  stage_writer upper(out, 2 * ranks - 1 - rank);
  writer_pair stages(lower, upper);
  auto const F = [&] { lower.forward(); };
  auto const f = [&] { upper.forward(); };
  auto const I = [&] { lower.backward_input(); };
  auto const i = [&] { upper.backward_input(); };
  auto const W = [&] { lower.backward_weight(); };
  auto const w = [&] { upper.backward_weight(); };

  // Down to the turn and up again: no op waits, and all 2P chunks of memory are in use when the first f is back.
  repeat(stages, 2 * to_turn, F);
  repeat(stages, from_entry, F, f);
  repeat(stages, to_turn, i, w, f);
  repeat(stages, microbatches - to_turn - ranks, i, w, F, I, W, f);
  // No forward is left to enter.
  repeat(stages, to_turn, i, w, I, W, f);
  repeat(stages, from_entry, i, I);

  // The backwards hurry ahead, and their weights fill the rest: one queue, first in, first out. It holds those of the
  // last i, I by turns, then those of the I alone.
  std::int64_t by_turns = 2 * from_entry;
  auto const weight = [&] { by_turns > 0 && by_turns-- % 2 == 0 ? w() : W(); };
  // The last gradients reach rank 0 one slot later than the others, and pass that on where the V is short.
  int const late = rank == 0 || (rank == 1 && (ranks == 3 || ranks == 4)) ? 1 : 0;
  repeat(late, weight);
  repeat(to_turn, weight, I);
  repeat(2 * from_entry - late, weight);
}

/// One step of ZB-V in time: the order of F and I is the handmade one where inputs and memory allow it, and the weights
/// go where `v_pipeline` puts them.
template <rank_op_sink Sink>
class zb_v_run {
 public:
  constexpr zb_v_run(int ranks, std::int64_t microbatches, pass_times const& times, weight_plan const& plan, Sink& out)
      : ranks_(ranks),
        microbatches_(microbatches),
        times_(times),
        pipeline_(ranks, microbatches, times, std::int64_t{2} * ranks, plan, out) {
    warm_up();
    for (std::int64_t n = 0; n < 2 * microbatches; ++n) {
      one_backward_each();
      one_forward_each();
    }
    for (int rank = 0; rank < ranks; ++rank)
      while (pipeline_.weights_wait(rank)) pipeline_.weight(rank);
  }

  [[nodiscard]] constexpr vector<instant> idle() const { return pipeline_.idle(); }

 private:
  static constexpr auto lower = v_way::lower;
  static constexpr auto upper = v_way::upper;

  constexpr std::int64_t forwards(int rank) const {
    return pipeline_.forwards(rank, lower) + pipeline_.forwards(rank, upper);
  }

  constexpr void warm_up() {
    // Down, and while the first microbatch comes up again, as many more as there is time and memory for. A rank that
    // takes one in needs one from each rank before it, and memory for what those will send up.
    for (int rank = 0; rank < ranks_; ++rank) pipeline_.forward(rank, lower);
    for (int rank = ranks_ - 1; rank >= 0; --rank) {
      if (rank < ranks_ - 1) {
        instant const back = pipeline_.forward_arrival(rank, upper);
        while (pipeline_.memory(rank) + 2 * (rank + 1) <= 2 * ranks_ &&
               pipeline_.now(rank) + instant{times_.forward, 0} <= back &&
               pipeline_.forwards(rank, lower) < microbatches_)
          for (int before = 0; before <= rank; ++before) pipeline_.forward(before, lower);
      }
      pipeline_.forward(rank, upper);
    }
    // Then lower and upper forwards by turns, until no rank is behind the one before it.
    v_way way = lower;
    for (int rank = 1; rank < ranks_; ++rank)
      while (forwards(rank) < forwards(rank - 1) ||
             (pipeline_.forwards(rank, upper) <= pipeline_.forwards(rank - 1, upper) &&
              pipeline_.forwards(rank - 1, upper) < microbatches_)) {
        for (int behind = ranks_ - 1; behind >= rank; --behind)
          if (pipeline_.forwards(behind, way) < microbatches_) pipeline_.forward(behind, way);
        way = way == lower ? upper : lower;
      }
  }

  /// A lower backward wherever its gradient is there, else an upper one.
  constexpr void one_backward_each() {
    turn_.assign(std::size_t(ranks_), upper);
    for (int rank = 0; rank < ranks_; ++rank)
      if (pipeline_.backward_has_input(rank, lower) || pipeline_.backwards(rank, upper) >= microbatches_)
        turn_[std::size_t(rank)] = lower;
    for (int rank = ranks_ - 1; rank >= 0; --rank)
      if (turn_[std::size_t(rank)] == lower) pipeline_.fill_and_backward(rank, lower);
    for (int rank = 0; rank < ranks_; ++rank)
      if (turn_[std::size_t(rank)] == upper) pipeline_.fill_and_backward(rank, upper);
  }

  /// An upper forward wherever its input is there, else a lower one.
  constexpr void one_forward_each() {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (pipeline_.forwards(rank, upper) >= microbatches_) continue;
      if (pipeline_.forwards(rank, upper) < pipeline_.forwards(rank, lower) && pipeline_.forward_has_input(rank, upper))
        pipeline_.fill_and_forward(rank, upper);
      else if (pipeline_.forwards(rank, lower) < microbatches_ && pipeline_.forward_has_input(rank, lower))
        pipeline_.fill_and_forward(rank, lower);
    }
  }

  int ranks_;
  std::int64_t microbatches_;
  pass_times times_;
  v_pipeline<Sink> pipeline_;
  vector<v_way> turn_;
};

}  // namespace detail

/// ZB-V (Qi et al., arXiv 2401.10241v2, section 6): stages r and 2P-1-r on rank r. One direct order where the times are
/// equal and m >= 2P-1; else the weights are put greedily, in a simulation of all ranks: between the others where a
/// rank would idle, as the scheduler of sail-sg/zero-bubble-pipeline-parallelism does. Its weights are one queue over
/// both stages (torch's ScheduleZBVZeroBubble has the same F and I and puts each W at other places).
///
/// Bubble, F = I = W: none by span for m >= 2P-1, P-1 forwards of skew from time 0; below, max(2P-1-m, 4P-1-4m) by
/// span.
/// Peak activations: at most 2P chunks of half a stage, P stage activations, on every rank.
/// Any P, m >= 1.
struct zb_v {
  int ranks;
  int microbatches;
  pass_times times = {};  ///< of one stage, of which a rank has two

  static constexpr schedule_info info{"zb-v", "ranks, microbatches, times", "none", "arXiv 2401.10241, section 6"};

  [[nodiscard]] constexpr check_result check() const {
    return first_violation({placement::check_size(ranks, std::int64_t{2} * ranks),
                            at_least("microbatches", microbatches, 1), times.check(ranks, microbatches)});
  }
  [[nodiscard]] constexpr auto placement() const { return placement::v(ranks); }
  [[nodiscard]] constexpr std::int64_t operations(int) const { return std::int64_t{6} * microbatches; }

  /// Whether a row follows from the shape alone: equal times and m >= 2P-1.
  [[nodiscard]] constexpr bool rows_are_independent() const {
    return times.equal() && microbatches >= std::int64_t{2} * ranks - 1;
  }

  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    if (rows_are_independent()) return detail::emit_zb_v(ranks, microbatches, rank, out);
    detail::one_row_sink<Sink> row{rank, out};
    simulate(row);
  }
  template <rank_op_sink Sink>
  constexpr void emit_all(Sink& out) const {
    if (!rows_are_independent()) return simulate(out);
    for (int rank = 0; rank < ranks; ++rank) {
      auto row = [&](op o) { out(rank, o); };
      detail::emit_zb_v(ranks, microbatches, rank, row);
    }
  }

 private:
  template <rank_op_sink Sink>
  constexpr void simulate(Sink& out) const {
    auto const plan = detail::plan_weights([&](detail::weight_plan const& candidate) {
      detail::any_sink nowhere;
      return detail::zb_v_run(ranks, microbatches, times, candidate, nowhere).idle();
    });
    detail::zb_v_run(ranks, microbatches, times, plan, out);
  }
};

}  // namespace v0
}  // namespace pipesched
