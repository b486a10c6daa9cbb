// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What follows from the order of a folded schedule's ops alone, without a clock.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <pipesched/analysis/figures.hpp>
#include <pipesched/analysis/memory.hpp>
#include <pipesched/core/folded_program.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/sort.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/graph/op_index.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// The figures of one rank that need no clock. A place is a number of ops from the begin of the program; of an
/// overlapped pair it is that of the first member.
struct rank_order {
  static constexpr std::int64_t nowhere = -1;

  std::int64_t operations = 0;
  std::int64_t warmup = 0;
  std::int64_t peak = 0;           ///< of activations
  op peak_op{};                    ///< the first that reaches it
  std::int64_t peak_position = 0;  ///< of that op, also in a pair
  std::int64_t peak_place = nowhere;
  std::int64_t first_backward = nowhere;
  std::int64_t last_forward = nowhere;
};

/// The ops of one role of a stage's copy: their microbatches follow one another, up or down. A weight's may leave some
/// out, which a full backward took along.
class op_sequence {
 public:
  /// The next one. Whether it is one that may come next.
  constexpr bool add(std::int64_t microbatch, bool may_leave_out) {
    if (!used_) {
      used_ = true;
      first_ = last_ = microbatch;
      return true;
    }
    auto const by = microbatch - std::exchange(last_, microbatch);
    if (step_ == 0) step_ = by < 0 ? -1 : 1;
    return may_leave_out ? by * step_ > 0 : by == step_;
  }
  /// Goes on to a microbatch, with those between.
  constexpr void skip_to(std::int64_t microbatch) { last_ = microbatch; }

  [[nodiscard]] constexpr bool used() const { return used_; }
  [[nodiscard]] constexpr std::int64_t lowest() const { return std::min(first_, last_); }
  [[nodiscard]] constexpr std::int64_t highest() const { return std::max(first_, last_); }
  [[nodiscard]] constexpr bool has(std::int64_t microbatch) const {
    return used_ && microbatch >= lowest() && microbatch <= highest();
  }
  /// Whether a consumer's ops come in the order of this producer's.
  [[nodiscard]] constexpr bool feeds(op_sequence const& consumer) const {
    return !consumer.used_ || (used_ && first_ == consumer.first_ && has(consumer.last_));
  }

 private:
  std::int64_t first_ = 0;
  std::int64_t last_ = 0;
  std::int64_t step_ = 0;  // 1 or -1; 0 before the second op
  bool used_ = false;
};

/// Walks all programs. Within a run every count is a linear function of the iteration, and within a round of its turn:
/// what holds in the first, the second and the last of them holds in all, and a maximum is in the first or the last.
class folded_order {
 public:
  constexpr folded_order(folded_schedule const& folded, memory_model const& memory)
      : folded_(&folded),
        memory_(&memory),
        sequences_(3 * std::size_t(folded.where.stages()) * std::size_t(folded.where.replicas()), op_sequence{}) {
    for (int rank = 0; regular_ && rank < folded.where.ranks(); ++rank) {
      ranks_.push_back({});
      regular_ = walk(rank);
    }
    regular_ = regular_ && consumers_follow_producers() && replicas_are_apart();
  }

  /// Whether each stage's ops of one role run in the order of the microbatches, without gaps, the same on both sides of
  /// each stage boundary, each op on its own rank and after all that it needs there.
  [[nodiscard]] constexpr bool regular() const noexcept { return regular_; }
  /// By rank. Precondition: `regular()`.
  [[nodiscard]] constexpr vector<rank_order> const& ranks() const noexcept { return ranks_; }

 private:
  /// What is known while the ops of a rank go by.
  struct progress {
    int rank;
    rank_order* order;
    std::int64_t held = 0;
    warmup_counter warmup = {};
  };

  [[nodiscard]] constexpr std::size_t copy_of(op o) const {
    return std::size_t(o.replica()) * std::size_t(folded_->where.stages()) + std::size_t(o.stage());
  }
  [[nodiscard]] constexpr op_sequence& sequence(std::size_t copy, op_role role) {
    return sequences_[3 * copy + std::size_t(role)];
  }
  [[nodiscard]] constexpr op_sequence const& sequence(std::size_t copy, op_role role) const {
    return sequences_[3 * copy + std::size_t(role)];
  }

  constexpr bool walk(int rank) {
    auto const& program = folded_->programs[std::size_t(rank)];
    progress now{rank, &ranks_.back()};
    for (auto const& round : program.rounds())
      for (std::int64_t turn = 0; turn < round.times; ++turn) {
        if (turn == 2 && round.times > 3) {
          auto const skipped = round.times - 3;
          for (auto const& run : program.runs_of(round))
            skip(now, program.pattern(run), skipped * run.times, run.times - 1, (round.times - 2) * round.advance);
          turn = round.times - 1;
        }
        for (auto const& run : program.runs_of(round))
          if (!walk_run(now, program.pattern(run), run.times, turn * round.advance)) return false;
      }
    now.order->warmup = now.warmup.count();
    return true;
  }

