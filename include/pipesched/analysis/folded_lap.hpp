// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Ops of a steady state as one list, which is run again and again.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/folded_cursor.hpp>
#include <pipesched/analysis/folded_lap_plan.hpp>
#include <pipesched/analysis/folded_layout.hpp>
#include <pipesched/analysis/folded_state.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/vector.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Runs planned laps as one list of steps.
template <cost_model Cost>
class folded_lap {
 public:
  using T = time_of<Cost>;
  using layout = folded_layout<Cost>;
  using rank_state = folded_rank_state<T>;

  /// Keeps references to all. Precondition: the plan starts where ranks and channels are now.
  constexpr folded_lap(layout const& of, vector<rank_state>& ranks, vector<channel<T>>& channels,
                       lap_plan<Cost> const& plan)
      : layout_(&of), ranks_(&ranks), channels_(&channels), plan_(&plan) {}

  /// Runs the plan `times` times. Precondition: no rank leaves what it repeats.
  constexpr void run(std::int64_t times) {
    load();
    write();
    has_pairs_ ? run_list<true>(times) : run_list<false>(times);
    store(times);
  }

 private:
  struct asked_time {
    op what;
    std::int64_t advance;  // microbatches from one time to the next
  };
  /// A block, or the second op of a pair.
  struct step {
    std::uint32_t in;
    std::uint32_t out;
    T latency;
    std::conditional_t<same_for_all_microbatches<Cost>, T, asked_time> time;
    std::uint8_t cause;
    bool ends_gaps;  // a forward of the steady phase
    bool opens_pair;
  };
  /// What changes in a rank. In an order in which g++ does not load two of them at a time, to unpack them.
  struct account {
    T clock;
    std::array<T, 2> waiting;
    T gaps;
    T steady;
    T busy;
  };
  /// A visit of a rank: the steps up to `end`.
  struct visit {
    account* of_rank;
    step const* end;
    int rank;
  };
  /// What a visit changes with each step: its own, so as to be in registers.
  struct progress {
    T clock;
    T gaps;
    T steady;
    T busy;
  };
  /// The next places in a ring, from its begin.
  struct ring_places {
    std::uint32_t taken = 0;
    std::uint32_t put = 0;
  };

  constexpr void load() {
    ends_.assign(plan_->places(), T{});
    for (std::size_t c = 0; c < channels_->size(); ++c) {
      auto const& ring = plan_->rings()[c];
      auto const& from = (*channels_)[c];
      next_.push_back({0, ring.size > 0 ? from.size() % ring.size : 0});
      if (ring.size == 0) continue;
      for (std::uint32_t i = 0; i < from.size(); ++i) ends_[ring.begin + i] = from.at(i);
    }
    for (auto const& r : *ranks_) accounts_.push_back({r.clock, r.waiting, r.phases.gaps(), r.phases.steady(), r.busy});
  }
  constexpr void store(std::int64_t times) {
    for (std::size_t c = 0; c < channels_->size(); ++c) {
      auto const& ring = plan_->rings()[c];
      auto& to = (*channels_)[c];
      if (ring.size == 0) continue;
      to.pass(std::uint32_t(times * ring.size));
      for (std::uint32_t i = 0; i < to.size(); ++i) to.at(i) = ends_[ring.begin + i];
    }
    auto const laps = times * plan_->laps();
    for (std::size_t i = 0; i < ranks_->size(); ++i) {
      auto& r = (*ranks_)[i];
      auto const& stride = plan_->strides()[i];
      r.clock = accounts_[i].clock;
      r.waiting = accounts_[i].waiting;
      r.phases.set(accounts_[i].gaps, accounts_[i].steady);
      r.busy = accounts_[i].busy;
      r.position += laps * stride.iterations * stride.operations;
      (stride.by_turns ? r.turn : r.iteration) += laps * stride.iterations;
    }
  }

