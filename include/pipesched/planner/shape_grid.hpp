// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Many shapes of many schedules, made as they are asked for.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <pipesched/core/error.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/schedules/registry.hpp>

namespace pipesched {
inline namespace v0 {

/// A schedule of the library by its name, and the shape that it is wanted in.
struct named_shape {
  std::string_view schedule;  ///< one of `schedule_names`; must outlive its user, as the names of the library do
  pipesched::shape shape;
};

/// Shapes by position.
///
/// Expressions, for a const `s` and `std::size_t i` below `s.size()`: `s.size()`, `s[i]`, which converts to a
/// `named_shape`. Both are safe from many threads. Satisfied by: `std::vector<named_shape>`, `std::array`, `std::span`
/// and `shape_grid`.
template <class S>
concept shape_sequence = requires(S const& s, std::size_t i) {
  { s.size() } -> std::convertible_to<std::size_t>;
  { s[i] } -> std::convertible_to<named_shape>;
};

/// What a `shape_grid` is made of.
struct grid_limits {
  int ranks = 64;                                ///< P is 1 .. ranks
  int microbatches_per_rank = 4;                 ///< m is 1 .. microbatches_per_rank * P
  std::vector<std::string_view> schedules = {};  ///< by name, in this order; all where empty
  std::vector<std::int64_t> chunks = {2};        ///< for the schedules that have chunks, each of these

  /// Nothing, or the first number out of its bound. Shapes that a schedule refuses are no reason.
  [[nodiscard]] constexpr check_result check() const noexcept {
    return first_violation({at_least("ranks", ranks, 1), at_most("ranks", ranks, max_stages),
                            at_least("microbatches_per_rank", microbatches_per_rank, 1),
                            at_most("microbatches_per_rank", microbatches_per_rank, max_stages)});
  }
};

/// Every P, every m up to a multiple of P, every schedule, every number of chunks: in this order, the last the fastest,
/// so that the schedules of one (P, m) stand side by side. Nothing but the limits is stored. Shapes that a schedule
/// refuses are among them.
class shape_grid {
 public:
  /// Throws `parameter_error` where `limits.check()` finds a violation, `schedule_error` for a name of no schedule.
  explicit shape_grid(grid_limits const& limits = {}) {
    require(limits.check());
    auto const add = [&](std::string_view name) {
      bool const known = with_schedule_type(name, [&]<class Generator>() {
        if constexpr (detail::has_chunks<Generator>) {
          for (auto const chunks : limits.chunks) columns_.push_back({Generator::info.name, {.chunks = chunks}});
        } else {
          columns_.push_back({Generator::info.name, {}});
        }
      });
      if (!known) PIPESCHED_FAIL(schedule_error(unknown_schedule_message(name)));
    };
    for (auto const name : limits.schedules) add(name);
    if (limits.schedules.empty())
      for (auto const name : schedule_names) add(name);
    before_.push_back(0);
    for (int ranks = 1; ranks <= limits.ranks; ++ranks)
      before_.push_back(before_.back() + std::size_t(ranks) * std::size_t(limits.microbatches_per_rank));
  }

  [[nodiscard]] std::size_t size() const noexcept { return before_.back() * columns_.size(); }

  /// Precondition: `i < size()`. Time in proportion to the logarithm of the number of ranks.
  [[nodiscard]] named_shape operator[](std::size_t i) const noexcept {
    auto const pair = i / columns_.size();
    auto const ranks = std::size_t(std::upper_bound(before_.begin(), before_.end(), pair) - before_.begin());
    auto result = columns_[i % columns_.size()];
    result.shape.ranks = std::int64_t(ranks);
    result.shape.microbatches = std::int64_t(pair - before_[ranks - 1] + 1);
    return result;
  }

 private:
  std::vector<named_shape> columns_;  // a schedule and its chunks
  std::vector<std::size_t> before_;   // pairs (P, m) with P <= the index
};

}  // namespace v0
}  // namespace pipesched
