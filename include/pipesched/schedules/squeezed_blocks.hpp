// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Building blocks of a V, repeated and squeezed together as far as the memory of the repeated ones allows.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/schedules/building_block.hpp>
#include <pipesched/schedules/slot_grid.hpp>
#include <pipesched/schedules/squeezing_around_weights.hpp>
#include <pipesched/schedules/squeezing_over_weights.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Repeats a building block and squeezes it (arXiv 2405.15362, section 4, by the greedy reordering of the open code):
/// ops of the warm-up and the cool-down move to earlier free slots as long as no rank holds more than the repeated
/// blocks do.
///
/// Each step goes through the slots in order, each time over all ranks, and looks back from there no further than ops
/// move.
class squeezed_blocks : v_slot {
 public:
  /// `block(rank)` gives the building block of a rank. `wave`: by how many slots a rank is steady later than the one
  /// before it.
  template <class Block>
  constexpr squeezed_blocks(int ranks, int microbatches, Block const& block, int wave)
      : length_(6 * std::size_t(microbatches)), steady_(std::size_t(ranks), 0) {
    vector<repeated_block> blocks;
    for (int rank = 0; rank < ranks; ++rank) blocks.push_back(repeated_block(block(rank), microbatches));
    slot_grid grid(ranks, microbatches);
    squeezing_around_weights(blocks, grid);
    auto const entry = take_idle_slots_out(grid);
    squeezing_over_weights(entry, grid);
    write_programs(grid, wave);
  }

  [[nodiscard]] constexpr int ranks() const { return int(steady_.size()); }
  /// What a rank runs, op after op.
  [[nodiscard]] constexpr view<v_slot::use> program(int rank) const {
    return {programs_.data() + std::size_t(rank) * length_, length_};
  }
  /// How many ops a rank has run when it begins to repeat itself, between the warm-up and the cool-down.
  [[nodiscard]] constexpr std::size_t steady_from(int rank) const { return steady_[std::size_t(rank)]; }

 private:
  /// A rank that runs in order what it finds in its slots, as early as it can.
  struct eager_rank {
    std::array<std::int32_t, 6> count{};          // by use
    std::array<std::int32_t, 6> before{};         // the same without the current slot
    std::array<std::int32_t const*, 6> inputs{};  // of each use: how many may have run
    v_load now{};
    v_slot::use const* next = nullptr;  // what it runs next
  };

  static constexpr vector<eager_rank> ready_to_run(slot_grid& grid) {
    // Behind all slots stands a weight that never runs, so that no rank looks further.
    std::fill_n(&grid.at(grid.slots, 0), grid.ranks, weight);
    vector<eager_rank> eager(std::size_t(grid.ranks), eager_rank{});
    for (std::size_t rank = 0; rank < eager.size(); ++rank) {
      auto& r = eager[rank];
      bool const is_first = rank == 0;
      bool const is_last = rank + 1 == eager.size();
      // The rank before has been here in this slot, the one behind has not.
      r.inputs[lower_forward] = is_first ? &grid.microbatches : &eager[rank - 1].before[lower_forward];
      r.inputs[upper_forward] = is_last ? &r.count[lower_forward] : &eager[rank + 1].count[upper_forward];
      r.inputs[upper_backward] = is_first ? &r.count[upper_forward] : &eager[rank - 1].before[upper_backward];
      r.inputs[lower_backward] = is_last ? &r.count[upper_backward] : &eager[rank + 1].count[lower_backward];
      r.inputs[weight] = &grid.weights;
      r.next = &grid.at(0, int(rank));
      while (*r.next == idle) r.next += grid.ranks;
    }
    return eager;
  }

  /// Takes all idle slots out that no input needs, and then puts each weight in the first free slot.
  /// `write(t, rank, use, microbatch)` takes what comes of it, slot after slot.
  template <class Write>
  static constexpr void run_eagerly(slot_grid& grid, vector<eager_rank>& eager, Write&& write) {
    std::int32_t t = 0;
    for (auto left = std::int64_t{6} * grid.microbatches * grid.ranks; left > 0; ++t)
      for (int rank = 0; rank < grid.ranks; ++rank) {
        auto& r = eager[std::size_t(rank)];
        r.before[lower_forward] = r.count[lower_forward];
        r.before[upper_backward] = r.count[upper_backward];
        auto what = *r.next;
        auto const n = r.count[what];
        if (n < *r.inputs[what]) {
          ++r.count[what];
          do r.next += grid.ranks;
          while (*r.next == idle);
        } else {
          what = v_slot::idle;
        }
        what = r.now.pass(what);
        left -= what != v_slot::idle;
        write(t, rank, what, n);
      }
    grid.slots = t;
  }

  static constexpr last_entry take_idle_slots_out(slot_grid& grid) {
    auto eager = ready_to_run(grid);
    last_entry entry;
    run_eagerly(grid, eager, [&](std::int32_t t, int rank, v_slot::use what, std::int32_t n) {
      grid.at(t, rank) = what;
      if (!is_forward(what)) return;
      entry.most_held = std::max(entry.most_held, eager[std::size_t(rank)].now.held);
      if (!slot_grid::enters(rank, what) || n + 1 < grid.microbatches) return;
      entry.slot = t;
      for (auto const& r : eager) entry.ranks.push_back({{r.count[0], r.count[1], r.count[2], r.count[3]}, r.now});
    });
    return entry;
  }

  constexpr void write_programs(slot_grid& grid, int wave) {
    programs_.assign(length_ * steady_.size(), idle);
    vector<std::size_t> next;
    for (std::size_t rank = 0; rank < steady_.size(); ++rank) next.push_back(rank * length_);
    auto steady = grid.slots;
    auto eager = ready_to_run(grid);
    run_eagerly(grid, eager, [&](std::int32_t t, int rank, v_slot::use what, std::int32_t n) {
      auto const r = std::size_t(rank);
      if (rank == 0 && what == lower_backward && n == 1) steady = t;
      if (t == steady + wave * rank) steady_[r] = next[r] - r * length_;
      if (what != idle) programs_[next[r]++] = what;
    });
  }

  std::size_t length_;            // of a program
  vector<std::size_t> steady_;    // by rank
  vector<v_slot::use> programs_;  // by rank and op
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
