// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What a shape needs at least, however its ops are ordered: a search computes only the graphs that these leave.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/planner/evaluate.hpp>
#include <pipesched/planner/layout.hpp>
#include <pipesched/planner/plan.hpp>
#include <pipesched/planner/stage_costs.hpp>
#include <pipesched/schedules/registry.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Whether a schedule runs overlapped pairs, as a program of a small shape of it tells.
[[nodiscard]] inline bool has_pairs(std::string_view schedule) {
  bool pairs = false;
  with_schedule(schedule, {.ranks = 2, .microbatches = 8}, [&](auto const& generator) {
    for (op const o : generate_program(generator, 0)) pairs = pairs || o.overlaps_next();
  });
  return pairs;
}

/// A division of the model, with its stages.
struct division {
  model_costs costs;
  pipeline_layout layout;
  vector<stage_figures> stages;
};

/// The divisions of the model that were met.
class division_cache {
 public:
  explicit division_cache(plan_request const& request) : request_(request) {}

  [[nodiscard]] division const& of(plan_shape const& shape, int stages, balanced_by by = balanced_by::ops) {
    auto const key = key_of(shape, stages, by);
    auto known = known_.find(key);
    if (known == known_.end()) {
      model_costs const costs(request_.model, request_.cluster, shape.sizes);
      auto layout = request_.choices.layout ? *request_.choices.layout : balanced_layout(costs, stages, by);
      auto figures = stages_of(costs, layout);
      known = known_.emplace(key, division{costs, std::move(layout), std::move(figures)}).first;
    }
    return known->second;
  }
  /// One that was met before; safe from many threads.
  [[nodiscard]] division const& met(plan_shape const& shape, int stages, balanced_by by) const {
    return known_.at(key_of(shape, stages, by));
  }

 private:
  using division_key = std::tuple<int, std::int64_t, std::int64_t, std::int64_t, std::int64_t, balanced_by>;
  [[nodiscard]] static division_key key_of(plan_shape const& shape, int stages, balanced_by by) {
    auto const& sizes = shape.sizes;
    return {stages, sizes.tensor, sizes.context, sizes.expert, sizes.data, by};
  }

  plan_request const& request_;
  std::map<division_key, division> known_;
};

/// What the fullest rank holds at least: its states, and one microbatch of each of its stages.
[[nodiscard]] inline std::int64_t least_memory(placement const& where, division const& d) {
  auto const states = states_by_stage(d.costs, d.stages, where.replicas());
  vector<std::int64_t> held(std::size_t(where.ranks()), 0);
  for (int stage = 0; stage < where.stages(); ++stage) {
    auto const s = std::size_t(stage);
    for (int replica = 0; replica < where.replicas(); ++replica)
      held[std::size_t(where.rank_of(stage, replica))] +=
          states[s].total() + (replica == 0 ? d.stages[s].activation : 0);
  }
  return *std::max_element(held.begin(), held.end());
}

/// What the step takes at least: the busiest rank's ops one after another, each as short as a pair can make it, from
/// when the first microbatch can reach it.
[[nodiscard]] inline double least_time(placement const& where, division const& d, std::int64_t microbatches) {
  vector<double> busy(std::size_t(where.ranks()), 0);
  vector<double> arrival(std::size_t(where.ranks()), -1);
  double reached = 0;
  for (int stage = 0; stage < where.stages(); ++stage) {
    auto const& s = d.stages[std::size_t(stage)];
    auto const of_pair = s.pair / 2;
    auto const one = std::min(s.forward, of_pair) + std::min(s.backward_input + s.backward_weight, of_pair);
    for (int replica = 0; replica < where.replicas(); ++replica) {
      auto const rank = std::size_t(where.rank_of(stage, replica));
      busy[rank] += one * double(microbatches / where.replicas());
      if (arrival[rank] < 0 || reached < arrival[rank]) arrival[rank] = reached;
    }
    reached += std::min(s.forward, of_pair);
  }
  double least = 0;
  for (std::size_t rank = 0; rank < busy.size(); ++rank) least = std::max(least, arrival[rank] + busy[rank]);
  return least * (1 - 1e-9);  // the makespan is another sum of the same times
}

/// How a shape's layout is balanced: by pairs where the schedule runs them and the step then may take less.
[[nodiscard]] inline balanced_by better_balance(plan_request const& request, division_cache& divisions,
                                                plan_shape const& shape, placement const& where, bool pairs) {
  if (!pairs || !request.model.is_moe() || request.choices.layout) return balanced_by::ops;
  auto const least = [&](balanced_by by) {
    return least_time(where, divisions.of(shape, where.stages(), by), shape.microbatches);
  };
  return least(balanced_by::pairs) < least(balanced_by::ops) ? balanced_by::pairs : balanced_by::ops;
}

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
