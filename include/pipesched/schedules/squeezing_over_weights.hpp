// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The last step of squeezing: ops of the cool-down move to slots of weights too.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/schedules/building_block.hpp>
#include <pipesched/schedules/slot_grid.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Moves forwards and backwards of the cool-down once more, with the weights wherever there is room for them: each op,
/// in the order of its slots, to the first slot behind its input without another forward or backward from which its
/// rank never holds more than some rank did before.
class squeezing_over_weights : v_slot {
 public:
  constexpr squeezing_over_weights(last_entry const& entry, slot_grid& grid)
      : grid_(&grid), most_held_(entry.most_held) {
    find_inputs_behind(entry);
    vector<cooled_rank> cooled;
    for (auto const& r : entry.ranks) cooled.push_back({r.count, r.now, entry.slot});
    mobility moves(grid.microbatches);
    if (cooled.front().count[lower_backward] > 0) moves.warms_up(0, lower_backward);
    moves.cools_down(lower_forward, grid.microbatches - 1);
    for (auto t = entry.slot; t < grid.slots; ++t)
      for (int rank = t == entry.slot ? 1 : 0; rank < grid.ranks; ++rank) {
        auto& r = cooled[std::size_t(rank)];
        auto what = grid.at(t, rank);
        if (what < weight) {
          auto const n = r.count[what]++;
          moves.warms_up(rank, what);
          auto const at = moves.cools_down(what, n) ? squeeze_in(rank, r, what, n, t) : t;
          ran_at(rank, what, n) = at;
          if (at < t) continue;
        }
        what = r.now.pass(what);
        grid.at(t, rank) = what;
        if (is_forward(what)) r.last_forward = t;
      }
  }

 private:
  /// A rank whose cool-down is squeezed, up to some slot.
  struct cooled_rank {
    std::array<std::int32_t, 4> count;  // ops before, by kind
    v_load now;
    std::int32_t last_forward;    // or a later slot
    std::int32_t first_idle = 0;  // no slot between the last forward and this one is idle
  };

  constexpr std::int32_t& ran_at(int rank, v_slot::use what, std::int32_t n) {
    return ran_at_[(std::size_t(n) * std::size_t(grid_->ranks) + std::size_t(rank)) * 4 + what];
  }

  /// Finds the slots of those ops before the last entry that others behind it look for: the inputs of ops that have not
  /// run, and the last one of each kind.
  constexpr void find_inputs_behind(last_entry const& entry) {
    ran_at_.resize_uninitialised(4 * std::size_t(grid_->microbatches) * std::size_t(grid_->ranks));
    vector<std::array<std::int32_t, 4>> known;  // from which microbatch on
    vector<std::array<std::int32_t, 4>> needed;
    for (auto const& r : entry.ranks) known.push_back(r.count);
    for (auto count : known) {
      for (auto& n : count) n = std::max(n - 1, 0);
      needed.push_back(count);
    }
    for (int rank = 0; rank < grid_->ranks; ++rank)
      for (auto what : {lower_forward, upper_forward, upper_backward, lower_backward}) {
        if (slot_grid::enters(rank, what)) continue;
        auto const input = grid_->input_of(rank, what);
        auto& n = needed[std::size_t(input.rank)][input.what];
        n = std::min(n, entry.ranks[std::size_t(rank)].count[what]);
      }
    for (int rank = 0; rank < grid_->ranks; ++rank) {
      auto& from = known[std::size_t(rank)];
      auto const& to = needed[std::size_t(rank)];
      // Rank 0 has run the last entry already.
      for (auto t = entry.slot - (rank > 0); t >= 0; --t) {
        if (from[0] <= to[0] && from[1] <= to[1] && from[2] <= to[2] && from[3] <= to[3]) break;
        if (auto const what = grid_->at(t, rank); what < weight) ran_at(rank, what, --from[what]) = t;
      }
    }
  }

  /// Moves an op from slot `t` to the first slot without another forward or backward from which the row keeps to the
  /// memory. Returns where that is.
  constexpr std::int32_t squeeze_in(int rank, cooled_rank& r, v_slot::use what, std::int32_t n, std::int32_t t) {
    auto from = n > 0 ? ran_at(rank, what, n - 1) : -1;
    if (!slot_grid::enters(rank, what)) {
      auto const input = grid_->input_of(rank, what);
      from = std::max(from, ran_at(input.rank, input.what, n));
    }
    ++from;
    while (from < t && grid_->at(from, rank) < weight) ++from;
    if (from == t) return t;
    if (is_backward(what) && from > r.last_forward) {
      hurry_backward(rank, r, what, from, t);
      return from;
    }
    auto before = r.now;
    for (auto u = t - 1; u >= from; --u) before.undo(grid_->at(u, rank));
    for (auto at = from; at < t; before.pass(grid_->at(at++, rank))) {
      if (grid_->at(at, rank) < weight || !fits(rank, what, at, t, before)) continue;
      grid_->at(at, rank) = what;
      grid_->at(t, rank) = idle;
      r.now = before;
      for (auto u = at; u <= t; ++u) grid_->at(u, rank) = r.now.pass(grid_->at(u, rank));
      if (is_forward(what)) r.last_forward = std::max(r.last_forward, at);
      return at;
    }
    return t;
  }

  /// Moves a backward from slot `t` to slot `at`. No forward has come in between, so there is memory for it; the
  /// weights that wait then, its own and one whose slot it takes, run in the first idle slots behind it.
  constexpr void hurry_backward(int rank, cooled_rank& r, v_slot::use what, std::int32_t at, std::int32_t t) {
    int more_waiting = 1;
    if (grid_->at(at, rank) == weight) {
      r.now.undo(weight);
      ++more_waiting;
    }
    r.now.pass(what);
    grid_->at(at, rank) = what;
    grid_->at(t, rank) = idle;
    bool const to_first_idle = at <= r.first_idle;
    auto u = std::max({at, r.first_idle, r.last_forward + 1});
    for (; more_waiting > 0 && u <= t; ++u)
      if (grid_->at(u, rank) == idle) {
        grid_->at(u, rank) = r.now.pass(idle);
        --more_waiting;
      }
    if (to_first_idle) r.first_idle = u;
  }

  /// Whether a rank keeps to the memory if an op moves from slot `t` to slot `at`, to which it comes with `before`.
  constexpr bool fits(int rank, v_slot::use what, std::int32_t at, std::int32_t t, v_load before) {
    auto moved = before;
    auto unmoved = before;
    for (auto u = at; u < grid_->slots; ++u) {
      moved.pass(u == at ? what : u == t ? idle : grid_->at(u, rank));
      unmoved.pass(grid_->at(u, rank));
      if (moved.held > most_held_) return false;
      if (u >= t && moved == unmoved) break;
    }
    return true;
  }

  slot_grid* grid_;
  std::int32_t most_held_;
  buffer<std::int32_t> ran_at_;  // by microbatch, rank and kind of op: its slot; where it is known
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
