// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Runs folded programs in time, in memory that does not depend on how many ops they have.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/folded_lap.hpp>
#include <pipesched/analysis/folded_lap_plan.hpp>
#include <pipesched/analysis/folded_layout.hpp>
#include <pipesched/analysis/folded_order.hpp>
#include <pipesched/analysis/folded_ranks.hpp>
#include <pipesched/analysis/folded_state.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// How far ranks run ahead of others, where nothing keeps them from it: by some ops, so that all take few visits; or as
/// little as possible, so that laps are short.
enum class pace : std::uint8_t { ahead, in_step };

/// Chooses which rank is visited next.
///
/// Channels are bounded, so that a rank that is ahead waits for those behind; where that stops all of them, because
/// the schedule does need more room, the channels that are full grow.
template <cost_model Cost>
class folded_run : public folded_ranks<Cost> {
 public:
  using T = time_of<Cost>;
  using visited_ranks = folded_ranks<Cost>;
  using visited_ranks::channels;
  using visited_ranks::of;
  using visited_ranks::ranks;

  /// Keeps references to both.
  constexpr folded_run(folded_layout<Cost> const& folded, folded_order const& order, pace how)
      : visited_ranks(folded, order, how == pace::in_step ? 1 : 16), pace_(how) {}

  /// Runs until no rank can go on, or after so many visits of a rank, or a few more. Returns whether there is more to
  /// run.
  constexpr bool run(std::int64_t visits) {
    auto const all = std::int64_t(ranks().size());
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

 private:
  static constexpr std::int64_t least_rest = 8;  // sweeps

  constexpr bool grow_full_channels() {
    for (auto& c : channels())
      if (c.producer_waits) {
        c.producer_waits = false;
        if (c.full()) c.grow();
        this->make_ready(c.producer());
      }
    return this->any_ready();
  }

  /// Where more than so many ranks wait for room, makes it: they have to be ahead of others by more.
  constexpr bool grow_for_more_than(std::int64_t ran) {
    auto const waits = [](channel<T> const& c) { return c.producer_waits && c.full(); };
    if (std::count_if(channels().begin(), channels().end(), waits) <= ran) return false;
    for (auto& c : channels())
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
      for (int number = int(ranks().size()) - first; number >= 0; number -= by)
        ran += this->template visit<false>(std::uint32_t(number));
    return ran;
  }
  /// From time to time, plans laps and runs them; the more effort it took where there are none, the later again.
  constexpr void run_laps() {
    if (pace_ != pace::in_step || --sweeps_to_laps_ > 0) return;
    lap_plan<Cost> const plan(of(), ranks(), channels());
    if (plan.times() > 0) folded_lap<Cost>(of(), ranks(), channels(), plan).run(plan.times());
    sweeps_to_laps_ = least_rest + 4 * std::int64_t(plan.effort() / ranks().size());
  }
  constexpr void stop_sweeping() {
    sweeping_ = false;
    for (auto& c : channels()) c.consumer_waits = c.producer_waits = false;
    for (std::size_t r = 0; r < ranks().size(); ++r) this->make_ready(std::uint32_t(r));
  }
  /// Visits ranks that are ready. Returns whether there are more.
  constexpr bool run_ready(std::int64_t visits) {
    for (; visits > 0; --visits) {
      if (!this->any_ready() && !grow_full_channels()) return false;
      this->template visit<true>(this->take_ready());
    }
    return true;
  }

  pace pace_;
  bool sweeping_ = false;
  std::int64_t sweeps_to_laps_ = least_rest;  // until they are looked for
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
