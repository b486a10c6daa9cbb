// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Which ops of a steady state are run in which order, and where the ends between them stand.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/folded_cursor.hpp>
#include <pipesched/analysis/folded_layout.hpp>
#include <pipesched/analysis/folded_state.hpp>
#include <pipesched/analysis/folded_stride.hpp>
#include <pipesched/core/folding.hpp>
#include <pipesched/core/vector.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// That a rank runs so many ops, one after another.
struct rank_visit {
  std::uint32_t rank;
  std::uint32_t operations;
};

/// Where the ends in a channel stand: `size` places from `begin` on, one after another and round again.
struct end_ring {
  std::uint32_t size = 0;
  std::uint32_t begin = 0;
};

/// A *lap*: each rank comes further by its stride, and each channel holds as many ends afterwards as before. An order
/// in which that can be run can be run again for as long as no rank leaves what it repeats: what is there to take, and
/// where there is room, does not depend on the times. So nothing is asked of the channels any more, and where an end
/// stands is known beforehand: each channel is a ring of as many ends as go through it in a lap, or in several, which
/// are then planned as one.
///
/// Which ranks are chosen to run first does not matter: an op that can run still can when others have run. So the ranks
/// are run in turn, each until it has made its stride or has to wait.
template <cost_model Cost>
class lap_plan {
 public:
  using T = time_of<Cost>;
  using layout = folded_layout<Cost>;
  using rank_state = folded_rank_state<T>;

  // Stand for a channel where there is none: the begin of time, and what nobody reads.
  static constexpr std::uint32_t no_input = 0;
  static constexpr std::uint32_t no_output = 1;

