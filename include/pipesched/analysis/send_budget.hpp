// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A bound on the sends of a rank that are under way, proven safe or refused.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <pipesched/analysis/transport.hpp>
#include <pipesched/core/buffer.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/communication_plan.hpp>

namespace pipesched {
inline namespace v0 {

/// A plan within a budget, or why there is none: what waits for what when the budget is kept.
struct budgeted_plan {
  std::optional<communication_plan> plan;
  transport_report report;
  /// Where there is no `plan`, the one that would hang: `report` is about its entries.
  std::optional<communication_plan> refused = {};
};

namespace detail {

/// The most sends of one coalesced group, which are all under way at once.
[[nodiscard]] constexpr std::int64_t largest_group(communication_plan const& plan) noexcept {
  std::int64_t largest = 0;
  std::int64_t sends = 0;
  for (auto const& entry : plan.entries()) {
    sends += is_send(entry.what.kind());
    largest = std::max(largest, sends);
    if (!entry.grouped_with_next) sends = 0;
  }
  return largest;
}

/// `plan` with a WAIT_SEND for each send, first sent, first waited for: as late as the budget allows, and at the end of
/// the program for those that are left.
[[nodiscard]] constexpr communication_plan insert_waits(communication_plan const& plan, std::int64_t budget) {
  auto const entries = plan.entries();
  communication_plan::parts result{plan.where(), plan.microbatches(), plan.policy()};
  result.messages = buffer<message>(plan.messages().size());
  result.entries = buffer<plan_entry>(entries.size() + plan.messages().size());
  buffer<std::uint32_t> moved_to(entries.size());
  std::uint32_t next = 0;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    result.row_begin.push_back(next);
    vector<std::uint32_t> sent;  // message ids
    std::size_t awaited = 0;
    auto const wait_until = [&](std::int64_t left) {
      for (; std::int64_t(sent.size() - awaited) > left; ++awaited) {
        auto const& m = plan.messages()[sent[awaited]];
        op const send = entries[m.send].what;
        result.entries[next++] = plan_entry{
            send.as(send.kind() == op_kind::send_forward ? op_kind::wait_send_forward : op_kind::wait_send_backward),
            sent[awaited], false};
      }
    };
    for (auto e = plan.row_begin(rank); e < plan.row_begin(rank + 1);) {
      auto after = e + 1;
      while (after < plan.row_begin(rank + 1) && entries[after - 1].grouped_with_next) ++after;
      std::int64_t sends = 0;
      for (auto i = e; i < after; ++i) sends += is_send(entries[i].what.kind());
      if (sends > 0) wait_until(budget - sends);
      for (; e < after; ++e) {
        if (is_send(entries[e].what.kind())) sent.push_back(entries[e].message);
        moved_to[e] = next;
        result.entries[next++] = entries[e];
      }
    }
    wait_until(0);
  }
  result.row_begin.push_back(next);
  result.entries.resize_uninitialised(next);
  for (std::size_t id = 0; id < plan.messages().size(); ++id) {
    auto m = plan.messages()[id];
    for (auto* entry : {&m.producer, &m.send, &m.receive, &m.consumer})
      if (*entry != message::nobody) *entry = moved_to[*entry];
    result.messages[id] = m;
  }
  return communication_plan(std::move(result));
}

}  // namespace detail

/// `plan` with WAIT_SENDs such that no rank has more than `budget` sends under way; where the ranks then wait for each
/// other under `model`, no plan, and the cycle. A send ends when its message is received.
/// Throws `parameter_error` for a budget below 1 or below the sends of one coalesced group, and for a plan that has
/// WAIT_SENDs already.
[[nodiscard]] constexpr budgeted_plan with_send_budget(communication_plan const& plan, std::int64_t budget,
                                                       transport_model model = {}) {
  require(first_violation({at_least("budget", budget, 1),
                           at_least("budget", budget, detail::largest_group(plan), "the sends of one group")}));
  for (auto const& entry : plan.entries())
    if (entry.is_communication() && !is_send(entry.what.kind()) && !is_receive(entry.what.kind()))
      require(parameter_violation{"plan (WAIT_SENDs)", 1, "must be", 0, "they are what the budget puts in"});
  budgeted_plan result{detail::insert_waits(plan, budget), {}};
  result.report = check_transport(*result.plan, model);
  if (!result.report.deadlock_free()) result.plan.swap(result.refused);
  return result;
}

/// The least budget that `with_send_budget` does not refuse; nothing where the plan deadlocks under any. A rank's
/// budget need not be larger than its messages. Time: log(budget) checks.
[[nodiscard]] constexpr std::optional<std::int64_t> least_send_budget(communication_plan const& plan,
                                                                      transport_model model = {}) {
  auto const is_enough = [&](std::int64_t budget) { return with_send_budget(plan, budget, model).plan.has_value(); };
  auto refused = std::max<std::int64_t>(detail::largest_group(plan), 1) - 1;
  auto enough = refused + 1;
  auto const most = std::max<std::int64_t>(std::int64_t(plan.messages().size()), enough);
  while (!is_enough(enough)) {
    if (enough == most) return {};
    refused = enough;
    enough = std::min(2 * enough, most);
  }
  while (enough - refused > 1) {
    auto const middle = refused + (enough - refused) / 2;
    (is_enough(middle) ? enough : refused) = middle;
  }
  return enough;
}

}  // namespace v0
}  // namespace pipesched
