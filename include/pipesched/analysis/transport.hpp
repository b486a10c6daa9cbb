// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A communication plan under a transport: whether it runs, who waits for whom where it does not, and its timeline.

#include <cstdint>
#include <string>
#include <utility>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/transport_engine.hpp>
#include <pipesched/analysis/transport_model.hpp>
#include <pipesched/core/buffer.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/communication_plan.hpp>

namespace pipesched {
inline namespace v0 {

/// What a transport makes of a plan. `blocked` has one entry for the program of each rank that cannot finish, and for
/// each queue that stands still. It is empty where every program is run to its end, though a send that nobody receives
/// be left in a queue.
struct transport_report {
  detail::vector<transport_wait> blocked;
  /// Each waits for its `awaited`, which is the next one's entry or comes after it in the same queue; the last one's
  /// leads back to the first. Empty where ranks wait for a receive that is in no program.
  detail::vector<transport_wait> cycle;

  [[nodiscard]] constexpr bool deadlock_free() const noexcept { return blocked.empty(); }
};

/// Whether a plan runs to its end under a transport. Time linear in the plan's entries. Throws `parameter_error` for
/// a bound below 1.
[[nodiscard]] constexpr transport_report check_transport(communication_plan const& plan, transport_model model) {
  detail::transport_engine<std::int64_t> engine(plan, model);
  engine.run([](op, int) { return 0; });
  return {engine.blocked(), engine.cycle()};
}

/// "rank 0: 0SEND_F1 waits for 1RECV_F1 of rank 1".
[[nodiscard]] inline std::string to_string(communication_plan const& plan, transport_wait const& wait) {
  auto text = std::string("rank ")
                  .append(std::to_string(wait.rank))
                  .append(": ")
                  .append(to_string(plan.entries()[wait.entry].what))
                  .append(" waits for ");
  if (wait.awaited == message::nobody) return text.append("a receive that is in no program");
  auto const awaited_rank = plan.rank_of(wait.awaited);
  text.append(to_string(plan.entries()[wait.awaited].what));
  if (awaited_rank != wait.rank) text.append(" of rank ").append(std::to_string(awaited_rank));
  return text;
}

/// Start and end of every entry of a plan under a transport and a cost model. A chunk op runs from its start to its
/// end. A send or receive starts when the program has reached it and its queue is free, and ends when the message has
/// passed: for a buffered send, when it is buffered.
template <time_value T>
class transport_timeline {
 public:
  /// Throws `schedule_error`, with the cycle, where the plan deadlocks; `parameter_error` as `timeline` does.
  template <cost_model Cost>
  constexpr transport_timeline(communication_plan const& plan, transport_model model, Cost const& cost) {
    detail::transport_engine<T> engine(plan, model);
    engine.run(cost);
    if (!engine.complete()) {
      std::string text = "deadlock";
      auto const cycle = engine.cycle();
      for (auto const& wait : cycle.empty() ? engine.blocked() : cycle) text.append("; ").append(to_string(plan, wait));
      PIPESCHED_FAIL(schedule_error(text));
    }
    start_ = std::move(engine.starts());
    end_ = std::move(engine.ends());
    makespan_ = engine.makespan();
  }

  /// By the entry's index in `communication_plan::entries()`.
  [[nodiscard]] constexpr T start(std::uint32_t entry) const noexcept { return start_[entry]; }
  [[nodiscard]] constexpr T end(std::uint32_t entry) const noexcept { return end_[entry]; }
  /// The end of the last chunk op.
  [[nodiscard]] constexpr T makespan() const noexcept { return makespan_; }

 private:
  detail::buffer<T> start_;
  detail::buffer<T> end_;
  T makespan_ = 0;
};

/// The timeline of a plan under a transport.
template <cost_model Cost>
[[nodiscard]] constexpr transport_timeline<time_of<Cost>> make_timeline(communication_plan const& plan,
                                                                        transport_model model, Cost const& cost) {
  return transport_timeline<time_of<Cost>>(plan, model, cost);
}

}  // namespace v0
}  // namespace pipesched
