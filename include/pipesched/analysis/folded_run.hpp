// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Runs folded programs in time, in memory that does not depend on how many ops they have.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/folded_layout.hpp>
#include <pipesched/analysis/folded_order.hpp>
#include <pipesched/analysis/idle.hpp>
#include <pipesched/core/folding.hpp>
#include <pipesched/graph/edge.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// The ends of what one rank has run and another has not taken up yet, first in, first out.
template <time_value T>
class channel {
 public:
  constexpr channel(std::uint32_t producer, std::uint32_t consumer, std::size_t capacity)
      : ends_(capacity, T{}), mask_(std::uint32_t(capacity - 1)), producer_(producer), consumer_(consumer) {}

  [[nodiscard]] constexpr std::uint32_t producer() const noexcept { return producer_; }
  [[nodiscard]] constexpr std::uint32_t consumer() const noexcept { return consumer_; }
  [[nodiscard]] constexpr std::uint32_t size() const noexcept { return put_ - taken_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return put_ == taken_; }
  [[nodiscard]] constexpr bool full() const noexcept { return size() > mask_; }
  [[nodiscard]] constexpr T& at(std::uint32_t i) noexcept { return ends_[(taken_ + i) & mask_]; }
  [[nodiscard]] constexpr T const& at(std::uint32_t i) const noexcept { return ends_[(taken_ + i) & mask_]; }
  /// How many were ever taken, modulo 2^32.
  [[nodiscard]] constexpr std::uint32_t taken() const noexcept { return taken_; }
  [[nodiscard]] constexpr std::uint32_t put() const noexcept { return put_; }

  constexpr void push(T end) noexcept { ends_[put_++ & mask_] = end; }
  constexpr T pop() noexcept { return ends_[taken_++ & mask_]; }
  constexpr void grow() {
    std::vector<T> larger(2 * ends_.size(), T{});
    for (std::uint32_t i = 0; i < size(); ++i) larger[(taken_ + i) & (2 * mask_ + 1)] = at(i);
    ends_ = std::move(larger);
    mask_ = 2 * mask_ + 1;
  }

  bool consumer_waits = false;  ///< for something to take
  bool producer_waits = false;  ///< for room

 private:
  std::vector<T> ends_;  // a power of two
  std::uint32_t mask_;
  std::uint32_t taken_ = 0;
  std::uint32_t put_ = 0;
  std::uint32_t producer_;
  std::uint32_t consumer_;
};

/// Every rank runs for as long as its inputs are there and its outputs have room. What comes out does not depend on
/// the order in which ranks are chosen: each takes from its channels in its own order.
///
/// Channels are bounded, so that a rank that is ahead waits for those behind; where that stops all of them, because
/// the schedule does need more room, the channels that are full grow.
template <cost_model Cost>
class folded_run {
 public:
  using T = time_of<Cost>;
  using layout = folded_layout<Cost>;
  static constexpr std::size_t first_capacity = 16;
  static constexpr std::int64_t never = unlimited;

  /// Where a rank is, and what is known of it so far.
  struct rank_state {
    block const* at = nullptr;           ///< its next block
    block const* pattern_end = nullptr;  ///< of the run that it is in
    std::int64_t position = 0;           ///< ops run
    std::int64_t halt = 0;               ///< where it stops, or is watched: the nearer one
    T clock = 0;
    T busy = 0;
    std::array<T, 2> waiting = {};  ///< idle time before activations and gradients
    phase_tracker<T> phases = {};
    bool gap_since_forward = false;
    bool is_ready = false;
    std::int64_t iteration = 0;  ///< of the run
    std::int64_t times = 0;      ///< of the run
    block const* pattern = nullptr;
    std::int64_t turn = 0;    ///< of the round
    std::uint32_t run = 0;    ///< which
    std::uint32_t round = 0;  ///< which
    std::int64_t stop = 0;
    std::int64_t watch = 0;  ///< the next op at which more is asked than its end
    T first_start = 0;
    T peak_start = 0;
  };

