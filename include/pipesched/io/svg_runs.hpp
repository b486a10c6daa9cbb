// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Runs of equal ops on a row of a picture.

#include <pipesched/core/vector.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Equal ops at equal distances: `count` of them, each `length` long, the next one `period` after the one before.
struct op_run {
  double start;
  double length;
  double period;
  std::int64_t count;
};

/// Merges the ops of one look on one row, which come in the order of time, into runs. An op that continues a run costs
/// nothing: a steady phase of any number of microbatches is one run per look.
class run_merger {
 public:
  /// Times that differ by at most `tolerance` are equal.
  explicit run_merger(double tolerance) : tolerance_(tolerance) {}

  void add(double start, double length) {
    if (!runs_.empty()) {
      auto& last = runs_.back();
      double const distance = start - (last.start + last.period * double(last.count - 1));
      bool const continues = last.count == 1 || equal(distance, last.period);
      if (continues && equal(length, last.length)) {
        if (last.count == 1) last.period = distance;
        ++last.count;
        return;
      }
      // Two ops of different neighbourhoods look like a run of two; the second may begin a longer one.
      if (last.count == 2 && !equal(last.period, last.length) && equal(length, last.length)) {
        double const second = last.start + last.period;
        last.count = 1;
        last.period = 0;
        runs_.push_back(op_run{second, length, start - second, 2});
        return;
      }
    }
    runs_.push_back(op_run{start, length, 0, 1});
  }

  [[nodiscard]] vector<op_run> const& runs() const noexcept { return runs_; }

 private:
  [[nodiscard]] bool equal(double a, double b) const noexcept { return std::abs(a - b) <= tolerance_; }

  double tolerance_;
  vector<op_run> runs_;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
