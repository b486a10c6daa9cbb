// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Messages over MPI: non-blocking sends and receives from the slots of a plan. No part of the umbrella header.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <vector>

// The C++ bindings, which MPI 3 removed, would have to be linked.
#if !defined(OMPI_SKIP_MPICXX)
#define OMPI_SKIP_MPICXX 1
#endif
#if !defined(MPICH_SKIP_MPICXX)
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <pipesched/analysis/plan_buffers.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/graph/communication_plan.hpp>
#include <pipesched/runtime/deadline.hpp>
#include <pipesched/runtime/handler.hpp>
#include <pipesched/runtime/run.hpp>

namespace pipesched {
inline namespace v0 {

/// The ranks of `communicator` whose digest differs from that of rank 0; the same answer on every rank. To be called
/// before step 0, with the digests of schedule and plan: ranks that disagree on either would hang. Collective.
[[nodiscard]] inline std::vector<int> ranks_that_differ(MPI_Comm communicator, std::uint64_t digest) {
  int size = 0;
  MPI_Comm_size(communicator, &size);
  std::vector<std::uint64_t> digests(std::size_t(size), 0);
  MPI_Allgather(&digest, 1, MPI_UINT64_T, digests.data(), 1, MPI_UINT64_T, communicator);
  std::vector<int> different;
  for (int rank = 1; rank < size; ++rank)
    if (digests[std::size_t(rank)] != digests[0]) different.push_back(rank);
  return different;
}

/// Waits for what MPI has under way, and watches meanwhile the time, the other ranks, and whether somebody interrupts.
///
/// One thread at a time, but for `interrupt`. Needs no thread support of MPI.
class mpi_watch {
 public:
  /// `time_out`: the longest that `wait` waits. With none left, 0 or below, it looks once. Collective over
  /// `communicator`.
  mpi_watch(MPI_Comm communicator, std::chrono::nanoseconds time_out) : time_out_(time_out) {
    MPI_Comm_dup(communicator, &control_);
    MPI_Comm_set_errhandler(control_, MPI_ERRORS_RETURN);  // a rank may be gone
  }
  mpi_watch(mpi_watch const&) = delete;
  mpi_watch& operator=(mpi_watch const&) = delete;
  mpi_watch(mpi_watch&&) = delete;
  mpi_watch& operator=(mpi_watch&&) = delete;
  /// Collective where no rank stopped; else it leaves the communicator to MPI, which frees it when it ends.
  ~mpi_watch() {
    if (!stopped_) MPI_Comm_free(&control_);
  }

  /// Until `request` has ended. `timed_out` where it has not in time; `stopped` where another rank has stopped or is
  /// gone, or where this one is interrupted.
  [[nodiscard]] run_status wait(MPI_Request& request) const {
    auto const deadline = detail::deadline_after(time_out_);
    for (std::int64_t tries = 0;; ++tries) {
      int ended = 0;
      if (MPI_Test(&request, &ended, MPI_STATUS_IGNORE) != MPI_SUCCESS) return run_status::stopped;
      if (ended != 0) return run_status::completed;
      if (interrupted_ || another_has_stopped()) return run_status::stopped;
      if (std::chrono::steady_clock::now() > deadline) return run_status::timed_out;
      // With more processes than cores, the one that is waited for needs this core.
      if (tries > 100) std::this_thread::yield();
    }
  }

  /// Tells every rank that this one has stopped; they notice in their next `wait`. To be called from the handler's
  /// `stop`. MPI cannot go on after it: what is under way is given up, so leave with `MPI_Abort`.
  void stop(run_report const& report) {
    stopped_ = true;
    if (report.status == run_status::stopped && !interrupted_) return;  // they have been told
    int size = 0;
    int rank = 0;
    MPI_Comm_size(control_, &size);
    MPI_Comm_rank(control_, &rank);
    for (int other = 0; other < size; ++other) {
      if (other == rank) continue;
      MPI_Request request = MPI_REQUEST_NULL;
      if (MPI_Isend(nullptr, 0, MPI_BYTE, other, 0, control_, &request) == MPI_SUCCESS) MPI_Request_free(&request);
    }
  }
  [[nodiscard]] bool has_stopped() const noexcept { return stopped_; }

  /// Ends this rank's waits. Safe in a signal handler: `mpirun` sends SIGTERM to the ranks that are left when one dies,
  /// and a job's manager sends it before it ends the job.
  void interrupt() noexcept { interrupted_ = true; }

 private:
  [[nodiscard]] bool another_has_stopped() const {
    int there = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, 0, control_, &there, MPI_STATUS_IGNORE);
    return there != 0;
  }

  std::chrono::nanoseconds time_out_;
  MPI_Comm control_ = MPI_COMM_NULL;  // for the word that a rank has stopped
  bool stopped_ = false;
  std::atomic<bool> interrupted_ = false;
  static_assert(std::atomic<bool>::is_always_lock_free, "what a signal handler may touch");
};

/// Moves the messages of one rank's program. It owns the slots, so that a handler writes an output into `slot(t)`
/// before `send(t)`, and reads an input there after `wait(t)`. A message's id is its tag.
///
/// One thread at a time. Needs no thread support of MPI. Not copyable: MPI writes into its memory.
class mpi_transport {
 public:
  /// `bytes`: of the largest message. `time_out`: the longest that `wait` waits. Collective over `communicator`, whose
  /// ranks are those of the plan. Throws `parameter_error` where they are not, where there are more messages than MPI
  /// has tags, or more bytes than MPI can count.
  mpi_transport(MPI_Comm communicator, rank_program const& program, buffer_plan const& buffers, std::size_t bytes,
                std::chrono::nanoseconds time_out)
      : bytes_(checked_bytes(bytes)),
        requests_(checked_messages(communicator, program.plan()), MPI_REQUEST_NULL),
        watch_(communicator, time_out) {
    MPI_Comm_dup(communicator, &data_);
    MPI_Comm_set_errhandler(data_, MPI_ERRORS_RETURN);  // a rank may be gone: `wait` says so
    for (std::size_t kind = 0; kind < buffer_kinds; ++kind)
      if (buffer_kind(kind) != buffer_kind::stashed_activation)
        memory_[kind].resize(std::size_t(buffers.slots(program.rank(), buffer_kind(kind))) * bytes);
  }
  mpi_transport(mpi_transport const&) = delete;
  mpi_transport& operator=(mpi_transport const&) = delete;
  mpi_transport(mpi_transport&&) = delete;
  mpi_transport& operator=(mpi_transport&&) = delete;
  /// Collective where the run completed; else it leaves the communicators to MPI, which frees them when it ends.
  ~mpi_transport() {
    if (!watch_.has_stopped()) MPI_Comm_free(&data_);
  }

