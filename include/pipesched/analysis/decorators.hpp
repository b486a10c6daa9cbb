// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Cost models made from other cost models. They compose: `with_overhead(with_sm_partition(cost), 0.01)`.

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/graph/moe_events.hpp>

namespace pipesched {
inline namespace v0 {

/// A GPU whose multiprocessors are divided for as long as an overlapped pair runs: `sm_comm` of `sm_total` serve its
/// communication, and its computation slows by sm_total / (sm_total - sm_comm).
///
/// What runs beside communication is so a question of the schedule, not of times: the attention and MLP events of
/// overlapped pairs (`op::in_pair`), all of which have an all-to-all beside them in the pair's order. Other events and
/// chunk ops keep their times.
template <cost_model Inner>
struct sm_partition_cost {
  Inner inner;
  int sm_total;
  int sm_comm;

  static constexpr bool same_for_all_microbatches = pipesched::same_for_all_microbatches<Inner>;

  [[nodiscard]] constexpr double operator()(op o, int rank) const {
    auto const time = static_cast<double>(op_time(inner, o, rank));
    return o.in_pair() && is_compute_event(o.kind()) ? time * sm_total / (sm_total - sm_comm) : time;
  }
  [[nodiscard]] constexpr double pair_time(op f, op b, int rank) const {
    return static_cast<double>(pipesched::pair_time(inner, f, b, rank));
  }
  [[nodiscard]] constexpr double transfer_time(int from, int to) const {
    return static_cast<double>(pipesched::transfer_time(inner, from, to));
  }
};

/// Divides the multiprocessors of a GPU; by default the 132 and 20 of DeepSeek-V3 (arXiv 2412.19437, section 3.2.2).
/// Throws `parameter_error` unless 0 <= sm_comm < sm_total.
template <cost_model Inner>
[[nodiscard]] constexpr sm_partition_cost<Inner> with_sm_partition(Inner inner, int sm_total = 132, int sm_comm = 20) {
  require(first_violation({at_least("sm_total", sm_total, 1), at_least("sm_comm", sm_comm, 0),
                           at_most("sm_comm", sm_comm, std::int64_t{sm_total} - 1, "sm_total - 1")}));
  return {std::move(inner), sm_total, sm_comm};
}

/// Every op takes `overhead` longer; a pair twice that.
template <cost_model Inner, time_value Overhead>
struct overhead_cost {
  Inner inner;
  Overhead overhead;
  using time_type = std::common_type_t<time_of<Inner>, Overhead>;

  static constexpr bool same_for_all_microbatches = pipesched::same_for_all_microbatches<Inner>;

  [[nodiscard]] constexpr time_type operator()(op o, int rank) const {
    return static_cast<time_type>(op_time(inner, o, rank)) + static_cast<time_type>(overhead);
  }
  [[nodiscard]] constexpr time_type pair_time(op f, op b, int rank) const {
    return static_cast<time_type>(pipesched::pair_time(inner, f, b, rank)) + 2 * static_cast<time_type>(overhead);
  }
  [[nodiscard]] constexpr time_type transfer_time(int from, int to) const {
    return static_cast<time_type>(pipesched::transfer_time(inner, from, to));
  }
};

/// Adds a fixed overhead to every op or event: a kernel launch, say. Throws `parameter_error` for one that is negative
/// or not a number.
template <cost_model Inner, time_value Overhead>
[[nodiscard]] constexpr overhead_cost<Inner, Overhead> with_overhead(Inner inner, Overhead overhead) {
  require(at_least("overhead", overhead, 0));
  return {std::move(inner), overhead};
}

/// Every op takes `factor(op, rank)` times as long; a pair the larger of its members' factors. Transfers keep theirs.
template <cost_model Inner, cost_model Factor>
struct straggler_cost {
  Inner inner;
  Factor factor;
  using time_type = std::common_type_t<time_of<Inner>, time_of<Factor>>;

  static constexpr bool same_for_all_microbatches =
      pipesched::same_for_all_microbatches<Inner> && pipesched::same_for_all_microbatches<Factor>;

  [[nodiscard]] constexpr time_type operator()(op o, int rank) const {
    return static_cast<time_type>(op_time(inner, o, rank)) * factor_of(o, rank);
  }
  [[nodiscard]] constexpr time_type pair_time(op f, op b, int rank) const {
    return static_cast<time_type>(pipesched::pair_time(inner, f, b, rank)) *
           std::max(factor_of(f, rank), factor_of(b, rank));
  }
  [[nodiscard]] constexpr time_type transfer_time(int from, int to) const {
    return static_cast<time_type>(pipesched::transfer_time(inner, from, to));
  }

 private:
  [[nodiscard]] constexpr time_type factor_of(op o, int rank) const {
    auto const value = static_cast<time_type>(factor(o, rank));
    require(at_least("straggler factor", value, 0));
    return value;
  }
};

/// Slows ops down by a callable on (op, rank), e.g. `[](op, int rank) { return rank == 3 ? 2 : 1; }`. A factor that is
/// negative or not a number raises `parameter_error` when it is used.
template <cost_model Inner, cost_model Factor>
[[nodiscard]] constexpr straggler_cost<Inner, Factor> with_stragglers(Inner inner, Factor factor) {
  return {std::move(inner), std::move(factor)};
}

}  // namespace v0
}  // namespace pipesched
