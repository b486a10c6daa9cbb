// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What there is of each rank and between ranks while folded programs run.

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/folded_cursor.hpp>
#include <pipesched/analysis/folded_layout.hpp>
#include <pipesched/analysis/idle.hpp>
#include <pipesched/core/folded_program.hpp>
#include <pipesched/core/vector.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// The ends of what one rank has run and another has not taken up yet, first in, first out.
template <time_value T>
class channel {
 public:
  channel() = default;
  constexpr channel(std::uint32_t producer, std::uint32_t consumer, std::size_t capacity)
      : ends_(capacity, T{}), mask_(std::uint32_t(capacity - 1)), producer_(producer), consumer_(consumer) {}

  [[nodiscard]] constexpr std::uint32_t producer() const noexcept { return producer_; }
  [[nodiscard]] constexpr std::uint32_t consumer() const noexcept { return consumer_; }
  [[nodiscard]] constexpr std::uint32_t size() const noexcept { return put_ - taken_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return put_ == taken_; }
  [[nodiscard]] constexpr bool full() const noexcept { return size() > mask_; }
  [[nodiscard]] constexpr T& at(std::uint32_t i) noexcept { return ends_[(taken_ + i) & mask_]; }
  [[nodiscard]] constexpr T const& at(std::uint32_t i) const noexcept { return ends_[(taken_ + i) & mask_]; }
  /// How many were ever taken, modulo 2^32.
  [[nodiscard]] constexpr std::uint32_t taken() const noexcept { return taken_; }
  [[nodiscard]] constexpr std::uint32_t put() const noexcept { return put_; }

  constexpr void push(T end) noexcept { ends_[put_++ & mask_] = end; }
  constexpr T pop() noexcept { return ends_[taken_++ & mask_]; }
  constexpr void grow() {
    vector<T> larger(2 * ends_.size(), T{});
    for (std::uint32_t i = 0; i < size(); ++i) larger[(taken_ + i) & (2 * mask_ + 1)] = at(i);
    ends_ = std::move(larger);
    mask_ = 2 * mask_ + 1;
  }

  /// Goes on as if so many had been put and as many taken; what is in it is `at` to be set.
  constexpr void pass(std::uint32_t count) noexcept {
    put_ += count;
    taken_ += count;
  }

  bool consumer_waits = false;  ///< for something to take
  bool producer_waits = false;  ///< for room

 private:
  vector<T> ends_;  // a power of two
  std::uint32_t mask_ = 0;
  std::uint32_t taken_ = 0;
  std::uint32_t put_ = 0;
  std::uint32_t producer_ = 0;
  std::uint32_t consumer_ = 0;
};

/// Where a rank is, and what is known of it so far.
template <time_value T>
struct folded_rank_state : folded_cursor {
  std::int64_t position = 0;  ///< ops run
  std::int64_t halt = 0;      ///< where it stops, or is watched: the nearer one
  T clock = 0;
  std::array<T, 2> waiting = {};  ///< idle time before activations and gradients
  phase_tracker<T> phases = {};
  T busy = 0;  // beside neither the clock nor the gaps: g++ would keep both in one register and unpack them each time
  bool is_ready = false;
  folded_op const* ops = nullptr;  ///< of its program
  std::int64_t stop = 0;
  std::int64_t watch = 0;  ///< the next op at which more is asked than its end
  T first_start = 0;
  T start = 0;  ///< of the last block
  T peak_start = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
