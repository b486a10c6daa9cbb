// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What an analysis of folded programs runs: blocks, and the channels between ranks.

#include <array>
#include <cstddef>
#include <cstdint>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/core/folded_program.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/edge.hpp>

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

/// The programs of all ranks as blocks, and the channels between ranks.
///
/// Every input of a rank from another is a channel, from which it takes the ends of what it waits for in the order in
/// which they were put in. That is right where a `folded_order` is regular.
template <cost_model Cost>
class folded_layout {
 public:
  using T = time_of<Cost>;

  /// Where in `blocks()` a run is.
  struct block_run {
    std::uint32_t begin;
    std::uint32_t end;
    std::int64_t times;
    std::int64_t advance;     ///< microbatches from one iteration to the next; 0 where ops differ in it
    std::int64_t operations;  ///< of one iteration
  };
  /// Where in `runs()` a round is.
  struct block_round {
    std::uint32_t begin;
    std::uint32_t end;
    std::int64_t times;
    std::int64_t advance;
    std::int64_t operations;  ///< of one turn
  };
  /// Where in `rounds()` a rank's program is.
  struct rank_rounds {
    std::uint32_t begin;
    std::uint32_t end;
  };
  struct channel_ends {
    std::uint32_t producer;
    std::uint32_t consumer;
    bool used = false;  ///< whether the consumer takes anything from it
  };

  /// Keeps references to both. Precondition: the schedule's order is regular.
  constexpr folded_layout(folded_schedule const& folded, Cost const& cost)
      : folded_(&folded), cost_(&cost), operations_(folded.operations()), limit_(std::size_t(2 * operations_)) {
    auto const copies = std::size_t(folded.where.stages()) * std::size_t(folded.where.replicas());
    classes_.assign(4 * copies, block_class<T>{});
    channel_of_.assign(2 * copies, no_channel);
    for (int rank = 0; rank < folded.where.ranks(); ++rank) add_rank(rank);
    for (auto& of_class : classes_)
      for (auto& out : of_class.out)
        if (out != no_channel && !channels_[out].used) out = no_channel;
  }

  /// Of all ranks.
  [[nodiscard]] constexpr std::int64_t operations() const noexcept { return operations_; }
  [[nodiscard]] constexpr vector<rank_rounds> const& ranks() const noexcept { return ranks_; }
  [[nodiscard]] constexpr vector<block_round> const& rounds() const noexcept { return rounds_; }
  [[nodiscard]] constexpr vector<block_run> const& runs() const noexcept { return runs_; }
  [[nodiscard]] constexpr vector<block> const& blocks() const noexcept { return blocks_; }
  [[nodiscard]] constexpr vector<block_class<T>> const& classes() const noexcept { return classes_; }
  [[nodiscard]] constexpr vector<channel_ends> const& channels() const noexcept { return channels_; }

  /// The ops of a rank's folded program.
  [[nodiscard]] constexpr folded_op const* ops(int rank) const noexcept {
    return folded_->programs[std::size_t(rank)].ops().data();
  }
  /// \name How long an op or a pair takes. Throw `parameter_error` for a duration that is out of bounds.
  /// \{
  [[nodiscard]] constexpr T time(int rank, op o) const { return checked(pipesched::op_time(*cost_, o, rank)); }
  [[nodiscard]] constexpr T time_of_pair(int rank, op first, op second) const {
    return checked(pipesched::pair_time(*cost_, first, second, rank));
  }
  /// \}

 private:
  [[nodiscard]] constexpr T checked(T duration) const {
    limit_.check("duration", duration);
    return duration;
  }

  constexpr void add_rank(int rank) {
    auto const& program = folded_->programs[std::size_t(rank)];
    pairs_.clear();
    ranks_.push_back({std::uint32_t(rounds_.size()), 0});
    for (auto const& folded : program.rounds()) {
      auto const begin = std::uint32_t(runs_.size());
      block_round added{begin, begin, folded.times, folded.advance, 0};
      for (auto const& run : program.runs_of(folded)) {
        add_run(rank, program, run);
        added.operations += run.times * run.size;
      }
      added.end = std::uint32_t(runs_.size());
      rounds_.push_back(added);
    }
    ranks_.back().end = std::uint32_t(rounds_.size());
  }

