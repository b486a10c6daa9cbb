// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Where a rank's idle time goes: to which phase of the step, and to what it waited for.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

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
  constexpr void gap(T length) noexcept { gaps_ += length; }
  constexpr void op(bool forward, bool backward, T start, T end) noexcept {
    if (backward && !first_backward_) {
      first_backward_ = start;
      warmup_ = std::exchange(gaps_, T{0});
    }
    if (!forward) return;
    last_forward_ = end;
    if (first_backward_) steady_ += std::exchange(gaps_, T{0});
  }

  /// \name For loops that keep the sums to themselves, over ops other than the first backward and the last forward
  /// \{
  [[nodiscard]] constexpr bool has_backward() const noexcept { return first_backward_.has_value(); }
  [[nodiscard]] constexpr T gaps() const noexcept { return gaps_; }
  [[nodiscard]] constexpr T steady() const noexcept { return steady_; }
  constexpr void set(T gaps, T steady) noexcept {
    gaps_ = gaps;
    steady_ = steady;
  }
  /// \}

  /// What waits for the next forward to be attributed.
  [[nodiscard]] constexpr T since_forward() const noexcept { return first_backward_ ? gaps_ : T{0}; }
  /// The gaps since `before`, `times` times more. Precondition: the first backward is not between them.
  constexpr void repeat_since(phase_tracker const& before, std::int64_t times) noexcept {
    gaps_ += static_cast<T>(times) * (gaps_ - before.gaps_);
    steady_ += static_cast<T>(times) * (steady_ - before.steady_);
  }

  /// The rank's idle time, the gap after its last op included.
  [[nodiscard]] constexpr idle_by_phase<T> idle(T finished) const noexcept {
    return {first_backward_ ? warmup_ : gaps_, steady_, since_forward() + finished};
  }
  /// The busy share of the steady phase, where there is one.
  [[nodiscard]] constexpr std::optional<double> steady_utilization() const noexcept {
    if (!first_backward_ || last_forward_ <= *first_backward_) return {};
    T const length = last_forward_ - *first_backward_;
    return static_cast<double>(length - steady_) / static_cast<double>(length);
  }

 private:
  T gaps_ = 0;  // before the first backward, then since the last forward
  T warmup_ = 0;
  T steady_ = 0;
  T last_forward_ = 0;
  std::optional<T> first_backward_;
};

}  // namespace detail

}  // namespace v0
}  // namespace pipesched
