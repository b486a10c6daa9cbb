// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Which shapes there are for a model on a cluster.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <pipesched/core/error.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/planner/plan.hpp>
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

/// The first thing that keeps a constraint of `plan_drops` from holding.
struct broken_constraint {
  std::int64_t plan_drops::* constraint;
  parameter_violation violation;
};

/// Whether sizes divide GPUs, heads, sequence, experts and batch; nothing where they do. `context` and `data` of the
/// sizes and the schedule count, `expert` only where `with_experts`. Precondition: all sizes are at least 1.
[[nodiscard]] inline std::optional<broken_constraint> check_sizes(plan_request const& request, plan_shape const& shape,
                                                                  bool with_experts = true) {
  auto const& m = request.model;
  auto const& s = shape.sizes;
  auto const gpus = request.cluster.gpus;
  auto const together = shape.pipeline * s.tensor * s.context;
  // The model's own sizes first: what they refuse fits no number of GPUs.
  if (auto wrong = multiple_of("heads", m.heads, s.tensor, "tensor"))
    return broken_constraint{&plan_drops::heads, *wrong};
  // Each rank has an early and a late part of the sequence, so that all have as much of the causal mask.
  if (auto wrong = multiple_of("sequence", m.sequence, s.context > 1 ? 2 * s.context : 1, "2 * context"))
    return broken_constraint{&plan_drops::sequence, *wrong};
  if (auto wrong = multiple_of("gpus", gpus, together, "pipeline * tensor * context"))
    return broken_constraint{&plan_drops::gpus, *wrong};
  auto const data = gpus / together;
  if (auto wrong = multiple_of("batch", m.batch, data * m.microbatch, "data * microbatch"))
    return broken_constraint{&plan_drops::batch, *wrong};
  if (!with_experts) return {};
  if (!m.is_moe())
    if (auto wrong = at_most("expert", s.expert, 1, "the model has no experts"))
      return broken_constraint{&plan_drops::experts, *wrong};
  if (auto wrong =
          first_violation({multiple_of("experts", std::max<std::int64_t>(m.experts, 1), s.expert, "expert"),
                           multiple_of("tensor * context * data", data * s.tensor * s.context, s.expert, "expert")}))
    return broken_constraint{&plan_drops::experts, *wrong};
  return {};
}

/// The shapes of a request, in a fixed order, and what had to be dropped before they are computed.
class shape_list {
 public:
  explicit shape_list(plan_request const& request) : request_(request) {
    auto const& m = request.model;
    auto const& c = request.cluster;
    // More stages than pieces leave some empty: not worth a try, but a layout may ask for it.
    pieces_ = m.layers + m.mtp_layers + 2;
    if (auto const& layout = request.choices.layout) pieces_ = std::max(pieces_, std::int64_t(layout->stages.size()));
    auto const pipelines = chosen(request.choices.pipeline, divisors(c.gpus, pieces_));
    auto const tensors = chosen(request.choices.tensor, tensor_sizes());
    auto const contexts = chosen(request.choices.context, {1});
    for (auto const pipeline : pipelines)
      for (auto const tensor : tensors)
        for (auto const context : contexts) add_data(pipeline, tensor, context);
    std::sort(shapes_.begin(), shapes_.end(), [](plan_shape const& a, plan_shape const& b) {
      auto const graph = [](plan_shape const& s) { return std::tie(s.pipeline, s.chunks, s.microbatches, s.schedule); };
      return std::pair(graph(a), a) < std::pair(graph(b), b);
    });
  }

  [[nodiscard]] vector<plan_shape> const& shapes() const noexcept { return shapes_; }
  [[nodiscard]] plan_drops const& drops() const noexcept { return drops_; }
  [[nodiscard]] std::int64_t considered() const noexcept { return considered_; }
  /// A violation of the constraint that is named, with its shape: the one with the lowest bound.
  struct example {
    plan_shape shape;
    broken_constraint broken;
  };
  [[nodiscard]] std::optional<example> broken(std::int64_t plan_drops::* constraint) const {
    for (auto const& e : broken_)
      if (e.broken.constraint == constraint) return e;
    return {};
  }
  /// The divisions of the GPUs among pipeline, tensor and context that come out even, whatever the batch is.
  [[nodiscard]] vector<plan_shape> const& divisions() const noexcept { return divisions_; }

