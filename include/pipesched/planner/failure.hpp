// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Why a request has no plan, and what is nearest to it that has one.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <pipesched/core/vector.hpp>
#include <pipesched/planner/plan.hpp>
#include <pipesched/planner/search.hpp>
#include <pipesched/planner/shape_list.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// A request that differs in one thing.
struct relaxed_request {
  std::string change;
  plan_request request;
};

/// Collects changes of a request that may help against a constraint, the smallest of each kind first.
class relaxations {
 public:
  relaxations(plan_request const& request, shape_list const& shapes, std::string_view constraint)
      : request_(request), shapes_(shapes) {
    auto const is = [&](auto... names) { return ((constraint == names) || ...); };
    if (is("memory")) {
      recompute_more();
      divide_more_states();
      if (request.model.microbatch > 1) add("microbatch = 1", [](plan_request& r) { r.model.microbatch = 1; });
    }
    if (is("batch", "schedule")) change_batch();
    if (is("size")) fewer_microbatches();
    neighbours_of_choices();
    if (is("gpus", "batch", "experts")) change_gpus();
    leave_choices();
    if (is("memory")) more_gpus();
    if (is("gpus", "experts")) change_batch();
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
    for (std::int64_t factor : {2, 4, 8, 16, 32, 64, 128, 256, 512})
      add(fmt::format("gpus = {}", factor * request_.cluster.gpus), [&](plan_request& r) { r.cluster.gpus *= factor; });
    if (request_.model.recompute != recomputation::full)
      for (std::int64_t factor : {2, 4, 8})
        add(fmt::format("recomputation = full and gpus = {}", factor * request_.cluster.gpus), [&](plan_request& r) {
          r.model.recompute = recomputation::full;
          r.cluster.gpus *= factor;
        });
  }

