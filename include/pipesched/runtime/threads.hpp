// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Ranks as threads of one process: a transport through memory, for tests and examples.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <pipesched/graph/communication_plan.hpp>
#include <pipesched/runtime/deadline.hpp>
#include <pipesched/runtime/handler.hpp>

namespace pipesched {
inline namespace v0 {

/// Carries messages between threads. A send moves its payload into the mailbox of the message and returns at once, so
/// that no policy can hang on it. A mailbox is a queue: of a rank that is steps ahead, each step's payload reaches the
/// same step of the receiver. How far ahead that is, and so the memory, only the program bounds: with a backward a rank
/// cannot leave the others a whole step behind, forward-only the first one can leave them any number.
template <class Payload>
class thread_transport {
 public:
  /// `time_out`: the longest that a receive waits for its message. With none left, 0 or below, it takes what is there.
  thread_transport(communication_plan const& plan, std::chrono::nanoseconds time_out)
      : thread_transport(plan.messages().size(), plan.ranks(), time_out) {}
  /// For messages that have ids below `messages`.
  thread_transport(std::size_t messages, int ranks, std::chrono::nanoseconds time_out)
      : mailboxes_(messages), posts_(std::size_t(ranks)), time_out_(time_out) {}

  /// Hands over the payload of `t`.
  void send(transfer const& t, Payload payload) {
    auto& post = posts_[std::size_t(t.peer)];
    {
      std::lock_guard const lock(post.mutex);
      mailboxes_[t.message].push_back(std::move(payload));
    }
    post.changed.notify_all();
  }

  /// Waits for the message `t` of `rank` and puts the first that came into `payload`. `timed_out` where none has come
  /// in time, `stopped` where a rank has stopped.
  [[nodiscard]] run_status receive(int rank, transfer const& t, Payload& payload) {
    auto& post = posts_[std::size_t(rank)];
    auto& mailbox = mailboxes_[t.message];
    std::unique_lock lock(post.mutex);
    bool const woken = post.changed.wait_until(lock, detail::deadline_after(time_out_),
                                               [&] { return !mailbox.empty() || post.stopped; });
    if (!woken) return run_status::timed_out;
    if (post.stopped) return run_status::stopped;
    payload = std::move(mailbox.front());
    mailbox.pop_front();
    return run_status::completed;
  }

  /// Every rank that waits, or will, stops: for good, or until `reset`.
  void stop() {
    for (auto& post : posts_) {
      {
        std::lock_guard const lock(post.mutex);
        post.stopped = true;
      }
      post.changed.notify_all();
    }
  }

  /// As new: no rank has stopped and no message is left. Precondition: no rank is running.
  void reset() {
    for (auto& mailbox : mailboxes_) mailbox.clear();
    for (auto& post : posts_) post.stopped = false;
  }

 private:
  /// What guards the mailboxes of the messages to one rank.
  struct post_office {
    std::mutex mutex;
    std::condition_variable changed;
    bool stopped = false;
  };

  std::vector<std::list<Payload>> mailboxes_;  // by message; lists, as an empty one has no memory
  std::vector<post_office> posts_;             // by rank
  std::chrono::nanoseconds time_out_;
};

/// Runs `body(rank)`, which returns that rank's `run_report`, in a thread for each rank, and returns all reports. What
/// `body` throws is a failure of its rank, at position 0; so is a thread that the system refuses.
template <class Body>
[[nodiscard]] std::vector<run_report> run_on_threads(int ranks, Body&& body) {
  std::vector<run_report> reports;
  reports.resize(std::size_t(ranks));
  std::vector<std::thread> threads;
  threads.reserve(reports.size());
  for (int rank = 0; rank < ranks; ++rank) {
    auto& report = reports[std::size_t(rank)];
    report.rank = rank;
    auto const run_rank = [&body, &report, rank] { detail::catching(report, [&] { report = body(rank); }); };
    detail::catching(report, [&] { threads.emplace_back(run_rank); });
  }
  for (auto& thread : threads) thread.join();
  return reports;
}

}  // namespace v0
}  // namespace pipesched
