// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A place in a folded program.

#include <cstddef>
#include <cstdint>

#include <pipesched/analysis/folded_layout.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Where a rank is in its program: a block of an iteration of a run, in a turn of a round.
struct folded_cursor {
  block const* at = nullptr;           ///< the next block
  block const* pattern = nullptr;      ///< of the run
  block const* pattern_end = nullptr;  ///< of that
  std::int64_t iteration = 0;          ///< of the run
  std::int64_t times = 0;              ///< of the run
  std::int64_t turn = 0;               ///< of the round
  std::uint32_t run = 0;               ///< which
  std::uint32_t round = 0;             ///< which; at the end of the program that of the next rank

  /// To the begin of a rank's program.
  template <cost_model Cost>
  constexpr void enter_program(folded_layout<Cost> const& layout, std::size_t rank) {
    auto const& rounds = layout.ranks()[rank];
    round = rounds.begin;
    if (rounds.begin == rounds.end) return;
    run = layout.rounds()[round].begin;
    enter_run(layout);
  }
  /// To the next run of the program; stays where that has ended.
  template <cost_model Cost>
  constexpr void next_run(folded_layout<Cost> const& layout, std::size_t rank) {
    auto const& of_round = layout.rounds()[round];
    if (++run == of_round.end) {
      run = of_round.begin;
      if (++turn == of_round.times) {
        turn = 0;
        if (++round == layout.ranks()[rank].end) return;
        run = layout.rounds()[round].begin;
      }
    }
    enter_run(layout);
  }
  /// To the block behind `at`.
  template <cost_model Cost>
  constexpr void next_block(folded_layout<Cost> const& layout, std::size_t rank) {
    if (++at != pattern_end) return;
    at = pattern;
    if (++iteration == times) next_run(layout, rank);
  }

 private:
  template <cost_model Cost>
  constexpr void enter_run(folded_layout<Cost> const& layout) {
    auto const& of_run = layout.runs()[run];
    pattern = layout.blocks().data() + of_run.begin;
    pattern_end = layout.blocks().data() + of_run.end;
    at = pattern;
    iteration = 0;
    times = of_run.times;
  }
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