  /// From where ranks and channels are now. Keeps a reference to the layout.
  constexpr lap_plan(layout const& of, vector<rank_state> const& ranks, vector<channel<T>> const& channels)
      : layout_(&of), strides_(equal_strides(of, ranks)), start_(ranks.begin(), ranks.end()) {
    if (strides_.empty()) return;
    auto left = unlimited;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      left = std::min(left, strides_left(of, ranks[i], strides_[i]));
      operations_ += std::size_t(strides_[i].iterations * strides_[i].operations);
    }
    auto const most_operations = std::max(std::size_t{1} << 15, 64 * ranks.size());
    if (left < least_laps || operations_ > most_operations) return;
    for (auto const& c : channels) held_.push_back(c.size());
    if (!count_ends()) return;
    auto const most_laps = std::min(most_operations / operations_, std::size_t(left) / 2);
    for (auto laps = least_room(); laps <= most_laps && visits_.empty(); laps *= 2) make_visits(laps, true);
    // To begin a visit costs as much as an op.
    if (auto const laps = std::max(laps_, longer_visit);
        2 * laps_ * operations_ < 3 * visits_.size() && laps <= most_laps)
      make_visits(laps, false);
    times_ = visits_.empty() ? 0 : left / std::int64_t(laps_);
    place_rings();
  }

  /// How many laps are planned.
  [[nodiscard]] constexpr std::int64_t laps() const noexcept { return std::int64_t(laps_); }
  /// How often the plan can be run; 0 where there is none, or it is not worth its while.
  [[nodiscard]] constexpr std::int64_t times() const noexcept { return times_; }
  /// How many ops were looked at for it.
  [[nodiscard]] constexpr std::size_t effort() const noexcept { return effort_; }
  /// By rank, for one lap.
  [[nodiscard]] constexpr vector<rank_stride> const& strides() const noexcept { return strides_; }
  /// Where each rank is before the first visit.
  [[nodiscard]] constexpr vector<folded_cursor> const& start() const noexcept { return start_; }
  /// Those of all the laps.
  [[nodiscard]] constexpr vector<rank_visit> const& visits() const noexcept { return visits_; }
  /// By channel; empty where nothing goes through.
  [[nodiscard]] constexpr vector<end_ring> const& rings() const noexcept { return rings_; }
  /// The places of all rings, and those that stand for none.
  [[nodiscard]] constexpr std::uint32_t places() const noexcept { return places_; }

 private:
  static constexpr std::int64_t least_laps = 8;  // to plan and write one takes as long as to run some
  static constexpr std::size_t longer_visit = 8;

  [[nodiscard]] constexpr block_class<T> const& block_at(folded_cursor const& cursor) const {
    return layout_->classes()[cursor.at->of_class];
  }
  [[nodiscard]] constexpr std::size_t stride_of(std::size_t rank) const {
    return std::size_t(strides_[rank].iterations * strides_[rank].operations);
  }

  /// Counts what goes through each channel in a lap. Whether as much is taken from each as is put in.
  constexpr bool count_ends() {
    effort_ += operations_;
    rings_.assign(held_.size(), end_ring{});
    vector<std::uint32_t> taken(held_.size(), 0);
    for (std::uint32_t rank = 0; rank < start_.size(); ++rank) {
      auto cursor = start_[rank];
      for (std::size_t done = 0; done < stride_of(rank); cursor.next_block(*layout_, rank)) {
        auto const& block = block_at(cursor);
        done += block.pair ? 2 : 1;
        for (auto const c : block.in)
          if (c != no_channel) ++taken[c];
        for (auto const c : block.out)
          if (c != no_channel) ++rings_[c].size;
      }
    }
    for (std::size_t c = 0; c < rings_.size(); ++c)
      if (taken[c] != rings_[c].size) return false;
    return true;
  }
  /// The fewest laps that have room for what the channels hold.
  [[nodiscard]] constexpr std::size_t least_room() const {
    std::size_t laps = 1;
    for (std::size_t c = 0; c < rings_.size(); ++c)
      if (rings_[c].size > 0) laps = std::max(laps, (held_[c] + std::size_t{rings_[c].size} - 1) / rings_[c].size);
    return laps;
  }

  /// Plans so many laps, if their rings have room enough. `in_step`: as the sweeps of a run in step do; else up and
  /// down the ranks, which makes longer visits where ops wait only for those of one side.
  constexpr void make_visits(std::size_t laps, bool in_step) {
    vector<rank_visit> visits;
    auto cursors = start_;
    auto held = held_;
    vector<std::size_t> left;
    for (std::size_t rank = 0; rank < start_.size(); ++rank) left.push_back(laps * stride_of(rank));
    auto planned = std::size_t{0};
    auto const visit = [&](int number) {
      auto const rank = std::size_t(number);
      auto const done = run_on(cursors[rank], rank, left[rank], laps, held);
      if (done == 0) return;
      left[rank] -= done;
      planned += done;
      visits.push_back({std::uint32_t(rank), std::uint32_t(done)});
    };
    int const ranks = int(start_.size());
    for (auto before = planned + 1; before != planned;) {
      before = planned;
      if (in_step) {
        for (int first = 1; first <= 2; ++first)
          for (int rank = ranks - first; rank >= 0; rank -= 2) visit(rank);
      } else {
        for (int rank = 0; rank < ranks; ++rank) visit(rank);
        for (int rank = ranks; rank-- > 0;) visit(rank);
      }
    }
    effort_ += planned;
    if (planned < laps * operations_) return;
    laps_ = laps;
    visits_ = std::move(visits);
  }
  /// Runs a rank for as long as it can, up to `most` ops. Returns how many it ran.
  constexpr std::size_t run_on(folded_cursor& cursor, std::size_t rank, std::size_t most, std::size_t laps,
                               vector<std::uint32_t>& held) const {
    std::size_t done = 0;
    for (; done < most; cursor.next_block(*layout_, rank)) {
      auto const& block = block_at(cursor);
      bool can_run = true;
      for (auto const c : block.in) can_run = can_run && (c == no_channel || held[c] > 0);
      for (auto const c : block.out) can_run = can_run && (c == no_channel || held[c] < laps * rings_[c].size);
      if (!can_run) break;
      for (auto const c : block.in)
        if (c != no_channel) --held[c];
      for (auto const c : block.out)
        if (c != no_channel) ++held[c];
      done += block.pair ? 2 : 1;
    }
    return done;
  }

  constexpr void place_rings() {
    for (auto& r : rings_) {
      r.size *= std::uint32_t(laps_);
      r.begin = places_;
      places_ += r.size;
    }
  }

  layout const* layout_;
  vector<rank_stride> strides_;
  vector<folded_cursor> start_;
  vector<std::uint32_t> held_;  // by channel, before the first visit
  std::size_t operations_ = 0;  // of a lap
  std::size_t effort_ = 0;
  std::size_t laps_ = 1;
  std::int64_t times_ = 0;
  vector<rank_visit> visits_;
  vector<end_ring> rings_;
  std::uint32_t places_ = no_output + 1;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
