// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Building blocks of a V, repeated and squeezed together as far as the memory of the repeated ones allows.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <pipesched/schedules/building_block.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Repeats a building block and squeezes it (arXiv 2405.15362, section 4, by the greedy reordering of the open code):
/// ops of the warm-up and the cool-down move to earlier free slots as long as no rank holds more than the repeated
/// blocks do.
///
/// The n-th op of a kind on a rank is always that of microbatch n. Each step goes through the slots in order, each time
/// over all ranks, and looks back from there no further than ops move. So slots are stored by time, not by rank.
class squeezed_blocks : v_slot {
 public:
  /// `block(rank)` gives the building block of a rank. `wave`: by how many slots a rank is steady later than the one
  /// before it.
  template <class Block>
  constexpr squeezed_blocks(int ranks, int microbatches, Block const& block, int wave)
      : ranks_(ranks), microbatches_(microbatches), steady_(std::size_t(ranks), 0) {
    std::vector<repeated_block> blocks;
    for (int rank = 0; rank < ranks; ++rank) {
      blocks.emplace_back(block(rank), microbatches);
      slots_ = std::max(slots_, blocks.back().end());
    }
    uses_.assign(std::size_t(slots_) * std::size_t(ranks), v_slot::idle);
    squeeze_around_weights(blocks);
    take_idle_slots_out();
    squeeze_cool_down();
    write_programs(wave);
    uses_ = {};
    ran_at_ = {};
  }

  [[nodiscard]] constexpr int ranks() const { return ranks_; }
  /// What a rank runs, op after op.
  [[nodiscard]] constexpr std::span<v_slot::use const> program(int rank) const {
    auto const length = 6 * std::size_t(microbatches_);
    return {programs_.data() + std::size_t(rank) * length, length};
  }
  /// How many ops a rank has run when it begins to repeat itself, between the warm-up and the cool-down.
  [[nodiscard]] constexpr std::size_t steady_from(int rank) const { return steady_[std::size_t(rank)]; }

 private:
  constexpr v_slot::use& use(std::int32_t t, int rank) {
    return uses_[std::size_t(t) * std::size_t(ranks_) + std::size_t(rank)];
  }
  constexpr std::int32_t& ran_at(int rank, v_slot::use what, std::int32_t n) {
    return ran_at_[(std::size_t(n) * std::size_t(ranks_) + std::size_t(rank)) * 4 + what];
  }

  /// The op of the same microbatch that an op needs: on a neighbour, or on its own rank at the ends of the V. The first
  /// one of all needs none.
  struct source {
    int rank;
    v_slot::use what;
  };
  constexpr source input_of(int rank, v_slot::use what) const {
    int const from = what == lower_forward || what == upper_backward ? rank - 1 : rank + 1;
    if (0 <= from && from < ranks_) return {from, what};
    return {rank, v_slot::use(what - 1)};
  }
  static constexpr bool enters(int rank, v_slot::use what) { return rank == 0 && what == lower_forward; }

  /// Which ops move: those until the first microbatch is done, and those behind the last one that enters.
  class mobility {
   public:
    constexpr explicit mobility(std::int32_t microbatches) : last_(microbatches - 1) {}
    constexpr bool warms_up(int rank, v_slot::use what) {
      if (rank == 0 && what == lower_backward) started_ = true;
      return !started_;
    }
    constexpr bool cools_down(v_slot::use what, std::int32_t n) {
      bool const before = ends_;
      if (started_ && what == lower_forward && n == last_) ends_ = true;
      return before;
    }

   private:
    std::int32_t last_;
    bool started_ = false;
    bool ends_ = false;
  };

  /// A rank whose blocks are squeezed, up to some slot.
  struct squeezed_rank {
    std::array<std::int32_t, 4> count{};
    std::array<std::int32_t, 4> last{-1, -1, -1, -1};            // slot of the last op of each kind
    std::array<std::int32_t, 4> last_backwards{-1, -1, -1, -1};  // the last slots with a backward, in order
    std::int32_t last_weight = -1;
    v_load now;
    std::int32_t end = 0;         // no slot from here on is in use
    std::int32_t last_full = -1;  // the last slot after which it holds as much as it may
    std::int32_t fullest = -1;    // the slot behind that after which it holds most,
    std::int32_t held_then = 0;   // and how much that is, at most
  };

