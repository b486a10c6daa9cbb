// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The ranks that take turns.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <pipesched/core/placement.hpp>
#include <pipesched/core/vector.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// A set of ranks, a bit for each, that is gone through in ascending order while it changes. Above the words there are
/// words of which a bit says that one below is not empty, and so on up to a single one: going from one rank to the next
/// takes three looks at most, however few ranks are left.
class rank_set {
 public:
  static constexpr std::uint32_t none = 0xFFFFFFFF;

  constexpr explicit rank_set(int ranks) {
    auto count = std::size_t(ranks);
    for (auto& begin : level_begin_) {
      begin = words_.size();
      count = (count + 63) / 64;
      words_.resize(begin + count + 1, 0);  // and an empty one, so that no search leaves the level
    }
  }

  [[nodiscard]] constexpr bool empty() const noexcept { return words_[level_begin_[levels - 1]] == 0; }

  constexpr void insert(std::uint32_t rank) noexcept {
    std::size_t at = rank;
    for (auto begin : level_begin_) {
      auto& word = words_[begin + at / 64];
      bool const is_known_above = word != 0;
      word |= std::uint64_t{1} << at % 64;
      if (is_known_above) return;
      at /= 64;
    }
  }
  constexpr void erase(std::uint32_t rank) noexcept {
    std::size_t at = rank;
    for (auto begin : level_begin_) {
      auto& word = words_[begin + at / 64];
      word &= ~(std::uint64_t{1} << at % 64);
      if (word != 0) return;
      at /= 64;
    }
  }

  /// The first rank that is not below `from`; `none` where there is none.
  [[nodiscard]] constexpr std::uint32_t first_from(std::uint32_t from) const noexcept {
    if (auto const bits = words_[from / 64] >> from % 64; bits != 0)
      return from + std::uint32_t(std::countr_zero(bits));
    return first_beyond_word(from / 64);
  }

 private:
  static constexpr std::size_t levels = 3;
  static_assert(max_stages <= 64 * 64 * 64, "three levels are enough for all ranks that there can be");

  [[nodiscard]] constexpr std::uint32_t first_beyond_word(std::size_t word) const noexcept {
    for (std::size_t level = 1; level < levels; ++level) {
      auto at = word + 1;
      word = at / 64;
      auto const bits = words_[level_begin_[level] + word] >> at % 64;
      if (bits == 0) continue;
      at += std::size_t(std::countr_zero(bits));
      while (level-- > 0) at = 64 * at + std::size_t(std::countr_zero(words_[level_begin_[level] + at]));
      return std::uint32_t(at);
    }
    return none;
  }

  vector<std::uint64_t> words_;  // level by level, from the ranks' own
  std::array<std::size_t, levels> level_begin_{};
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
