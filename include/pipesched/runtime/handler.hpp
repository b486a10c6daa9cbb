// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What a user provides to run a rank's program: a handler, and how a run can end.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include <pipesched/core/op.hpp>

namespace pipesched {
inline namespace v0 {

/// How a rank's run ended, and what a handler's call may return.
enum class run_status : std::uint8_t {
  completed,
  failed,     ///< the handler said so, or threw
  timed_out,  ///< a message did not come in time
  stopped,    ///< another rank failed
};

[[nodiscard]] constexpr std::string_view name_of(run_status status) noexcept {
  switch (status) {
    case run_status::completed: return "completed";
    case run_status::failed: return "failed";
    case run_status::timed_out: return "timed out";
    case run_status::stopped: return "stopped";
  }
  return "?";
}

/// How one rank's run ended; where it did not complete, at which op it stood.
struct run_report {
  run_status status = run_status::completed;
  int rank = 0;
  std::size_t position = 0;    ///< in the rank's program
  op at = op::from_packed(0);  ///< the op there
  std::string reason = {};     ///< the text of what the handler threw, or whom the rank waited for; may be empty

  [[nodiscard]] explicit operator bool() const noexcept { return status == run_status::completed; }
};

/// "rank 2 timed out at position 7, 2RECV_F3: no message from rank 1"
[[nodiscard]] inline std::string to_string(run_report const& report) {
  auto text = std::string("rank ").append(std::to_string(report.rank)).append(" ").append(name_of(report.status));
  if (report) return text;
  text.append(" at position ").append(std::to_string(report.position)).append(", ").append(to_string(report.at));
  if (!report.reason.empty()) text.append(": ").append(report.reason);
  return text;
}

/// A message as a handler sees it: what to send or receive, with whom, and in which buffer.
struct transfer {
  op what;                ///< SEND_F, RECV_F, SEND_B, RECV_B; in `wait` also WAIT_SEND_F and WAIT_SEND_B
  op producer;            ///< whose output or gradient it is
  op consumer;            ///< who needs it
  std::uint32_t message;  ///< unique in the step, equal at both ends: a tag
  int peer;               ///< the rank at the other end
  std::uint32_t slot;     ///< the buffer, from 0 for each `buffer_kind`
};

/// Runs the compute of a rank.
///
/// Expressions, for an lvalue `h` and an `op o` that is F, B, I or W: `h.forward(o)`, `h.backward(o)`,
/// `h.backward_input(o)`, `h.backward_weight(o)`. Each returns when the op is done or, on a GPU, is in its stream.
/// Ops come as `op::alone()`, in a pair too, and so compare equal to a `transfer`'s producer and consumer.
/// They return nothing, or a `bool` or `run_status` that says whether to go on, and nothing else (an `int` might mean
/// either); they may throw.
/// Optional, with the same answers: `h.overlapped(f, b)` for a pair, else one after the other; `h.before(o)` and
/// `h.after(o)` around each op, for a profiler, and around `overlapped` those of b within those of f.
/// Optional: `h.stop(report)` when the run ends early, to tell the other ranks.
/// Satisfied by: any class with these members; none has to be virtual. Not by: a function object, which would have to
/// ask each op for its kind.
template <class H>
concept compute_handler = requires(H& h, op o) {
  h.forward(o);
  h.backward(o);
  h.backward_input(o);
  h.backward_weight(o);
};

/// Also moves messages, for an lvalue `h` and a `transfer t`:
///  - `h.send(t)`: the output is complete; begin to send it;
///  - `h.receive(t)`: begin to receive into the slot;
///  - `h.wait(t)`: a RECV: until the message is there, since its consumer is next. A SEND or WAIT_SEND: until the
///    buffer may be written again.
/// They return and throw as the others do. `send` and `receive` must not wait for the other end where the plan's
/// policy is not free of deadlock with blocking transports. Optional, with the same answers: `h.begin_group()` and
/// `h.end_group()` around a coalesced group; one in which something fails is not ended.
template <class H>
concept message_handler = compute_handler<H> && requires(H& h, transfer const& t) {
  h.send(t);
  h.receive(t);
  h.wait(t);
};

namespace detail {

/// A handler's answer as a status.
template <class Call>
[[nodiscard]] run_status status_of(Call&& call) {
  using answer = decltype(call());
  static_assert(std::same_as<answer, void> || std::same_as<answer, bool> || std::same_as<answer, run_status>,
                "a handler's members return void, bool (true: go on) or pipesched::run_status; turn an error code into "
                "one of them, e.g. `return code == 0;`");
  if constexpr (std::same_as<answer, run_status>) {
    return call();
  } else if constexpr (std::same_as<answer, bool>) {
    return call() ? run_status::completed : run_status::failed;
  } else {
    call();
    return run_status::completed;
  }
}

/// Makes `call()`. What it throws is a failure, where the report has no other yet.
template <class Call>
void catching([[maybe_unused]] run_report& report, Call&& call) {
#if defined(__cpp_exceptions)
  auto const fail = [&](char const* reason) {
    if (!report) return;
    report.status = run_status::failed;
    report.reason = reason;
  };
  try {
    call();
  } catch (std::exception const& error) {
    fail(error.what());
  } catch (...) {
    fail("the handler threw something that is no std::exception");
  }
#else
  call();
#endif
}

/// Runs `body(report)`, which keeps `position` and `at` up to date and returns the status; the handler hears of the end
/// if it is not the planned one. Throws nothing of what they throw.
template <class Handler, class Body>
[[nodiscard]] run_report guarded(int rank, Handler& handler, Body&& body) {
  run_report report;
  report.rank = rank;
  catching(report, [&] { report.status = body(report); });
  if constexpr (requires { handler.stop(report); })
    if (!report) catching(report, [&] { handler.stop(report); });
  return report;
}

/// The hooks around a piece of work, of a handler that has them.
/// \{
template <class Handler, class What>
[[nodiscard]] run_status before([[maybe_unused]] Handler& handler, [[maybe_unused]] What const& what) {
  if constexpr (requires { handler.before(what); })
    return status_of([&] { return handler.before(what); });
  else
    return run_status::completed;
}
template <class Handler, class What>
[[nodiscard]] run_status after([[maybe_unused]] Handler& handler, [[maybe_unused]] What const& what) {
  if constexpr (requires { handler.after(what); })
    return status_of([&] { return handler.after(what); });
  else
    return run_status::completed;
}
/// \}

/// `work()` with the hooks around it, as far as all goes well.
template <class Handler, class What, class Work>
[[nodiscard]] run_status with_hooks(Handler& handler, What const& what, Work&& work) {
  auto status = before(handler, what);
  if (status == run_status::completed) status = work();
  return status == run_status::completed ? after(handler, what) : status;
}

/// What to do with one chunk op.
template <compute_handler Handler>
[[nodiscard]] run_status call_op(Handler& handler, op o) {
  switch (o.kind()) {
    case op_kind::forward: return status_of([&] { return handler.forward(o); });
    case op_kind::backward: return status_of([&] { return handler.backward(o); });
    case op_kind::backward_input: return status_of([&] { return handler.backward_input(o); });
    case op_kind::backward_weight: return status_of([&] { return handler.backward_weight(o); });
    default: return run_status::completed;  // UNSHARD and the like are the framework's own
  }
}

/// One chunk op, with the hooks around it.
template <compute_handler Handler>
[[nodiscard]] run_status run_op(Handler& handler, op o) {
  op const alone = o.alone();
  return with_hooks(handler, alone, [&] { return call_op(handler, alone); });
}

/// A pair: side by side where the handler can, else one after the other, with `turn_to_b()` between them.
template <compute_handler Handler, class Turn>
[[nodiscard]] run_status run_pair(Handler& handler, op f, op b, [[maybe_unused]] Turn&& turn_to_b) {
  if constexpr (requires { handler.overlapped(f, b); }) {
    op const first = f.alone(), second = b.alone();
    return with_hooks(handler, first, [&] {
      return with_hooks(handler, second, [&] { return status_of([&] { return handler.overlapped(first, second); }); });
    });
  } else {
    if (auto const status = run_op(handler, f); status != run_status::completed) return status;
    turn_to_b();
    return run_op(handler, b);
  }
}

}  // namespace detail

}  // namespace v0
}  // namespace pipesched