  constexpr void squeeze_around_weights(std::vector<repeated_block>& blocks) {
    for (auto const& block : blocks) most_held_ = std::max(most_held_, block.most_held());
    std::vector<squeezed_rank> squeezed(blocks.size());
    mobility moves(microbatches_);
    for (std::int32_t t = 0; t < slots_; ++t)
      for (int rank = 0; rank < ranks_; ++rank) {
        auto const what = blocks[std::size_t(rank)].next();
        if (what == idle) continue;
        auto& r = squeezed[std::size_t(rank)];
        bool const warms_up = moves.warms_up(rank, what);
        bool const cools_down = moves.cools_down(what, what < weight ? r.count[what]++ : 0);
        auto at = t;
        if (warms_up || cools_down) {
          auto from = what == weight ? r.last_weight : r.last[what];
          if (what == weight) {  // behind the backward that has waited longest; see `repeated_block::end`
            from = std::max(from, r.last_backwards[r.last_backwards.size() - std::size_t(r.now.waiting)]);
          } else if (!enters(rank, what)) {  // a neighbour runs its next op of a kind more than a slot later
            auto const input = input_of(rank, what);
            from = std::max(from, squeezed[std::size_t(input.rank)].last[input.what]);
          }
          if (is_forward(what)) from = r.now.held < most_held_ ? std::max(from, r.last_full) : t;
          at = first_free(rank, from + 1, t);
        }
        put(rank, r, what, at);
      }
  }

  /// The first idle slot in [from, t), else t.
  constexpr std::int32_t first_free(int rank, std::int32_t from, std::int32_t t) {
    while (from < t && use(from, rank) != idle) ++from;
    return std::min(from, t);
  }

