// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Why a request has no plan, and what is nearest to it that has one.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <pipesched/planner/plan.hpp>
#include <pipesched/planner/search.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// The best plan of a request, if there is one.
[[nodiscard]] inline std::optional<ranked_plan> best_of(plan_request const& request) {
  if (request.model.check() || request.cluster.check()) return {};
  shape_list const list(request);
  auto found = compute(request, list.shapes(), [](std::int64_t, std::int64_t) {});
  if (found.entries.empty()) return {};
  return std::move(found.entries.front());
}

/// A request that differs in one thing.
struct relaxed_request {
  std::string change;
  plan_request request;
};

/// Collects changes of a request, those that help against `constraint` first.
class relaxations {
 public:
  relaxations(plan_request const& request, std::string const& constraint) : request_(request) {
    if (constraint == "memory") {
      recompute_more();
      divide_more_states();
      if (request.model.microbatch > 1) add("microbatch = 1", [](plan_request& r) { r.model.microbatch = 1; });
    }
    if (constraint == "gpus") use_multiples_of_gpus();
    if (constraint == "batch" || constraint == "schedule") change_batch();
    leave_choices();
    if (constraint == "memory") more_gpus();
    if (constraint == "gpus") change_batch();
  }
  [[nodiscard]] std::vector<relaxed_request> const& list() const noexcept { return list_; }

 private:
  template <class Change>
  void add(std::string text, Change&& change) {
    list_.push_back({std::move(text), request_});
    change(list_.back().request);
  }

  void recompute_more() {
    for (auto const more : {recomputation::selective, recomputation::pointwise, recomputation::full})
      if (more > request_.model.recompute)
        add(fmt::format("recomputation = {}", name_of(more)), [&](plan_request& r) { r.model.recompute = more; });
  }
  void divide_more_states() {
    for (auto stage = request_.model.zero_stage + 1; stage <= 3; ++stage)
      add(fmt::format("zero_stage = {}", stage), [&](plan_request& r) { r.model.zero_stage = stage; });
    if (request_.model.zero_stage < 3 && request_.model.recompute != recomputation::full)
      add("recomputation = full and zero_stage = 3", [](plan_request& r) {
        r.model.recompute = recomputation::full;
        r.model.zero_stage = 3;
      });
  }
  void more_gpus() {
    for (std::int64_t factor : {2, 4, 8, 16})
      add(fmt::format("gpus = {}", factor * request_.cluster.gpus), [&](plan_request& r) { r.cluster.gpus *= factor; });
    if (request_.model.recompute != recomputation::full)
      for (std::int64_t factor : {2, 4, 8})
        add(fmt::format("recomputation = full and gpus = {}", factor * request_.cluster.gpus), [&](plan_request& r) {
          r.model.recompute = recomputation::full;
          r.cluster.gpus *= factor;
        });
  }
  void leave_choices() {
    auto const& c = request_.choices;
    if (!c.schedules.empty()) add("any schedule", [](plan_request& r) { r.choices.schedules.clear(); });
    if (!c.chunks.empty()) add("any chunks", [](plan_request& r) { r.choices.chunks.clear(); });
    if (!c.pipeline.empty()) add("any pipeline size", [](plan_request& r) { r.choices.pipeline.clear(); });
    if (!c.tensor.empty()) add("any tensor size", [](plan_request& r) { r.choices.tensor.clear(); });
    if (!c.expert.empty()) add("any expert size", [](plan_request& r) { r.choices.expert.clear(); });
    if (c.layout) add("a balanced layout", [](plan_request& r) { r.choices.layout.reset(); });
    if (!c.pipeline.empty() && !c.tensor.empty())
      add("any pipeline and tensor size", [](plan_request& r) {
        r.choices.pipeline.clear();
        r.choices.tensor.clear();
      });
  }
  /// The next multiples of the sizes asked for, below and above.
  void use_multiples_of_gpus() {
    std::int64_t unit = 1;
    for (auto const* sizes : {&request_.choices.pipeline, &request_.choices.tensor})
      if (!sizes->empty() && sizes->front() > 0 && sizes->front() < (1 << 20)) unit *= sizes->front();
    auto const gpus = request_.cluster.gpus;
    for (auto const near : {gpus / unit * unit, (gpus / unit + 1) * unit})
      if (near > 0 && near != gpus)
        add(fmt::format("gpus = {}", near), [&](plan_request& r) { r.cluster.gpus = near; });
  }
  /// The nearest batches whose microbatches come out even, those that fill rounds of the pipeline included.
  void change_batch() {
    auto const& m = request_.model;
    std::vector<std::int64_t> near;
    auto const gpus = request_.cluster.gpus;
    for (auto const data : divisors(gpus, gpus)) {
      auto const pipelines = request_.choices.pipeline.empty() ? divisors(gpus / data, 64) : request_.choices.pipeline;
      for (auto const p : pipelines)
        for (auto const rounds : {std::int64_t{1}, p, 2 * p}) {
          auto const unit = data * m.microbatch * rounds;
          if (p < 1 || (gpus / data) % p != 0 || unit < 1) continue;
          near.insert(near.end(), {m.batch / unit * unit, (m.batch / unit + 1) * unit});
        }
    }
    std::sort(near.begin(), near.end(), [&](std::int64_t a, std::int64_t b) {
      return std::pair(std::abs(a - m.batch), a) < std::pair(std::abs(b - m.batch), b);
    });
    near.erase(std::unique(near.begin(), near.end()), near.end());
    std::size_t count = 0;
    for (auto const batch : near)
      if (batch >= m.microbatch && batch != m.batch && count++ < 8)
        add(fmt::format("batch = {}", batch), [&](plan_request& r) { r.model.batch = batch; });
  }

