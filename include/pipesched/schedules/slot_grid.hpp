// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A step of a V slot by slot, which the steps of squeezing work on.

#include <array>
#include <cstddef>
#include <cstdint>

#include <pipesched/core/vector.hpp>
#include <pipesched/schedules/building_block.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// What each rank of a V runs in each slot. The n-th op of a kind on a rank is that of microbatch n.
struct slot_grid : v_slot {
  int ranks;
  std::int32_t microbatches;
  std::int32_t weights;  ///< of a rank
  std::int32_t slots = 0;
  /// By slot and rank, as all ranks are gone through together, slot after slot. One row more than there are slots.
  vector<v_slot::use> uses = {};

  constexpr slot_grid(int number_of_ranks, std::int32_t number_of_microbatches)
      : ranks(number_of_ranks), microbatches(number_of_microbatches), weights(2 * number_of_microbatches) {}

  [[nodiscard]] constexpr v_slot::use& at(std::int32_t slot, int rank) {
    return uses[std::size_t(slot) * std::size_t(ranks) + std::size_t(rank)];
  }

  /// The op of the same microbatch that an op needs: on a neighbour, or on its own rank at the ends of the V. The first
  /// one of all needs none.
  struct source {
    int rank;
    v_slot::use what;
  };
  constexpr source input_of(int rank, v_slot::use what) const {
    int const from = what == lower_forward || what == upper_backward ? rank - 1 : rank + 1;
    if (0 <= from && from < ranks) return {from, what};
    return {rank, v_slot::use(what - 1)};
  }
  static constexpr bool enters(int rank, v_slot::use what) { return rank == 0 && what == lower_forward; }
};

/// Which ops move: those until the first microbatch is done, and those behind the last one that enters.
class mobility {
 public:
  constexpr explicit mobility(std::int32_t microbatches) : last_(microbatches - 1) {}
  constexpr bool warms_up(int rank, v_slot::use what) {
    if (rank == 0 && what == v_slot::lower_backward) started_ = true;
    return !started_;
  }
  constexpr bool cools_down(v_slot::use what, std::int32_t n) {
    bool const before = ends_;
    if (started_ && what == v_slot::lower_forward && n == last_) ends_ = true;
    return before;
  }

 private:
  std::int32_t last_;
  bool started_ = false;
  bool ends_ = false;
};

/// The step when the last microbatch has entered, at rank 0: the ranks behind it are where they were before that slot.
struct last_entry {
  struct rank {
    std::array<std::int32_t, 4> count;  // ops that have run, by kind
    v_load now;
  };
  std::int32_t slot = 0;
  vector<rank> ranks = {};
  std::int32_t most_held = 0;  ///< by any rank at any time of the step
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
