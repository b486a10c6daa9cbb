// SPDX-License-Identifier: MIT
#include "transport_check.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <pipesched/analysis/transport.hpp>
#include <pipesched/core/fault.hpp>
#include <pipesched/graph/plan_communication.hpp>
#include <pipesched/graph/read_plan.hpp>

namespace {

using pipesched::communication_plan;
using pipesched::fault_kind;
using pipesched::op;
using pipesched::op_kind;

/// What makes a schedule incomplete, or is for the transport to judge, but does not hinder a run.
constexpr std::array tolerated{fault_kind::missing_stage,    fault_kind::missing_microbatch, fault_kind::missing_ops,
                               fault_kind::missing_backward, fault_kind::missing_weight,     fault_kind::unpaired_send,
                               fault_kind::channel_order};

bool hinders(pipesched::diagnostic const& d) {
  return std::none_of(tolerated.begin(), tolerated.end(), [&](fault_kind kind) { return d.kind == name_of(kind); });
}

/// The plan that the file's rows are; nothing where a send or receive has no other end.
std::optional<communication_plan> plan_of(checked_schedule const& file) {
  if (file.communication.empty()) return pipesched::plan_communication(*file.schedule);
  auto rows = file.communication;
  for (auto& row : rows)  // sharding moves no activations
    std::erase_if(row, [](op o) {
      return !pipesched::is_chunk_op(o.kind()) &&
             (o.kind() < op_kind::send_forward || o.kind() > op_kind::wait_send_backward);
    });
  return pipesched::read_plan(file.schedule->where(), file.schedule->microbatches(), rows);
}

pipesched::transport_kind transport_named(std::string_view name) {
  for (auto const kind : pipesched::all_transports)
    if (name_of(kind) == name) return kind;
  return pipesched::transport_kind::async;
}

}  // namespace

std::vector<std::string> transport_names() {
  std::vector<std::string> names;
  for (auto const kind : pipesched::all_transports) names.emplace_back(name_of(kind));
  return names;
}

std::vector<pipesched::diagnostic> check_transport_of(checked_schedule const& file, std::string const& transport,
                                                      std::int64_t buffered) {
  std::vector<pipesched::diagnostic> found;
  std::copy_if(file.diagnostics.begin(), file.diagnostics.end(), std::back_inserter(found), hinders);
  if (!found.empty() || !file.schedule) return found;
  auto const plan = plan_of(file);
  if (!plan) return file.diagnostics;
  auto const report = check_transport(*plan, {transport_named(transport), buffered});
  if (report.deadlock_free()) return {};
  std::string cycle;
  for (auto const& wait : report.cycle) cycle += (cycle.empty() ? "" : "; ") + to_string(*plan, wait);
  if (!cycle.empty())
    found.push_back({.kind = "deadlock", .message = fmt::format("deadlock under {}: {}", transport, cycle)});
  for (auto const& wait : report.blocked)
    found.push_back({.kind = "blocked_rank", .message = "deadlock, blocked: " + to_string(*plan, wait)});
  return found;
}