  /// Puts an op into a slot.
  constexpr void put(int rank, squeezed_rank& r, v_slot::use what, std::int32_t at) {
    bool const was_full = r.now.held >= most_held_;
    bool const at_end = at >= r.end;
    use(at, rank) = what;
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
      auto const after = std::upper_bound(slots.begin() + 1, slots.end(), at);
      std::copy(slots.begin() + 1, after, slots.begin());
      *(after - 1) = std::max(*(after - 1), at);
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
        after.undo(use(t, rank));
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
      after.undo(use(t, rank));
    }
    r.last_full = t;
  }

  /// A rank that runs in order what it finds in its slots, as early as it can.
  struct eager_rank {
    std::array<std::int32_t, 4> count{};
    v_load now;
    std::int32_t next = 0;  // slot of what it runs next
  };

  /// Takes all idle slots out that no input needs, and then puts each weight in the first free slot.
  /// `write(t, rank, use, microbatch)` takes what comes of it.
  template <class Write>
  constexpr void run_eagerly(std::vector<eager_rank>& eager, Write&& write) {
    std::int32_t t = 0;
    for (auto left = std::int64_t{6} * microbatches_ * ranks_; left > 0; ++t) {
      // How many ops of each kind a rank's neighbours have run before this slot, or what gives the input at the ends.
      std::array<std::int32_t, 4> above{microbatches_, 0, eager.front().count[upper_forward], 0};
      std::array<std::int32_t, 4> const end{0, eager.back().count[lower_forward], 0,
                                            eager.back().count[upper_backward]};
      for (int rank = 0; rank < ranks_; ++rank) {
        auto& r = eager[std::size_t(rank)];
        auto const& below = rank + 1 < ranks_ ? eager[std::size_t(rank) + 1].count : end;
        while (r.next < slots_ && use(r.next, rank) == idle) ++r.next;
        auto what = r.next < slots_ ? use(r.next, rank) : idle;
        auto const before = r.count;
        auto const n = before[what % 4];
        if (what < weight) {
          bool const has_input = (what == lower_forward || what == upper_backward ? above : below)[what] > n;
          r.count[what] += has_input;
          if (!has_input) what = idle;
        }
        r.next += what != idle;
        what = r.now.pass(what);
        left -= what != idle;
        write(t, rank, what, n);
        above = before;
      }
    }
    slots_ = t;
  }

  constexpr void take_idle_slots_out() {
    ran_at_.assign(4 * std::size_t(microbatches_) * std::size_t(ranks_), 0);
    most_held_ = 0;
    std::vector<eager_rank> eager(std::size_t(ranks_), eager_rank{});
    run_eagerly(eager, [&](std::int32_t t, int rank, v_slot::use what, std::int32_t n) {
      use(t, rank) = what;
      if (what < weight) ran_at(rank, what, n) = t;
      most_held_ = std::max(most_held_, eager[std::size_t(rank)].now.held);
    });
  }

  constexpr void write_programs(int wave) {
    auto const length = 6 * std::size_t(microbatches_);
    programs_.assign(length * std::size_t(ranks_), idle);
    std::vector<std::size_t> next;
    for (int rank = 0; rank < ranks_; ++rank) next.push_back(std::size_t(rank) * length);
    auto steady = slots_;
    std::vector<eager_rank> eager(std::size_t(ranks_), eager_rank{});
    run_eagerly(eager, [&](std::int32_t t, int rank, v_slot::use what, std::int32_t n) {
      auto const r = std::size_t(rank);
      if (rank == 0 && what == lower_backward && n == 1) steady = t;
      if (t == steady + wave * rank) steady_[r] = next[r] - r * length;
      if (what != idle) programs_[next[r]++] = what;
    });
  }

  /// A rank whose cool-down is squeezed, up to some slot.
  struct cooled_rank {
    std::array<std::int32_t, 4> count{};
    v_load now;
    std::int32_t last_forward = -1;
    std::int32_t first_idle = 0;  // no slot between the last forward and this one is idle
  };

  /// Moves forwards and backwards of the cool-down once more, with the weights wherever there is room for them.
  constexpr void squeeze_cool_down() {
    std::vector<cooled_rank> cooled(std::size_t(ranks_), cooled_rank{});
    mobility moves(microbatches_);
    for (std::int32_t t = 0; t < slots_; ++t)
      for (int rank = 0; rank < ranks_; ++rank) {
        auto& r = cooled[std::size_t(rank)];
        auto what = use(t, rank);
        if (what < weight) {
          auto const n = r.count[what]++;
          moves.warms_up(rank, what);
          if (moves.cools_down(what, n)) {
            auto const at = squeeze_in(rank, r, what, n, t);
            ran_at(rank, what, n) = at;
            if (at < t) continue;
          }
        }
        what = r.now.pass(what);
        use(t, rank) = what;
        if (is_forward(what)) r.last_forward = t;
      }
  }

  /// Moves an op from slot `t` to the first slot without another forward or backward from which the row keeps to the
  /// memory. Returns where that is.
  constexpr std::int32_t squeeze_in(int rank, cooled_rank& r, v_slot::use what, std::int32_t n, std::int32_t t) {
    auto from = n > 0 ? ran_at(rank, what, n - 1) : -1;
    if (!enters(rank, what)) {
      auto const input = input_of(rank, what);
      from = std::max(from, ran_at(input.rank, input.what, n));
    }
    ++from;
    while (from < t && use(from, rank) < weight) ++from;
    if (from == t) return t;
    if (is_backward(what) && from > r.last_forward) {
      hurry_backward(rank, r, what, from, t);
      return from;
    }
    auto before = r.now;
    for (auto u = t - 1; u >= from; --u) before.undo(use(u, rank));
    for (auto at = from; at < t; before.pass(use(at++, rank))) {
      if (use(at, rank) < weight || !fits(rank, what, at, t, before)) continue;
      use(at, rank) = what;
      use(t, rank) = idle;
      r.now = before;
      for (auto u = at; u <= t; ++u) use(u, rank) = r.now.pass(use(u, rank));
      if (is_forward(what)) r.last_forward = std::max(r.last_forward, at);
      return at;
    }
    return t;
  }

  /// Moves a backward from slot `t` to slot `at`. No forward has come in between, so there is memory for it; the
  /// weights that wait then, its own and one whose slot it takes, run in the first idle slots behind it.
  constexpr void hurry_backward(int rank, cooled_rank& r, v_slot::use what, std::int32_t at, std::int32_t t) {
    int more_waiting = 1;
    if (use(at, rank) == weight) {
      r.now.undo(weight);
      ++more_waiting;
    }
    r.now.pass(what);
    use(at, rank) = what;
    use(t, rank) = idle;
    bool const to_first_idle = at <= r.first_idle;
    auto u = std::max({at, r.first_idle, r.last_forward + 1});
    for (; more_waiting > 0 && u <= t; ++u)
      if (use(u, rank) == idle) {
        use(u, rank) = r.now.pass(idle);
        --more_waiting;
      }
    if (to_first_idle) r.first_idle = u;
  }

  /// Whether a rank keeps to the memory if an op moves from slot `t` to slot `at`, to which it comes with `before`.
  constexpr bool fits(int rank, v_slot::use what, std::int32_t at, std::int32_t t, v_load before) {
    auto moved = before;
    auto unmoved = before;
    for (auto u = at; u < slots_; ++u) {
      moved.pass(u == at ? what : u == t ? idle : use(u, rank));
      unmoved.pass(use(u, rank));
      if (moved.held > most_held_) return false;
      if (u >= t && moved == unmoved) break;
    }
    return true;
  }

  int ranks_;
  std::int32_t microbatches_;
  std::int32_t slots_ = 0;
  std::int32_t most_held_ = 0;
  std::vector<v_slot::use> uses_;      // by slot and rank
  std::vector<std::int32_t> ran_at_;   // by microbatch, rank and kind of op: its slot
  std::vector<v_slot::use> programs_;  // by rank and op
  std::vector<std::size_t> steady_;    // by rank
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
