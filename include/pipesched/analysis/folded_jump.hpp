// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The jump over a steady state that repeats.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/folded_run.hpp>
#include <pipesched/analysis/folded_stride.hpp>
#include <pipesched/core/vector.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Finds out that a run repeats, and leaves out what would only repeat.
///
/// A *cut* is a place in each rank's program. The cuts that are compared are equally many microbatches apart in all
/// programs, each rank in the same run or round of its program and at the same place of its pattern. What runs from a
/// cut on is determined by the clocks and by what is in the channels: an op starts at the latest of its rank's clock
/// and the ends that it takes.
///
/// Proof. Say that from one cut to a later one the clock of each rank r, and the ends in the channels that it has put
/// in, became later by d(r), and that each rank takes only from ranks p with d(p) = d(r), or with d(p) < d(r) and
/// without having waited in between. Then every op of the next stretch starts d(r) later than the op of the same place
/// in this one: of its inputs those with d(p) = d(r) are all d(r) later, and the others, which did not decide, are
/// later by less. So the stretch after it begins as this one did, and by induction all do, for as long as every rank
/// stays in its run or round. Times must be the same for all microbatches, and exact: see `times_are_exact`.
template <cost_model Cost>
class steady_state {
 public:
  using T = time_of<Cost>;
  static constexpr bool applies = same_for_all_microbatches<Cost>;

  /// Whether a state that repeats does so for ever.
  [[nodiscard]] static constexpr bool applies_to(folded_layout<Cost> const& layout) {
    return applies && times_are_exact(layout);
  }

  constexpr explicit steady_state(folded_run<Cost>& run) : run_(&run), exact_(applies_to(run.of())) {}

  /// Runs on from cut to cut until the state repeats, and jumps as far as all programs go on. Returns the number of ops
  /// that it left out; 0 where a program does not repeat long enough, or the cuts that follow this place are none that
  /// the ranks can stop at.
  constexpr std::int64_t jump() {
    if (!exact_ || !plan()) return 0;
    auto const jumped = search();
    run_->stop_at_end();
    return jumped;
  }

 private:
  static constexpr std::int64_t cuts_before_wider = 32;

  struct state {
    vector<typename folded_run<Cost>::rank_state> ranks;
    vector<channel<T>> channels;
  };

  /// Whether no sum of the times is rounded. Sums of whole numbers never are; reals, where all are whole in a unit of
  /// 2^-20 or coarser (1.5 and 0.25 are, 0.1 is not) and the sum of all of them is short enough.
  [[nodiscard]] static constexpr bool times_are_exact(folded_layout<Cost> const& layout) {
    if constexpr (std::integral<T>) {
      return true;
    } else {
      auto const most = static_cast<T>(std::int64_t{1} << std::min(std::numeric_limits<T>::digits, 62));
      T longest = 0;
      T per_unit = 1;
      for (auto const& of_class : layout.classes())
        for (T const time : {of_class.duration, of_class.latency[0], of_class.latency[1]}) {
          longest = std::max(longest, time);
          while (time * per_unit < most &&
                 static_cast<T>(static_cast<std::int64_t>(time * per_unit)) != time * per_unit)
            per_unit *= 2;
          if (per_unit > T{1 << 20}) return false;
        }
      return longest * per_unit * static_cast<T>(2 * layout.operations()) < most;
    }
  }

  constexpr bool plan() {
    strides_ = equal_strides(run_->of(), run_->ranks());
    if (strides_.empty() || iterations_left(4) < 0 || !has_begun()) return false;
    has_forward_.clear();
    for (std::size_t i = 0; i < strides_.size(); ++i) has_forward_.push_back(repeats_forwards(i));
    return true;
  }
  /// Whether there are forwards in what a rank repeats.
  [[nodiscard]] constexpr bool repeats_forwards(std::size_t i) const {
    auto const& of = run_->of();
    auto const& r = run_->ranks()[i];
    auto const& round = of.rounds()[r.round];
    auto const first = strides_[i].by_turns ? of.runs()[round.begin].begin : of.runs()[r.run].begin;
    auto const after = strides_[i].by_turns ? of.runs()[round.end - 1].end : of.runs()[r.run].end;
    return std::any_of(of.blocks().begin() + first, of.blocks().begin() + after,
                       [&](block b) { return of.classes()[b.of_class].forward; });
  }

  /// Whether no rank is in the first iteration of what it repeats.
  [[nodiscard]] constexpr bool has_begun() const {
    for (std::size_t i = 0; i < strides_.size(); ++i)
      if (iteration_of(i) == 0) return false;
    return true;
  }

  constexpr std::int64_t& iteration_of(std::size_t i) {
    auto& r = run_->ranks()[i];
    return strides_[i].by_turns ? r.turn : r.iteration;
  }
  [[nodiscard]] constexpr std::int64_t iteration_of(std::size_t i) const {
    auto const& r = run_->ranks()[i];
    return strides_[i].by_turns ? r.turn : r.iteration;
  }

