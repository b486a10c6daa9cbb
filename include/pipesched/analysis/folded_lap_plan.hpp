// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Which ops of a steady state are run in which order, and where the ends between them stand.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/folded_cursor.hpp>
#include <pipesched/analysis/folded_layout.hpp>
#include <pipesched/analysis/folded_state.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// That a rank runs so many ops, one after another.
struct rank_visit {
  std::uint32_t rank;
  std::uint32_t operations;
};

/// By how much a lap brings a rank further: turns of its round, or iterations of its run.
struct lap_stride {
  std::int64_t operations = 0;
  std::int64_t iterations = 0;
  bool by_turns = false;
};

/// Where the ends in a channel stand: `size` places from `begin` on, one after another and round again.
struct end_ring {
  std::uint32_t size = 0;
  std::uint32_t begin = 0;
};

/// A *lap*: visits of ranks after which each rank is at the same place of a later iteration, and each channel holds as
/// many ends as before. The same visits can be made again for as long as no rank leaves the run or round that it
/// repeats: what is there to take, and where there is room, does not depend on the times. So nothing is asked of the
/// channels any more, and where an end stands is known beforehand: each channel is a ring of as many ends as go through
/// it in a lap, or in several, which are then planned as one.
template <cost_model Cost>
class lap_plan {
 public:
  using T = time_of<Cost>;
  using layout = folded_layout<Cost>;
  using rank_state = folded_rank_state<T>;

  // Stand for a channel where there is none: the begin of time, and what nobody reads.
  static constexpr std::uint32_t no_input = 0;
  static constexpr std::uint32_t no_output = 1;

  /// `visits` are a lap from the state in which `ranks` and `channels` are. A plan of several laps has
  /// `most_operations` at most. Precondition: no rank leaves what it repeats in the next lap.
  constexpr lap_plan(layout const& of, std::vector<rank_state> const& ranks, std::vector<channel<T>> const& channels,
                     std::vector<rank_visit> const& visits, std::size_t most_operations)
      : layout_(&of), start_(ranks.begin(), ranks.end()) {
    std::size_t operations = 0;
    for (auto const& v : visits) operations += v.operations;
    std::vector<std::uint32_t> held;
    for (auto const& c : channels) held.push_back(c.size());
    count_ends(visits, held);
    // To begin a visit costs as much as an op.
    bool const short_visits = operations < visits.size() + visits.size() / 2;
    if (short_visits && longer_visit * operations <= most_operations) laps_ = std::max(laps_, longer_visit);
    if (laps_ * operations > most_operations) return;
    place_rings();
    if (short_visits)
      make_longer_visits(visits, held);
    else
      for (std::size_t lap = 0; lap < laps_; ++lap) visits_.insert(visits_.end(), visits.begin(), visits.end());
  }

  /// How many laps are planned.
  [[nodiscard]] constexpr std::size_t laps() const noexcept { return laps_; }
  /// Those of all the laps; none where there would be too many.
  [[nodiscard]] constexpr std::vector<rank_visit> const& visits() const noexcept { return visits_; }
  /// By channel; empty where nothing goes through.
  [[nodiscard]] constexpr std::vector<end_ring> const& rings() const noexcept { return rings_; }
  /// The places of all rings, and those that stand for none.
  [[nodiscard]] constexpr std::size_t places() const noexcept { return places_; }
  /// Where each rank is before the first visit.
  [[nodiscard]] constexpr std::vector<folded_cursor> const& start() const noexcept { return start_; }

 private:
  static constexpr std::size_t longer_visit = 8;

  /// Counts what goes through each channel, and of how many laps that is at least what it holds at any time.
  constexpr void count_ends(std::vector<rank_visit> const& visits, std::vector<std::uint32_t> held) {
    rings_.assign(held.size(), end_ring{});
    auto most = held;
    auto cursors = start_;
    for (auto const& v : visits)
      for (std::uint32_t done = 0; done < v.operations; cursors[v.rank].next_block(*layout_, v.rank)) {
        auto const& block = layout_->classes()[cursors[v.rank].at->of_class];
        done += block.pair ? 2 : 1;
        for (auto const c : block.in)
          if (c != no_channel) --held[c];
        for (auto const c : block.out)
          if (c != no_channel) {
            ++rings_[c].size;
            most[c] = std::max(most[c], ++held[c]);
          }
      }
    for (std::size_t c = 0; c < rings_.size(); ++c)
      if (rings_[c].size > 0) laps_ = std::max(laps_, (most[c] + std::size_t{rings_[c].size} - 1) / rings_[c].size);
  }

  constexpr void place_rings() {
    for (auto& r : rings_) {
      r.size *= std::uint32_t(laps_);
      r.begin = places_;
      places_ += r.size;
    }
  }

  /// The visits of all laps in another order, each for as long as its rank can go on. They come to an end: what can run
  /// does not depend on what is chosen to run first, and in the order of the laps all of it can.
  constexpr void make_longer_visits(std::vector<rank_visit> const& visits, std::vector<std::uint32_t> held) {
    std::vector<std::size_t> left(start_.size(), 0);
    for (auto const& v : visits) left[v.rank] += laps_ * v.operations;
    auto cursors = start_;
    auto const run = [&](std::uint32_t rank) {
      auto& cursor = cursors[rank];
      std::uint32_t done = 0;
      for (; done < left[rank]; cursor.next_block(*layout_, rank)) {
        auto const& block = layout_->classes()[cursor.at->of_class];
        bool can_run = true;
        for (auto const c : block.in) can_run = can_run && (c == no_channel || held[c] > 0);
        for (auto const c : block.out) can_run = can_run && (c == no_channel || held[c] < rings_[c].size);
        if (!can_run) break;
        for (auto const c : block.in)
          if (c != no_channel) --held[c];
        for (auto const c : block.out)
          if (c != no_channel) ++held[c];
        done += block.pair ? 2 : 1;
      }
      left[rank] -= done;
      if (done > 0) visits_.push_back({rank, done});
      return done > 0;
    };
    auto const ranks = std::uint32_t(start_.size());
    for (bool any = true; any;) {
      any = false;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) any = run(rank) || any;
      for (std::uint32_t rank = ranks; rank-- > 0;) any = run(rank) || any;
    }
  }

  layout const* layout_;
  std::vector<folded_cursor> start_;
  std::size_t laps_ = 1;
  std::vector<rank_visit> visits_;
  std::vector<end_ring> rings_;
  std::uint32_t places_ = no_output + 1;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