  constexpr void write() {
    std::size_t operations = 0;
    for (auto const& v : plan_->visits()) operations += v.operations;
    steps_.reserve(operations);  // they stay where they are
    auto cursors = plan_->start();
    for (auto const& v : plan_->visits()) {
      auto& cursor = cursors[v.rank];
      for (std::uint32_t done = 0; done < v.operations; cursor.next_block(*layout_, v.rank)) {
        auto const& block = layout_->classes()[cursor.at->of_class];
        for (std::size_t member = 0; member < (block.pair ? 2 : 1); ++member, ++done)
          write_step(v.rank, cursor, block, member);
      }
      visits_.push_back({&accounts_[v.rank], steps_.data() + steps_.size(), int(v.rank)});
    }
  }
  constexpr void write_step(std::uint32_t rank, folded_cursor const& cursor, block_class<T> const& block,
                            std::size_t member) {
    step added{};
    added.in = take(block.in[member]);
    added.out = put(block.out[member]);
    added.latency = block.latency[member];
    added.cause = std::uint8_t(block.cause[member]);
    added.ends_gaps = block.forward && (*ranks_)[rank].phases.has_backward();
    added.opens_pair = block.pair && member == 0;
    if constexpr (same_for_all_microbatches<Cost>) {
      added.time = block.duration;
    } else {
      auto const& folded = layout_->ops(int(rank))[cursor.at->op + member];
      auto const& stride = plan_->strides()[rank];
      auto const of_turn = layout_->rounds()[cursor.round].advance;
      added.time.what = folded.at(cursor.iteration, cursor.turn * of_turn);
      added.time.advance = plan_->laps() * stride.iterations * (stride.by_turns ? of_turn : folded.advance);
    }
    has_pairs_ = has_pairs_ || added.opens_pair;
    steps_.push_back(added);
  }

  [[nodiscard]] constexpr std::uint32_t take(std::uint32_t c) {
    return c == no_channel ? lap_plan<Cost>::no_input : next_place(c, next_[c].taken);
  }
  [[nodiscard]] constexpr std::uint32_t put(std::uint32_t c) {
    return c == no_channel ? lap_plan<Cost>::no_output : next_place(c, next_[c].put);
  }
  [[nodiscard]] constexpr std::uint32_t next_place(std::uint32_t c, std::uint32_t& next) const {
    auto const& ring = plan_->rings()[c];
    auto const place = ring.begin + next;
    if (++next == ring.size) next = 0;
    return place;
  }

  /// A function of its own, for its variables to have all registers.
  template <bool HasPairs>
  [[gnu::noinline]] constexpr void run_list(std::int64_t times) {
    auto const& of = *layout_;
    T* const ends = ends_.data();
    auto* const first = steps_.data();
    auto const* const first_visit = visits_.data();
    auto const* const last_visit = first_visit + visits_.size();
    for (std::int64_t i = 0; i < times; ++i) {
      auto* s = first;
      for (auto const* v = first_visit; v != last_visit; ++v) {
        auto& of_rank = *v->of_rank;
        auto const* const end = v->end;
        progress now{of_rank.clock, of_rank.gaps, of_rank.steady, of_rank.busy};
        do {
          if (HasPairs && s->opens_pair) {
            run_step<2>(of, v->rank, s, ends, now, of_rank);
            s += 2;
          } else {
            run_step<1>(of, v->rank, s, ends, now, of_rank);
            s += 1;
          }
        } while (s != end);
        of_rank.clock = now.clock;
        of_rank.gaps = now.gaps;
        of_rank.steady = now.steady;
        of_rank.busy = now.busy;
      }
    }
  }

  template <std::size_t Members>
  [[gnu::always_inline]] static constexpr void run_step(layout const& of, int rank, step* s, T* ends, progress& now,
                                                        account& of_rank) {
    T start = now.clock;
    auto cause = s[0].cause;
    for (std::size_t member = 0; member < Members; ++member) {
      T const arrival = ends[s[member].in] + s[member].latency;
      if (Members > 1 && arrival > start) cause = s[member].cause;
      start = std::max(start, arrival);
    }
    T const gap = start - now.clock;
    of_rank.waiting[cause] += gap;
    now.gaps += gap;
    if (s->ends_gaps) {
      now.steady += now.gaps;
      now.gaps = 0;
    }
    now.clock = start + duration<Members>(of, rank, s);
    now.busy += now.clock - start;
    for (std::size_t member = 0; member < Members; ++member) ends[s[member].out] = now.clock;
  }

  template <std::size_t Members>
  [[nodiscard]] [[gnu::always_inline]] static constexpr T duration(layout const& of, int rank, step* s) {
    if constexpr (same_for_all_microbatches<Cost>) {
      return s->time;
    } else {
      op const first = s[0].time.what;
      s[0].time.what = first.microbatches_later(s[0].time.advance);
      if constexpr (Members == 1) return of.time(rank, first);
      op const second = s[1].time.what;
      s[1].time.what = second.microbatches_later(s[1].time.advance);
      return of.time_of_pair(rank, first, second);
    }
  }

  layout const* layout_;
  vector<rank_state>* ranks_;
  vector<channel<T>>* channels_;
  lap_plan<Cost> const* plan_;
  vector<ring_places> next_;  // by channel, while steps are written
  vector<T> ends_;
  vector<step> steps_;
  bool has_pairs_ = false;
  vector<visit> visits_;
  vector<account> accounts_;  // by rank
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