 private:
  [[nodiscard]] static std::vector<std::int64_t> chosen(std::vector<std::int64_t> const& asked,
                                                        std::vector<std::int64_t> all) {
    if (asked.empty()) return all;
    auto sizes = asked;
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
  }
  /// Powers of two within a node, as far as the heads can be divided.
  [[nodiscard]] std::vector<std::int64_t> tensor_sizes() const {
    std::vector<std::int64_t> sizes;
    auto const& c = request_.cluster;
    for (std::int64_t t = 1; t <= c.gpus_per_node && request_.model.heads % t == 0; t *= 2) sizes.push_back(t);
    return sizes;
  }

  /// Counts a shape that a constraint drops, and remembers it where it came the closest.
  void drop(plan_shape const& shape, std::int64_t plan_drops::* constraint, parameter_violation const& violation) {
    ++considered_;
    ++(drops_.*constraint);
    for (auto& e : broken_) {
      if (e.broken.constraint != constraint) continue;
      if (violation.bound.real() < e.broken.violation.bound.real()) e = {shape, {constraint, violation}};
      return;
    }
    broken_.push_back({shape, {constraint, violation}});
  }

  void add_data(std::int64_t pipeline, std::int64_t tensor, std::int64_t context) {
    auto const& m = request_.model;
    plan_shape shape{.pipeline = pipeline, .sizes = {.tensor = tensor, .context = context}};
    auto const wrong = check_sizes(request_, shape, false);
    auto const even = request_.cluster.gpus % (pipeline * tensor * context) == 0;
    shape.sizes.data = even ? request_.cluster.gpus / (pipeline * tensor * context) : 0;
    if (!wrong || wrong->constraint == &plan_drops::batch) divisions_.push_back(shape);
    if (wrong) return drop(shape, wrong->constraint, wrong->violation);
    shape.microbatches = m.batch / (shape.sizes.data * m.microbatch);
    auto const share_experts = tensor * context * shape.sizes.data;
    auto const sizes =
        m.is_moe() ? divisors(std::gcd(m.experts, share_experts), m.experts) : std::vector{std::int64_t{1}};
    for (auto const expert : chosen(request_.choices.expert, sizes)) {
      shape.sizes.expert = expert;
      if (auto const uneven = check_sizes(request_, shape))
        drop(shape, uneven->constraint, uneven->violation);
      else
        add_schedules(shape);
    }
  }

  void add_schedules(plan_shape shape) {
    auto const& asked = request_.choices.schedules;
    // One rank is no pipeline: 1F1B stands for all schedules there, with experts its overlapped form too, which hides
    // their all-to-alls.
    bool const alone =
        shape.pipeline == 1 && asked.empty() && request_.choices.chunks.empty() && !request_.choices.layout;
    for_each_schedule([&]<class Generator>() {
      shape.schedule = Generator::info.name;
      if (!asked.empty() && std::find(asked.begin(), asked.end(), shape.schedule) == asked.end()) return;
      if (alone && shape.schedule != "1f1b" && !(request_.model.is_moe() && shape.schedule == "1f1b-overlap")) return;
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
    if (auto const wrong = check_shape<Generator>(wanted)) return drop(shape, &plan_drops::schedule, *wrong);
    auto const where = make_generator<Generator>(wanted).placement();
    shape.chunks = where.stages() / where.ranks();
    auto const& only = request_.choices.chunks;
    if (!only.empty() && std::find(only.begin(), only.end(), shape.chunks) == only.end())
      return drop(shape, &plan_drops::schedule, {"chunks", only.front(), "must be", shape.chunks, "of this schedule"});
    if (auto const wrong = at_most("pipeline * chunks", where.stages(), pieces_, "layers, embedding and head"))
      return drop(shape, &plan_drops::stages, *wrong);
    if (auto const& layout = request_.choices.layout; layout && layout->stages.size() != std::size_t(where.stages()))
      return drop(shape, &plan_drops::stages,
                  {"pipeline * chunks", where.stages(), "must be", layout->stages.size(), "the stages of the layout"});
    if (auto const wrong = at_most("ops", 3 * where.stages() * shape.microbatches, max_planned_operations))
      return drop(shape, &plan_drops::size, *wrong);
    ++considered_;
    shapes_.push_back(shape);
  }

  static constexpr std::int64_t most_chunks = 8;

  plan_request const& request_;
  std::int64_t pieces_ = 0;
  vector<plan_shape> shapes_;
  plan_drops drops_;
  std::int64_t considered_ = 0;
  std::vector<example> broken_;
  vector<plan_shape> divisions_;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