  /// Keeps references to both.
  constexpr folded_run(layout const& of, folded_order const& order) : layout_(&of), order_(&order) {
    for (auto const& ends : of.channels()) channels_.push_back({ends.producer, ends.consumer, first_capacity});
    auto const connected = [&](std::uint32_t c) { return c == no_channel ? nullptr : &channels_[c]; };
    for (auto const& c : of.classes())
      actions_.push_back({{connected(c.in[0]), connected(c.in[1])},
                          {connected(c.out[0]), connected(c.out[1])},
                          c.latency,
                          c.duration,
                          c.cause,
                          c.forward,
                          c.backward,
                          c.pair});
    for (auto const& of_rank : of.ranks()) {
      rank_state added{};
      added.round = of_rank.begin;
      if (of_rank.begin < of_rank.end) {
        added.run = of.rounds()[of_rank.begin].begin;
        enter_run(added);
      }
      ranks_.push_back(added);
    }
    ready_.assign(ranks_.size(), 0);
    stop_at_end();
  }
  folded_run(folded_run const&) = delete;
  folded_run& operator=(folded_run const&) = delete;

  /// \name Stops
  /// \{
  constexpr void stop_at_end() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) stop_at(r, order_->ranks()[r].operations);
  }
  constexpr void stop_at(std::size_t r, std::int64_t position) {
    ranks_[r].stop = position;
    ranks_[r].halt = std::min(position, ranks_[r].watch);
    make_ready(std::uint32_t(r));
  }
  /// Each rank stops so many ops further on, or at its end.
  constexpr void stop_after(std::int64_t operations) {
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      stop_at(r, ranks_[r].position + std::min(operations, order_->ranks()[r].operations - ranks_[r].position));
  }
  [[nodiscard]] constexpr bool all_stopped() const {
    for (auto const& r : ranks_)
      if (r.position != r.stop) return false;
    return true;
  }
  /// \}

  /// Runs until no rank can go on, or after `visits` of a rank. Returns whether there is more to run.
  constexpr bool run(std::int64_t visits) {
    for (; visits > 0; --visits) {
      if (ready_count_ == 0 && !grow_full_channels()) return false;
      auto const r = ready_[first_ready_];
      if (++first_ready_ == ready_.size()) first_ready_ = 0;
      --ready_count_;
      visit(r);
    }
    return true;
  }

  [[nodiscard]] constexpr layout const& of() const noexcept { return *layout_; }
  [[nodiscard]] constexpr std::vector<rank_state>& ranks() noexcept { return ranks_; }
  [[nodiscard]] constexpr std::vector<rank_state> const& ranks() const noexcept { return ranks_; }
  [[nodiscard]] constexpr std::vector<channel<T>>& channels() noexcept { return channels_; }

 private:
  /// What the blocks of one class do; null where they take or put nothing.
  struct action {
    std::array<channel<T>*, 2> in;
    std::array<channel<T>*, 2> out;
    std::array<T, 2> latency;
    T duration;
    std::array<edge_kind, 2> cause;
    bool forward;
    bool backward;
    bool pair;
  };

  constexpr void make_ready(std::uint32_t r) {
    if (ranks_[r].is_ready) return;
    ranks_[r].is_ready = true;
    auto const last = first_ready_ + ready_count_++;
    ready_[last < ready_.size() ? last : last - ready_.size()] = r;
  }

  constexpr bool grow_full_channels() {
    for (auto& c : channels_)
      if (c.producer_waits) {
        c.producer_waits = false;
        if (c.full()) c.grow();
        make_ready(c.producer());
      }
    return ready_count_ > 0;
  }

  /// Runs a rank for as long as it can.
  constexpr void visit(std::uint32_t number) {
    auto& r = ranks_[number];
    r.is_ready = false;
    auto const* const actions = actions_.data();
    while (r.position < r.stop) {  // a stop may be within a pair, which runs as a whole
      auto const& does = actions[r.at->of_class];
      if (!(does.pair ? run_block<2>(number, r, does) : run_block<1>(number, r, does))) return;
      r.position += does.pair ? 2 : 1;
      if (++r.at == r.pattern_end) {
        r.at = r.pattern;
        if (++r.iteration == r.times) next_run(number);
      }
    }
  }

  /// Runs the next block of a rank, if it can be run.
  template <std::size_t Members>
  [[gnu::always_inline]] constexpr bool run_block(std::uint32_t number, rank_state& r, action const& does) {
    for (std::size_t member = 0; member < Members; ++member)
      if (auto* const in = does.in[member]; in && in->empty()) {
        in->consumer_waits = true;
        return false;
      }
    for (std::size_t member = 0; member < Members; ++member)
      if (auto* const out = does.out[member]; out && out->full()) {
        out->producer_waits = true;
        return false;
      }

    T const clock = r.clock;
    T start = clock;
    auto cause = edge_kind::activation;
    for (std::size_t member = 0; member < Members; ++member)
      if (auto* const in = does.in[member]) {
        T const arrival = take(*in) + does.latency[member];
        if (arrival > start) {
          start = arrival;
          cause = does.cause[member];
        }
      }
    T const end = start + duration(number, r, does);
    r.busy += end - start;
    r.clock = end;
    if (start > clock) wait(r, cause, start - clock);
    if (r.gap_since_forward & does.forward) {
      r.phases.op(does.forward, does.backward, start, end);
      r.gap_since_forward = false;
    }
    if (r.position == r.halt) note(number, does, start, end);
    for (std::size_t member = 0; member < Members; ++member)
      if (auto* const out = does.out[member]) put(*out, end);
    return true;
  }

  [[nodiscard]] constexpr T duration(std::uint32_t number, rank_state const& r, action const& does) const {
    if constexpr (same_for_all_microbatches<Cost>)
      return does.duration;
    else
      return layout_->duration(int(number), *r.at, r.iteration, r.turn * layout_->rounds()[r.round].advance);
  }

  constexpr void wait(rank_state& r, edge_kind cause, T gap) {
    r.phases.gap(gap);
    r.waiting[std::size_t(cause)] += gap;
    r.gap_since_forward = true;
  }

  constexpr T take(channel<T>& from) {
    T const end = from.pop();
    if (from.producer_waits) {
      from.producer_waits = false;
      make_ready(from.producer());
    }
    return end;
  }
  constexpr void put(channel<T>& to, T end) {
    to.push(end);
    if (to.consumer_waits) {
      to.consumer_waits = false;
      make_ready(to.consumer());
    }
  }

  /// What is asked of a watched block; then finds the next one.
  constexpr void note(std::uint32_t number, action const& does, T start, T end) {
    auto& r = ranks_[number];
    auto const& order = order_->ranks()[number];
    if (r.position == 0) r.first_start = start;
    if (r.position == order.peak_place) r.peak_start = start;
    if (r.position == order.first_backward || r.position == order.last_forward) {
      r.phases.op(does.forward, does.backward, start, end);
      r.gap_since_forward = r.gap_since_forward && !does.forward;
    }
    r.watch = never;
    for (auto const next : {order.peak_place, order.first_backward, order.last_forward})
      if (next > r.position) r.watch = std::min(r.watch, next);
    r.halt = std::min(r.stop, r.watch);
  }

  constexpr void enter_run(rank_state& r) {
    auto const& run = layout_->runs()[r.run];
    r.pattern = layout_->blocks().data() + run.begin;
    r.pattern_end = layout_->blocks().data() + run.end;
    r.at = r.pattern;
    r.iteration = 0;
    r.times = run.times;
  }

  constexpr void next_run(std::uint32_t number) {
    auto& r = ranks_[number];
    auto const& round = layout_->rounds()[r.round];
    if (++r.run == round.end) {
      r.run = round.begin;
      if (++r.turn == round.times) {
        r.turn = 0;
        if (++r.round == layout_->ranks()[number].end) return;
        r.run = layout_->rounds()[r.round].begin;
      }
    }
    enter_run(r);
  }

  layout const* layout_;
  folded_order const* order_;
  std::vector<rank_state> ranks_;
  std::vector<channel<T>> channels_;
  std::vector<action> actions_;       // by class
  std::vector<std::uint32_t> ready_;  // a ring; each rank is in it once at most
  std::size_t first_ready_ = 0;
  std::size_t ready_count_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
