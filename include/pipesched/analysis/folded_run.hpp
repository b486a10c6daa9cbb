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
#include <pipesched/analysis/folded_lap.hpp>
#include <pipesched/analysis/folded_lap_plan.hpp>
#include <pipesched/analysis/folded_layout.hpp>
#include <pipesched/analysis/folded_order.hpp>
#include <pipesched/analysis/folded_state.hpp>
#include <pipesched/core/folding.hpp>
#include <pipesched/graph/edge.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// How far ranks run ahead of others, where nothing keeps them from it: by some ops, so that all take few visits; or as
/// little as possible, so that laps are short.
enum class pace : std::uint8_t { ahead, in_step };

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
  using rank_state = folded_rank_state<T>;
  static constexpr std::int64_t never = unlimited;
  static constexpr std::int64_t least_rest = 8;  // sweeps

  /// Keeps references to both.
  constexpr folded_run(layout const& of, folded_order const& order, pace how)
      : layout_(&of), order_(&order), pace_(how) {
    std::size_t const capacity = how == pace::in_step ? 1 : 16;
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

  /// Runs until no rank can go on, or after so many visits of a rank, or a few more. Returns whether there is more to
  /// run.
  constexpr bool run(std::int64_t visits) {
    auto const all = std::int64_t(ranks_.size());
    while (visits > 0) {
      if (sweeping_) {
        visits -= all;
        auto const ran = sweep();
        if (4 * ran >= all)
          run_laps();
        else if (!grow_for_more_than(ran))
          stop_sweeping();
      } else {
        auto const at_once = std::min(visits, 4 * all);
        visits -= at_once;
        if (!run_ready(at_once)) return false;
        sweeping_ = true;
      }
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

  /// Where more than so many ranks wait for room, makes it: they have to be ahead of others by more.
  constexpr bool grow_for_more_than(std::int64_t ran) {
    auto const waits = [](channel<T> const& c) { return c.producer_waits && c.full(); };
    if (std::count_if(channels_.begin(), channels_.end(), waits) <= ran) return false;
    for (auto& c : channels_)
      if (std::exchange(c.producer_waits, false) && c.full()) c.grow();
    return true;
  }

  /// Visits all ranks, from the last one on. Returns how many of them ran anything. Where most do, this costs less than
  /// to keep a list of those that can: which rank comes next, and how far it comes, is nearly the same from one sweep
  /// to the next.
  constexpr std::int64_t sweep() {
    std::int64_t ran = 0;
    // In step, first every other rank, then those between: one does not wait for the one just before it, and a
    // processor can have several in work.
    int const by = pace_ == pace::in_step ? 2 : 1;
    for (int first = 1; first <= by; ++first)
      for (int number = int(ranks_.size()) - first; number >= 0; number -= by)
        ran += visit<false>(std::uint32_t(number));
    return ran;
  }
  /// From time to time, plans laps and runs them; the more effort it took where there are none, the later again.
  constexpr void run_laps() {
    if (pace_ != pace::in_step || --sweeps_to_laps_ > 0) return;
    lap_plan<Cost> const plan(*layout_, ranks_, channels_);
    if (plan.times() > 0) folded_lap<Cost>(*layout_, ranks_, channels_, plan).run(plan.times());
    sweeps_to_laps_ = least_rest + 4 * std::int64_t(plan.effort() / ranks_.size());
  }
  constexpr void stop_sweeping() {
    sweeping_ = false;
    for (auto& c : channels_) c.consumer_waits = c.producer_waits = false;
    for (std::size_t r = 0; r < ranks_.size(); ++r) make_ready(std::uint32_t(r));
  }
  /// Visits ranks that are ready. Returns whether there are more.
  constexpr bool run_ready(std::int64_t visits) {
    for (; visits > 0; --visits) {
      if (ready_count_ == 0 && !grow_full_channels()) return false;
      auto const r = ready_[first_ready_];
      if (++first_ready_ == ready_.size()) first_ready_ = 0;
      --ready_count_;
      ranks_[r].is_ready = false;
      visit<true>(r);
    }
    return true;
  }

  /// Runs a rank for as long as it can. Returns whether it ran anything. `Wakes`: those that wait for it become ready.
  template <bool Wakes>
  [[gnu::always_inline]] constexpr bool visit(std::uint32_t number) {
    auto& r = ranks_[number];
    auto const before = r.position;
    while (run_until<Wakes>(number, r, r.halt) && run_watched<Wakes>(number, r)) {
    }
    return r.position != before;
  }
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
  pace pace_;
  std::vector<rank_state> ranks_;
  std::vector<channel<T>> channels_;
  std::vector<action> actions_;       // by class
  std::vector<std::uint32_t> ready_;  // a ring; each rank is in it once at most
  std::size_t first_ready_ = 0;
  std::size_t ready_count_ = 0;
  bool sweeping_ = false;
  std::int64_t sweeps_to_laps_ = least_rest;  // until they are looked for
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
