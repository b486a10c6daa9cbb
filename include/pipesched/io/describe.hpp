// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The faults of a schedule in words.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <pipesched/core/fault.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/io/diagnostic.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// "3B0", or "3B0..3B7" for several microbatches in a row.
[[nodiscard]] inline std::string range_text(op first, std::int64_t count) {
  if (count <= 1) return to_string(first);
  op const last(first.kind(), stage_id{first.stage()}, microbatch_id{first.microbatch() + count - 1});
  return fmt::format("{}..{}", to_string(first), to_string(last));
}

/// "microbatch 3 has", or "microbatches 3..7 have".
[[nodiscard]] inline std::string microbatches_text(std::int64_t first, std::int64_t count) {
  return count <= 1 ? fmt::format("microbatch {} has", first)
                    : fmt::format("microbatches {}..{} have", first, first + count - 1);
}

[[nodiscard]] inline std::string stages_text(std::int64_t first, std::int64_t count) {
  return count <= 1 ? fmt::format("stage {} is", first) : fmt::format("stages {}..{} are", first, first + count - 1);
}

[[nodiscard]] inline std::string place_text(program_place p) {
  return p.position < 0 ? fmt::format("rank {}", p.rank) : fmt::format("rank {}, position {}", p.rank, p.position);
}

struct fault_text {
  std::string message;
  std::string expected = {};
};

[[nodiscard]] inline fault_text text_of(fault const& f) {
  int const stage = f.what.stage();
  auto const subject = microbatches_text(f.what.microbatch(), f.count);
  auto const other = to_string(f.other);
  auto const other_place = place_text(f.other_where);
  switch (f.kind) {
    case fault_kind::wrong_kind: return {"is no op of a program of chunk ops", "F, B, I or W"};
    case fault_kind::broken_pair: return {"opens no overlapped pair", "one forward and then one backward"};
    case fault_kind::duplicate_op: return {fmt::format("duplicate: it stands at {} already", other_place), "it once"};
    case fault_kind::wrong_rank: {
      auto const several = f.count > 1 ? fmt::format(", nor do {} more ops of it", f.count - 1) : std::string{};
      return {fmt::format("stage {} is on rank {} and does not belong here{}", stage, f.other_where.rank, several),
              "a stage on one rank, or on as many as it has replicas"};
    }
    case fault_kind::two_copies:
      return {fmt::format("is on another copy of stage {} than {} ({})", stage, other, other_place),
              "one copy for all ops of a microbatch"};
    case fault_kind::missing_stage:
      return {fmt::format("{} on no rank", stages_text(stage, f.count)), "stages 0..S-1 without gaps"};
    case fault_kind::missing_microbatch:
      return {fmt::format("{} no op, so the ids have a gap", subject), "microbatches 0..m-1"};
    case fault_kind::missing_ops: return {fmt::format("missing: {} no op on stage {}", subject, stage)};
    case fault_kind::missing_forward: return {fmt::format("missing: {} no forward on stage {}", subject, stage)};
    case fault_kind::missing_backward: return {fmt::format("missing: {} no backward on stage {}", subject, stage)};
    case fault_kind::missing_input: return {fmt::format("missing: {} a W on stage {}, and no I", subject, stage)};
    case fault_kind::missing_weight: return {fmt::format("missing: {} an I on stage {}, and no W", subject, stage)};
    case fault_kind::two_backwards:
      return {fmt::format("{} a full backward on stage {} too, {} ({})", subject, stage, other, other_place),
              "either B, or I and W"};
    case fault_kind::order_on_rank:
      return {fmt::format(
          "waits for {}, which {}", other,
          f.other_where.position <= f.where.position ? "is in one pair with it" : "comes later on the same rank")};
    case fault_kind::deadlock:
    case fault_kind::blocked_rank: return {fmt::format("blocked: waits for {} ({})", other, other_place)};
    case fault_kind::unpaired_send:
      return {"nobody receives what it sends", fmt::format("{} on {}", other, other_place)};
    case fault_kind::unpaired_receive:
      return {"nobody sends what it receives", fmt::format("{} on {}", other, other_place)};
    case fault_kind::missing_send:
      return {fmt::format("rank {} needs its result, which is not sent", f.other_where.rank), other};
    case fault_kind::missing_receive:
      return {fmt::format("its input comes from rank {} and is not received", f.other_where.rank), other};
    case fault_kind::needless_message: return {"no two ranks exchange this message"};
    case fault_kind::send_before_producer: return {fmt::format("is sent before {} ({}) makes it", other, other_place)};
    case fault_kind::receive_after_use:
      return {fmt::format("is received after {} ({}), which needs it", other, other_place)};
    case fault_kind::wait_without_send: return {"waits for a send that does not come before it", other};
    case fault_kind::channel_order:
      return {
          fmt::format("channel order (FIFO) broken: it is sent next, and {} is received next ({})", other, other_place),
          "messages between two ranks received in the order in which they are sent"};
    case fault_kind::not_listed: return {fmt::format("{} more faults", f.count)};
  }
  return {};
}

/// The steps of a cycle in one line.
[[nodiscard]] inline diagnostic deadlock_of(view<fault> steps) {
  std::string path;
  std::string reasons;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    auto const& step = steps[i];
    auto const& next = steps[(i + 1) % steps.size()];
    path += fmt::format("{} -> ", to_string(step.what));
    reasons += fmt::format("{}{} waits for {}", i > 0 ? ", " : "", to_string(step.what), to_string(step.other));
    if (step.other_where == next.where) continue;
    path += fmt::format("{} -> ", to_string(step.other));
    auto const distance = step.other_where.position - next.where.position;
    bool const in_one_pair = distance == -1 || (distance == 1 && next.what.overlaps_next());
    reasons += fmt::format(", {} {} {} on rank {}", to_string(step.other),
                           in_one_pair ? "is in one pair with" : "comes after", to_string(next.what), next.where.rank);
  }
  diagnostic d{std::string(name_of(fault_kind::deadlock))};
  d.message = fmt::format("deadlock: cycle {}{}: {}", path, to_string(steps.front().what), reasons);
  return d;
}

}  // namespace detail

/// Faults in words, in their order; the steps of a deadlock's cycle become one line.
[[nodiscard]] inline std::vector<diagnostic> describe(view<fault> faults) {
  std::vector<diagnostic> result;
  for (std::size_t i = 0; i < faults.size(); ++i) {
    auto const& f = faults[i];
    if (f.kind == fault_kind::deadlock) {
      auto const first = i;
      while (i + 1 < faults.size() && faults[i + 1].kind == fault_kind::deadlock) ++i;
      result.push_back(detail::deadlock_of(faults.subspan(first, i + 1 - first)));
      continue;
    }
    diagnostic d{std::string(name_of(f.kind)), f.where.rank, f.where.position};
    if (f.kind != fault_kind::missing_stage && f.kind != fault_kind::missing_microbatch &&
        f.kind != fault_kind::not_listed) {
      bool const of_several = f.kind >= fault_kind::missing_ops && f.kind <= fault_kind::missing_weight;
      d.op = detail::range_text(f.what, of_several ? f.count : 1);
    }
    auto [message, expected] = detail::text_of(f);
    d.message = std::move(message);
    d.expected = std::move(expected);
    result.push_back(std::move(d));
  }
  return result;
}

}  // namespace v0
}  // namespace pipesched
