// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Times that were measured in a real run, as a cost model.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include <pipesched/core/error.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/sort.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>

namespace pipesched {
inline namespace v0 {

/// One op, or overlapped pair, as a profiler saw it.
struct measured_op {
  /// The op; of a pair its forward, with `overlaps_next()` set.
  op what;
  /// How long it took, in a unit that all measurements share; >= 0.
  double duration;
  /// When it began; NaN where that was not recorded.
  double start = std::numeric_limits<double>::quiet_NaN();
  /// The rank that ran it; -1 where that was not recorded.
  int rank = -1;
  /// The backward of a pair; of no meaning else.
  op partner = op::from_packed(0);

  [[nodiscard]] constexpr bool has_start() const noexcept { return start == start; }
};

/// From the first start to the last end of a run; 0 where no start was recorded.
[[nodiscard]] constexpr double measured_makespan(view<measured_op> run) noexcept {
  double first = 0;
  double last = 0;
  bool any = false;
  for (auto const& m : run) {
    if (!m.has_start()) continue;
    first = any ? std::min(first, m.start) : m.start;
    last = any ? std::max(last, m.start + m.duration) : m.start + m.duration;
    any = true;
  }
  return last - first;
}

/// The cost model of a run: each op takes as long as it did, so that the run's own timeline comes out where nothing but
/// the ops cost time. The difference from the measured makespan is what the model leaves out.
///
/// An op measured several times (several steps) takes the mean. An op that was not measured takes the mean of its stage
/// and kind, and 0 where there is none: see `knows`. A pair that was not measured takes the sum of its members.
class measured_cost {
 public:
  /// `latency`: of an edge between different ranks. Throws `parameter_error` for a duration that is negative or NaN.
  constexpr explicit measured_cost(view<measured_op> run, double latency = 0) : latency_(latency) {
    require(at_least("latency", latency, 0.0));
    for (auto const& m : run) {
      require(at_least("duration", m.duration, 0.0));
      ops_.push_back({key_of(m.what), m.duration, 1});
      stages_.push_back({stage_key_of(m.what), m.duration, 1});
    }
    average(ops_);
    average(stages_);
  }

  /// Whether the op itself was measured; of a pair, ask with its forward as it stands in the program.
  [[nodiscard]] constexpr bool knows(op o) const noexcept { return find(ops_, key_of(o)) != nullptr; }

  [[nodiscard]] constexpr double operator()(op o, int /*rank*/) const noexcept { return time_of_one(o.alone()); }
  [[nodiscard]] constexpr double pair_time(op f, op b, int /*rank*/) const noexcept {
    auto const* pair = find(ops_, key_of(f.overlapping_next()));
    if (pair == nullptr && !(knows(f.alone()) && knows(b.alone())))
      pair = find(stages_, stage_key_of(f.overlapping_next()));
    return pair != nullptr ? pair->total : time_of_one(f.alone()) + time_of_one(b.alone());
  }
  [[nodiscard]] constexpr double transfer_time(int, int) const noexcept { return latency_; }

 private:
  struct entry {
    std::uint64_t key;
    double total;  // the mean, once `average` has run
    std::int64_t count;
  };

  /// A microbatch runs on one copy of a stage, so the replica tells nothing.
  [[nodiscard]] static constexpr std::uint64_t key_of(op o) noexcept {
    op const plain(o.kind(), stage_id{o.stage()}, microbatch_id{o.microbatch()});
    return (o.overlaps_next() ? plain.overlapping_next() : plain).packed();
  }
  [[nodiscard]] static constexpr std::uint64_t stage_key_of(op o) noexcept { return key_of(o) >> 32; }

  /// Sorts by key and leaves one entry, with the mean, for each.
  static constexpr void average(detail::vector<entry>& entries) {
    // Also by time: the sum must not depend on the order of the file.
    detail::sort(entries,
                 [](entry const& a, entry const& b) { return a.key != b.key ? a.key < b.key : a.total < b.total; });
    std::size_t kept = 0;
    for (auto const& e : entries) {
      if (kept > 0 && entries[kept - 1].key == e.key) {
        entries[kept - 1].total += e.total;
        ++entries[kept - 1].count;
      } else {
        entries[kept++] = e;
      }
    }
    entries.erase(entries.begin() + std::ptrdiff_t(kept), entries.end());
    for (auto& e : entries) e.total /= double(e.count);
  }

  [[nodiscard]] static constexpr entry const* find(detail::vector<entry> const& entries, std::uint64_t key) noexcept {
    auto const at = std::lower_bound(entries.begin(), entries.end(), key,
                                     [](entry const& e, std::uint64_t k) { return e.key < k; });
    return at != entries.end() && at->key == key ? &*at : nullptr;
  }

  [[nodiscard]] constexpr double time_of_one(op o) const noexcept {
    auto const* known = find(ops_, key_of(o));
    if (known == nullptr) known = find(stages_, stage_key_of(o));
    return known != nullptr ? known->total : 0;
  }

  detail::vector<entry> ops_;     // by op
  detail::vector<entry> stages_;  // by stage and kind
  double latency_;
};

}  // namespace v0
}  // namespace pipesched
