// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A V-shaped pipeline step by step in time, in which the weights fill the gaps between forwards and backwards.

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/schedules/pass_times.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// A time, and how many transfers without latency led to it. A transfer takes longer than nothing: of two inputs at
/// the same time, the one that crossed more ranks is the later one.
struct instant {
  std::int64_t time = 0;
  std::int64_t transfers = 0;

  friend constexpr auto operator<=>(instant const&, instant const&) = default;
  friend constexpr instant operator+(instant a, instant b) { return {a.time + b.time, a.transfers + b.transfers}; }
  friend constexpr instant operator-(instant a, instant b) { return {a.time - b.time, a.transfers - b.transfers}; }
};

/// Where a weight may be put before its rank would idle for as long as the weight takes: it delays the op behind it.
struct weight_rule {
  bool before_forward = true;
  bool before_upper_backward = true;  ///< before a backward of the stage that is later in the model
};

/// How to fill the weights of a step.
struct weight_plan {
  weight_rule rule;
  /// How long each rank idled in an earlier run of the step: a rank that idled less may delay its ops by the
  /// difference. Empty where there was no run.
  vector<instant> idle_before = {};
};

/// The plan with the shortest step among those tried. `idle_of(plan)` runs the step and says how long each rank idled.
template <class Run>
constexpr weight_plan plan_weights(Run const& idle_of) {
  auto const longest = [](vector<instant> const& idle) { return *std::max_element(idle.begin(), idle.end()); };
  weight_plan best;
  instant shortest{-1, 0};  // none yet
  for (bool before_upper_backward : {true, false})
    for (bool before_forward : {true, false}) {
      weight_plan plan{{before_forward, before_upper_backward}};
      auto idle = idle_of(plan);
      for (;;) {  // as long as what the run before allows makes the step shorter
        weight_plan next{plan.rule, idle};
        auto next_idle = idle_of(next);
        if (longest(next_idle) >= longest(idle)) break;
        plan = std::move(next);
        idle = std::move(next_idle);
      }
      if (shortest < instant{} || longest(idle) < shortest) {
        shortest = longest(idle);
        best = std::move(plan);
      }
    }
  return best;
}

/// The two stages of a rank of a V: `lower` is the one that forwards reach first.
enum class v_way : std::uint8_t { lower, upper };

/// A V of P ranks at some point of the step. Each call runs one op of one rank at the earliest time; what calls decides
/// the order of the forwards and backwards, and here the weights come in between, first in, first out.
template <rank_op_sink Sink>
class v_pipeline {
 public:
  /// `memory`: the most chunks whose activations a rank may hold, from the forward to the weight.
  constexpr v_pipeline(int ranks, std::int64_t microbatches, pass_times const& times, std::int64_t memory,
                       weight_plan const& plan, Sink& out)
      : ranks_(ranks),
        memory_(memory),
        window_(std::min(microbatches, memory)),
        rule_(plan.rule),
        duration_{instant{times.forward, 0}, instant{times.backward_input, 0}, instant{times.backward_weight, 0}},
        latency_{times.latency, times.latency == 0 ? 1 : 0},
        rank_(std::size_t(ranks), rank_state{}),
        ended_(std::size_t(4 * ranks * window_), instant{}),
        waiting_(std::size_t(ranks * memory), v_way{}),
        out_(&out) {
    if (plan.idle_before.empty()) return;
    for (std::size_t r = 0; r < rank_.size(); ++r) {
      rank_[r].idle_before = plan.idle_before[r];
      longest_before_ = std::max(longest_before_, plan.idle_before[r]);
    }
  }

  /// How many forwards or backwards a rank has run on one of its stages.
  [[nodiscard]] constexpr std::int64_t forwards(int rank, v_way way) const {
    return at(rank).forwards[std::size_t(way)];
  }
  [[nodiscard]] constexpr std::int64_t backwards(int rank, v_way way) const {
    return at(rank).backwards[std::size_t(way)];
  }
  [[nodiscard]] constexpr bool weights_wait(int rank) const { return at(rank).weights_waiting > 0; }
  [[nodiscard]] constexpr bool memory_is_full(int rank) const { return at(rank).memory >= memory_; }
  [[nodiscard]] constexpr std::int64_t memory(int rank) const { return at(rank).memory; }
  [[nodiscard]] constexpr instant now(int rank) const { return at(rank).now; }
  /// The idle time of each rank since its first op.
  [[nodiscard]] constexpr vector<instant> idle() const {
    vector<instant> result;
    for (auto const& r : rank_) result.push_back(r.idle);
    return result;
  }

  /// Whether the input of the next op is there, or will be at a known time.
  [[nodiscard]] constexpr bool forward_has_input(int rank, v_way way) const {
    auto const b = forwards(rank, way);
    if (way == v_way::lower) return rank == 0 || forwards(rank - 1, way) > b;
    return rank == ranks_ - 1 ? forwards(rank, v_way::lower) > b : forwards(rank + 1, way) > b;
  }
  [[nodiscard]] constexpr bool backward_has_input(int rank, v_way way) const {
    auto const b = backwards(rank, way);
    if (forwards(rank, way) <= b) return false;
    if (way == v_way::upper) return rank == 0 || backwards(rank - 1, way) > b;
    return rank == ranks_ - 1 ? backwards(rank, v_way::upper) > b : backwards(rank + 1, way) > b;
  }

