// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Building blocks of a V, repeated and squeezed together as far as the memory of the repeated ones allows.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>
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
    vector<squeezed_rank> repeated;
    for (int rank = 0; rank < ranks; ++rank) {
      repeated.push_back({.block = repeated_block(block(rank), microbatches)});
      slots_ = std::max(slots_, repeated.back().block.end());
    }
    uses_.assign(std::size_t(slots_ + 1) * std::size_t(ranks), v_slot::idle);
    squeeze_around_weights(std::move(repeated));
    squeeze_cool_down(take_idle_slots_out());
    write_programs(wave);
    uses_ = {};
    ran_at_ = {};
  }

  [[nodiscard]] constexpr int ranks() const { return ranks_; }
  /// What a rank runs, op after op.
  [[nodiscard]] constexpr view<v_slot::use> program(int rank) const {
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

  constexpr void squeeze_around_weights(vector<squeezed_rank> squeezed) {
    for (int rank = 0; rank < ranks_; ++rank) {
      auto& r = squeezed[std::size_t(rank)];
      most_held_ = std::max(most_held_, r.block.most_held());
      for (auto what : {lower_forward, upper_forward, upper_backward, lower_backward}) {
        auto const input = input_of(rank, what);
        r.inputs[what] = enters(rank, what) ? &r.last[what] : &squeezed[std::size_t(input.rank)].last[input.what];
      }
    }
    mobility moves(microbatches_);
    for (std::int32_t t = 0; t < slots_; ++t) {
      auto const place = std::size_t(t % building_block::period);
      for (int rank = 0; rank < ranks_; ++rank) {
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
    std::array<std::int32_t, 6> count{};          // by use
    std::array<std::int32_t, 6> before{};         // the same before the slot where it ran last or waited
    std::array<std::int32_t const*, 6> inputs{};  // of each use: how many may have run
    v_load now{};
    v_slot::use const* next = nullptr;  // what it runs next
  };

  constexpr vector<eager_rank> ready_to_run() {
    // Behind all slots stands a weight that never runs, so that no rank looks further.
    std::fill_n(&use(slots_, 0), ranks_, weight);
    vector<eager_rank> eager(std::size_t(ranks_), eager_rank{});
    for (std::size_t rank = 0; rank < eager.size(); ++rank) {
      auto& r = eager[rank];
      bool const is_first = rank == 0;
      bool const is_last = rank + 1 == eager.size();
      r.inputs[lower_forward] = is_first ? &microbatches_ : &eager[rank - 1].before[lower_forward];
      r.inputs[upper_forward] = is_last ? &r.count[lower_forward] : &eager[rank + 1].count[upper_forward];
      r.inputs[upper_backward] = is_first ? &r.count[upper_forward] : &eager[rank - 1].before[upper_backward];
      r.inputs[lower_backward] = is_last ? &r.count[upper_backward] : &eager[rank + 1].count[lower_backward];
      r.inputs[weight] = &weights_;
      r.next = uses_.data() + rank;
      while (*r.next == idle) r.next += ranks_;
    }
    return eager;
  }

  /// Takes all idle slots out that no input needs, and then puts each weight in the first free slot.
  /// `write(t, rank, use, microbatch)` takes what comes of it.
  template <class Write>
  constexpr void run_eagerly(vector<eager_rank>& eager, Write&& write) {
    auto const ranks = std::size_t(ranks_);
    std::int32_t t = 0;
    for (auto left = std::int64_t{6} * microbatches_ * ranks_; left > 0; ++t)
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        auto& r = eager[rank];
        r.before[lower_forward] = r.count[lower_forward];
        r.before[upper_backward] = r.count[upper_backward];
        auto what = *r.next;
        auto const n = r.count[what];
        if (n < *r.inputs[what]) {
          ++r.count[what];
          do r.next += ranks;
          while (*r.next == idle);
        } else {
          what = idle;
        }
        what = r.now.pass(what);
        left -= what != idle;
        write(t, int(rank), what, n);
      }
    slots_ = t;
  }

  /// Returns how far all ranks were when the last microbatch entered.
  constexpr vector<eager_rank> take_idle_slots_out() {
    most_held_ = 0;
    auto eager = ready_to_run();
    vector<eager_rank> at_last_entry;
    run_eagerly(eager, [&](std::int32_t t, int rank, v_slot::use what, std::int32_t n) {
      use(t, rank) = what;
      if (!is_forward(what)) return;
      most_held_ = std::max(most_held_, eager[std::size_t(rank)].now.held);
      if (!enters(rank, what) || n < microbatches_ - 1) return;
      at_last_entry = eager;
      last_entry_ = t;
    });
    return at_last_entry;
  }

  constexpr void write_programs(int wave) {
    auto const length = 6 * std::size_t(microbatches_);
    programs_.assign(length * std::size_t(ranks_), idle);
    vector<std::size_t> next;
    for (int rank = 0; rank < ranks_; ++rank) next.push_back(std::size_t(rank) * length);
    auto steady = slots_;
    auto eager = ready_to_run();
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
    v_load now{};
    std::int32_t last_forward = -1;  // or a later slot
    std::int32_t first_idle = 0;     // no slot between the last forward and this one is idle
  };

  /// Moves forwards and backwards of the cool-down once more, with the weights wherever there is room for them.
  constexpr void squeeze_cool_down(vector<eager_rank> const& at_last_entry) {
    vector<cooled_rank> cooled;
    for (std::size_t rank = 0; rank < at_last_entry.size(); ++rank) {
      auto const& r = at_last_entry[rank];
      cooled.push_back({{r.count[0], r.count[1], r.count[2], r.count[3]}, r.now, last_entry_});
    }
    find_inputs_of(cooled);
    mobility moves(microbatches_);
    if (cooled.front().count[lower_backward] > 0) moves.warms_up(0, lower_backward);
    moves.cools_down(lower_forward, microbatches_ - 1);
    for (auto t = last_entry_; t < slots_; ++t)
      for (int rank = t == last_entry_ ? 1 : 0; rank < ranks_; ++rank) {
        auto& r = cooled[std::size_t(rank)];
        auto what = use(t, rank);
        if (what < weight) {
          auto const n = r.count[what]++;
          moves.warms_up(rank, what);
          auto const at = moves.cools_down(what, n) ? squeeze_in(rank, r, what, n, t) : t;
          ran_at(rank, what, n) = at;
          if (at < t) continue;
        }
        what = r.now.pass(what);
        use(t, rank) = what;
        if (is_forward(what)) r.last_forward = t;
      }
  }

  /// Finds the slots of those ops before the last entry that others behind it look for: the inputs of ops that have not
  /// run, and the last one of each kind.
  constexpr void find_inputs_of(vector<cooled_rank> const& cooled) {
    ran_at_.resize_uninitialised(4 * std::size_t(microbatches_) * std::size_t(ranks_));
    vector<std::array<std::int32_t, 4>> known;  // from which microbatch on
    vector<std::array<std::int32_t, 4>> needed;
    for (auto const& r : cooled) known.push_back(r.count);
    for (auto count : known) {
      for (auto& n : count) n = std::max(n - 1, 0);
      needed.push_back(count);
    }
    for (int rank = 0; rank < ranks_; ++rank)
      for (auto what : {lower_forward, upper_forward, upper_backward, lower_backward}) {
        if (enters(rank, what)) continue;
        auto const input = input_of(rank, what);
        auto& n = needed[std::size_t(input.rank)][input.what];
        n = std::min(n, cooled[std::size_t(rank)].count[what]);
      }
    for (int rank = 0; rank < ranks_; ++rank) {
      auto& from = known[std::size_t(rank)];
      auto const& to = needed[std::size_t(rank)];
      // Rank 0 has run the last entry already.
      for (auto t = last_entry_ - (rank > 0); t >= 0; --t) {
        if (from[0] <= to[0] && from[1] <= to[1] && from[2] <= to[2] && from[3] <= to[3]) break;
        if (auto const what = use(t, rank); what < weight) ran_at(rank, what, --from[what]) = t;
      }
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
  std::int32_t weights_ = 2 * microbatches_;  // of a rank
  std::int32_t slots_ = 0;
  std::int32_t most_held_ = 0;
  std::int32_t last_entry_ = 0;
  vector<v_slot::use> uses_;      // by slot and rank
  buffer<std::int32_t> ran_at_;   // by microbatch, rank and kind of op: its slot
  vector<v_slot::use> programs_;  // by rank and op
  vector<std::size_t> steady_;    // by rank
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
