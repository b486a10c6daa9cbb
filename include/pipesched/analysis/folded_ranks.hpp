// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Runs the ranks of folded programs, one visit at a time.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/folded_layout.hpp>
#include <pipesched/analysis/folded_order.hpp>
#include <pipesched/analysis/folded_state.hpp>
#include <pipesched/core/folding.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/edge.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// All ranks, each of which runs, when it is visited, for as long as its inputs are there and its outputs have room.
/// What comes out does not depend on the order of the visits: each rank takes from its channels in its own order.
template <cost_model Cost>
class folded_ranks {
 public:
  using T = time_of<Cost>;
  using layout = folded_layout<Cost>;
  using rank_state = folded_rank_state<T>;
  static constexpr std::int64_t never = unlimited;

  /// Keeps references to both. A channel has room for `capacity` ends, a power of two, until it grows.
  constexpr folded_ranks(layout const& of, folded_order const& order, std::size_t capacity)
      : layout_(&of), order_(&order) {
    for (auto const& ends : of.channels()) channels_.push_back({ends.producer, ends.consumer, capacity});
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
    while (ranks_.size() < of.ranks().size()) {
      rank_state added{};
      added.ops = of.ops(int(ranks_.size()));
      added.enter_program(of, ranks_.size());
      ranks_.push_back(added);
    }
    ready_.assign(ranks_.size(), 0);
    stop_at_end();
  }
  folded_ranks(folded_ranks const&) = delete;
  folded_ranks& operator=(folded_ranks const&) = delete;

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

  [[nodiscard]] constexpr layout const& of() const noexcept { return *layout_; }
  [[nodiscard]] constexpr vector<rank_state>& ranks() noexcept { return ranks_; }
  [[nodiscard]] constexpr vector<rank_state> const& ranks() const noexcept { return ranks_; }
  [[nodiscard]] constexpr vector<channel<T>>& channels() noexcept { return channels_; }

  /// \name Ranks that may be able to run, in the order in which they became so; each of them once at most
  /// \{
  [[nodiscard]] constexpr bool any_ready() const noexcept { return ready_count_ > 0; }
  constexpr void make_ready(std::uint32_t r) {
    if (ranks_[r].is_ready) return;
    ranks_[r].is_ready = true;
    auto const last = first_ready_ + ready_count_++;
    ready_[last < ready_.size() ? last : last - ready_.size()] = r;
  }
  /// Takes the first of them. Precondition: there is one.
  constexpr std::uint32_t take_ready() {
    auto const r = ready_[first_ready_];
    if (++first_ready_ == ready_.size()) first_ready_ = 0;
    --ready_count_;
    ranks_[r].is_ready = false;
    return r;
  }
  /// \}

  /// Runs a rank for as long as it can. Returns whether it ran anything. `Wakes`: those that wait for it become ready.
  template <bool Wakes>
  [[gnu::always_inline]] constexpr bool visit(std::uint32_t number) {
    auto& r = ranks_[number];
    auto const before = r.position;
    while (run_until<Wakes>(number, r, r.halt) && run_watched<Wakes>(number, r)) {
    }
    return r.position != before;
  }

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

  /// Runs the watched block of a rank, if there is one before it stops.
  template <bool Wakes>
  [[gnu::noinline]] constexpr bool run_watched(std::uint32_t number, rank_state& r) {
    if (r.position >= r.stop) return false;
    auto const& does = actions_[r.at->of_class];
    if (!run_until<Wakes>(number, r, r.position + 1)) return false;
    note(number, does, r.start, r.clock);
    return true;
  }

  /// What a visit changes with each block: its own, so as to be in registers.
  struct progress {
    std::int64_t position;
    block const* at;
    T clock;
    T start;
    T busy;
    T gaps;
    T steady;
    std::int64_t later;  // the microbatches that the turn of the round is late
  };

  /// Runs the blocks of a rank that begin before `limit`. Returns whether it ran all of them.
  template <bool Wakes>
  [[gnu::always_inline]] constexpr bool run_until(std::uint32_t number, rank_state& r, std::int64_t limit) {
    auto const* const actions = actions_.data();
    bool const in_steady_phase = r.phases.has_backward();
    progress now{r.position, r.at, r.clock, r.start, r.busy, r.phases.gaps(), r.phases.steady(), lateness(r)};
    bool can_run = true;
    while (now.position < limit) {  // a limit may be within a pair, which runs as a whole
      auto const& does = actions[now.at->of_class];
      can_run = does.pair ? run_block<2, Wakes>(number, r, does, now) : run_block<1, Wakes>(number, r, does, now);
      if (!can_run) break;
      if (does.forward && in_steady_phase) {
        now.steady += now.gaps;
        now.gaps = 0;
      }
      if (++now.at == r.pattern_end) {
        r.at = r.pattern;
        if (++r.iteration == r.times) {
          r.next_run(*layout_, number);
          now.later = lateness(r);
        }
        now.at = r.at;
      }
    }
    r.position = now.position;
    r.at = now.at;
    r.clock = now.clock;
    r.start = now.start;
    r.busy = now.busy;
    r.phases.set(now.gaps, now.steady);
    return can_run;
  }