  constexpr void add_run(int rank, folded_program const& program, folded_run const& folded) {
    auto const pattern = program.pattern(folded);
    block_run added{std::uint32_t(blocks_.size()), 0, folded.times, pattern[0].advance, folded.size};
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      if (pattern[i].advance != added.advance) added.advance = 0;
      if (i > 0 && pattern[i - 1].first.overlaps_next()) continue;  // the second of a pair
      op const o = pattern[i].first;
      auto const of_class = o.overlaps_next() ? pair_class_of(rank, o, pattern[i + 1].first) : class_of(rank, o);
      blocks_.push_back({of_class, std::uint32_t(folded.begin + i)});
    }
    added.end = std::uint32_t(blocks_.size());
    runs_.push_back(added);
  }

  [[nodiscard]] constexpr std::size_t copy_of(int stage, op o) const {
    return std::size_t(o.replica()) * std::size_t(folded_->where.stages()) + std::size_t(stage);
  }
  [[nodiscard]] constexpr std::uint32_t number_of(op o) const {
    return std::uint32_t(4 * copy_of(o.stage(), o) + std::size_t(o.kind()));
  }

  constexpr std::uint32_t class_of(int rank, op o) {
    auto& of_class = classes_[number_of(o)];
    if (!of_class.known) {
      of_class.known = true;
      connect(of_class, 0, rank, o);
      if constexpr (same_for_all_microbatches<Cost>) of_class.duration = time(rank, o);
    }
    return number_of(o);
  }

  constexpr std::uint32_t pair_class_of(int rank, op first, op second) {
    for (auto const& known : pairs_)
      if (known.first == number_of(first) && known.second == number_of(second)) return known.of_class;
    pairs_.push_back({number_of(first), number_of(second), std::uint32_t(classes_.size())});
    block_class<T> of_class{};
    of_class.pair = of_class.known = true;
    connect(of_class, 0, rank, first);
    connect(of_class, 1, rank, second);
    if constexpr (same_for_all_microbatches<Cost>) of_class.duration = time_of_pair(rank, first, second);
    classes_.push_back(of_class);
    return pairs_.back().of_class;
  }

  /// The input and the output of one member.
  constexpr void connect(block_class<T>& of_class, std::size_t member, int rank, op o) {
    bool const forward = o.kind() == op_kind::forward;
    (forward ? of_class.forward : of_class.backward) = true;
    if (o.kind() == op_kind::backward_weight) return;
    int const before = o.stage() + (forward ? -1 : 1);
    int const after = o.stage() + (forward ? 1 : -1);
    of_class.cause[member] = forward ? edge_kind::activation : edge_kind::gradient;
    auto const& where = folded_->where;
    if (before >= 0 && before < where.stages()) {
      int const from = where.rank_of(before, o.replica());
      if (from != rank) {
        of_class.in[member] = channel(before, o, from, rank);
        channels_[of_class.in[member]].used = true;
        of_class.latency[member] = transfer_time(*cost_, from, rank);
        limit_.check("latency", of_class.latency[member]);
      }
    }
    if (after >= 0 && after < where.stages()) {
      int const to = where.rank_of(after, o.replica());
      if (to != rank) of_class.out[member] = channel(o.stage(), o, rank, to);
    }
  }

  /// The channel of what a stage of the copy that `o` belongs to puts out.
  constexpr std::uint32_t channel(int producer, op o, int from, int to) {
    auto& number = channel_of_[2 * copy_of(producer, o) + (o.kind() == op_kind::forward ? 0 : 1)];
    if (number == no_channel) {
      number = std::uint32_t(channels_.size());
      channels_.push_back({std::uint32_t(from), std::uint32_t(to)});
    }
    return number;
  }

  struct known_pair {
    std::uint32_t first;
    std::uint32_t second;
    std::uint32_t of_class;
  };

  folded_schedule const* folded_;
  Cost const* cost_;
  std::int64_t operations_;
  duration_limit<T> limit_;

  vector<block_class<T>> classes_;    // by copy and kind; behind them the pairs
  vector<std::uint32_t> channel_of_;  // by producing copy and direction
  vector<known_pair> pairs_;          // of the rank

  vector<rank_rounds> ranks_;
  vector<block_round> rounds_;
  vector<block_run> runs_;
  vector<block> blocks_;
  vector<channel_ends> channels_;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
