// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Which schedule should I use? From a model and a cluster to a ranking of schedules, shapes and parallel sizes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <pipesched/core/error.hpp>
#include <pipesched/io/diagnostic.hpp>
#include <pipesched/planner/failure.hpp>
#include <pipesched/planner/plan.hpp>
#include <pipesched/planner/search.hpp>

namespace pipesched {
inline namespace v0 {

/// What is wrong with a request before any shape is tried; empty where `plan` takes it.
[[nodiscard]] inline std::vector<diagnostic> check_request(plan_request const& request) {
  std::vector<diagnostic> wrong;
  auto const refuse = [&](std::string_view where, check_result const& result) {
    if (result) wrong.push_back({.kind = "bad_value", .op = std::string(where), .message = result->message()});
  };
  refuse("model", request.model.check());
  refuse("cluster", request.cluster.check());
  auto const& choices = request.choices;
  for (auto const& [name, sizes] : {std::pair("pipeline", &choices.pipeline), std::pair("chunks", &choices.chunks),
                                    std::pair("tensor", &choices.tensor), std::pair("expert", &choices.expert)})
    for (auto const size : *sizes)
      refuse("choices", first_violation({at_least(name, size, 1), at_most(name, size, max_stages)}));
  for (auto const& name : choices.schedules)
    if (std::find(schedule_names.begin(), schedule_names.end(), name) == schedule_names.end())
      wrong.push_back(
          {.kind = "bad_value", .op = "choices", .message = unknown_schedule_message(detail::printable(name))});
  if (choices.layout)
    for (auto& d : check_layout(*choices.layout, {.layers = request.model.layers, .mtp = request.model.mtp_layers}))
      wrong.push_back(std::move(d));
  return wrong;
}

namespace detail {

/// The best entry of every schedule, the ones that fit first; without the first entry's schedule.
[[nodiscard]] inline std::vector<ranked_plan> best_of_schedules(search_result const& found) {
  std::vector<ranked_plan> best;
  std::vector<std::string_view> seen;
  for (auto const* entries : {&found.entries, &found.too_large})
    for (auto const& entry : *entries) {
      if (std::find(seen.begin(), seen.end(), entry.shape.schedule) != seen.end()) continue;
      seen.push_back(entry.shape.schedule);
      if (seen.size() > 1) best.push_back(entry);
    }
  return best;
}

/// The shapes that may come first when a circumstance changes: the fastest, those that missed the memory alone, and the
/// best of each schedule.
[[nodiscard]] inline std::vector<plan_shape> contenders(search_result const& found,
                                                        std::vector<ranked_plan> const& of_schedules) {
  constexpr std::size_t most = 48;
  std::vector<plan_shape> shapes;
  for (auto const* entries : {&found.entries, &found.too_large})
    for (std::size_t i = 0; i < std::min(most, entries->size()); ++i) shapes.push_back((*entries)[i].shape);
  for (auto const& entry : of_schedules) shapes.push_back(entry.shape);
  std::sort(shapes.begin(), shapes.end());
  shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
  return shapes;
}

/// Runs the contenders under other circumstances, and keeps who would then be first.
[[nodiscard]] inline std::vector<plan_change> what_would_change(plan_request const& request, ranked_plan const& first,
                                                                std::vector<plan_shape> const& shapes) {
  std::vector<plan_change> changes;
  auto const with = [&](std::string text, auto&& change, std::int64_t more_microbatches = 1,
                        std::int64_t fewer_microbatches = 1) {
    auto changed = request;
    change(changed);
    auto tried = shapes;
    std::erase_if(tried, [&](plan_shape& shape) {
      if (shape.microbatches % fewer_microbatches != 0) return true;
      shape.microbatches = shape.microbatches * more_microbatches / fewer_microbatches;
      bool possible = false;
      with_schedule_type(shape.schedule, [&]<class Generator>() {
        possible = !check_shape<Generator>(
            {.ranks = shape.pipeline, .microbatches = shape.microbatches, .chunks = shape.chunks});
      });
      return !possible;
    });
    auto const found = compute(changed, tried, [](std::int64_t, std::int64_t) {});
    if (found.entries.empty()) return;
    auto const& now = found.entries.front();
    bool const same = now.shape.schedule == first.shape.schedule && now.shape.pipeline == first.shape.pipeline &&
                      now.shape.chunks == first.shape.chunks && now.shape.sizes.tensor == first.shape.sizes.tensor &&
                      now.shape.sizes.expert == first.shape.sizes.expert;
    changes.push_back({std::move(text), now, same});
  };
  with("half the network bandwidth", [](plan_request& r) { r.cluster.network /= 2; });
  with("twice the network bandwidth", [](plan_request& r) { r.cluster.network *= 2; });
  with("half the NVLink bandwidth", [](plan_request& r) { r.cluster.nvlink /= 2; });
  with("half the memory", [](plan_request& r) { r.cluster.memory /= 2; });
  with("twice the memory", [](plan_request& r) { r.cluster.memory *= 2; });
  with("half the batch", [](plan_request& r) { r.model.batch /= 2; }, 1, 2);
  with("twice the batch", [](plan_request& r) { r.model.batch *= 2; }, 2, 1);
  return changes;
}

}  // namespace detail

/// Tries every schedule of the library with every division of the GPUs into pipeline, tensor and data parallel ranks
/// (and expert parallel ones among these), computes each from its op graph, drops what does not fit memory, and ranks
/// the rest by step time. The same request has the same result. Precondition: `check_request` finds nothing; throws
/// `parameter_error` for a model or cluster out of bounds.
///
/// `progress(done, all)` is called as shapes are done.
template <class Progress>
[[nodiscard]] plan_result plan(plan_request const& request, Progress&& progress) {
  require(request.model.check());
  require(request.cluster.check());
  detail::shape_list const list(request);
  auto found = detail::compute(request, list.shapes(), progress);
  plan_result result{.considered = list.considered(), .drops = list.drops()};
  result.drops.memory = std::int64_t(found.too_large.size() + found.far_too_large.size());
  if (found.entries.empty()) {
    result.failure = detail::explain_failure(request, list, found);
    return result;
  }
  result.alternatives = detail::best_of_schedules(found);
  result.changes =
      detail::what_would_change(request, found.entries.front(), detail::contenders(found, result.alternatives));
  result.entries = std::move(found.entries);
  return result;
}
[[nodiscard]] inline plan_result plan(plan_request const& request) {
  return plan(request, [](std::int64_t, std::int64_t) {});
}

/// The figures of one division of the GPUs and one schedule, whether they fit memory or not. Throws `parameter_error`
/// where the sizes do not divide the GPUs, the batch or the experts, or the schedule refuses the shape.
[[nodiscard]] inline ranked_plan evaluate_plan(plan_request const& request, plan_shape shape) {
  auto const& m = request.model;
  auto const& c = request.cluster;
  require(first_violation({m.check(), c.check(), at_least("pipeline", shape.pipeline, 1),
                           at_least("tensor", shape.sizes.tensor, 1), at_least("expert", shape.sizes.expert, 1)}));
  require(multiple_of("gpus", c.gpus, shape.pipeline * shape.sizes.tensor, "pipeline * tensor"));
  shape.sizes.data = c.gpus / (shape.pipeline * shape.sizes.tensor);
  require(multiple_of("batch", m.batch, shape.sizes.data * m.microbatch, "data * microbatch"));
  require(multiple_of("data * tensor", shape.sizes.data * shape.sizes.tensor, shape.sizes.expert, "expert"));
  shape.microbatches = m.batch / (shape.sizes.data * m.microbatch);
  auto any_memory = request;
  any_memory.cluster.memory = 1e13;
  any_memory.cluster.memory_share = 1;
  auto found = detail::compute(any_memory, {shape}, [](std::int64_t, std::int64_t) {});
  require(at_least("memory", found.entries.size(), 1, "the states of a stage exceed 10 TB"));
  return std::move(found.entries.front());
}

}  // namespace v0
}  // namespace pipesched
