// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Drives one rank's program through the user's handler: one rank, one thread, no state of its own.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <pipesched/analysis/plan_buffers.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/graph/communication_plan.hpp>
#include <pipesched/runtime/handler.hpp>

namespace pipesched {
inline namespace v0 {

/// What one rank runs: its row of a plan, and the slots of its messages. The plan and its buffers must outlive it.
class rank_program {
 public:
  /// Throws `parameter_error` for a rank that the plan does not have, for buffers of another plan, and for a send that
  /// nobody receives, as a plan that was read may have. Time linear in the program.
  rank_program(communication_plan const& plan, buffer_plan const& buffers, int rank)
      : plan_(&plan), buffers_(&buffers), rank_(rank) {
    require(first_violation({at_least("rank", rank, 0), at_most("rank", rank, plan.ranks() - 1, "ranks - 1")}));
    if (!buffers.are_of(plan, rank))
      require(parameter_violation{"buffers (of this plan)", 0, "must be", 1, "made by buffer_plan(plan)"});
    std::int64_t unreceived = 0;
    for (auto const& entry : plan.program(rank))
      unreceived += is_send(entry.what.kind()) && plan.message_of(entry).receive == message::nobody;
    require(at_most("plan (sends that nobody receives)", unreceived, 0, "they would never end"));
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] communication_plan const& plan() const noexcept { return *plan_; }
  [[nodiscard]] view<plan_entry> entries() const noexcept { return plan_->program(rank_); }

  /// The message of an entry of this rank's, as a handler sees it.
  [[nodiscard]] transfer transfer_at(std::size_t position) const noexcept {
    auto const& entry = entries()[position];
    auto const& m = plan_->message_of(entry);
    auto const taker = is_receive(entry.what.kind()) ? m.receive : m.send;
    return {entry.what,    plan_->producer_of(m), plan_->consumer_of(m),
            entry.message, plan_->peer_of(entry), buffers_->use_of(taker).slot};
  }

 private:
  communication_plan const* plan_;
  buffer_plan const* buffers_;
  int rank_;
};

namespace detail {

/// The receives that each op of a rank waits for, by position in the rank's program.
class arrivals {
 public:
  explicit arrivals(rank_program const& program)
      : first_(program.entries().size(), none), next_(program.entries().size(), none) {
    auto const begin = program.plan().row_begin(program.rank());
    for (std::size_t i = program.entries().size(); i-- > 0;) {
      auto const& entry = program.entries()[i];
      if (!is_receive(entry.what.kind())) continue;
      auto const consumer = program.plan().message_of(entry).consumer - begin;
      next_[i] = first_[consumer];
      first_[consumer] = i;
    }
  }

  /// Calls `visit(position of the receive)`, first posted first, until one does not complete.
  template <class Visit>
  [[nodiscard]] run_status for_each(std::size_t position, Visit&& visit) const {
    for (auto at = first_[position]; at != none; at = next_[at])
      if (auto const status = visit(at); status != run_status::completed) return status;
    return run_status::completed;
  }

 private:
  static constexpr auto none = std::size_t(-1);
  vector<std::size_t> first_;
  vector<std::size_t> next_;
};

}  // namespace detail

namespace detail {

/// One run of one rank's program.
template <message_handler Handler>
class plan_run {
 public:
  plan_run(rank_program const& program, Handler& handler, run_report& report)
      : program_(program), handler_(handler), report_(report), arrivals_(program) {}

  [[nodiscard]] run_status all() {
    auto const entries = program_.entries();
    std::vector<bool> awaited(entries.size(), false);  // sends that a WAIT_SEND has met
    bool in_group = false;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      auto const& entry = entries[i];
      auto status = run_status::completed;
      if (entry.is_communication()) {
        stand_at(i);
        if (entry.grouped_with_next && !in_group) status = begin_group();
        if (status == run_status::completed) status = move_message(i);
        if (status == run_status::completed && in_group && !entry.grouped_with_next) status = end_group();
        in_group = entry.grouped_with_next;
        if (is_wait(entry)) awaited[send_of(entry)] = true;
      } else {
        bool const pair = entry.what.overlaps_next() && i + 1 < entries.size();
        status = pair ? compute_pair(i) : compute(i);
        i += pair;
      }
      if (status != run_status::completed) return status;
    }
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (!is_send(entries[i].what.kind()) || awaited[i]) continue;
      if (auto const status = wait(i); status != run_status::completed) return status;
    }
    return run_status::completed;
  }

 private:
  [[nodiscard]] static bool is_wait(plan_entry const& entry) noexcept {
    return entry.is_communication() && !is_send(entry.what.kind()) && !is_receive(entry.what.kind());
  }
  [[nodiscard]] std::size_t send_of(plan_entry const& entry) const noexcept {
    return program_.plan().message_of(entry).send - program_.plan().row_begin(program_.rank());
  }
  void stand_at(std::size_t position) noexcept {
    report_.position = position;
    report_.at = program_.entries()[position].what;
  }
  [[nodiscard]] run_status begin_group() {
    if constexpr (requires { handler_.begin_group(); })
      return status_of([&] { return handler_.begin_group(); });
    else
      return run_status::completed;
  }
  [[nodiscard]] run_status end_group() {
    if constexpr (requires { handler_.end_group(); })
      return status_of([&] { return handler_.end_group(); });
    else
      return run_status::completed;
  }

  [[nodiscard]] run_status move_message(std::size_t position) {
    auto const t = program_.transfer_at(position);
    return with_hooks(handler_, t.what, [&] {
      if (is_send(t.what.kind())) return status_of([&] { return handler_.send(t); });
      if (is_receive(t.what.kind())) return status_of([&] { return handler_.receive(t); });
      return awaited_of(t, status_of([&] { return handler_.wait(t); }));
    });
  }

  /// The status of a wait; where it timed out, the report says for whom.
  [[nodiscard]] run_status awaited_of(transfer const& t, run_status status) {
    if (status == run_status::timed_out)
      report_.reason =
          (is_receive(t.what.kind()) ? "no message from rank " : "not received by rank ") + std::to_string(t.peer);
    return status;
  }

  [[nodiscard]] run_status wait(std::size_t position) {
    stand_at(position);
    auto const t = program_.transfer_at(position);
    return awaited_of(t, status_of([&] { return handler_.wait(t); }));
  }

  /// Until all messages that an op needs are there.
  [[nodiscard]] run_status await_inputs(std::size_t position) {
    return arrivals_.for_each(position, [&](std::size_t receive) { return wait(receive); });
  }

  [[nodiscard]] run_status compute(std::size_t position) {
    if (auto const status = await_inputs(position); status != run_status::completed) return status;
    stand_at(position);
    return run_op(handler_, program_.entries()[position].what);
  }

  [[nodiscard]] run_status compute_pair(std::size_t position) {
    for (auto member : {position, position + 1})
      if (auto const status = await_inputs(member); status != run_status::completed) return status;
    stand_at(position);
    auto const entries = program_.entries();
    return run_pair(handler_, entries[position].what, entries[position + 1].what, [&] { stand_at(position + 1); });
  }

  rank_program const& program_;
  Handler& handler_;
  run_report& report_;
  arrivals arrivals_;
};

}  // namespace detail

