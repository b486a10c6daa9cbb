// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The first step of squeezing: ops of the warm-up and the cool-down move to free slots.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <pipesched/core/vector.hpp>
#include <pipesched/schedules/building_block.hpp>
#include <pipesched/schedules/slot_grid.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Squeezes repeated blocks around the weights, which have slots of their own: each op of the warm-up and the
/// cool-down, in the order of the repeated blocks, moves to the first free slot behind its input from which its rank
/// never holds more than some rank of the repeated blocks does.
class squeezing_around_weights : v_slot {
 public:
  /// Fills `grid`.
  constexpr squeezing_around_weights(vector<repeated_block> const& blocks, slot_grid& grid) : grid_(&grid) {
    for (auto const& block : blocks) {
      grid.slots = std::max(grid.slots, block.end());
      most_held_ = std::max(most_held_, block.most_held());
    }
    grid.uses.assign(std::size_t(grid.slots + 1) * blocks.size(), idle);
    vector<squeezed_rank> squeezed;
    for (auto const& block : blocks) squeezed.push_back(squeezed_rank{.block = block});
    for (int rank = 0; rank < grid_->ranks; ++rank) {
      auto& r = squeezed[std::size_t(rank)];
      for (auto what : {lower_forward, upper_forward, upper_backward, lower_backward}) {
        auto const input = grid_->input_of(rank, what);
        r.inputs[what] =
            slot_grid::enters(rank, what) ? &r.last[what] : &squeezed[std::size_t(input.rank)].last[input.what];
      }
    }
    mobility moves(grid_->microbatches);
    for (std::int32_t t = 0; t < grid_->slots; ++t) {
      auto const place = std::size_t(t % building_block::period);
      for (int rank = 0; rank < grid_->ranks; ++rank) {
        auto& r = squeezed[std::size_t(rank)];
        auto what = r.block.at(t, place, r.count);
        if (what == idle) what = r.now.free_slot();
        if (what == idle) continue;
        bool const warms_up = moves.warms_up(rank, what);
        bool const cools_down = moves.cools_down(what, what < weight ? r.count[what]++ : 0);
        auto at = t;
        if (warms_up || cools_down) {
          // Behind the last one of its kind, and the backward of the weight (no more than two wait, see
          // `repeated_block::end`) or the input (a neighbour runs its next op of a kind more than a slot later).
          auto from = what == weight ? std::max(r.last_weight,
                                                r.last_backwards[r.last_backwards.size() - std::size_t(r.now.waiting)])
                                     : std::max(r.last[what], *r.inputs[what]);
          if (is_forward(what)) from = r.now.held < most_held_ ? std::max(from, r.last_full) : t;
          at = first_free(rank, from + 1, t);
        }
        put(rank, r, what, at);
      }
    }
  }

 private:
  /// A rank whose blocks are squeezed, up to some slot.
  struct squeezed_rank {
    repeated_block block;
    std::array<std::int32_t const*, 4> inputs{};  // of each kind: the slot of the last one
    std::array<std::int32_t, 4> count{};
    std::array<std::int32_t, 4> last{-1, -1, -1, -1};            // slot of the last op of each kind
    std::array<std::int32_t, 4> last_backwards{-1, -1, -1, -1};  // the last slots with a backward, in order
    std::int32_t last_weight = -1;
    v_load now{};
    std::int32_t end = 0;         // no slot from here on is in use
    std::int32_t last_full = -1;  // the last slot after which it holds as much as it may
    std::int32_t fullest = -1;    // the slot behind that after which it holds most,
    std::int32_t held_then = 0;   // and how much that is, at most
  };

  /// The first idle slot in [from, t), else t.
  constexpr std::int32_t first_free(int rank, std::int32_t from, std::int32_t t) {
    while (from < t && grid_->at(from, rank) != idle) ++from;
    return std::min(from, t);
  }

  /// Puts an op into a slot.
  constexpr void put(int rank, squeezed_rank& r, v_slot::use what, std::int32_t at) {
    bool const was_full = r.now.held >= most_held_;
    bool const at_end = at >= r.end;
    grid_->at(at, rank) = what;
    r.now.pass(what);
    r.end = std::max(r.end, at + 1);
    if (what == weight) {
      r.last_weight = at;
      if (at_end && was_full) {
        r.last_full = at - 1;
        r.fullest = at;
        r.held_then = r.now.held;
      } else if (at <= r.last_full) {
        find_last_full(rank, r, r.last_full, {most_held_ - 1, 0});
      }
      return;
    }
    r.last[what] = at;
    if (is_forward(what)) {
      raise_held(rank, r, at);
    } else {
      auto& slots = r.last_backwards;
      std::size_t place = 0;
      for (; place + 1 < slots.size() && slots[place + 1] < at; ++place) slots[place] = slots[place + 1];
      slots[place] = std::max(slots[place], at);
    }
  }

  /// Says after which slots a rank holds how much, once there is a forward in slot `at`.
  constexpr void raise_held(int rank, squeezed_rank& r, std::int32_t at) {
    if (at <= r.fullest) {
      ++r.held_then;
    } else {
      auto after = r.now;
      for (auto t = r.end - 1; t >= at; --t) {
        if (after.held > r.held_then) {
          r.held_then = after.held;
          r.fullest = t;
        }
        after.undo(grid_->at(t, rank));
      }
    }
    if (r.held_then >= most_held_) find_last_full(rank, r, r.end - 1, r.now);
  }

  /// Finds the last full slot, none of which is behind slot `t`. `after`: the load after that.
  constexpr void find_last_full(int rank, squeezed_rank& r, std::int32_t t, v_load after) {
    r.held_then = 0;
    for (; t >= 0 && after.held < most_held_; --t) {
      if (after.held > r.held_then) {
        r.held_then = after.held;
        r.fullest = t;
      }
      after.undo(grid_->at(t, rank));
    }
    r.last_full = t;
  }

  slot_grid* grid_;
  std::int32_t most_held_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
