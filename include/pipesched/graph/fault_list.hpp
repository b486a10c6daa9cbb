// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Collects the faults of a schedule.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <pipesched/core/fault.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/core/vector.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Faults in the order in which they are found, up to a number; the rest are counted.
class fault_list {
 public:
  constexpr explicit fault_list(std::size_t most) : most_(most) {}

  constexpr void add(fault const& f) {
    if (faults_.size() < most_)
      faults_.push_back(f);
    else
      ++left_out_;
  }

  /// Adds a fault of one microbatch, or makes the last one of its kind longer where it is the next of the same stage.
  constexpr void add_run(fault const& f) {
    auto const kind = std::size_t(f.kind);
    if (last_.size() <= kind) last_.resize(kind + 1, none);
    if (last_[kind] != none) {
      auto& last = faults_[last_[kind]];
      if (last.what.stage() == f.what.stage() && last.what.replica() == f.what.replica() &&
          last.what.microbatch() + last.count == f.what.microbatch()) {
        last.count += f.count;
        return;
      }
    }
    auto const before = faults_.size();
    add(f);
    last_[kind] = faults_.size() > before ? before : none;
  }

  /// The faults, with one that stands for those left out.
  [[nodiscard]] constexpr vector<fault> take() {
    if (left_out_ > 0)
      faults_.push_back(
          fault{.kind = fault_kind::not_listed, .what = op::from_packed(0), .where = {}, .count = left_out_});
    return std::move(faults_);
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};

  std::size_t most_;
  vector<fault> faults_;
  vector<std::size_t> last_;  // by kind, where `add_run` put its last fault
  std::int64_t left_out_ = 0;
};

/// The place of an entry of `schedule::ops()`.
[[nodiscard]] constexpr program_place place_of(schedule const& s, std::size_t index) noexcept {
  auto const offsets = s.offsets();
  auto const after = std::upper_bound(offsets.begin(), offsets.end(), index);
  auto const rank = after - offsets.begin() - 1;
  return {int(rank), std::int64_t(index - offsets[std::size_t(rank)])};
}

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