  constexpr bool walk_run(progress& now, view<folded_op> pattern, std::int64_t times, std::int64_t later) {
    for (std::int64_t iteration = 0; iteration < times; ++iteration) {
      if (iteration == 2 && times > 3) {
        skip(now, pattern, times - 3, times - 2, later);
        iteration = times - 1;
      }
      for (std::size_t i = 0; i < pattern.size();) {
        std::size_t const members = pattern[i].first.overlaps_next() ? 2 : 1;
        if (i + members > pattern.size() || !visit(now, pattern.subspan(i, members), iteration, later)) return false;
        i += members;
      }
    }
    return true;
  }

  /// Counts a pattern `times` times, the last one of them in this iteration.
  constexpr void skip(progress& now, view<folded_op> pattern, std::int64_t times, std::int64_t iteration,
                      std::int64_t later) {
    for (auto const& folded : pattern) {
      op const o = folded.at(iteration, later);
      sequence(copy_of(o), role_of(o.kind())).skip_to(o.microbatch());
      now.held += times * (memory_->taken(o, 0) - memory_->freed(o, 0));
      if (o.kind() == op_kind::forward) now.warmup.block(times, false, false);
    }
    now.order->operations += times * std::int64_t(pattern.size());
  }

  /// An op or an overlapped pair.
  constexpr bool visit(progress& now, view<folded_op> block, std::int64_t iteration, std::int64_t later) {
    auto& order = *now.order;
    auto const place = order.operations;
    bool const pair = block.size() == 2;
    if (pair && block[1].first.overlaps_next()) return false;
    for (auto const& folded : block)
      if (!is_in_place(now.rank, folded.at(iteration, later))) return false;
    std::int64_t forwards = 0;
    bool forward = false;
    bool backward = false;
    for (auto const& folded : block) {
      op const o = folded.at(iteration, later);
      bool const is_weight = o.kind() == op_kind::backward_weight;
      if (!sequence(copy_of(o), role_of(o.kind())).add(o.microbatch(), is_weight)) return false;
      (o.kind() == op_kind::forward ? forward : backward) = true;
      forwards += o.kind() == op_kind::forward ? 1 : 0;
      now.held += memory_->taken(o, 0);
      if (now.held > order.peak) {
        order.peak = now.held;
        order.peak_op = o;
        order.peak_position = order.operations;
        order.peak_place = place;
      }
      ++order.operations;
    }
    for (auto const& folded : block) now.held -= memory_->freed(folded.first, 0);
    if (backward && order.first_backward == rank_order::nowhere) order.first_backward = place;
    if (forward) order.last_forward = place;
    now.warmup.block(forwards, backward, forward && backward);
    return true;
  }

  /// Whether an op exists, is on this rank, and comes after all that it needs and that the rank runs itself.
  [[nodiscard]] constexpr bool is_in_place(int rank, op o) const {
    auto const& where = folded_->where;
    if (!is_chunk_op(o.kind()) || o.stage() >= where.stages() || o.replica() >= where.replicas()) return false;
    if (where.rank_of(o.stage(), o.replica()) != rank || o.microbatch() >= folded_->microbatches) return false;
    auto const b = o.microbatch();
    auto const copy = copy_of(o);
    auto const runs_here = [&](int stage) {
      return stage >= 0 && stage < where.stages() && where.rank_of(stage, o.replica()) == rank;
    };
    switch (o.kind()) {
      case op_kind::forward: return !runs_here(o.stage() - 1) || sequence(copy - 1, op_role::forward).has(b);
      case op_kind::backward_weight: return sequence(copy, op_role::gradient).has(b);
      default:
        return sequence(copy, op_role::forward).has(b) &&
               (!runs_here(o.stage() + 1) || sequence(copy + 1, op_role::gradient).has(b));
    }
  }

  [[nodiscard]] constexpr bool consumers_follow_producers() const {
    auto const stages = std::size_t(folded_->where.stages());
    for (std::size_t copy = 0; copy < sequences_.size() / 3; ++copy) {
      if (copy % stages == stages - 1) continue;  // the last stage
      if (!sequence(copy, op_role::forward).feeds(sequence(copy + 1, op_role::forward))) return false;
      if (!sequence(copy + 1, op_role::gradient).feeds(sequence(copy, op_role::gradient))) return false;
    }
    return true;
  }

  /// Whether no microbatch runs on two copies of a stage.
  [[nodiscard]] constexpr bool replicas_are_apart() const {
    auto const stages = std::size_t(folded_->where.stages());
    auto const replicas = std::size_t(folded_->where.replicas());
    if (replicas == 1) return true;
    struct range {
      std::int64_t lowest = 0;
      std::int64_t highest = 0;
    };
    vector<range> ranges;
    for (std::size_t stage = 0; stage < stages; ++stage)
      for (auto const role : {op_role::forward, op_role::gradient, op_role::weight}) {
        ranges.clear();
        for (std::size_t replica = 0; replica < replicas; ++replica)
          if (auto const& of_copy = sequence(replica * stages + stage, role); of_copy.used())
            ranges.push_back({of_copy.lowest(), of_copy.highest()});
        sort(ranges, [](range a, range b) { return a.lowest < b.lowest; });
        for (std::size_t i = 1; i < ranges.size(); ++i)
          if (ranges[i].lowest <= ranges[i - 1].highest) return false;
      }
    return true;
  }

  folded_schedule const* folded_;
  memory_model const* memory_;
  vector<op_sequence> sequences_;  // by copy and role
  vector<rank_order> ranks_;
  bool regular_ = true;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
