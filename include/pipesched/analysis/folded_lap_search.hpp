// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Where the sweeps of a run come round.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/folded_cursor.hpp>
#include <pipesched/analysis/folded_lap.hpp>
#include <pipesched/analysis/folded_lap_plan.hpp>
#include <pipesched/analysis/folded_layout.hpp>
#include <pipesched/analysis/folded_state.hpp>
#include <pipesched/core/folding.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Looks from time to time whether the sweeps of a run are laps, and then runs them as such.
template <cost_model Cost>
class lap_search {
 public:
  using T = time_of<Cost>;
  using layout = folded_layout<Cost>;
  using rank_state = folded_rank_state<T>;

  constexpr lap_search(layout const& of, std::vector<rank_state>& ranks, std::vector<channel<T>>& channels)
      : layout_(&of),
        ranks_(&ranks),
        channels_(&channels),
        most_operations_(std::max(std::size_t{1} << 15, 64 * of.ranks().size())) {}

  /// A rank ran so many ops.
  constexpr void visited(std::uint32_t rank, std::int64_t operations) {
    if (!recording_) return;
    visits_.push_back({rank, std::uint32_t(operations)});
    operations_ += std::size_t(operations);
  }
  /// All ranks were visited. Runs laps, of at most so many visits, if it knows one. Returns of how many.
  constexpr std::int64_t swept(std::int64_t most_visits) {
    if (!recording_) {
      if (--rest_ <= 0) begin(most_visits);
      return 0;
    }
    if (came_round()) return run(most_visits);
    if (operations_ > most_operations_) return give_up();
    if (++sweeps_ == restart_after_) {  // Brent's: also a lap that begins later is found
      restart_after_ *= 2;
      record();
    }
    return 0;
  }
  /// The next visits are no sweep.
  constexpr void stop() { recording_ = false; }

 private:
  static constexpr std::int64_t first_rest = 4;
  static constexpr std::int64_t least_laps = 8;  // to plan and write one takes as long as to run some

  struct place {
    folded_cursor cursor;
    std::int64_t position;
  };

  constexpr void begin(std::int64_t most_visits) {
    rest_ = first_rest;
    if (most_visits < 4 * least_laps * std::int64_t(ranks_->size())) return;
    for (auto const& r : *ranks_)
      if (r.position != r.stop && r.halt - r.position < 8 * least_laps) return;
    recording_ = true;
    restart_after_ = 1;
    record();
  }
  constexpr void record() {
    visits_.clear();
    operations_ = 0;
    sweeps_ = 0;
    places_.clear();
    for (auto const& r : *ranks_) places_.push_back({r, r.position});
    sizes_.clear();
    for (auto const& c : *channels_) sizes_.push_back(c.size());
  }
  /// Looks again later, each time later.
  constexpr std::int64_t give_up() {
    recording_ = false;
    rest_ = rest_after_failure_;
    rest_after_failure_ = std::min(2 * rest_after_failure_, std::int64_t{1} << 20);
    return 0;
  }

  /// Whether each rank is at the same place of what it repeats, and each channel as full.
  constexpr bool came_round() {
    strides_.clear();
    for (std::size_t i = 0; i < places_.size(); ++i) {
      auto const& r = (*ranks_)[i];
      auto const& then = places_[i].cursor;
      lap_stride stride{r.position - places_[i].position, 0, false};
      if (stride.operations > 0) {
        if (r.at != then.at || r.run != then.run || r.round != then.round) return false;
        stride.by_turns = r.turn != then.turn;
        if (stride.by_turns && r.iteration != then.iteration) return false;
        stride.iterations = stride.by_turns ? r.turn - then.turn : r.iteration - then.iteration;
      }
      strides_.push_back(stride);
    }
    for (std::size_t c = 0; c < sizes_.size(); ++c)
      if ((*channels_)[c].size() != sizes_[c]) return false;
    return true;
  }

  /// How many more laps no rank leaves what it repeats, or comes to a place where more is asked.
  [[nodiscard]] constexpr std::int64_t laps_left() const {
    std::int64_t least = unlimited;
    for (std::size_t i = 0; i < strides_.size(); ++i) {
      auto const& r = (*ranks_)[i];
      auto const& stride = strides_[i];
      if (stride.operations == 0) continue;
      auto const left = stride.by_turns ? layout_->rounds()[r.round].times - 1 - r.turn : r.times - 1 - r.iteration;
      least = std::min({least, left / stride.iterations, (r.halt - r.position) / stride.operations});
    }
    return least;
  }

  constexpr std::int64_t run(std::int64_t most_visits) {
    auto const left = std::min(laps_left(), most_visits / std::int64_t(visits_.size() + 1));
    if (left < least_laps) return give_up();
    lap_plan<Cost> const plan(*layout_, *ranks_, *channels_, visits_, most_operations_);
    auto const times = left / std::int64_t(plan.laps());
    if (plan.visits().empty() || times < 2) return give_up();
    folded_lap<Cost>(*layout_, *ranks_, *channels_, strides_, plan).run(times);
    recording_ = false;
    rest_ = rest_after_failure_ = first_rest;
    return times * std::int64_t(plan.laps() * visits_.size());
  }

  layout const* layout_;
  std::vector<rank_state>* ranks_;
  std::vector<channel<T>>* channels_;
  std::size_t most_operations_;  // of a list

  bool recording_ = false;
  std::int64_t rest_ = first_rest;  // sweeps
  std::int64_t rest_after_failure_ = first_rest;
  std::int64_t restart_after_ = 1;

  // Since the recording began:
  std::vector<place> places_;         // at its begin, by rank
  std::vector<std::uint32_t> sizes_;  // by channel
  std::vector<lap_stride> strides_;   // by rank
  std::vector<rank_visit> visits_;
  std::size_t operations_ = 0;
  std::int64_t sweeps_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