  /// Runs the next block of a rank, if all its inputs are there and all its outputs have room.
  template <std::size_t Members, bool Wakes>
  [[gnu::always_inline]] constexpr bool run_block(std::uint32_t number, rank_state& r, action const& does,
                                                  progress& now) {
    for (std::size_t member = 0; member < Members; ++member)
      if (auto* const in = does.in[member]; in && in->empty()) {
        if constexpr (Wakes) in->consumer_waits = true;
        return false;
      }
    for (std::size_t member = 0; member < Members; ++member)
      if (auto* const out = does.out[member]; out && out->full()) {
        out->producer_waits = true;
        return false;
      }
    now.start = now.clock;
    auto cause = does.cause[0];
    for (std::size_t member = 0; member < Members; ++member)
      if (auto* const in = does.in[member]) {
        T const arrival = take<Wakes>(*in) + does.latency[member];
        if (arrival > now.start) {
          now.start = arrival;
          cause = does.cause[member];
        }
      }
    // No gap is one of 0: whether there is one is as good as random, and a branch on it costs more than the sums.
    T const gap = now.start - now.clock;
    r.waiting[std::size_t(cause)] += gap;
    now.gaps += gap;
    now.clock = now.start + duration<Members>(number, r, does, now);
    now.busy += now.clock - now.start;
    for (std::size_t member = 0; member < Members; ++member)
      if (auto* const out = does.out[member]) put<Wakes>(*out, now.clock);
    now.position += Members;
    return true;
  }

  template <std::size_t Members>
  [[nodiscard]] [[gnu::always_inline]] constexpr T duration(std::uint32_t number, rank_state const& r,
                                                            action const& does, progress const& now) const {
    if constexpr (same_for_all_microbatches<Cost>) {
      return does.duration;
    } else {
      auto const* const ops = r.ops + now.at->op;
      if constexpr (Members == 1) return layout_->time(int(number), ops[0].at(r.iteration, now.later));
      return layout_->time_of_pair(int(number), ops[0].at(r.iteration, now.later), ops[1].at(r.iteration, now.later));
    }
  }
  [[nodiscard]] constexpr std::int64_t lateness(rank_state const& r) const {
    if constexpr (same_for_all_microbatches<Cost>) return 0;
    if (r.round == layout_->ranks()[std::size_t(&r - ranks_.data())].end) return 0;  // it has finished
    return r.turn * layout_->rounds()[r.round].advance;
  }

  template <bool Wakes>
  [[gnu::always_inline]] constexpr T take(channel<T>& from) {
    T const end = from.pop();
    if (Wakes && from.producer_waits) {
      from.producer_waits = false;
      make_ready(from.producer());
    }
    return end;
  }
  template <bool Wakes>
  [[gnu::always_inline]] constexpr void put(channel<T>& to, T end) {
    to.push(end);
    if (Wakes && to.consumer_waits) {
      to.consumer_waits = false;
      make_ready(to.consumer());
    }
  }

  /// What is asked of the watched block, which has run; then finds the next one.
  constexpr void note(std::uint32_t number, action const& does, T start, T end) {
    auto& r = ranks_[number];
    auto const& order = order_->ranks()[number];
    auto const place = std::exchange(r.watch, never);
    if (place == 0) r.first_start = start;
    if (place == order.peak_place) r.peak_start = start;
    if (place == order.first_backward || place == order.last_forward)
      r.phases.op(does.forward, does.backward, start, end);
    for (auto const next : {order.peak_place, order.first_backward, order.last_forward})
      if (next > place) r.watch = std::min(r.watch, next);
    r.halt = std::min(r.stop, r.watch);
  }

  layout const* layout_;
  folded_order const* order_;
  vector<rank_state> ranks_;
  vector<channel<T>> channels_;
  vector<action> actions_;       // by class
  vector<std::uint32_t> ready_;  // a ring
  std::size_t first_ready_ = 0;
  std::size_t ready_count_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
