// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The figures of a schedule, and how those of all ranks follow from each rank's.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/idle.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/vector.hpp>

namespace pipesched {
inline namespace v0 {

/// The figures of one rank. Times are in the cost model's unit, memory in the memory model's.
template <time_value T>
struct rank_report {
  int rank;
  detail::vector<stage_copy> stages;  ///< by replica, then stage
  std::int64_t operations;            ///< nodes of its compute stream
  T busy;                             ///< sum of the durations on the compute stream, a pair counted once
  T idle;                             ///< makespan - busy
  T first_start;                      ///< 0 for a rank without ops
  T last_end;
  idle_by_phase<T> idle_phase;
  idle_by_cause<T> idle_cause;
  /// Busy share of the steady phase; none where there is no such phase.
  std::optional<double> steady_utilization;
  /// Forwards that run before the steady alternation of forwards and backwards begins: those before the first backward,
  /// less the one that alternates with it; all of them where no forward follows the first backward.
  std::int64_t warmup;
  std::int64_t peak_activations;
  op peak_op;                  ///< the first op that reaches the peak; meaningless where the peak is 0
  std::int64_t peak_position;  ///< its place on the compute stream, from 0
  T peak_time;                 ///< when it starts
  int parameter_copies;
};

/// The figures of a schedule: per rank and over all.
template <time_value T>
struct report {
  int ranks;
  int stages;
  int chunks;  ///< stages of one replica per rank, the most of any rank
  std::int64_t microbatches;
  std::int64_t operations;

  T makespan;
  T busy_total;   ///< over all ranks
  T idle_total;   ///< over all ranks
  T bubble_time;  ///< the idle time of the rank that idles most: what closed forms give
  T span;         ///< the longest of the ranks' spans from their first start to their last end

  double ideal;                              ///< mean busy time of a rank
  double bubble_fraction;                    ///< idle_total / (ranks * makespan), in [0,1)
  double bubble_ratio;                       ///< idle_total / busy_total
  double utilization;                        ///< 1 - bubble_fraction
  double span_bubble_rate;                   ///< (span - ideal) / span
  std::optional<double> steady_utilization;  ///< mean over the ranks that have a steady phase

  std::int64_t peak_activations;  ///< the highest over ranks
  int parameter_copies;           ///< the highest over ranks
  std::vector<rank_report<T>> per_rank;
};

namespace detail {

constexpr double share(auto part, auto whole) noexcept {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

/// Counts the forwards of a rank before its first backward that alternate with none; see `rank_report::warmup`.
class warmup_counter {
 public:
  constexpr void block(std::int64_t forwards, bool backward, bool pair) noexcept {
    if (backward && !seen_backward_) {
      seen_backward_ = true;
      first_is_pair_ = pair;
    }
    (seen_backward_ ? after_ : before_) += forwards;
  }
  [[nodiscard]] constexpr std::int64_t count() const noexcept {
    return seen_backward_ && after_ > 0 && !first_is_pair_ && before_ > 0 ? before_ - 1 : before_;
  }

 private:
  std::int64_t before_ = 0;
  std::int64_t after_ = 0;
  bool seen_backward_ = false;
  bool first_is_pair_ = false;
};

/// Fills in what follows from the placement. Returns the most stages of one replica on any rank.
template <time_value T>
constexpr int report_placement(placement const& where, std::vector<rank_report<T>>& ranks) {
  int chunks = 0;
  for (int replica = 0; replica < where.replicas(); ++replica) {
    vector<int> held(ranks.size(), 0);
    for (int stage = 0; stage < where.stages(); ++stage) {
      auto const r = std::size_t(where.rank_of(stage, replica));
      ranks[r].stages.push_back(stage_copy{stage, replica});
      if (held[r]++ == 0) ++ranks[r].parameter_copies;
      chunks = std::max(chunks, held[r]);
    }
  }
  return chunks;
}

/// Fills in what follows from the figures of the ranks.
template <time_value T>
constexpr void report_totals(report<T>& all) {
  double steady_sum = 0;
  int steady_ranks = 0;
  for (auto const& rank : all.per_rank) {
    all.busy_total += rank.busy;
    all.idle_total += rank.idle;
    all.bubble_time = std::max(all.bubble_time, rank.idle);
    all.span = std::max(all.span, rank.last_end - rank.first_start);
    all.peak_activations = std::max(all.peak_activations, rank.peak_activations);
    all.parameter_copies = std::max(all.parameter_copies, rank.parameter_copies);
    if (rank.steady_utilization) {
      steady_sum += *rank.steady_utilization;
      ++steady_ranks;
    }
  }
  all.ideal = static_cast<double>(all.busy_total) / all.ranks;
  all.bubble_fraction = share(all.idle_total, all.idle_total + all.busy_total);
  all.bubble_ratio = share(all.idle_total, all.busy_total);
  all.utilization = 1.0 - all.bubble_fraction;
  all.span_bubble_rate = share(static_cast<double>(all.span) - all.ideal, all.span);
  if (steady_ranks > 0) all.steady_utilization = steady_sum / steady_ranks;
}

/// A report in which only the ranks' own figures are missing, and the totals.
template <time_value T>
constexpr report<T> blank_report(placement const& where, std::int64_t microbatches) {
  report<T> all{};
  all.ranks = where.ranks();
  all.stages = where.stages();
  all.microbatches = microbatches;
  for (int rank = 0; rank < where.ranks(); ++rank) {
    all.per_rank.push_back(rank_report<T>{});
    all.per_rank.back().rank = rank;
  }
  all.chunks = report_placement(where, all.per_rank);
  return all;
}

}  // namespace detail

}  // namespace v0
}  // namespace pipesched
