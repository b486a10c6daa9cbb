// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Building blocks of a V, repeated and squeezed by trying slot after slot: what `detail::squeezed_by_search` has to
/// come to, in time that grows with the cube of the ranks.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/schedules/building_block.hpp>

namespace test_support {

using namespace pipesched;
using pipesched::detail::building_block;

/// All programs of a step. See `detail::squeezed_blocks` for what is done; here all of it is, for each microbatch, and
/// each op that may move looks at all slots that it could move to.
class squeezed_by_search {
 public:
  static constexpr std::int64_t period = building_block::period;

  /// `block(rank)` gives the building block of a rank.
  template <class Block>
  constexpr squeezed_by_search(int ranks, std::int64_t microbatches, Block const& block)
      : ranks_(ranks), microbatches_(microbatches) {
    std::int64_t last = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      building_block const at = block(rank);
      for (auto first : {at.lower_forward, at.upper_forward, at.upper_backward, at.lower_backward})
        last = std::max<std::int64_t>(last, first);
    }
    length_ = last + period * microbatches + 2 * microbatches;
    auto const cells = std::size_t(ranks) * std::size_t(length_);
    auto const ops = std::size_t(6 * microbatches);  // of a rank
    op_at_.assign(cells, none);
    held_.assign(cells, 0);
    slots_.assign(std::size_t(ranks) * ops, 0);
    for (int rank = 0; rank < ranks; ++rank) {
      auto const first_cell = std::size_t(rank) * std::size_t(length_);
      rows_.push_back(row{op_at_.data() + first_cell, held_.data() + first_cell, {}, microbatches});
      auto& r = rows_.back();
      for (std::size_t kind = 0; kind < 5; ++kind)
        r.slot[kind] = slots_.data() + std::size_t(rank) * ops + kind * std::size_t(microbatches);
      building_block const at = block(rank);
      std::array<std::int64_t, 4> const first{at.lower_forward, at.upper_forward, at.upper_backward, at.lower_backward};
      for (int kind = 0; kind < 4; ++kind)
        for (std::int64_t b = 0; b < microbatches; ++b) r.place({kind, b}, first[std::size_t(kind)] + period * b);
    }
    squeeze_around_weights();
    squeeze_cool_down();
  }

  squeezed_by_search(squeezed_by_search const&) = delete;
  squeezed_by_search& operator=(squeezed_by_search const&) = delete;

