// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Runs a communication plan under a transport: the common part of the deadlock check and the timeline.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/transport_layout.hpp>
#include <pipesched/analysis/transport_model.hpp>
#include <pipesched/core/buffer.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/communication_plan.hpp>

namespace pipesched {
inline namespace v0 {

/// An entry of a plan that cannot pass because another one has not passed.
struct transport_wait {
  int rank;
  std::uint32_t entry;    ///< index in `communication_plan::entries()`
  std::uint32_t awaited;  ///< as well; `message::nobody` where a send waits for a receive that is in no program
  friend constexpr bool operator==(transport_wait const&, transport_wait const&) = default;
};

namespace detail {

/// A plan's entries in lanes: one for the program of each rank, and the queues of its transport. A lane passes its
/// entries in order and stops at the first that waits for another entry, which wakes it. All conditions stay true once
/// they are, so the order in which lanes are served changes neither times nor deadlocks.
template <time_value T>
class transport_engine {
 public:
  constexpr transport_engine(communication_plan const& plan, transport_model model)
      : plan_(&plan),
        model_(checked(model)),
        layout_(plan, model),
        limit_(2 * plan.entries().size()),
        start_(plan.entries().size(), T{0}),
        end_(plan.entries().size(), T{0}),
        state_(plan.entries().size(), state::ahead),
        waiting_(plan.entries().size(), none) {
    for (std::uint32_t at = 0; at < layout_.lanes().size(); ++at)
      lanes_.push_back(lane_state{layout_.lanes()[at].rank, at, layout_.lanes()[at].entries.size()});
  }

  template <cost_model Cost>
  constexpr void run(Cost const& cost) {
    for (auto lane = std::uint32_t(lanes_.size()); lane-- > 0;) ready_.push_back(lane);
    while (!ready_.empty()) {
      auto const lane = ready_.back();
      ready_.pop_back();
      advance(lane, cost);
    }
  }

  /// By entry; of those that have passed.
  [[nodiscard]] constexpr buffer<T>& starts() noexcept { return start_; }
  [[nodiscard]] constexpr buffer<T>& ends() noexcept { return end_; }
  [[nodiscard]] constexpr T makespan() const noexcept { return makespan_; }

  /// Whether every program has been run to its end. What is left in queues then, nobody receives.
  [[nodiscard]] constexpr bool complete() const noexcept {
    for (std::size_t rank = 0; rank < std::size_t(plan_->ranks()); ++rank)
      if (!lanes_[rank].finished()) return false;
    return true;
  }

  /// The lanes that cannot finish, in order of ranks; the program's before its queues'.
  [[nodiscard]] constexpr vector<transport_wait> blocked() const {
    vector<transport_wait> result;
    if (complete()) return result;
    auto const append = [&](lane_state const& l) {
      if (!l.finished()) result.push_back(l.wait);
    };
    auto queue = std::size_t(plan_->ranks());
    for (int rank = 0; rank < plan_->ranks(); ++rank) {
      append(lanes_[std::size_t(rank)]);
      for (; queue < lanes_.size() && lanes_[queue].rank == rank; ++queue) append(lanes_[queue]);
    }
    return result;
  }

  /// The first cycle of lanes; nothing where the programs are complete, or all wait for a receive that nobody posts.
  [[nodiscard]] constexpr vector<transport_wait> cycle() const {
    vector<std::size_t> visited(lanes_.size(), 0);  // the walk and step at which it was passed
    std::size_t step = 0;
    for (std::size_t first = 0; first < std::size_t(plan_->ranks()); ++first) {
      auto const first_step = step + 1;
      vector<transport_wait> path;
      auto at = first;
      while (!lanes_[at].finished() && visited[at] == 0) {
        path.push_back(lanes_[at].wait);
        visited[at] = ++step;
        if (lanes_[at].wait.awaited == none) break;
        at = layout_.lane_of(lanes_[at].wait.awaited);
        if (visited[at] >= first_step) return {path.begin() + std::ptrdiff_t(visited[at] - first_step), path.end()};
      }
    }
    return {};
  }

 private:
  static constexpr std::uint32_t none = transport_layout::none;
  static constexpr std::uint32_t never = transport_layout::never;

  enum class state : std::uint8_t { ahead, posted, passed };

  struct lane_state {
    int rank;
    std::uint32_t index;
    std::size_t size;
    std::size_t next = 0;  // the first that has not passed
    T clock = 0;
    std::uint32_t next_waiting = none;  // of the lanes that wait for the same entry
    transport_wait wait = {};
    [[nodiscard]] constexpr bool finished() const noexcept { return next == size; }
  };

  [[nodiscard]] static constexpr transport_model checked(transport_model model) {
    require(model.check());
    return model;
  }
  [[nodiscard]] constexpr vector<std::uint32_t> const& entries_of(lane_state const& l) const noexcept {
    return layout_.lanes()[l.index].entries;
  }

  template <class Cost>
  constexpr void advance(std::uint32_t at, Cost const& cost) {
    auto& l = lanes_[at];
    while (!l.finished()) {
      auto const entry = entries_of(l)[l.next];
      bool const passed = layout_.is_transfer(entry) ? pass_group(l, cost) : pass_program(l, cost);
      if (passed) continue;
      if (l.wait.awaited == none) return;
      l.next_waiting = waiting_[l.wait.awaited];
      waiting_[l.wait.awaited] = at;
      return;
    }
  }

  /// The lane's next chunk op, pair, or wait for a send.
  template <class Cost>
  constexpr bool pass_program(lane_state& l, Cost const& cost) {
    auto const entry = entries_of(l)[l.next];
    auto const& first = plan_->entries()[entry];
    T begin = l.clock;
    if (first.is_communication()) {  // WAIT_SEND: until the receiver has the message
      auto const receive = plan_->message_of(first).receive;
      if (!has_passed(receive)) return stop(l, entry, blamed_for(receive));
      pass(entry, begin, std::max(begin, end_[receive]));
      l.clock = end_[entry];
      ++l.next;
      return true;
    }
    bool const pair = first.what.overlaps_next() && l.next + 1 < l.size && entries_of(l)[l.next + 1] == entry + 1;
    for (auto e = entry; e <= entry + pair; ++e) {
      auto const arrived = [&](std::uint32_t receive) {
        if (!has_passed(receive)) return stop(l, e, blamed_for(receive));
        begin = std::max(begin, end_[receive]);
        return true;
      };
      if (!layout_.for_each_arrival(e, arrived)) return false;
    }
    T const duration = pair ? pipesched::pair_time(cost, first.what, plan_->entries()[entry + 1].what, l.rank)
                            : op_time(cost, first.what, l.rank);
    limit_.check("duration", duration);
    T const end = begin + duration;
    l.clock = end;
    makespan_ = std::max(makespan_, end);
    l.next += pair ? 2 : 1;
    for (auto e = entry; e <= entry + pair; ++e) pass(e, begin, end);
    return true;
  }

  /// The lane's next send or receive, with the rest of its coalesced group: all are posted at once, and the lane goes
  /// on when all have passed.
  template <class Cost>
  constexpr bool pass_group(lane_state& l, Cost const& cost) {
    auto const& entries = entries_of(l);
    T now = l.clock;
    if (layout_.has_queues() && !is_reached(l, entries[l.next], now)) return false;
    auto last = l.next + 1;
    while (last < l.size && are_grouped(entries[last - 1], entries[last])) ++last;
    for (auto i = l.next; i < last; ++i)
      if (state_[entries[i]] == state::ahead) post(entries[i], now);
    for (auto i = l.next; i < last; ++i) try_transfer(entries[i], cost);
    T after = now;
    for (auto i = l.next; i < last; ++i) {
      auto const entry = entries[i];
      if (!lets_go(entry)) return stop(l, entry, awaited_by(entry));
      if (state_[entry] == state::passed && model_.kind != transport_kind::async) after = std::max(after, end_[entry]);
    }
    l.clock = after;
    l.next = last;
    return true;
  }

  /// Whether the program has passed all before `entry`; then `now` is at least when it did.
  constexpr bool is_reached(lane_state& l, std::uint32_t entry, T& now) {
    auto before = entry;
    while (before > plan_->row_begin(l.rank) && layout_.is_transfer(before - 1)) --before;
    if (before == plan_->row_begin(l.rank)) return true;
    if (state_[before - 1] != state::passed) return stop(l, entry, before - 1);
    now = std::max(now, end_[before - 1]);
    return true;
  }

  [[nodiscard]] constexpr bool are_grouped(std::uint32_t earlier, std::uint32_t later) const noexcept {
    while (earlier < later && plan_->entries()[earlier].grouped_with_next) ++earlier;
    return earlier == later;
  }

  constexpr void post(std::uint32_t entry, T now) noexcept {
    start_[entry] = now;
    state_[entry] = state::posted;
  }

  /// Lets a posted send or receive pass where it can.
  template <class Cost>
  constexpr void try_transfer(std::uint32_t entry, Cost const& cost) {
    if (state_[entry] == state::passed) return;
    auto const& m = plan_->message_of(plan_->entries()[entry]);
    bool const both = state_[m.send] != state::ahead && m.receive != none && state_[m.receive] != state::ahead;
    auto const travel = [&] {
      T const latency = transfer_time(cost, int(m.from_rank), int(m.to_rank));
      limit_.check("latency", latency);
      return latency;
    };
    switch (model_.kind) {
      case transport_kind::bounded:
        if (entry == m.send) {
          auto const freed_by = layout_.freed_by(entry);
          if (freed_by == never || (freed_by != none && !has_passed(freed_by))) return;
          pass(entry, start_[entry], freed_by != none ? std::max(start_[entry], end_[freed_by]) : start_[entry]);
        } else if (state_[m.send] == state::passed) {
          pass(entry, start_[entry], std::max(start_[entry], end_[m.send] + travel()));
        }
        return;
      case transport_kind::async:
        if (!both) return;
        pass(m.send, start_[m.send], start_[m.send]);
        pass(m.receive, start_[m.receive], std::max(start_[m.receive], start_[m.send] + travel()));
        return;
      default:
        if (!both) return;
        T const end = std::max(start_[m.send], start_[m.receive]) + travel();
        pass(m.send, start_[m.send], end);
        pass(m.receive, start_[m.receive], end);
        return;
    }
  }

  [[nodiscard]] constexpr bool has_passed(std::uint32_t entry) const noexcept {
    return entry != none && state_[entry] == state::passed;
  }

  /// Whether a lane goes on after a send or receive that it has posted.
  [[nodiscard]] constexpr bool lets_go(std::uint32_t entry) const noexcept {
    return state_[entry] == state::passed || model_.kind == transport_kind::async;
  }

  /// What a posted send or receive waits for.
  [[nodiscard]] constexpr std::uint32_t awaited_by(std::uint32_t entry) const noexcept {
    auto const& m = plan_->message_of(plan_->entries()[entry]);
    if (model_.kind == transport_kind::bounded && entry == m.send) {
      auto const freed_by = layout_.freed_by(entry);
      return freed_by == never ? none : freed_by;
    }
    return entry == m.send ? m.receive : m.send;
  }

  /// What keeps an op that needs `receive` waiting: the receive, or where that is posted and nothing but its message
  /// is missing, the send.
  [[nodiscard]] constexpr std::uint32_t blamed_for(std::uint32_t receive) const noexcept {
    if (receive == none) return none;
    bool const only_sent = model_.kind == transport_kind::async && state_[receive] == state::posted;
    return only_sent ? plan_->message_of(plan_->entries()[receive]).send : receive;
  }

  constexpr bool stop(lane_state& l, std::uint32_t entry, std::uint32_t awaited) noexcept {
    l.wait = transport_wait{l.rank, entry, awaited};
    return false;
  }

  constexpr void pass(std::uint32_t entry, T begin, T end) {
    start_[entry] = begin;
    end_[entry] = end;
    state_[entry] = state::passed;
    for (auto lane = waiting_[entry]; lane != none; lane = lanes_[lane].next_waiting) ready_.push_back(lane);
    waiting_[entry] = none;
  }

  communication_plan const* plan_;
  transport_model model_;
  transport_layout layout_;
  duration_limit<T> limit_;
  buffer<T> start_;
  buffer<T> end_;
  buffer<state> state_;
  buffer<std::uint32_t> waiting_;  // by entry: the first lane that waits for it
  vector<lane_state> lanes_;       // the programs, then the queues
  vector<std::uint32_t> ready_;
  T makespan_ = 0;
};

}  // namespace detail

}  // namespace v0
}  // namespace pipesched