/// Runs a rank's program with its messages, in order: sends and receives where they stand, a wait for each receive
/// before its consumer, for each send at its WAIT_SEND, and for the rest of the sends at the end. Returns when the
/// program is done or the handler fails; it does not throw what the handler throws. Reentrant: any number of ranks, or
/// of steps, may run at once with a handler each.
template <message_handler Handler>
run_report run(rank_program const& program, Handler& handler) {
  return detail::guarded(program.rank(), handler,
                         [&](run_report& report) { return detail::plan_run<Handler>(program, handler, report).all(); });
}

/// Runs a program of chunk ops alone: a schedule's row, where the handler needs no messages or moves them itself.
/// `rank` is for the report alone.
template <compute_handler Handler>
run_report run(view<op> program, Handler& handler, int rank) {
  return detail::guarded(rank, handler, [&](run_report& report) {
    auto const stand_at = [&](std::size_t position) {
      report.position = position;
      report.at = program[position];
    };
    for (std::size_t i = 0; i < program.size(); ++i) {
      stand_at(i);
      bool const pair = program[i].overlaps_next() && i + 1 < program.size();
      auto const status = pair ? detail::run_pair(handler, program[i], program[i + 1], [&] { stand_at(i + 1); })
                               : detail::run_op(handler, program[i]);
      if (status != run_status::completed) return status;
      i += pair;
    }
    return run_status::completed;
  });
}

}  // namespace v0
}  // namespace pipesched
