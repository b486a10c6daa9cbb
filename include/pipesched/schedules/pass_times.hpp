// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The times that a schedule is made for, where its order depends on them.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include <pipesched/core/error.hpp>

namespace pipesched {
inline namespace v0 {

/// The times of one stage, in any unit: whole numbers, so that the order they lead to is the same on every compiler.
/// Not a cost model of an analysis: only the ratios matter, and a schedule stays right for any other times.
struct pass_times {
  std::int64_t forward = 1;
  std::int64_t backward_input = 1;
  std::int64_t backward_weight = 1;
  std::int64_t latency = 0;  ///< between different ranks

  /// The same ratios from real times, in the largest unit 10^-k (k <= 9) in which all of them are whole; exact for
  /// decimals that a user would write (11.347), and rounded to 10^-9 beyond. Times that are not numbers, negative or
  /// too large come out as a time of -1, which `check` refuses.
  [[nodiscard]] static constexpr pass_times of(double forward, double backward_input, double backward_weight,
                                               double latency = 0) {
    std::array<double, 4> const times{forward, backward_input, backward_weight, latency};
    std::array<std::int64_t, 4> whole{-1, -1, -1, -1};
    double scale = 1;
    for (int digits = 0; digits <= 9; ++digits, scale *= 10) {
      std::array<std::int64_t, 4> scaled{};
      bool all_whole = true;
      for (std::size_t i = 0; i < times.size(); ++i) {
        double const value = times[i] * scale;
        bool const fits = value >= 0 && value < 0x1p52;
        scaled[i] = fits ? static_cast<std::int64_t>(value + 0.5) : -1;
        double const error = value - static_cast<double>(scaled[i]);
        all_whole = all_whole && fits && error <= value * 1e-12 && -error <= value * 1e-12;
      }
      if (digits > 0 && std::count(scaled.begin(), scaled.end(), -1) > 0) break;  // the unit before was the finest
      whole = scaled;
      if (all_whole) break;
    }
    return {whole[0], whole[1], whole[2], whole[3]};
  }

  [[nodiscard]] constexpr bool equal() const noexcept {
    return forward == backward_input && forward == backward_weight && latency == 0;
  }

  /// Whether a step of `ranks` and `microbatches` at these times can be counted in 64 bits.
  [[nodiscard]] constexpr check_result check(std::int64_t ranks, std::int64_t microbatches) const {
    // No rank waits longer than the whole step takes on one rank at a time.
    auto const steps = 12 * (std::max<std::int64_t>(microbatches, 1) + 2 * std::max<std::int64_t>(ranks, 1));
    auto const longest = std::numeric_limits<std::int64_t>::max() / steps / 2;
    auto const bounded = [&](std::string_view name, std::int64_t time) {
      return first_violation({at_least(name, time, 0), at_most(name, time, longest, "the step must fit 64 bits")});
    };
    return first_violation({bounded("forward", forward), bounded("backward_input", backward_input),
                            bounded("backward_weight", backward_weight), bounded("latency", latency)});
  }

  friend constexpr bool operator==(pass_times const&, pass_times const&) = default;
};

}  // namespace v0
}  // namespace pipesched
