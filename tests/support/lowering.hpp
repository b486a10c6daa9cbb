// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Sends and receives put into programs as simply as can be: each send after its op, each receive before its op.

#include <cstddef>
#include <utility>
#include <vector>

#include <pipesched/core/schedule.hpp>

namespace test_support {

/// Programs whose receives stand in the order in which they are sent: ranks run one after another, and a send puts its
/// receive at the end of what the other rank has so far.
inline std::vector<std::vector<pipesched::op>> with_communication(pipesched::schedule const& s) {
  using namespace pipesched;
  std::vector<std::vector<op>> programs(std::size_t(s.ranks()));
  std::vector<std::size_t> next(s.offsets().begin(), s.offsets().end() - 1);
  std::vector<op> done;
  auto const is_done = [&](op_kind kind, op like, int stage) {
    for (op o : done)
      if (o.stage() == stage && o.microbatch() == like.microbatch() &&
          (o.kind() == kind || (kind == op_kind::backward && carries_gradient(o.kind()))))
        return true;
    return false;
  };
  auto const ready = [&](op o) {
    if (o.kind() == op_kind::forward) return o.stage() == 0 || is_done(op_kind::forward, o, o.stage() - 1);
    if (!carries_gradient(o.kind())) return true;
    return o.stage() + 1 == s.stages() || is_done(op_kind::backward, o, o.stage() + 1);
  };
  auto const message = [&](op o, int step, op_kind send, op_kind receive) {
    int const stage = o.stage() + step;
    if (stage < 0 || stage >= s.stages()) return;
    int const from = s.where().rank_of(o.stage(), o.replica());
    int const to = s.where().rank_of(stage, o.replica());
    if (from == to) return;
    programs[std::size_t(from)].push_back(o.alone().as(send));
    programs[std::size_t(to)].push_back(
        op(receive, stage_id{stage}, microbatch_id{o.microbatch()}, replica_id{o.replica()}));
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < programs.size(); ++rank) {
      if (next[rank] == s.offsets()[rank + 1]) continue;
      op const first = s.ops()[next[rank]];
      std::vector<op> block{first};
      if (first.overlaps_next()) block.push_back(s.ops()[next[rank] + 1]);
      bool can_run = true;
      for (op o : block) can_run = can_run && ready(o);
      if (!can_run) continue;
      for (op o : block) programs[rank].push_back(o);
      for (op o : block) {
        done.push_back(o.alone());
        if (o.kind() == op_kind::forward) message(o, 1, op_kind::send_forward, op_kind::recv_forward);
        if (carries_gradient(o.kind())) message(o, -1, op_kind::send_backward, op_kind::recv_backward);
      }
      next[rank] += block.size();
      moved = true;
    }
  }
  return programs;
}

}  // namespace test_support
