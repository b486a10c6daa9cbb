// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What an analysis of folded programs runs: blocks, the channels between ranks, and all that follows from the order
/// of the ops alone.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/figures.hpp>
#include <pipesched/analysis/memory.hpp>
#include <pipesched/core/folded_program.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/sort.hpp>
#include <pipesched/graph/edge.hpp>
#include <pipesched/graph/op_index.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

inline constexpr std::uint32_t no_channel = 0xFFFFFFFF;

/// What blocks of one kind have in common; a block is an op or an overlapped pair. An op has one input from another
/// rank and one output to another at most; a pair has those of both members.
template <time_value T>
struct block_class {
  std::array<std::uint32_t, 2> in{no_channel, no_channel};
  std::array<std::uint32_t, 2> out{no_channel, no_channel};
  std::array<T, 2> latency{};
  T duration{};  ///< where it does not depend on the microbatch
  std::array<edge_kind, 2> cause{};
  bool forward = false;
  bool backward = false;
  bool pair = false;
  bool known = false;
};

struct block {
  std::uint32_t of_class;
  std::uint32_t op;  ///< its first op, among those of the folded program
};

/// The programs of all ranks as blocks, and what can be said of them without a clock.
///
/// Every input of a rank from another is a channel, from which it takes the ends of what it waits for in the order in
/// which they were put in. That is right where each stage's ops of one role run in the order of the microbatches, up or
/// down and without gaps, on both sides: `regular()` says so. It also says that within each rank every op comes after
/// what it needs.
template <cost_model Cost>
class folded_layout {
 public:
  using T = time_of<Cost>;

  /// Where in `blocks()` the runs of a rank are.
  struct block_run {
    std::uint32_t begin;
    std::uint32_t end;
    std::int64_t times;
    std::int64_t advance;     ///< microbatches from one iteration to the next; 0 where ops differ in it
    std::int64_t operations;  ///< of one iteration
  };
  struct block_round {
    std::uint32_t begin;
    std::uint32_t end;
    std::int64_t times;
    std::int64_t advance;
    std::int64_t blocks;      ///< of one iteration
    std::int64_t operations;  ///< of one iteration
  };
  struct rank_order {
    std::uint32_t begin;  ///< its rounds
    std::uint32_t end;
    std::int64_t blocks = 0;
    std::int64_t operations = 0;
    std::int64_t warmup = 0;
    std::int64_t peak = 0;
    std::int64_t peak_block = -1;
    std::int64_t first_backward = -1;  ///< which block; -1 where there is none
    std::int64_t last_forward = -1;
    std::int64_t peak_position = 0;
    op peak_op{};
  };
  struct channel_ends {
    std::uint32_t producer;
    std::uint32_t consumer;
    bool used = false;  ///< whether the consumer takes anything from it
  };

  /// Keeps references to all three.
  constexpr folded_layout(folded_schedule const& folded, Cost const& cost, memory_model const& memory)
      : folded_(&folded),
        where_(folded.where),
        cost_(&cost),
        memory_(&memory),
        operations_(folded.operations()),
        limit_(std::size_t(2 * operations_)) {
    auto const copies = std::size_t(where_.stages()) * std::size_t(where_.replicas());
    lanes_.assign(3 * copies, lane{});
    classes_.assign(4 * copies, block_class<T>{});
    channel_of_.assign(2 * copies, no_channel);
    for (int rank = 0; regular_ && rank < where_.ranks(); ++rank) add_rank(rank);
    regular_ = regular_ && channels_match() && replicas_are_apart();
    for (auto& of_class : classes_)
      for (auto& out : of_class.out)
        if (out != no_channel && !channels_[out].used) out = no_channel;
  }