  /// By how many cuts, beyond `reserve` of them, every rank can go on in what it repeats, its last iteration excepted;
  /// negative where there are not even those.
  [[nodiscard]] constexpr std::int64_t iterations_left(std::int64_t reserve) const {
    std::int64_t least = unlimited;
    for (std::size_t i = 0; i < strides_.size(); ++i) {
      auto const& r = run_->ranks()[i];
      auto const times = strides_[i].by_turns ? run_->of().rounds()[r.round].times : run_->of().runs()[r.run].times;
      least = std::min(least, (times - 2 - iteration_of(i)) / strides_[i].iterations - reserve);
      if (r.watch >= r.position)
        least = std::min(least, (r.watch - r.position) / (strides_[i].iterations * strides_[i].operations) - reserve);
    }
    return least;
  }

  constexpr std::int64_t search() {
    state saved{run_->ranks(), run_->channels()};
    std::int64_t since_saved = 0;
    std::int64_t save_after = 1;
    for (std::int64_t cuts = 1; iterations_left(2) >= 0; ++cuts) {
      if (!next_cut()) return 0;
      ++since_saved;
      if (repeats(saved)) return leap(saved, since_saved);
      if (since_saved == save_after) {  // Brent's: a period of any length is found in time in proportion to it
        saved = state{run_->ranks(), run_->channels()};
        since_saved = 0;
        save_after *= 2;
      }
      if (cuts % cuts_before_wider == 0) {  // stops cost time: where nothing repeats for long, less of them
        for (auto& s : strides_) s.iterations *= 2;
        saved = state{run_->ranks(), run_->channels()};
        since_saved = 0;
      }
    }
    return 0;
  }

  constexpr bool next_cut() {
    for (std::size_t i = 0; i < strides_.size(); ++i)
      run_->stop_at(i, run_->ranks()[i].position + strides_[i].iterations * strides_[i].operations);
    while (run_->run(unlimited)) {
    }
    return run_->all_stopped();
  }

  [[nodiscard]] constexpr bool repeats(state const& before) {
    auto const& now = run_->ranks();
    auto const shift = [&](std::size_t i) { return now[i].clock - before.ranks[i].clock; };
    for (std::size_t i = 0; i < now.size(); ++i)
      if (has_forward_[i] && now[i].phases.since_forward() != before.ranks[i].phases.since_forward()) return false;
    for (std::size_t c = 0; c < before.channels.size(); ++c) {
      auto const& then = before.channels[c];
      auto const& channel = run_->channels()[c];
      if (is_unused(then, channel)) continue;
      auto const of_producer = shift(channel.producer());
      auto const of_consumer = shift(channel.consumer());
      if (of_producer > of_consumer || then.size() != channel.size()) return false;
      if (of_producer < of_consumer && now[channel.consumer()].waiting != before.ranks[channel.consumer()].waiting)
        return false;
      for (std::uint32_t i = 0; i < channel.size(); ++i)
        if (channel.at(i) - then.at(i) != of_producer) return false;
    }
    return true;
  }

  [[nodiscard]] static constexpr bool is_unused(channel<T> const& then, channel<T> const& now) {
    return then.put() == now.put() && then.taken() == now.taken();
  }

  /// Repeats what was since `before`, `cuts` cuts ago, as often as every rank stays where it repeats.
  constexpr std::int64_t leap(state const& before, std::int64_t cuts) {
    auto const times = iterations_left(0) / cuts;
    if (times <= 0) return 0;
    auto const grow = [&](T& value, T then) { value += static_cast<T>(times) * (value - then); };
    for (std::size_t c = 0; c < before.channels.size(); ++c) {
      auto& channel = run_->channels()[c];
      if (is_unused(before.channels[c], channel)) continue;
      for (std::uint32_t i = 0; i < channel.size(); ++i) grow(channel.at(i), before.channels[c].at(i));
    }
    std::int64_t operations = 0;
    for (std::size_t i = 0; i < strides_.size(); ++i) {
      auto& r = run_->ranks()[i];
      auto const& then = before.ranks[i];
      auto const iterations = times * cuts * strides_[i].iterations;
      grow(r.clock, then.clock);
      grow(r.busy, then.busy);
      grow(r.waiting[0], then.waiting[0]);
      grow(r.waiting[1], then.waiting[1]);
      r.phases.repeat_since(then.phases, times);
      iteration_of(i) += iterations;
      r.position += iterations * strides_[i].operations;
      operations += iterations * strides_[i].operations;
    }
    return operations;
  }

  folded_run<Cost>* run_;
  bool exact_;
  vector<rank_stride> strides_;  // from cut to cut
  vector<bool> has_forward_;     // in what is repeated
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
