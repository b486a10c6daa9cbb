// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What every generator owes, whatever its order: each op once, on its rank, as many as it says, and no deadlock.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <pipesched/core/schedule.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/graph/execution_order.hpp>

namespace test_support {

/// The first thing that is wrong with what `generator` makes, in words; empty where all is right. For schedules that
/// run each stage of each microbatch once.
template <pipesched::schedule_generator G>
std::string first_fault(G const& generator) {
  using namespace pipesched;
  if (auto violation = generator.check()) return violation->message();
  auto const schedule = generate(generator);

  struct passes {
    int forward = 0, full = 0, input = 0, weight = 0;
  };
  auto const microbatches = std::size_t(schedule.microbatches());
  std::vector<passes> seen(std::size_t(schedule.stages()) * microbatches);
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    count_sink emitted;
    generator.emit(rank, emitted);
    if (emitted.count != operations_of(generator, rank))
      return "rank " + std::to_string(rank) + " writes " + std::to_string(emitted.count) + " ops, and says " +
             std::to_string(operations_of(generator, rank));
    for (op o : schedule.program(rank)) {
      if (schedule.where().rank_of(o.stage(), o.replica()) != rank)
        return to_string(o) + " is on rank " + std::to_string(rank);
      auto& count = seen[std::size_t(o.stage()) * microbatches + std::size_t(o.microbatch())];
      switch (o.kind()) {
        case op_kind::forward: ++count.forward; break;
        case op_kind::backward: ++count.full; break;
        case op_kind::backward_input: ++count.input; break;
        case op_kind::backward_weight: ++count.weight; break;
        default: return to_string(o) + " is no op of a schedule";
      }
    }
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    auto const& n = seen[i];
    if (n.forward != 1 || n.full + n.input != 1 || n.input != n.weight)
      return "stage " + std::to_string(i / microbatches) + ", microbatch " + std::to_string(i % microbatches) +
             " does not run once";
  }

  auto const graph = build_graph(schedule);
  if (!graph.missing().empty()) return "an op has no producer";
  if (!execution_order(graph).complete()) return "deadlock";
  return {};
}

}  // namespace test_support