  [[nodiscard]] constexpr bool regular() const noexcept { return regular_; }
  [[nodiscard]] constexpr std::int64_t operations() const noexcept { return operations_; }
  [[nodiscard]] constexpr std::vector<rank_order> const& ranks() const noexcept { return ranks_; }
  [[nodiscard]] constexpr std::vector<block_round> const& rounds() const noexcept { return rounds_; }
  [[nodiscard]] constexpr std::vector<block_run> const& runs() const noexcept { return runs_; }
  [[nodiscard]] constexpr std::vector<block> const& blocks() const noexcept { return blocks_; }
  [[nodiscard]] constexpr std::vector<block_class<T>> const& classes() const noexcept { return classes_; }
  [[nodiscard]] constexpr std::vector<channel_ends> const& channels() const noexcept { return channels_; }

  /// How long a block takes.
  [[nodiscard]] constexpr T duration(int rank, block b, std::int64_t iteration, std::int64_t later) const {
    auto const& of_class = classes_[b.of_class];
    if constexpr (same_for_all_microbatches<Cost>) return of_class.duration;
    auto const* const ops = folded_->programs[std::size_t(rank)].ops().data() + b.op;
    return time(rank, ops[0].at(iteration, later),
                of_class.pair ? ops[1].at(iteration, later) : ops[0].at(iteration, later), of_class.pair);
  }

 private:
  /// The ops of one role of a stage's copy: their microbatches follow one another, up or down. A weight's may leave
  /// some out, which a full backward took along.
  struct lane {
    std::int64_t first = 0;
    std::int64_t last = 0;
    std::int64_t step = 0;  ///< 1 or -1; 0 before the second op
    bool used = false;

    /// Whether the microbatch is one that may come next.
    constexpr bool add(std::int64_t microbatch, bool may_leave_out) {
      if (!used) {
        used = true;
        first = last = microbatch;
        return true;
      }
      auto const by = microbatch - last;
      last = microbatch;
      if (step == 0) step = by < 0 ? -1 : 1;
      return may_leave_out ? by * step > 0 : by == step;
    }
    [[nodiscard]] constexpr std::int64_t lowest() const { return std::min(first, last); }
    [[nodiscard]] constexpr std::int64_t highest() const { return std::max(first, last); }
    [[nodiscard]] constexpr bool has(std::int64_t microbatch) const {
      return used && microbatch >= lowest() && microbatch <= highest();
    }
  };

  /// What is known while the ops of a rank go by.
  struct progress {
    rank_order* of;
    std::int64_t held = 0;
    warmup_counter warmup = {};
  };

  [[nodiscard]] constexpr T time(int rank, op first, op second, bool pair) const {
    T const duration =
        pair ? pipesched::pair_time(*cost_, first, second, rank) : pipesched::op_time(*cost_, first, rank);
    limit_.check("duration", duration);
    return duration;
  }

  [[nodiscard]] constexpr std::size_t copy_of(op o) const {
    return std::size_t(o.replica()) * std::size_t(where_.stages()) + std::size_t(o.stage());
  }
  [[nodiscard]] constexpr lane& lane_of(std::size_t copy, op_role role) { return lanes_[3 * copy + std::size_t(role)]; }

  /// \name From patterns to blocks
  /// \{
  constexpr void add_rank(int rank) {
    auto const& program = folded_->programs[std::size_t(rank)];
    pairs_.clear();
    ranks_.push_back({std::uint32_t(rounds_.size()), 0});
    for (auto const& folded : program.rounds()) {
      auto const begin = std::uint32_t(runs_.size());
      block_round added{begin, begin, folded.times, folded.advance, 0, 0};
      for (auto const& run : program.runs_of(folded)) {
        if (!add_run(rank, program, run)) return;
        added.blocks += run.times * (runs_.back().end - runs_.back().begin);
        added.operations += run.times * runs_.back().operations;
      }
      added.end = std::uint32_t(runs_.size());
      ranks_.back().blocks += added.times * added.blocks;
      ranks_.back().operations += added.times * added.operations;
      rounds_.push_back(added);
    }
    ranks_.back().end = std::uint32_t(rounds_.size());
    regular_ = walk(rank);
  }