  /// Where one size was asked for: the nearest others, below and above.
  void neighbours_of_choices() {
    auto const& m = request_.model;
    neighbours("pipeline", &plan_choices::pipeline, divisors(request_.cluster.gpus, m.layers + m.mtp_layers + 2));
    neighbours("tensor", &plan_choices::tensor, divisors(m.heads, request_.cluster.gpus_per_node));
    neighbours("expert", &plan_choices::expert,
               divisors(m.is_moe() ? std::gcd(m.experts, request_.cluster.gpus) : 1, m.experts + 1));
    neighbours("context", &plan_choices::context, divisors(m.sequence / 2, request_.cluster.gpus));
    neighbours("chunks", &plan_choices::chunks, {1, 2, 3, 4, 5, 6, 7, 8});
  }
  void neighbours(std::string_view name, std::vector<std::int64_t> plan_choices::* of,
                  std::vector<std::int64_t> sizes) {
    auto const& asked = request_.choices.*of;
    if (asked.size() != 1 || (name == "context" && asked.front() == 1)) return;
    std::erase(sizes, asked.front());
    nearest_first(sizes, asked.front());
    for (std::size_t i = 0; i < std::min<std::size_t>(sizes.size(), 3); ++i)
      add(fmt::format("{} = {}", name, sizes[i]), [&](plan_request& r) { r.choices.*of = {sizes[i]}; });
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

  /// The nearest numbers of GPUs that the sizes asked for divide, and the nearest powers of two.
  void change_gpus() {
    auto const gpus = request_.cluster.gpus;
    auto const smallest = [](std::vector<std::int64_t> const& sizes) {
      return sizes.empty() ? std::int64_t{1} : *std::min_element(sizes.begin(), sizes.end());
    };
    auto const& c = request_.choices;
    auto const together = smallest(c.pipeline) * smallest(c.tensor) * smallest(c.context);
    auto const unit = together <= gpus * 16 ? together : 1;
    std::vector<std::int64_t> near{gpus / unit * unit, (gpus / unit + 1) * unit};
    for (std::int64_t power = 1; power <= 2 * gpus; power *= 2)
      if (2 * power > gpus) near.push_back(power);
    std::erase_if(near, [&](std::int64_t n) { return n < 1 || n == gpus; });
    nearest_first(near, gpus);
    for (auto const n : near) add(fmt::format("gpus = {}", n), [&](plan_request& r) { r.cluster.gpus = n; });
  }
  /// The nearest batches whose microbatches come out even, those that fill a pipeline once or twice included.
  void change_batch() {
    auto const& m = request_.model;
    std::vector<std::int64_t> near;
    for (auto const& division : shapes_.divisions())
      for (auto const rounds : {std::int64_t{1}, division.pipeline, 2 * division.pipeline}) {
        auto const unit = division.sizes.data * m.microbatch * rounds;
        near.insert(near.end(), {m.batch / unit * unit, (m.batch / unit + 1) * unit});
      }
    std::erase_if(near, [&](std::int64_t batch) { return batch < m.microbatch || batch == m.batch; });
    nearest_first(near, m.batch);
    for (std::size_t i = 0; i < std::min<std::size_t>(near.size(), 8); ++i)
      add(fmt::format("batch = {}", near[i]), [&](plan_request& r) { r.model.batch = near[i]; });
  }
  /// Halves of the batch, rounded down to what comes out even however the GPUs are divided.
  void fewer_microbatches() {
    auto const unit = request_.cluster.gpus * request_.model.microbatch;
    for (auto batch = request_.model.batch / 2; batch > 0; batch /= 2) {
      auto const even = batch / unit * unit;
      if (even == 0) return;
      add(fmt::format("batch = {}", even), [&](plan_request& r) { r.model.batch = even; });
    }
  }

  static void nearest_first(std::vector<std::int64_t>& values, std::int64_t to) {
    std::sort(values.begin(), values.end(), [&](std::int64_t a, std::int64_t b) {
      return std::pair(std::abs(a - to), a) < std::pair(std::abs(b - to), b);
    });
    values.erase(std::unique(values.begin(), values.end()), values.end());
  }

  plan_request const& request_;
  shape_list const& shapes_;
  std::vector<relaxed_request> list_;
};

/// Of the shapes that are too large the one that needs the least memory, with its figures; of one schedule, if one is
/// named.
[[nodiscard]] inline std::optional<ranked_plan> closest_to_memory(plan_request const& request,
                                                                  search_result const& found,
                                                                  std::string_view schedule = {}) {
  vector<dropped_shape> shapes;
  for (auto const& dropped : found.too_large)
    if (schedule.empty() || dropped.shape.schedule == schedule) shapes.push_back(dropped);
  std::sort(shapes.begin(), shapes.end(), [](dropped_shape const& a, dropped_shape const& b) {
    return std::tie(a.bytes, a.shape) < std::tie(b.bytes, b.shape);
  });
  // What is known of a shape far beyond the memory is a bound from below: the first few are computed.
  constexpr std::size_t most = 16;
  std::optional<ranked_plan> best;
  for (std::size_t i = 0; i < std::min(most, shapes.size()); ++i) {
    if (best && shapes[i].bytes >= best->memory.total()) break;
    auto entry = figures_of(request, shapes[i].shape);
    if (!best || entry.memory.total() < best->memory.total()) best = std::move(entry);
  }
  return best;
}

/// Names the constraint that broke last, and looks for the nearest requests that have a plan. `progress(done, all)`
/// after each that is tried.
template <class Progress>
[[nodiscard]] plan_failure explain_failure(plan_request const& request, shape_list const& list,
                                           search_result const& found, Progress&& progress) {
  plan_failure failure;
  auto const& c = request.cluster;
  if (!found.too_large.empty()) {
    failure.constraint = "memory";
    failure.closest = closest_to_memory(request, found);
    failure.message =
        fmt::format("no shape fits the {:.1f} GB that a GPU may fill (memory {:.1f} GB * memory_share {})",
                    double(c.usable_memory()) / 1e9, c.memory / 1e9, c.memory_share);
    if (failure.closest)
      failure.message += fmt::format("; the least is {:.1f} GB", double(failure.closest->memory.total()) / 1e9);
  } else {
    struct named {
      std::int64_t plan_drops::* constraint;
      std::string_view name;
    };
    // The further a shape came, the nearer it was.
    constexpr named stages_of_search[]{{&plan_drops::size, "size"},         {&plan_drops::stages, "stages"},
                                       {&plan_drops::schedule, "schedule"}, {&plan_drops::experts, "experts"},
                                       {&plan_drops::batch, "batch"},       {&plan_drops::gpus, "gpus"},
                                       {&plan_drops::sequence, "sequence"}, {&plan_drops::heads, "heads"}};
    for (auto const& [constraint, name] : stages_of_search)
      if (auto const example = list.broken(constraint)) {
        failure.constraint = name;
        failure.message = example->broken.violation.message();
        if (constraint == &plan_drops::schedule)
          failure.message = fmt::format("{} with pipeline = {}: {}", example->shape.schedule, example->shape.pipeline,
                                        failure.message);
        if (list.drops().*constraint > 1)
          failure.message += fmt::format("; the nearest of {} shapes", list.drops().*constraint);
        break;
      }
    if (failure.constraint.empty()) {
      failure.constraint = "choices";
      failure.message = "the schedules and chunks asked for make no shape";
    }
  }
  relaxations const nearby(request, list, failure.constraint);
  std::int64_t tried = 0;
  for (auto const& relaxed : nearby.list()) {
    if (failure.nearest.size() == 3) break;
    auto best = best_of(relaxed.request);
    progress(++tried, std::int64_t(nearby.list().size()));
    if (!best) continue;
    // A change that comes to the figures of a smaller one brings nothing.
    bool const known = std::any_of(failure.nearest.begin(), failure.nearest.end(), [&](plan_change const& near) {
      return near.entry.shape == best->shape && near.entry.step_time == best->step_time &&
             near.entry.memory.total() == best->memory.total();
    });
    if (!known) failure.nearest.push_back({relaxed.change, *std::move(best)});
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