  /// The memory of a message's slot on this rank.
  [[nodiscard]] std::span<std::byte> slot(transfer const& t) noexcept {
    auto const kind = t.what.kind() == op_kind::recv_forward    ? buffer_kind::received_activation
                      : t.what.kind() == op_kind::recv_backward ? buffer_kind::received_gradient
                                                                : buffer_kind::outstanding_send;
    return std::span<std::byte>(memory_[std::size_t(kind)]).subspan(t.slot * bytes_, bytes_);
  }

  /// Begins to send what is in the slot. `failed` where MPI cannot, as to a rank that is gone.
  [[nodiscard]] run_status send(transfer const& t) {
    auto const from = slot(t);
    return status_of_call(
        MPI_Isend(from.data(), int(from.size()), MPI_BYTE, t.peer, int(t.message), data_, &requests_[t.message]));
  }
  /// Begins to receive into the slot. `failed` where MPI cannot.
  [[nodiscard]] run_status receive(transfer const& t) {
    auto const into = slot(t);
    return status_of_call(
        MPI_Irecv(into.data(), int(into.size()), MPI_BYTE, t.peer, int(t.message), data_, &requests_[t.message]));
  }
  /// Until the message has passed; else as `mpi_watch::wait`.
  [[nodiscard]] run_status wait(transfer const& t) { return watch_.wait(requests_[t.message]); }
  /// As `mpi_watch::stop`.
  void stop(run_report const& report) { watch_.stop(report); }
  [[nodiscard]] mpi_watch& watch() noexcept { return watch_; }

 private:
  [[nodiscard]] static run_status status_of_call(int code) noexcept {
    return code == MPI_SUCCESS ? run_status::completed : run_status::failed;
  }
  [[nodiscard]] static std::size_t checked_bytes(std::size_t bytes) {
    constexpr std::size_t most_told = std::numeric_limits<std::int64_t>::max();
    require(at_most("bytes", std::int64_t(std::min(bytes, most_told)), std::numeric_limits<int>::max(),
                    "MPI counts them in an int"));
    return bytes;
  }
  [[nodiscard]] static std::size_t checked_messages(MPI_Comm communicator, communication_plan const& plan) {
    int size = 0;
    MPI_Comm_size(communicator, &size);
    int const* largest_tag = nullptr;
    int has_largest_tag = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&largest_tag), &has_largest_tag);
    require(at_most("messages", std::int64_t(plan.messages().size()), has_largest_tag != 0 ? *largest_tag : 32767,
                    "the tags of this MPI"));
    if (size != plan.ranks())
      require(parameter_violation{"ranks", plan.ranks(), "must be", size, "the size of the communicator"});
    return plan.messages().size();
  }

  std::size_t bytes_;
  std::vector<MPI_Request> requests_;                             // by message
  std::array<std::vector<std::byte>, buffer_kinds> memory_ = {};  // slot after slot
  mpi_watch watch_;
  MPI_Comm data_ = MPI_COMM_NULL;
};

}  // namespace v0
}  // namespace pipesched