  constexpr bool add_run(int rank, folded_program const& program, folded_run const& folded) {
    auto const pattern = program.pattern(folded);
    block_run added{std::uint32_t(blocks_.size()), 0, folded.times, pattern[0].advance, folded.size};
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      op const o = pattern[i].first;
      regular_ = regular_ && is_on(rank, o);
      if (!regular_) return false;
      if (pattern[i].advance != added.advance) added.advance = 0;
      auto const position = std::uint32_t(folded.begin + i);
      if (!o.overlaps_next()) {
        blocks_.push_back({class_of(rank, o), position});
        continue;
      }
      ++i;
      regular_ = i < pattern.size() && !pattern[i].first.overlaps_next() && is_on(rank, pattern[i].first);
      if (!regular_) return false;
      if (pattern[i].advance != added.advance) added.advance = 0;
      blocks_.push_back({pair_class_of(rank, o, pattern[i].first), position});
    }
    added.end = std::uint32_t(blocks_.size());
    runs_.push_back(added);
    return true;
  }

  [[nodiscard]] constexpr bool is_on(int rank, op o) const {
    return is_chunk_op(o.kind()) && o.stage() < where_.stages() && o.replica() < where_.replicas() &&
           where_.rank_of(o.stage(), o.replica()) == rank;
  }

  constexpr std::uint32_t class_of(int rank, op o) {
    auto const number = 4 * copy_of(o) + std::size_t(o.kind());
    auto& of_class = classes_[number];
    if (!of_class.known) {
      of_class.known = true;
      connect(of_class, 0, rank, o);
      if constexpr (same_for_all_microbatches<Cost>) of_class.duration = time(rank, o, o, false);
    }
    return std::uint32_t(number);
  }

  constexpr std::uint32_t pair_class_of(int rank, op first, op second) {
    auto const key =
        std::pair(4 * copy_of(first) + std::size_t(first.kind()), 4 * copy_of(second) + std::size_t(second.kind()));
    for (auto const& [known, number] : pairs_)
      if (known == key) return number;
    auto const number = std::uint32_t(classes_.size());
    block_class<T> of_class{};
    of_class.pair = of_class.known = true;
    connect(of_class, 0, rank, first);
    connect(of_class, 1, rank, second);
    if constexpr (same_for_all_microbatches<Cost>) of_class.duration = time(rank, first, second, true);
    classes_.push_back(of_class);
    pairs_.push_back({key, number});
    return number;
  }

  /// The input and the output of one member.
  constexpr void connect(block_class<T>& of_class, std::size_t member, int rank, op o) {
    bool const forward = o.kind() == op_kind::forward;
    (forward ? of_class.forward : of_class.backward) = true;
    if (o.kind() == op_kind::backward_weight) return;
    int const before = o.stage() + (forward ? -1 : 1);
    int const after = o.stage() + (forward ? 1 : -1);
    of_class.cause[member] = forward ? edge_kind::activation : edge_kind::gradient;
    if (before >= 0 && before < where_.stages()) {
      int const from = where_.rank_of(before, o.replica());
      if (from != rank) {
        of_class.in[member] = channel(before, o, from, rank);
        channels_[of_class.in[member]].used = true;
        of_class.latency[member] = transfer_time(*cost_, from, rank);
        limit_.check("latency", of_class.latency[member]);
      }
    }
    if (after >= 0 && after < where_.stages()) {
      int const to = where_.rank_of(after, o.replica());
      if (to != rank) of_class.out[member] = channel(o.stage(), o, rank, to);
    }
  }

  /// The channel of what `producer`'s copy that `o` belongs to puts out.
  constexpr std::uint32_t channel(int producer, op o, int from, int to) {
    auto const copy = std::size_t(o.replica()) * std::size_t(where_.stages()) + std::size_t(producer);
    auto& number = channel_of_[2 * copy + (o.kind() == op_kind::forward ? 0 : 1)];
    if (number == no_channel) {
      number = std::uint32_t(channels_.size());
      channels_.push_back({std::uint32_t(from), std::uint32_t(to)});
    }
    return number;
  }
  /// \}

  /// \name What follows from the order of the ops
  /// Within a run every count is a linear function of the iteration, and within a round of its turn. So what holds in
  /// the first, the second and the last of them holds in all, and a maximum is in the first or the last.
  /// \{
  constexpr bool walk(int rank) {
    auto& of_rank = ranks_.back();
    progress now{&of_rank};
    std::int64_t block = 0;
    std::int64_t position = 0;
    for (auto i = of_rank.begin; i < of_rank.end; ++i) {
      auto const& turns = rounds_[i];
      for (std::int64_t turn = 0; turn < turns.times; ++turn) {
        if (turn == 2 && turns.times > 3) {
          auto const skipped = turns.times - 3;
          for (auto r = turns.begin; r < turns.end; ++r)
            skip(now, rank, runs_[r], skipped * runs_[r].times, runs_[r].times - 1, (turns.times - 2) * turns.advance);
          block += skipped * turns.blocks;
          position += skipped * turns.operations;
          turn = turns.times - 1;
        }
        auto const later = turn * turns.advance;
        for (auto r = turns.begin; r < turns.end; ++r) {
          auto const& repeated = runs_[r];
          for (std::int64_t iteration = 0; iteration < repeated.times; ++iteration) {
            if (iteration == 2 && repeated.times > 3) {
              auto const skipped = repeated.times - 3;
              skip(now, rank, repeated, skipped, repeated.times - 2, later);
              block += skipped * (repeated.end - repeated.begin);
              position += skipped * repeated.operations;
              iteration = repeated.times - 1;
            }
            for (auto b = repeated.begin; b < repeated.end; ++b) {
              if (!visit(now, rank, blocks_[b], iteration, later, block, position)) return false;
              ++block;
              position += classes_[blocks_[b].of_class].pair ? 2 : 1;
            }
          }
        }
      }
    }
    of_rank.warmup = now.warmup.count();
    return true;
  }

  /// Counts a run `times` times, the last one of them in this iteration.
  constexpr void skip(progress& now, int rank, block_run const& skipped, std::int64_t times, std::int64_t iteration,
                      std::int64_t later) {
    auto const ops = folded_->programs[std::size_t(rank)].ops();
    auto const first = blocks_[skipped.begin].op;
    for (auto i = first; i < first + std::uint32_t(skipped.operations); ++i) {
      op const o = ops[i].at(iteration, later);
      lane_of(copy_of(o), role_of(o.kind())).last = o.microbatch();
      now.held += times * (memory_->taken(o, 0) - memory_->freed(o, 0));
      if (o.kind() == op_kind::forward) now.warmup.block(times, false, false);
    }
  }

  constexpr bool visit(progress& now, int rank, block b, std::int64_t iteration, std::int64_t later,
                       std::int64_t number, std::int64_t position) {
    auto const& of_class = classes_[b.of_class];
    auto const* const folded = folded_->programs[std::size_t(rank)].ops().data() + b.op;
    int const members = of_class.pair ? 2 : 1;
    std::int64_t forwards = 0;
    for (int i = 0; i < members; ++i)
      if (!has_local_inputs(rank, folded[i].at(iteration, later))) return false;
    for (int i = 0; i < members; ++i) {
      op const o = folded[i].at(iteration, later);
      if (!lane_of(copy_of(o), role_of(o.kind())).add(o.microbatch(), o.kind() == op_kind::backward_weight))
        return false;
      if (o.microbatch() >= folded_->microbatches) return false;
      forwards += o.kind() == op_kind::forward ? 1 : 0;
      now.held += memory_->taken(o, 0);
      if (now.held > now.of->peak) {
        now.of->peak = now.held;
        now.of->peak_block = number;
        now.of->peak_position = position + i;
        now.of->peak_op = o;
      }
    }
    if (of_class.backward && now.of->first_backward < 0) now.of->first_backward = number;
    if (of_class.forward) now.of->last_forward = number;
    for (int i = 0; i < members; ++i) now.held -= memory_->freed(folded[i].first, 0);
    now.warmup.block(forwards, of_class.backward, of_class.forward && of_class.backward);
    return true;
  }

  /// Whether all that an op needs and that its own rank runs has been run.
  constexpr bool has_local_inputs(int rank, op o) {
    auto const b = o.microbatch();
    auto const runs_here = [&](int stage) {
      return stage >= 0 && stage < where_.stages() && where_.rank_of(stage, o.replica()) == rank;
    };
    auto const copy = copy_of(o);
    switch (o.kind()) {
      case op_kind::forward: return !runs_here(o.stage() - 1) || lane_of(copy - 1, op_role::forward).has(b);
      case op_kind::backward_weight: return lane_of(copy, op_role::gradient).has(b);
      default:
        return lane_of(copy, op_role::forward).has(b) &&
               (!runs_here(o.stage() + 1) || lane_of(copy + 1, op_role::gradient).has(b));
    }
  }

  /// Whether every rank takes from its channels what the others put in, in the same order.
  [[nodiscard]] constexpr bool channels_match() const {
    auto const stages = std::size_t(where_.stages());
    auto const same_order = [](lane const& producer, lane const& consumer) {
      if (!consumer.used) return true;
      return producer.used && producer.first == consumer.first && producer.has(consumer.last);
    };
    for (std::size_t copy = 0; copy < lanes_.size() / 3; ++copy) {
      bool const last_stage = copy % stages == stages - 1;
      if (last_stage) continue;
      auto const role = [&](std::size_t of, op_role r) { return lanes_[3 * of + std::size_t(r)]; };
      if (!same_order(role(copy, op_role::forward), role(copy + 1, op_role::forward))) return false;
      if (!same_order(role(copy + 1, op_role::gradient), role(copy, op_role::gradient))) return false;
    }
    return true;
  }

  /// Whether no microbatch runs on two copies of a stage.
  [[nodiscard]] constexpr bool replicas_are_apart() const {
    if (where_.replicas() == 1) return true;
    auto const stages = std::size_t(where_.stages());
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    for (std::size_t stage = 0; stage < stages; ++stage)
      for (std::size_t role = 0; role < 3; ++role) {
        ranges.clear();
        for (std::size_t replica = 0; replica < std::size_t(where_.replicas()); ++replica) {
          auto const& of_copy = lanes_[3 * (replica * stages + stage) + role];
          if (of_copy.used) ranges.push_back({of_copy.lowest(), of_copy.highest()});
        }
        sort(ranges);
        for (std::size_t i = 1; i < ranges.size(); ++i)
          if (ranges[i].first <= ranges[i - 1].second) return false;
      }
    return true;
  }
  /// \}

  folded_schedule const* folded_;
  placement where_;
  Cost const* cost_;
  memory_model const* memory_;
  std::int64_t operations_;
  duration_limit<T> limit_;
  bool regular_ = true;

  std::vector<lane> lanes_;                // by copy and role
  std::vector<block_class<T>> classes_;    // by copy and kind; behind them the pairs
  std::vector<std::uint32_t> channel_of_;  // by producing copy and direction
  std::vector<std::pair<std::pair<std::size_t, std::size_t>, std::uint32_t>> pairs_;  // of the rank

  std::vector<rank_order> ranks_;
  std::vector<block_round> rounds_;
  std::vector<block_run> runs_;
  std::vector<block> blocks_;
  std::vector<channel_ends> channels_;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
