// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A communication plan from programs whose sends and receives are in place already.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/core/sort.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/communication_plan.hpp>
#include <pipesched/graph/op_index.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// One end of a message, or the wait for its send.
struct message_end {
  std::uint64_t key;  // direction, the sender's stage, microbatch
  std::uint32_t entry;
};

/// What a SEND and its RECV and WAIT_SEND have in common.
[[nodiscard]] constexpr std::uint64_t message_key(op o) noexcept {
  bool const forward = pass_of(o.kind()) == pass::forward;
  int const sender = !is_receive(o.kind()) ? o.stage() : forward ? o.stage() - 1 : o.stage() + 1;
  return std::uint64_t{forward} << 63 | std::uint64_t(sender + 1) << 32 | std::uint64_t(o.microbatch());
}

[[nodiscard]] constexpr vector<message_end> ends_of(communication_plan::parts const& plan, bool (*is_end)(op_kind)) {
  vector<message_end> ends;
  for (std::uint32_t e = 0; e < plan.entries.size(); ++e)
    if (is_end(plan.entries[e].what.kind())) ends.push_back(message_end{message_key(plan.entries[e].what), e});
  detail::sort(ends, [](auto a, auto b) { return a.key != b.key ? a.key < b.key : a.entry < b.entry; });
  return ends;
}

/// The number of results that another rank needs.
[[nodiscard]] constexpr std::size_t needed_messages(communication_plan::parts const& plan, op_index const& index) {
  std::size_t count = 0;
  for (std::size_t rank = 0; rank + 1 < plan.row_begin.size(); ++rank)
    for (auto e = plan.row_begin[rank]; e < plan.row_begin[rank + 1]; ++e) {
      op const o = plan.entries[e].what;
      if (!is_chunk_op(o.kind()) || o.kind() == op_kind::backward_weight || index.find(o) != e) continue;
      auto const consumer =
          index.find(role_of(o.kind()), o.kind() == op_kind::forward ? o.stage() + 1 : o.stage() - 1, o.microbatch());
      count += consumer != op_index::none && (consumer < plan.row_begin[rank] || consumer >= plan.row_begin[rank + 1]);
    }
  return count;
}

}  // namespace detail

/// The plan of `programs`, one per rank, where every SEND has its producer, every RECV its SEND on another rank and its
/// consumer, and every op that needs another rank's result its RECV; nothing where one of them is missing, there twice,
/// or out of the range of stages and microbatches, or a WAIT_SEND waits for no send: the checker names it. Sends
/// pair with receives as in torch.distributed.pipelining: between neighbouring stages. A SEND to a stage that does not
/// run the microbatch stays, and hangs what waits for it. Whether the ops are in an order that can run is a question
/// for `check_transport`. Time: n log n in the messages. Throws `parameter_error` for a wrong number of programs, as
/// `schedule` does.
[[nodiscard]] constexpr std::optional<communication_plan> read_plan(placement const& where, std::int64_t microbatches,
                                                                    std::vector<std::vector<op>> const& programs) {
  for (auto const& program : programs)
    for (op o : program)
      if (o.stage() >= where.stages() || o.replica() >= where.replicas() || o.microbatch() >= microbatches) return {};
  schedule const rows(where, microbatches, programs);
  communication_plan::parts plan{where, microbatches, comm_policy::custom};
  for (auto offset : rows.offsets()) plan.row_begin.push_back(std::uint32_t(offset));
  plan.entries = detail::buffer<plan_entry>(rows.ops().size());
  for (std::size_t e = 0; e < rows.ops().size(); ++e)
    plan.entries[e] = plan_entry{rows.ops()[e], plan_entry::no_message, false};

  auto const sends = detail::ends_of(plan, is_send);
  auto const receives = detail::ends_of(plan, is_receive);
  auto const waits = detail::ends_of(
      plan, [](op_kind k) { return k == op_kind::wait_send_forward || k == op_kind::wait_send_backward; });
  static_assert(detail::op_index::none == message::nobody);
  detail::op_index const index(rows.ops(), where.stages(), microbatches);
  auto const rank_of = [&](std::uint32_t entry) {
    auto const after = std::upper_bound(plan.row_begin.begin(), plan.row_begin.end(), entry);
    return std::int32_t(after - plan.row_begin.begin()) - 1;
  };

  plan.messages = detail::buffer<message>(sends.size());
  auto received = receives.begin();
  for (std::size_t i = 0; i < sends.size(); ++i) {
    if (i > 0 && sends[i].key == sends[i - 1].key) return {};
    op const send = plan.entries[sends[i].entry].what;
    bool const forward = send.kind() == op_kind::send_forward;
    auto const role = forward ? detail::op_role::forward : detail::op_role::gradient;
    int const next_stage = forward ? send.stage() + 1 : send.stage() - 1;
    if (next_stage < 0 || next_stage >= where.stages()) return {};
    auto& m = plan.messages[i];
    m = message{index.find(role, send.stage(), send.microbatch()),
                sends[i].entry,
                message::nobody,
                index.find(role, next_stage, send.microbatch()),
                rank_of(sends[i].entry),
                where.rank_of(next_stage, send.replica()),
                forward ? edge_kind::activation : edge_kind::gradient};
    if (m.producer == detail::op_index::none || rank_of(m.producer) != m.from_rank) return {};
    plan.entries[m.send].message = std::uint32_t(i);
    bool const is_received = received != receives.end() && received->key == sends[i].key;
    if (is_received != (m.consumer != message::nobody)) return {};
    if (is_received) {
      m.receive = received->entry;
      m.to_rank = rank_of(m.receive);
      if (rank_of(m.consumer) != m.to_rank) return {};
      plan.entries[m.receive].message = std::uint32_t(i);
      ++received;
    }
    if (m.from_rank == m.to_rank) return {};
  }
  if (received != receives.end() || detail::needed_messages(plan, index) != receives.size()) return {};
  for (auto const& wait : waits) {
    auto const send =
        std::lower_bound(sends.begin(), sends.end(), wait.key, [](auto const& s, auto key) { return s.key < key; });
    if (send == sends.end() || send->key != wait.key) return {};
    auto const id = std::uint32_t(send - sends.begin());
    if (wait.entry < send->entry || rank_of(wait.entry) != plan.messages[id].from_rank) return {};
    plan.entries[wait.entry].message = id;
  }
  return communication_plan(std::move(plan));
}

}  // namespace v0
}  // namespace pipesched
