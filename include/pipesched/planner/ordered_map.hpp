// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A function of 0..n-1 on all cores, its results in order.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// The threads that are meant by `wanted`, where 0 is one per core; no more than there is work.
[[nodiscard]] inline std::size_t thread_count(int wanted, std::size_t work) {
  auto const all = wanted > 0 ? std::size_t(wanted) : std::size_t(std::thread::hardware_concurrency());
  std::size_t const most = work > 0 ? work : 1;
  return all < 1 ? 1 : all < most ? all : most;
}

/// The results of `work(i)` for i = 0..count-1, in this order, whichever thread computed them and when.
///
/// The threads run ahead of the consumer by a fixed number of results, so that memory does not grow with `count`. The
/// consumer is one of them: while its next result is not there, it computes the next that nobody has begun. With one
/// thread, or where the system gives no more, everything runs in the consumer. An index is claimed by one atomic
/// operation and a result handed over by another; nothing is locked.
///
/// `work` is called from many threads at once. What it throws is thrown by `next`, in its turn.
template <class Result, class Work>
class ordered_map {
 public:
  /// `threads`: the consumer's is one of them; at least 1. `ahead`: results for each thread that nobody has taken.
  ordered_map(std::size_t count, std::size_t threads, Work work, std::size_t ahead = ahead_per_thread)
      : work_(std::move(work)), count_(count), slots_(ahead * threads) {
    helpers_.reserve(threads - 1);
    for (std::size_t i = 1; i < threads; ++i)
      if (!start_helper()) break;
  }
  ordered_map(ordered_map const&) = delete;
  ordered_map& operator=(ordered_map const&) = delete;
  /// Waits for what is being computed, and begins nothing new.
  ~ordered_map() {
    close();
    for (auto& helper : helpers_) helper.join();
  }

  [[nodiscard]] std::size_t size() const noexcept { return count_; }

  /// The next result in order; none after the last one, after one that threw, and after `close`.
  [[nodiscard]] std::optional<Result> next() {
    auto const n = taken_.load(std::memory_order_relaxed);
    if (n == closed || n == count_) return {};
    auto& slot = slots_[n % slots_.size()];
    while (slot.ready.load(std::memory_order_acquire) == 0) {
      if (auto const claimed = claim())
        compute(*claimed);
      else
        slot.ready.wait(0, std::memory_order_acquire);  // all there is to do has been begun, this one too
    }
    if (slot.error) {
      close();
      std::rethrow_exception(slot.error);
    }
    std::optional<Result> result = std::move(slot.value);
    slot.value.reset();
    slot.ready.store(0, std::memory_order_relaxed);
    taken_.store(n + 1, std::memory_order_release);
    taken_.notify_all();
    return result;
  }

  /// Begins nothing new, and gives out no more results.
  void close() noexcept {
    taken_.store(closed, std::memory_order_release);
    taken_.notify_all();
  }

 private:
  static constexpr std::size_t closed = std::size_t(-1);
  /// Enough that a thread does not wait while the consumer is busy with one large piece of work.
  static constexpr std::size_t ahead_per_thread = 64;

  struct result_slot {
    std::atomic<std::uint32_t> ready = 0;
    std::optional<Result> value;
    std::exception_ptr error;
  };

  /// The next index that nobody has begun and whose slot is free.
  [[nodiscard]] std::optional<std::size_t> claim() noexcept {
    auto i = begun_.load(std::memory_order_relaxed);
    do {
      auto const taken = taken_.load(std::memory_order_acquire);
      if (taken == closed || i == count_ || i >= taken + slots_.size()) return {};
    } while (!begun_.compare_exchange_weak(i, i + 1, std::memory_order_relaxed));
    return i;
  }

  void compute(std::size_t i) noexcept {
    auto& slot = slots_[i % slots_.size()];
#if defined(__cpp_exceptions)
    try {
      slot.value.emplace(work_(i));
    } catch (...) {
      slot.error = std::current_exception();
    }
#else
    slot.value.emplace(work_(i));
#endif
    slot.ready.store(1, std::memory_order_release);
    slot.ready.notify_one();
  }

  void help() noexcept {
    for (;;) {
      auto const taken = taken_.load(std::memory_order_acquire);
      if (auto const claimed = claim())
        compute(*claimed);
      else if (taken == closed || begun_.load(std::memory_order_relaxed) == count_)
        return;
      else
        taken_.wait(taken, std::memory_order_acquire);
    }
  }

  /// False where the system has no thread to give.
  [[nodiscard]] bool start_helper() {
#if defined(__cpp_exceptions)
    try {
      helpers_.emplace_back([this] { help(); });
    } catch (std::system_error const&) {
      return false;
    }
#else
    helpers_.emplace_back([this] { help(); });
#endif
    return true;
  }

  Work const work_;
  std::size_t const count_;
  std::vector<result_slot> slots_;      // result i is in slot i mod size
  std::atomic<std::size_t> begun_ = 0;  // results that some thread has claimed
  std::atomic<std::size_t> taken_ = 0;  // results that the consumer has, or `closed`
  std::vector<std::thread> helpers_;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