  /// When the input of the next forward arrives. Precondition: another rank sends it, and has run it.
  [[nodiscard]] constexpr instant forward_arrival(int rank, v_way way) const {
    return ended(false, way, way == v_way::lower ? rank - 1 : rank + 1, forwards(rank, way)) + latency_;
  }
  [[nodiscard]] constexpr instant backward_arrival(int rank, v_way way) const {
    return ended(true, way, way == v_way::upper ? rank - 1 : rank + 1, backwards(rank, way)) + latency_;
  }

  /// The next forward of a stage, at once.
  constexpr void forward(int rank, v_way way) {
    auto& r = at(rank);
    run(rank, op_kind::forward, way, r.forwards[std::size_t(way)],
        forward_crosses_ranks(rank, way) ? forward_arrival(rank, way) : instant{});
    ended(false, way, rank, r.forwards[std::size_t(way)]++) = r.now;
    ++r.memory;
  }

  /// The next forward of a stage, behind the weights that memory and idle time ask for.
  constexpr void fill_and_forward(int rank, v_way way) {
    while (memory_is_full(rank) && weights_wait(rank)) weight(rank);
    if (forward_crosses_ranks(rank, way)) fill_until(rank, forward_arrival(rank, way), rule_.before_forward);
    forward(rank, way);
  }

  /// The next backward for the input of a stage, behind the weights that fill the time until its gradient arrives.
  constexpr void fill_and_backward(int rank, v_way way) {
    bool const crosses = way == v_way::upper ? rank > 0 : rank < ranks_ - 1;
    instant const arrival = crosses ? backward_arrival(rank, way) : instant{};
    if (crosses) fill_until(rank, arrival, way == v_way::lower || rule_.before_upper_backward);
    auto& r = at(rank);
    run(rank, op_kind::backward_input, way, r.backwards[std::size_t(way)], arrival);
    ended(true, way, rank, r.backwards[std::size_t(way)]++) = r.now;
    waiting(rank, r.weights_put + r.weights_waiting++) = way;
  }

  /// The weight that has waited longest. Precondition: one waits.
  constexpr void weight(int rank) {
    auto& r = at(rank);
    auto const way = waiting(rank, r.weights_put++);
    --r.weights_waiting;
    --r.memory;
    run(rank, op_kind::backward_weight, way, r.weights[std::size_t(way)]++, instant{});
  }

 private:
  struct rank_state {
    instant now;
    instant idle;
    instant idle_before;
    std::array<std::int64_t, 2> forwards{};
    std::array<std::int64_t, 2> backwards{};
    std::array<std::int64_t, 2> weights{};
    std::int64_t memory = 0;
    std::int64_t weights_put = 0;
    std::int64_t weights_waiting = 0;
    bool started = false;
  };

  constexpr rank_state& at(int rank) { return rank_[std::size_t(rank)]; }
  constexpr rank_state const& at(int rank) const { return rank_[std::size_t(rank)]; }

  [[nodiscard]] constexpr bool forward_crosses_ranks(int rank, v_way way) const {
    return way == v_way::lower ? rank > 0 : rank < ranks_ - 1;
  }

  // A neighbour is never more microbatches ahead than a rank may hold, so a ring of that many ends is enough.
  [[nodiscard]] constexpr std::size_t slot(bool backward, v_way way, int rank, std::int64_t microbatch) const {
    auto const lane = (std::int64_t{backward} * 2 + std::int64_t(way)) * ranks_ + rank;
    return std::size_t(lane * window_ + microbatch % window_);
  }
  constexpr instant& ended(bool backward, v_way way, int rank, std::int64_t microbatch) {
    return ended_[slot(backward, way, rank, microbatch)];
  }
  [[nodiscard]] constexpr instant ended(bool backward, v_way way, int rank, std::int64_t microbatch) const {
    return ended_[slot(backward, way, rank, microbatch)];
  }
  constexpr v_way& waiting(int rank, std::int64_t number) {
    return waiting_[std::size_t(rank * memory_ + number % memory_)];
  }

  /// Weights in the gap before `arrival`: as many as fit, and one more where the rank would otherwise idle beyond what
  /// the slowest rank idles anyway.
  constexpr void fill_until(int rank, instant arrival, bool may_delay) {
    auto const& r = at(rank);
    while (weights_wait(rank) && arrival >= r.now + duration_[2]) weight(rank);
    auto const slack = std::max(longest_idle_, longest_before_ - r.idle_before) - r.idle;
    if (may_delay && weights_wait(rank) && arrival - r.now > slack) weight(rank);
  }

  constexpr void run(int rank, op_kind kind, v_way way, std::int64_t microbatch, instant arrival) {
    auto& r = at(rank);
    auto const start = std::max(r.now, arrival);
    if (r.started) r.idle = r.idle + (start - r.now);
    longest_idle_ = std::max(longest_idle_, r.idle);
    r.started = true;
    r.now = start + duration_[kind == op_kind::forward ? 0 : kind == op_kind::backward_input ? 1 : 2];
    int const stage = way == v_way::lower ? rank : 2 * ranks_ - 1 - rank;
    (*out_)(rank, op(kind, stage_id{stage}, microbatch_id{microbatch}));
  }

  int ranks_;
  std::int64_t memory_;
  std::int64_t window_;
  weight_rule rule_;
  std::array<instant, 3> duration_;
  instant latency_;
  instant longest_idle_{};
  instant longest_before_{};
  vector<rank_state> rank_;
  vector<instant> ended_;
  vector<v_way> waiting_;
  Sink* out_;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
