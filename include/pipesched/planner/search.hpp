// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Which shapes there are for a model on a cluster, and their figures, ranked by step time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <pipesched/core/schedule.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/planner/evaluate.hpp>
#include <pipesched/planner/plan.hpp>
#include <pipesched/planner/stage_costs.hpp>
#include <pipesched/schedules/registry.hpp>

namespace pipesched {
inline namespace v0 {

namespace detail {

[[nodiscard]] inline std::vector<std::int64_t> divisors(std::int64_t n, std::int64_t most) {
  std::vector<std::int64_t> found;
  for (std::int64_t d = 1; d <= std::min(n, most); ++d)
    if (n % d == 0) found.push_back(d);
  return found;
}

/// A shape and what it needs of memory however its ops are ordered.
struct dropped_shape {
  plan_shape shape;
  std::int64_t bytes;
};

/// The shapes of a request, in a fixed order, and what had to be dropped before they are computed.
class shape_list {
 public:
  explicit shape_list(plan_request const& request) : request_(request) {
    auto const& m = request.model;
    auto const& c = request.cluster;
    pieces_ = m.layers + m.mtp_layers + 2;
    auto const pipelines = chosen(request.choices.pipeline, divisors(c.gpus, pieces_));
    auto const tensors = chosen(request.choices.tensor, tensor_sizes());
    for (auto const pipeline : pipelines)
      for (auto const tensor : tensors) add_data(pipeline, tensor);
    std::sort(shapes_.begin(), shapes_.end(), [](plan_shape const& a, plan_shape const& b) {
      auto const graph = [](plan_shape const& s) { return std::tie(s.pipeline, s.chunks, s.microbatches, s.schedule); };
      return std::pair(graph(a), a) < std::pair(graph(b), b);
    });
  }

  [[nodiscard]] std::vector<plan_shape> const& shapes() const noexcept { return shapes_; }
  [[nodiscard]] plan_drops const& drops() const noexcept { return drops_; }
  [[nodiscard]] std::int64_t considered() const noexcept { return considered_; }
  /// What broke a schedule's own limits last.
  [[nodiscard]] std::optional<parameter_violation> const& violation() const noexcept { return violation_; }

 private:
  [[nodiscard]] static std::vector<std::int64_t> chosen(std::vector<std::int64_t> const& asked,
                                                        std::vector<std::int64_t> all) {
    return asked.empty() ? std::move(all) : asked;
  }
  /// Powers of two within a node, as far as the heads can be divided.
  [[nodiscard]] std::vector<std::int64_t> tensor_sizes() const {
    std::vector<std::int64_t> sizes;
    auto const& c = request_.cluster;
    for (std::int64_t t = 1; t <= c.gpus_per_node && request_.model.heads % t == 0; t *= 2) sizes.push_back(t);
    return sizes;
  }

  /// Counts `shapes` more shapes that a constraint drops.
  void drop(std::int64_t plan_drops::* constraint) {
    ++considered_;
    ++(drops_.*constraint);
  }

  void add_data(std::int64_t pipeline, std::int64_t tensor) {
    auto const& m = request_.model;
    auto const gpus = request_.cluster.gpus;
    if (pipeline < 1 || tensor < 1 || tensor > gpus || pipeline > gpus || gpus % (pipeline * tensor) != 0 ||
        m.heads % tensor != 0)
      return drop(&plan_drops::gpus);
    auto const data = gpus / (pipeline * tensor);
    if (m.batch % (data * m.microbatch) != 0) return drop(&plan_drops::batch);
    auto const experts = m.is_moe()
                             ? chosen(request_.choices.expert, divisors(std::gcd(m.experts, data * tensor), m.experts))
                             : std::vector<std::int64_t>{1};
    for (auto const expert : experts) {
      if (expert < 1 || m.experts % std::max<std::int64_t>(expert, 1) != 0 || (data * tensor) % expert != 0) {
        drop(&plan_drops::gpus);
        continue;
      }
      add_schedules({.pipeline = pipeline,
                     .microbatches = m.batch / (data * m.microbatch),
                     .sizes = {.tensor = tensor, .expert = expert, .data = data}});
    }
  }

  void add_schedules(plan_shape shape) {
    auto const& asked = request_.choices.schedules;
    for_each_schedule([&]<class Generator>() {
      shape.schedule = Generator::info.name;
      if (!asked.empty() && std::find(asked.begin(), asked.end(), shape.schedule) == asked.end()) return;
      if constexpr (has_chunks<Generator>) {
        // One chunk makes the schedule without chunks, which has a name of its own.
        std::vector<std::int64_t> chunks;
        for (std::int64_t v = 2; v * shape.pipeline <= pieces_ && v <= most_chunks; ++v) chunks.push_back(v);
        for (auto const v : chosen(request_.choices.chunks, chunks)) add<Generator>(shape, v);
      } else {
        add<Generator>(shape, {});
      }
    });
  }

  template <class Generator>
  void add(plan_shape shape, std::optional<std::int64_t> chunks) {
    auto const wanted = pipesched::shape{.ranks = shape.pipeline, .microbatches = shape.microbatches, .chunks = chunks};
    if (auto const wrong = check_shape<Generator>(wanted)) {
      violation_ = wrong;
      return drop(&plan_drops::schedule);
    }
    auto const where = make_generator<Generator>(wanted).placement();
    shape.chunks = where.stages() / where.ranks();
    auto const& only = request_.choices.chunks;
    if (!only.empty() && std::find(only.begin(), only.end(), shape.chunks) == only.end()) return;
    bool const fits_layout =
        !request_.choices.layout || request_.choices.layout->stages.size() == std::size_t(where.stages());
    if (where.stages() > pieces_ || !fits_layout) return drop(&plan_drops::stages);
    if (3 * where.stages() * shape.microbatches > max_planned_operations) return drop(&plan_drops::size);
    ++considered_;
    shapes_.push_back(shape);
  }

  static constexpr std::int64_t most_chunks = 8;

  plan_request const& request_;
  std::int64_t pieces_ = 0;
  std::vector<plan_shape> shapes_;
  plan_drops drops_;
  std::int64_t considered_ = 0;
  std::optional<parameter_violation> violation_;
};

/// The stages of every division of the model that was met.
class stage_cache {
 public:
  explicit stage_cache(plan_request const& request) : request_(request) {}

  struct division {
    model_costs costs;
    pipeline_layout layout;
    std::vector<stage_figures> stages;
  };
  [[nodiscard]] division const& of(plan_shape const& shape, int stages) {
    auto const key = std::tuple(stages, shape.sizes.tensor, shape.sizes.expert, shape.sizes.data);
    auto known = known_.find(key);
    if (known == known_.end()) {
      model_costs const costs(request_.model, request_.cluster, shape.sizes);
      auto layout = request_.choices.layout ? *request_.choices.layout : balanced_layout(costs, stages);
      auto figures = stages_of(costs, layout);
      known = known_.emplace(key, division{costs, std::move(layout), std::move(figures)}).first;
    }
    return known->second;
  }

 private:
  plan_request const& request_;
  std::map<std::tuple<int, std::int64_t, std::int64_t, std::int64_t>, division> known_;
};

/// What the fullest rank holds at least: its states, and one microbatch of each of its stages.
[[nodiscard]] inline std::int64_t least_memory(placement const& where, stage_cache::division const& d) {
  auto const states = states_by_stage(d.costs, d.stages, where.replicas());
  std::vector<std::int64_t> held(std::size_t(where.ranks()), 0);
  for (int stage = 0; stage < where.stages(); ++stage) {
    auto const s = std::size_t(stage);
    for (int replica = 0; replica < where.replicas(); ++replica)
      held[std::size_t(where.rank_of(stage, replica))] +=
          states[s].total() + (replica == 0 ? d.stages[s].activation : 0);
  }
  return *std::max_element(held.begin(), held.end());
}

[[nodiscard]] inline bool same_graph(plan_shape const& a, plan_shape const& b) noexcept {
  return a.schedule == b.schedule && a.pipeline == b.pipeline && a.chunks == b.chunks &&
         a.microbatches == b.microbatches;
}

/// Calls `visit(generator)` with a shape's schedule.
template <class Visit>
void with_generator(plan_shape const& shape, Visit&& visit) {
  with_schedule(shape.schedule, {.ranks = shape.pipeline, .microbatches = shape.microbatches, .chunks = shape.chunks},
                std::forward<Visit>(visit));
}

struct search_result {
  std::vector<ranked_plan> entries;
  std::vector<ranked_plan> too_large;        ///< computed, and fit no memory
  std::vector<dropped_shape> far_too_large;  ///< not computed: their states alone leave no room
};

/// Computes shapes that stand side by side where they share a graph. `progress(done, all)` after each of these groups.
template <class Progress>
search_result compute(plan_request const& request, std::vector<plan_shape> const& shapes, Progress&& progress) {
  search_result result;
  stage_cache divisions(request);
  auto const usable = request.cluster.usable_memory();
  for (std::size_t at = 0; at < shapes.size();) {
    auto after = at + 1;
    while (after < shapes.size() && same_graph(shapes[at], shapes[after])) ++after;
    with_generator(shapes[at], [&](auto const& generator) {
      auto const where = generator.placement();
      std::vector<plan_shape> possible;
      for (auto i = at; i < after; ++i) {
        auto const least = least_memory(where, divisions.of(shapes[i], where.stages()));
        if (least > usable)
          result.far_too_large.push_back({shapes[i], least});
        else
          possible.push_back(shapes[i]);
      }
      if (possible.empty()) return;
      auto const graph = build_graph(generator);
      execution_order const order(graph);
      for (auto const& shape : possible) {
        auto const& d = divisions.of(shape, where.stages());
        auto entry = evaluate(shape, graph, order, d.costs, d.stages);
        entry.layout = write_layout(d.layout);
        (entry.memory.total() > usable ? result.too_large : result.entries).push_back(std::move(entry));
      }
    });
    at = after;
    progress(std::int64_t(at), std::int64_t(shapes.size()));
  }
  auto const faster = [](ranked_plan const& a, ranked_plan const& b) {
    return std::tie(a.step_time, a.shape) < std::tie(b.step_time, b.shape);
  };
  std::sort(result.entries.begin(), result.entries.end(), faster);
  std::sort(result.too_large.begin(), result.too_large.end(), faster);
  return result;
}

}  // namespace detail

}  // namespace v0
}  // namespace pipesched