  /// The program of a rank: each weight in the first free slot, those of the upper stage first.
  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    auto const& r = rows_[std::size_t(rank)];
    std::array<int, 4> const stage{rank, 2 * ranks_ - 1 - rank, 2 * ranks_ - 1 - rank, rank};
    std::array<std::int64_t, 2> ready{};
    std::array<std::int64_t, 2> put{};
    auto const weight_of = [&](std::size_t way) {
      out(op(op_kind::backward_weight, stage_id{stage[2 + way]}, microbatch_id{put[way]++}));
    };
    for (std::int64_t t = 0; t < r.end(); ++t) {
      auto const [kind, b] = r.at(t);
      if (kind < 0) {
        if (put[0] < ready[0])
          weight_of(0);
        else if (put[1] < ready[1])
          weight_of(1);
        continue;
      }
      bool const forward = kind < upper_backward;
      out(op(forward ? op_kind::forward : op_kind::backward_input, stage_id{stage[std::size_t(kind)]},
             microbatch_id{b}));
      if (!forward) ++ready[std::size_t(kind - upper_backward)];
    }
    for (std::size_t way = 0; way < 2; ++way)
      while (put[way] < ready[way]) weight_of(way);
  }

 private:
  // The kinds of ops of a rank, in the order in which a microbatch runs them. The weights of both stages are one queue
  // here: which is which does not matter to memory.
  static constexpr int lower_forward = 0;
  static constexpr int upper_forward = 1;
  static constexpr int upper_backward = 2;
  static constexpr int lower_backward = 3;
  static constexpr int weight = 4;
  static constexpr std::int32_t none = -1;

  struct cell {
    int kind;
    std::int64_t number;  ///< its microbatch; of a weight, its place in the queue
  };

  struct row {
    std::int32_t* op_at;                // by slot: 5 * number + kind
    std::int32_t* held;                 // by slot: activations after it
    std::array<std::int32_t*, 5> slot;  // by kind and number; twice as many weights as of the other kinds
    std::int64_t microbatches;

    [[nodiscard]] constexpr cell at(std::int64_t t) const {
      auto const packed = op_at[std::size_t(t)];
      return packed == none ? cell{-1, 0} : cell{packed % 5, packed / 5};
    }
    [[nodiscard]] constexpr bool is_free(std::int64_t t) const { return op_at[std::size_t(t)] == none; }
    constexpr void place(cell c, std::int64_t t) {
      op_at[std::size_t(t)] = static_cast<std::int32_t>(5 * c.number + c.kind);
      slot[std::size_t(c.kind)][std::size_t(c.number)] = static_cast<std::int32_t>(t);
    }
    constexpr void move(cell c, std::int64_t from, std::int64_t to) {
      op_at[std::size_t(from)] = none;
      place(c, to);
    }
    /// One after the last slot of a forward or backward.
    [[nodiscard]] constexpr std::int64_t end() const {
      std::int32_t last = 0;
      for (std::size_t kind = 0; kind < 4; ++kind) last = std::max(last, slot[kind][microbatches - 1]);
      return std::int64_t{last} + 1;
    }
  };

  /// Where a schedule is: its warm-up ends with the first microbatch that is done, its cool-down begins behind the last
  /// one that enters.
  enum class phase : std::uint8_t { warm_up, steady, cool_down };
  constexpr phase next_phase(phase now, int rank, cell c) const {
    if (now == phase::warm_up && rank == 0 && c.kind == lower_backward) return phase::steady;
    return now;
  }
  constexpr bool last_enters(cell c) const { return c.kind == lower_forward && c.number == microbatches_ - 1; }

  /// The first slot that an op's inputs allow, and the op of its kind before it.
  constexpr std::int64_t earliest(int rank, cell c) const {
    auto const k = std::size_t(c.kind);
    auto const n = std::size_t(c.number);
    auto const& own = rows_[std::size_t(rank)].slot;
    std::int64_t input = -1;
    if ((c.kind == lower_forward || c.kind == upper_backward) && rank > 0)
      input = rows_[std::size_t(rank - 1)].slot[k][n];
    if ((c.kind == upper_forward || c.kind == lower_backward) && rank + 1 < ranks_)
      input = rows_[std::size_t(rank + 1)].slot[k][n];
    if (c.kind > lower_forward && c.kind < weight) input = std::max<std::int64_t>(input, own[k - 1][n]);
    if (n > 0) input = std::max<std::int64_t>(input, own[k][n - 1]);
    return input + 1;
  }

  /// Calls `visit(rank, cell, slot)` for each op, slot after slot. An op may move to an earlier slot meanwhile.
  template <class Visit>
  constexpr void for_each_op(Visit&& visit) {
    for (std::int64_t t = 0; t < length_; ++t)
      for (int rank = 0; rank < ranks_; ++rank)
        if (cell const c = rows_[std::size_t(rank)].at(t); c.kind >= 0) visit(rank, c, t);
  }

  /// Each weight in the first free slot behind its backward.
  static constexpr void put_weights(row& r) {
    auto const end = r.end();
    std::int64_t ready = 0;
    std::int64_t put = 0;
    for (std::int64_t t = 0; t < end; ++t) {
      if (int const kind = r.at(t).kind; kind >= 0)
        ready += kind >= upper_backward;
      else if (put < ready)
        r.place({weight, put++}, t);
    }
    for (std::int64_t t = end; put < ready; ++t) r.place({weight, put++}, t);
  }
  static constexpr void take_weights_out(row& r) {
    for (std::int64_t n = 0; n < 2 * r.microbatches; ++n) r.op_at[r.slot[weight][n]] = none;
  }

  /// Takes all idle slots out that no input needs.
  constexpr void run_eagerly() {
    std::vector<std::int64_t> free_from(rows_.size(), 0);
    for_each_op([&](int rank, cell c, std::int64_t t) {
      auto& from = free_from[std::size_t(rank)];
      auto const at = std::max(earliest(rank, c), from);
      rows_[std::size_t(rank)].move(c, t, at);
      from = at + 1;
    });
  }

  constexpr void squeeze_around_weights() {
    std::int64_t most_held = 0;
    for (auto& r : rows_) {
      put_weights(r);
      std::int32_t held = 0;
      for (std::int64_t t = 0; t < length_; ++t) {
        int const kind = r.at(t).kind;
        held += kind == lower_forward || kind == upper_forward ? 1 : kind == weight ? -1 : 0;
        r.held[std::size_t(t)] = held;
        most_held = std::max<std::int64_t>(most_held, held);
      }
    }
    std::vector<std::vector<std::int64_t>> backwards(rows_.size());  // their slots, in order
    auto now = phase::warm_up;
    for_each_op([&](int rank, cell c, std::int64_t t) {
      auto& r = rows_[std::size_t(rank)];
      auto at = t;
      now = next_phase(now, rank, c);
      if (now != phase::steady) {
        auto from = earliest(rank, c);
        if (c.kind == weight) from = std::max(from, backwards[std::size_t(rank)][std::size_t(c.number)] + 1);
        at = earlier_slot(r, c, t, from, most_held);
        r.move(c, t, at);
      } else if (last_enters(c)) {
        now = phase::cool_down;
      }
      if (c.kind == upper_backward || c.kind == lower_backward) {
        auto& slots = backwards[std::size_t(rank)];
        slots.insert(std::upper_bound(slots.begin(), slots.end(), at), at);
      }
    });
    run_eagerly();
    for (auto& r : rows_) take_weights_out(r);
    held_ = {};  // of the weights' old places
  }

  /// The first free slot in [from, t) where `c` keeps the memory within bounds, else t.
  static constexpr std::int64_t earlier_slot(row& r, cell c, std::int64_t t, std::int64_t from,
                                             std::int64_t most_held) {
    bool const forward = c.kind < upper_backward;
    auto at = t;
    if (forward) {
      for (auto u = t - 1; u >= from && r.held[std::size_t(u)] < most_held; --u)
        if (r.is_free(u)) at = u;
    } else {
      at = from;
      while (at < t && !r.is_free(at)) ++at;
    }
    auto const change = forward ? 1 : c.kind == weight ? -1 : 0;
    if (change != 0)
      for (auto u = at; u < t; ++u) r.held[std::size_t(u)] += change;
    return at;
  }

  /// What a rank holds after a slot, and how many weights wait, where each free slot takes a weight.
  struct load {
    std::int32_t held = 0;
    std::int32_t waiting = 0;
    friend constexpr bool operator==(load, load) = default;

    constexpr void pass(int kind) {
      if (kind == lower_forward || kind == upper_forward) {
        ++held;
      } else if (kind >= 0) {
        ++waiting;
      } else if (waiting > 0) {
        --held;
        --waiting;
      }
    }
  };

  /// Moves forwards and backwards of the cool-down once more, with the weights wherever there is room for them.
  constexpr void squeeze_cool_down() {
    std::int64_t most_held = 0;
    std::vector<load> loads(rows_.size() * std::size_t(length_), load{});
    for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
      load now;
      for (std::int64_t t = 0; t < length_; ++t) {
        now.pass(rows_[rank].at(t).kind);
        loads[rank * std::size_t(length_) + std::size_t(t)] = now;
        most_held = std::max<std::int64_t>(most_held, now.held);
      }
    }
    auto now = phase::warm_up;
    for_each_op([&](int rank, cell c, std::int64_t t) {
      now = next_phase(now, rank, c);
      if (now == phase::steady && last_enters(c)) {
        now = phase::cool_down;
        return;
      }
      if (now != phase::cool_down) return;
      auto& r = rows_[std::size_t(rank)];
      for (auto at = earliest(rank, c); at < t; ++at) {
        if (!r.is_free(at)) continue;
        r.move(c, t, at);
        if (fits(r, std::span(loads).subspan(std::size_t(rank) * std::size_t(length_), std::size_t(length_)), at, t,
                 most_held))
          break;
        r.move(c, at, t);
      }
    });
    for (auto& r : rows_) put_weights(r);
    run_eagerly();
    for (auto& r : rows_) take_weights_out(r);
  }

  /// Whether a row keeps to the memory after an op moved from slot `to` to slot `from`; brings `loads` up to date if
  /// so.
  static constexpr bool fits(row const& r, std::span<load> loads, std::int64_t from, std::int64_t to,
                             std::int64_t most_held) {
    load now = from > 0 ? loads[std::size_t(from - 1)] : load{};
    auto end = from;
    for (; end < std::int64_t(loads.size()); ++end) {
      now.pass(r.at(end).kind);
      if (now.held > most_held) return false;
      if (end >= to && now == loads[std::size_t(end)]) break;
    }
    now = from > 0 ? loads[std::size_t(from - 1)] : load{};
    for (auto t = from; t < end; ++t) {
      now.pass(r.at(t).kind);
      loads[std::size_t(t)] = now;
    }
    return true;
  }

  int ranks_;
  std::int64_t microbatches_;
  std::int64_t length_ = 0;
  // One piece of memory for all ranks each, of 32 bits: this is what the construction costs.
  std::vector<std::int32_t> op_at_;
  std::vector<std::int32_t> held_;
  std::vector<std::int32_t> slots_;
  std::vector<row> rows_;
};

}  // namespace test_support
