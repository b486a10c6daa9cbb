// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Valid schedules that nobody designed: ops drawn at random among those that can run, some of them paired.

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <pipesched/core/schedule.hpp>

namespace test_support {

/// A schedule for `where` that can run, with B and I/W mixed by microbatch and stage, and overlapped pairs. The
/// replica of a microbatch is its number modulo the replicas.
inline pipesched::schedule random_schedule(pipesched::placement const& where, int microbatches, std::mt19937& random) {
  using namespace pipesched;
  auto const pick = [&](std::size_t n) { return std::size_t(random() % n); };
  auto const at = [&](int s, int b) { return std::size_t(s) * std::size_t(microbatches) + std::size_t(b); };
  auto const cells = std::size_t(where.stages()) * std::size_t(microbatches);
  std::vector<char> forward_done(cells), gradient_done(cells), weight_done(cells), split(cells);
  for (auto& s : split) s = char(random() % 2);

  std::vector<std::vector<op>> programs(std::size_t(where.ranks()));
  auto const replica = [&](int b) { return b % where.replicas(); };
  auto const runnable = [&](int only_rank, bool forwards, bool backwards) {
    std::vector<op> ops;
    for (int s = 0; s < where.stages(); ++s)
      for (int b = 0; b < microbatches; ++b) {
        if (only_rank >= 0 && where.rank_of(s, replica(b)) != only_rank) continue;
        auto const add = [&](op_kind kind) {
          ops.emplace_back(kind, stage_id{s}, microbatch_id{b}, replica_id{replica(b)});
        };
        bool const has_input = s == 0 || forward_done[at(s - 1, b)];
        bool const has_gradient = s + 1 == where.stages() || gradient_done[at(s + 1, b)];
        if (forwards && !forward_done[at(s, b)] && has_input) add(op_kind::forward);
        if (backwards && forward_done[at(s, b)] && !gradient_done[at(s, b)] && has_gradient)
          add(split[at(s, b)] ? op_kind::backward_input : op_kind::backward);
        if (backwards && split[at(s, b)] && gradient_done[at(s, b)] && !weight_done[at(s, b)])
          add(op_kind::backward_weight);
      }
    return ops;
  };
  auto const mark = [&](op o) {
    auto const cell = at(o.stage(), int(o.microbatch()));
    if (o.kind() == op_kind::forward) forward_done[cell] = 1;
    if (carries_gradient(o.kind())) gradient_done[cell] = 1;
    if (o.kind() == op_kind::backward_weight) weight_done[cell] = 1;
  };
  for (auto ops = runnable(-1, true, true); !ops.empty(); ops = runnable(-1, true, true)) {
    op const chosen = ops[pick(ops.size())];
    int const rank = where.rank_of(chosen.stage(), chosen.replica());
    auto& program = programs[std::size_t(rank)];
    if (chosen.kind() == op_kind::forward && pick(2) == 0) {
      // The partner must be ready without the forward: it was looked for before the forward is marked as done.
      std::vector<op> partners;
      for (op o : runnable(rank, false, true))
        if (o.kind() == op_kind::backward) partners.push_back(o);
      if (!partners.empty()) {
        op const partner = partners[pick(partners.size())];
        program.push_back(chosen.overlapping_next());
        program.push_back(partner);
        mark(chosen);
        mark(partner);
        continue;
      }
    }
    program.push_back(chosen);
    mark(chosen);
  }
  return schedule(where, microbatches, programs, "random");
}

}  // namespace test_support
