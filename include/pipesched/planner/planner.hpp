// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Which schedule should I use? From a model and a cluster to a ranking of schedules, shapes and parallel sizes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <pipesched/core/error.hpp>
#include <pipesched/io/diagnostic.hpp>
#include <pipesched/planner/failure.hpp>
#include <pipesched/planner/plan.hpp>
#include <pipesched/planner/search.hpp>
#include <pipesched/planner/shape_list.hpp>
#include <pipesched/schedules/registry.hpp>

namespace pipesched {
inline namespace v0 {

namespace detail {

/// FP8 products need a GPU that has them.
[[nodiscard]] inline check_result check_precision(plan_request const& request) {
  if (request.model.products != precision::fp8) return {};
  return above("fp8_rate", request.cluster.fp8_rate, 0.0, "the model's precision is fp8");
}

/// The first size asked for that no division has.
[[nodiscard]] inline check_result check_choices(plan_request const& request) {
  auto const& choices = request.choices;
  if (auto wrong = first_violation({at_least("listed", request.listed, 1), at_most("listed", request.listed, 1 << 20)}))
    return wrong;
  for (auto const& [name, sizes] :
       {std::pair("choices.pipeline", &choices.pipeline), std::pair("choices.chunks", &choices.chunks),
        std::pair("choices.tensor", &choices.tensor), std::pair("choices.expert", &choices.expert),
        std::pair("choices.context", &choices.context)})
    for (auto const size : *sizes)
      if (auto wrong = first_violation({at_least(name, size, 1), at_most(name, size, max_stages)})) return wrong;
  return {};
}

}  // namespace detail

/// What is wrong with a request before any shape is tried; empty where `plan` takes it.
[[nodiscard]] inline std::vector<diagnostic> check_request(plan_request const& request) {
  std::vector<diagnostic> wrong;
  auto const refuse = [&](std::string_view where, check_result const& result) {
    if (result) wrong.push_back({.kind = "bad_value", .op = std::string(where), .message = result->message()});
  };
  refuse("model", request.model.check());
  auto const of_cluster = request.cluster.check();
  refuse("cluster", of_cluster ? of_cluster : detail::check_precision(request));
  refuse("model", detail::check_choices(request));
  auto const& choices = request.choices;
  for (auto const& name : choices.schedules)
    if (std::find(schedule_names.begin(), schedule_names.end(), name) == schedule_names.end())
      wrong.push_back({.kind = "bad_value",
                       .op = "model.choices.schedules",
                       .message = unknown_schedule_message(detail::printable(name))});
  if (choices.layout)
    for (auto& d : check_layout(*choices.layout, {.layers = request.model.layers, .mtp = request.model.mtp_layers})) {
      d.op = "model.choices.layout";
      wrong.push_back(std::move(d));
    }
  return wrong;
}

namespace detail {

/// The best entry of every schedule but the first's; of those that fit nowhere, the one that needs the least memory.
[[nodiscard]] inline std::vector<ranked_plan> best_of_schedules(plan_request const& request,
                                                                search_result const& found) {
  std::vector<ranked_plan> best;
  std::vector<std::string_view> seen;
  for (auto const& entry : found.entries) {
    if (std::find(seen.begin(), seen.end(), entry.shape.schedule) != seen.end()) continue;
    seen.push_back(entry.shape.schedule);
    if (seen.size() > 1) best.push_back(entry);
  }
  for (auto const name : schedule_names)
    if (std::find(seen.begin(), seen.end(), name) == seen.end())
      if (auto entry = closest_to_memory(request, found, name)) best.push_back(*std::move(entry));
  return best;
}

/// Plans the request again under other circumstances, and keeps who would then be first.
template <class Progress>
[[nodiscard]] std::vector<plan_change> what_would_change(plan_request const& request, ranked_plan const& first,
                                                         Progress&& progress) {
  std::vector<plan_change> changes;
  auto const with = [&](std::string text, auto&& change) {
    auto changed = request;
    change(changed);
    auto now = best_of(changed);
    progress();
    if (!now) return changes.push_back({.change = std::move(text), .possible = false});
    bool const same = now->shape.schedule == first.shape.schedule && now->shape.pipeline == first.shape.pipeline &&
                      now->shape.chunks == first.shape.chunks && now->shape.sizes.tensor == first.shape.sizes.tensor &&
                      now->shape.sizes.context == first.shape.sizes.context &&
                      now->shape.sizes.expert == first.shape.sizes.expert;
    changes.push_back({.change = std::move(text), .entry = *std::move(now), .same = same});
  };
  auto const& c = request.cluster;
  auto const& m = request.model;
  with(fmt::format("half the network bandwidth (network = {:g})", c.network / 2),
       [](plan_request& r) { r.cluster.network /= 2; });
  with(fmt::format("twice the network bandwidth (network = {:g})", c.network * 2),
       [](plan_request& r) { r.cluster.network *= 2; });
  with(fmt::format("half the NVLink bandwidth (nvlink = {:g})", c.nvlink / 2),
       [](plan_request& r) { r.cluster.nvlink /= 2; });
  with(fmt::format("half the memory (memory = {:g})", c.memory / 2), [](plan_request& r) { r.cluster.memory /= 2; });
  with(fmt::format("twice the memory (memory = {:g})", c.memory * 2), [](plan_request& r) { r.cluster.memory *= 2; });
  if (m.batch % 2 == 0 && m.batch / 2 >= m.microbatch)
    with(fmt::format("half the batch (batch = {})", m.batch / 2), [](plan_request& r) { r.model.batch /= 2; });
  with(fmt::format("twice the batch (batch = {})", m.batch * 2), [](plan_request& r) { r.model.batch *= 2; });
  return changes;
}
/// How many changes there are at most: each counts as a group of shapes in the progress.
inline constexpr std::int64_t most_changes = 7;

}  // namespace detail

/// Tries every schedule of the library with every division of the GPUs into pipeline, tensor and data parallel ranks
/// (and expert parallel ones among these), computes each from its op graph, drops what does not fit memory, and ranks
/// the rest by step time. The same request has the same result. Precondition: `check_request` finds nothing; throws
/// `parameter_error` for a model or cluster out of bounds.
///
/// The fastest plans come first, `request.listed` of them, and each other schedule's best. Shapes that cannot be among
/// them, for they are slower even without a bubble, are counted and not computed.
///
/// `progress(done, all)` is called as shapes are done, in the caller's thread; where no shape fits `all` grows by the
/// requests nearby that are tried.
template <class Progress>
[[nodiscard]] plan_result plan(plan_request const& request, Progress&& progress) {
  require(request.model.check());
  require(request.cluster.check());
  require(detail::check_precision(request));
  require(detail::check_choices(request));
  detail::shape_list const list(request);
  std::int64_t done = 0;
  std::int64_t all = 0;
  auto const advance = [&](std::int64_t groups, std::int64_t of) {
    progress(done = groups, all = of + detail::most_changes);
  };
  auto found = detail::shape_search(request, list.shapes(), {.listed = std::size_t(request.listed)}).run(advance);
  plan_result result{.considered = list.considered(), .fitting = found.fitting, .drops = list.drops()};
  result.drops.memory = std::int64_t(found.too_large.size());
  result.drops.slower = found.slower;
  if (found.entries.empty()) {
    result.failure = detail::explain_failure(
        request, list, found, [&](std::int64_t tried, std::int64_t of) { progress(done + tried, all = done + of); });
    done = all;
  } else {
    result.alternatives = detail::best_of_schedules(request, found);
    result.changes =
        detail::what_would_change(request, found.entries.front(), [&] { progress(std::min(++done, all), all); });
    found.entries.resize(std::min(found.entries.size(), std::size_t(request.listed)));
    result.entries = std::move(found.entries);
  }
  progress(all, all);
  return result;
}
[[nodiscard]] inline plan_result plan(plan_request const& request) {
  return plan(request, [](std::int64_t, std::int64_t) {});
}

/// The figures of one division of the GPUs and one schedule, whether they fit memory or not. Throws `parameter_error`
/// where the sizes do not divide the GPUs, the heads, the sequence, the batch or the experts, or the schedule refuses
/// the shape.
[[nodiscard]] inline ranked_plan evaluate_plan(plan_request const& request, plan_shape shape) {
  auto const& m = request.model;
  auto const& c = request.cluster;
  auto const size = [](std::string_view name, std::int64_t value) {
    return first_violation({at_least(name, value, 1), at_most(name, value, max_stages)});
  };
  require(first_violation({m.check(), c.check(), detail::check_precision(request), size("pipeline", shape.pipeline),
                           size("tensor", shape.sizes.tensor), size("context", shape.sizes.context),
                           size("expert", shape.sizes.expert)}));
  if (auto const wrong = detail::check_sizes(request, shape)) require(wrong->violation);
  shape.sizes.data = c.gpus / (shape.pipeline * shape.sizes.tensor * shape.sizes.context);
  shape.microbatches = m.batch / (shape.sizes.data * m.microbatch);
  return detail::figures_of(request, shape);
}

}  // namespace v0
}  // namespace pipesched
