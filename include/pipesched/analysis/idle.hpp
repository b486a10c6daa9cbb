// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Where a rank's idle time goes: to which phase of the step, and to what it waited for.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/graph/edge.hpp>

namespace pipesched {
inline namespace v0 {

/// Idle time of one rank by the phase it falls in. The steady phase runs from the start of the first backward to the
/// end of the last forward; warm-up is before it and cool-down after. Where there is none (no forward ends after the
/// first backward starts), the start of the first backward divides the two; without backwards, the end of the last
/// forward.
template <time_value T>
struct idle_by_phase {
  T warmup = 0;
  T steady = 0;
  T cooldown = 0;
};

/// Idle time of one rank by what it waited for: the type of the edge whose end let the next op start, or nothing, after
/// the rank's last op.
template <time_value T>
struct idle_by_cause {
  std::array<T, 10> waiting = {};  ///< by `edge_kind`
  T finished = 0;                  ///< from the end of the last op to the makespan

  [[nodiscard]] constexpr T of(edge_kind kind) const noexcept { return waiting[std::size_t(kind)]; }
};

namespace detail {

/// Follows one rank through its ops and attributes each gap to its phase. Where the steady phase ends is known only at
/// the last forward: gaps since the one before are kept apart until then.
template <time_value T>
class phase_tracker {
 public:
  constexpr void gap(T length) noexcept { (first_backward_ ? since_forward_ : idle_.warmup) += length; }
  constexpr void op(bool forward, bool backward, T start, T end) noexcept {
    if (backward && !first_backward_) first_backward_ = start;
    if (!forward) return;
    last_forward_ = end;
    if (first_backward_) idle_.steady += since_forward_;
    since_forward_ = 0;
  }

  /// What waits for the next forward to be attributed.
  [[nodiscard]] constexpr T since_forward() const noexcept { return since_forward_; }
  /// The gaps since `before`, `times` times more.
  constexpr void repeat_since(phase_tracker const& before, std::int64_t times) noexcept {
    auto const grow = [&](T& value, T then) { value += static_cast<T>(times) * (value - then); };
    grow(idle_.warmup, before.idle_.warmup);
    grow(idle_.steady, before.idle_.steady);
    grow(since_forward_, before.since_forward_);
  }

  /// The rank's idle time, the gap after its last op included.
  [[nodiscard]] constexpr idle_by_phase<T> idle(T finished) const noexcept {
    auto result = idle_;
    result.cooldown += since_forward_ + finished;
    return result;
  }
  /// The busy share of the steady phase, where there is one.
  [[nodiscard]] constexpr std::optional<double> steady_utilization() const noexcept {
    if (!first_backward_ || last_forward_ <= *first_backward_) return {};
    T const length = last_forward_ - *first_backward_;
    return static_cast<double>(length - idle_.steady) / static_cast<double>(length);
  }

 private:
  idle_by_phase<T> idle_;
  T since_forward_ = 0;
  T last_forward_ = 0;
  std::optional<T> first_backward_;
};

}  // namespace detail

}  // namespace v0
}  // namespace pipesched