  plan_request const& request_;
  std::vector<relaxed_request> list_;
};

/// The shape that needs the least memory, with its figures.
[[nodiscard]] inline std::optional<ranked_plan> closest_to_memory(plan_request request, search_result const& found) {
  auto candidates = found.too_large;
  auto far = found.far_too_large;
  std::sort(far.begin(), far.end(), [](dropped_shape const& a, dropped_shape const& b) {
    return std::tie(a.bytes, a.shape) < std::tie(b.bytes, b.shape);
  });
  if (candidates.empty()) {
    std::vector<plan_shape> shapes;
    for (std::size_t i = 0; i < std::min<std::size_t>(far.size(), 32); ++i) shapes.push_back(far[i].shape);
    request.cluster.memory = 1e13;
    request.cluster.memory_share = 1;
    auto computed = compute(request, shapes, [](std::int64_t, std::int64_t) {});
    candidates = std::move(computed.entries);
  }
  if (candidates.empty()) return {};
  return *std::min_element(candidates.begin(), candidates.end(), [](ranked_plan const& a, ranked_plan const& b) {
    return std::pair(a.memory.total(), a.shape) < std::pair(b.memory.total(), b.shape);
  });
}

/// Names the constraint that broke last, and looks for the nearest requests that have a plan.
[[nodiscard]] inline plan_failure explain_failure(plan_request const& request, shape_list const& list,
                                                  search_result const& found) {
  plan_failure failure;
  auto const& drops = list.drops();
  auto const& m = request.model;
  auto const& c = request.cluster;
  if (!found.too_large.empty() || !found.far_too_large.empty()) {
    failure.constraint = "memory";
    failure.closest = closest_to_memory(request, found);
    failure.message = fmt::format("no shape fits the {:.1f} GB that a GPU may fill", double(c.usable_memory()) / 1e9);
    if (failure.closest)
      failure.message += fmt::format("; the least is {:.1f} GB", double(failure.closest->memory.total()) / 1e9);
  } else if (drops.size > 0) {
    failure.constraint = "size";
    failure.message = fmt::format("every shape has more than {} ops", max_planned_operations);
  } else if (drops.schedule > 0) {
    failure.constraint = "schedule";
    failure.message = "no schedule is made for these shapes";
    if (list.violation()) failure.message += ": " + list.violation()->message();
  } else if (drops.stages > 0) {
    failure.constraint = "stages";
    failure.message =
        fmt::format("the model's {} layers, embedding and head do not make as many stages", m.layers + m.mtp_layers);
    if (request.choices.layout)
      failure.message =
          fmt::format("the layout's {} stages are not P * v of any shape", request.choices.layout->stages.size());
  } else if (drops.batch > 0) {
    failure.constraint = "batch";
    failure.message = fmt::format("batch = {} is no multiple of data * microbatch for any sizes", m.batch);
  } else if (drops.gpus > 0) {
    failure.constraint = "gpus";
    failure.message = fmt::format("gpus = {} cannot be divided among the sizes asked for", c.gpus);
  } else {
    failure.constraint = "schedule";
    failure.message = "the sizes and schedules asked for make no shape";
  }
  relaxations const nearby(request, failure.constraint);
  for (auto const& relaxed : nearby.list()) {
    if (failure.nearest.size() == 3) break;
    if (auto best = best_of(relaxed.request)) failure.nearest.push_back({relaxed.change, *std::move(best)});
  }
  if (failure.closest)
    failure.nearest.push_back(
        {fmt::format("memory = {:.1f} GB",
                     std::ceil(double(failure.closest->memory.total()) / c.memory_share / 1e8) / 10),
         *failure.closest});
  return failure;
}

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
