// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Times and closed forms that DualPipe and DualPipeV share.

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <pipesched/analysis/report.hpp>

namespace test_support {

struct dual_pipe_times {
  std::int64_t f, i, w;
  std::int64_t fb;  ///< of a pair; the closed forms hold for max(F, B) <= F&B <= F + B

  [[nodiscard]] std::int64_t b() const { return i + w; }
  [[nodiscard]] pipesched::uniform_cost<> cost() const {
    return {.forward = f, .backward_input = i, .backward_weight = w, .overlapped = fb, .latency = 0};
  }

  [[nodiscard]] static dual_pipe_times draw(std::mt19937& random) {
    auto const up_to = [&](std::int64_t n) { return 1 + std::int64_t(random()) % n; };
    dual_pipe_times t{up_to(9), up_to(9), up_to(9), 0};
    auto const shortest = std::max(t.f, t.b());
    t.fb = shortest + std::int64_t(random()) % (t.f + t.b() - shortest + 1);
    return t;
  }

  /// Idle time of the rank that is `k` ranks from the entries.
  [[nodiscard]] std::int64_t idle_in_the_middle(std::int64_t k) const {
    return k * (fb + std::max(f, i) - w - std::min(w, i)) - (f < i ? std::min(k * (i - f), f) : 0);
  }
  /// What a pair saves.
  [[nodiscard]] std::int64_t saved() const { return f + b() - fb; }
};

/// Unit times but for the pairs.
inline pipesched::uniform_cost<double> units_with_pairs_of(double fb) {
  return {.forward = 1, .backward_input = 1, .backward_weight = 1, .overlapped = fb, .latency = 0};
}

template <class Time>
std::vector<Time> idle_per_rank(pipesched::report<Time> const& all) {
  std::vector<Time> idle;
  for (auto const& rank : all.per_rank) idle.push_back(rank.idle);
  return idle;
}

}  // namespace test_support
