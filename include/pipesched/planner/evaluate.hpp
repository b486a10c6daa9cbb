// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The figures of one shape, from its op graph under the cost model that model and cluster make.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/memory.hpp>
#include <pipesched/analysis/timeline.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/planner/plan.hpp>
#include <pipesched/planner/stage_costs.hpp>

namespace pipesched {
inline namespace v0 {

/// The times of stages as a cost model. A pair of two stages takes the mean of their pairs.
struct plan_cost {
  detail::vector<stage_figures> const* stages;
  double transfer;

  [[nodiscard]] double operator()(op o, int /*rank*/) const noexcept {
    auto const& stage = (*stages)[std::size_t(o.stage())];
    switch (o.kind()) {
      case op_kind::forward: return stage.forward;
      case op_kind::backward: return stage.backward_input + stage.backward_weight;
      case op_kind::backward_input: return stage.backward_input;
      case op_kind::backward_weight: return stage.backward_weight;
      default: return 0;
    }
  }
  [[nodiscard]] double pair_time(op f, op b, int /*rank*/) const noexcept {
    auto const& of_forward = (*stages)[std::size_t(f.stage())];
    auto const& of_backward = (*stages)[std::size_t(b.stage())];
    auto const weight = b.kind() == op_kind::backward_input ? of_backward.backward_weight : 0;
    return std::max((of_forward.pair + of_backward.pair) / 2 - weight, 0.0);
  }
  [[nodiscard]] double transfer_time(int, int) const noexcept { return transfer; }
};

namespace detail {

/// Over all ranks, in seconds: communication within ops that nothing hides, and busy time.
struct exposed_sums {
  double all = 0;
  double busy = 0;
};

inline exposed_sums exposed_within(timeline<double> const& times, vector<stage_figures> const& stages) {
  exposed_sums sums;
  auto const steps = times.order().steps();
  auto const& order = times.order();
  for (std::size_t at = 0; at < steps.size(); ++at) {
    sums.busy += times.ends()[at] - times.starts()[at];
    op const o = steps[at].what;
    auto const& stage = stages[std::size_t(o.stage())];
    if (order.opens_pair(at)) {
      sums.all += (stage.exposed_pair + stages[std::size_t(steps[at + 1].what.stage())].exposed_pair) / 2;
      ++at;
    } else if (o.kind() == op_kind::forward) {
      sums.all += stage.exposed_forward;
    } else if (carries_gradient(o.kind())) {
      sums.all += stage.exposed_backward;
    }
  }
  return sums;
}

/// Seconds of a stage copy's gradients and weights among its data-parallel ranks.
struct data_times {
  double reduce = 0;
  double gather = 0;
};

[[nodiscard]] inline data_times data_times_of(model_costs const& costs, parameter_count count, int replicas) {
  auto const& m = costs.model();
  auto const& sizes = costs.sizes();
  auto const on_gpu = parameters_per_gpu(count, sizes);
  auto const ranks = double(sizes.copies() * replicas);
  auto const expert_ranks = double(sizes.expert_copies() * replicas);
  auto const moved =
      double(on_gpu.shared) * (ranks - 1) / ranks + double(on_gpu.expert) * (expert_ranks - 1) / expert_ranks;
  auto const bandwidth = costs.cluster().bandwidth_within(costs.cluster().gpus);
  auto const gather_bytes = m.zero_stage == 0 ? m.gradient_bytes : m.weight_bytes;
  return {moved * double(m.gradient_bytes) / bandwidth, moved * double(gather_bytes) / bandwidth};
}

/// What the exchange among data-parallel ranks adds to a step.
///
/// A stage's gradients are reduced layer by layer during its last backward, one stage after another where a rank has
/// several; its weights are gathered layer by layer during its first forward (Megatron-LM's overlap of both). Ranks
/// that start late or end early hide more. Without ZeRO the gathered gradients follow the reduced ones at the end; with
/// stages 2 and 3 gradients and weights move with every microbatch.
class data_exchange {
 public:
  data_exchange(op_graph const& graph, timeline<double> const& times, model_costs const& costs,
                vector<stage_figures> const& stages)
      : graph_(graph), times_(times), zero_(costs.model().zero_stage), stages_(stages) {
    for (auto const& stage : stages)
      exchange_.push_back(data_times_of(costs, stage.parameters, graph.where().replicas()));
  }

  [[nodiscard]] double exposed() const {
    double beyond = 0;
    double before = 0;
    double of_microbatches = 0;
    for (int rank = 0; rank < graph_.ranks(); ++rank) {
      beyond = std::max(beyond, end_of_reduction(rank) - times_.makespan());
      before = std::max(before, delay_by_gather(rank));
      if (zero_ >= 2) of_microbatches = std::max(of_microbatches, moved_by_microbatches(rank) - times_.makespan());
    }
    return beyond + before + of_microbatches;
  }

 private:
  static double layers_of(stage_figures const& stage) { return double(std::max<std::int64_t>(stage.layers, 1)); }

  [[nodiscard]] double end_of_reduction(int rank) const {
    auto const lane = graph_.lane_of(rank, stream::compute);
    auto copies = graph_.where().held_by(rank);
    double end = 0;
    // From the last op back, the first one of each stage copy that is met is its last backward.
    vector<std::uint32_t> last;
    for (auto node = graph_.lane_end(lane); node-- > graph_.lane_begin(lane) && !copies.empty();) {
      op const o = graph_.node(node_id{node});
      if (o.kind() != op_kind::backward && o.kind() != op_kind::backward_weight) continue;
      auto const copy = std::find(copies.begin(), copies.end(), stage_copy{o.stage(), o.replica()});
      if (copy == copies.end()) continue;
      copies.erase(copy);
      last.push_back(node);
    }
    for (auto at = last.size(); at-- > 0;) {
      node_id const n{last[at]};
      auto const stage = std::size_t(graph_.node(n).stage());
      auto const time = exchange_[stage].reduce + (zero_ == 0 ? exchange_[stage].gather : 0);
      end = std::max(std::max(end, times_.start(n)) + time, times_.end(n) + time / layers_of(stages_[stage]));
    }
    return end;
  }

  [[nodiscard]] double delay_by_gather(int rank) const {
    if (zero_ == 0) return 0;
    auto const begin = graph_.lane_begin(graph_.lane_of(rank, stream::compute));
    if (begin == graph_.lane_end(graph_.lane_of(rank, stream::compute))) return 0;
    node_id const first{begin};
    auto const stage = std::size_t(graph_.node(first).stage());
    auto const part = 1 / layers_of(stages_[stage]);
    auto const time = exchange_[stage].gather;
    return std::max(time * part, time - times_.duration(first) * (1 - part)) - times_.start(first);
  }

  [[nodiscard]] double moved_by_microbatches(int rank) const {
    double moved = 0;
    for (auto const copy : graph_.where().held_by(rank)) {
      auto const& times = exchange_[std::size_t(copy.stage)];
      moved += times.reduce + (zero_ >= 3 ? 2 * times.gather : 0);
    }
    return moved * double(graph_.microbatches()) / graph_.where().replicas();
  }

  op_graph const& graph_;
  timeline<double> const& times_;
  std::int64_t zero_;
  vector<stage_figures> const& stages_;
  vector<data_times> exchange_;
};

}  // namespace detail

/// Weights, gradients and optimiser states of each stage on one GPU. The copies of a bidirectional schedule share the
/// optimiser's states as data-parallel copies do.
[[nodiscard]] inline detail::vector<state_bytes> states_by_stage(model_costs const& costs,
                                                                 detail::vector<stage_figures> const& stages,
                                                                 int replicas) {
  auto sizes = costs.sizes();
  sizes.data *= replicas;
  detail::vector<state_bytes> states;
  for (auto const& stage : stages) states.push_back(states_of(costs.model(), stage.parameters, sizes));
  return states;
}

/// The memory of the fullest rank, from the order of its ops alone.
[[nodiscard]] inline plan_memory fullest_rank(op_graph const& graph, model_costs const& costs,
                                              detail::vector<stage_figures> const& stages) {
  auto const& where = graph.where();
  auto const states = states_by_stage(costs, stages, where.replicas());
  detail::vector<activation_size> activations;
  for (auto const& stage : stages) activations.push_back({stage.activation, stage.activation});
  memory_model const model(std::move(activations));
  plan_memory fullest;
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    plan_memory held{.rank = rank};
    std::int64_t besides = 0;
    for (auto const copy : where.held_by(rank)) {
      held.states += states[std::size_t(copy.stage)];
      besides = std::max(besides, stages[std::size_t(copy.stage)].besides);
    }
    held.activations = peak_activations(graph, rank, model).held + besides;
    if (rank == 0 || held.total() > fullest.total()) fullest = held;
  }
  return fullest;
}

/// The figures of a shape but its memory. `order` must be that of `graph`, the graph that of the shape's schedule.
[[nodiscard]] inline ranked_plan evaluate(plan_shape const& shape, plan_memory const& memory, op_graph const& graph,
                                          execution_order const& order, model_costs const& costs,
                                          detail::vector<stage_figures> const& stages) {
  ranked_plan entry{.shape = shape, .memory = memory};
  plan_cost const cost{&stages, costs.transfer()};
  auto const times = make_timeline(graph, order, cost);
  auto const sums = detail::exposed_within(times, stages);
  auto const ranks = double(graph.ranks());
  entry.pipeline_time = times.makespan();
  entry.bubble_fraction = 1 - sums.busy / (ranks * entry.pipeline_time);

  for (auto const& stage : stages) {
    entry.exposed_tensor += stage.exposed_tensor * double(shape.microbatches) / ranks;
    entry.exposed_context += stage.exposed_context * double(shape.microbatches) / ranks;
  }
  entry.exposed_all_to_all = std::max(sums.all / ranks - entry.exposed_tensor - entry.exposed_context, 0.0);
  entry.exposed_data = detail::data_exchange(graph, times, costs, stages).exposed();
  entry.optimizer_time = 2 * double(entry.memory.states.optimizer) / costs.cluster().memory_bandwidth;
  entry.parameter_copies = graph.where().replicas();
  entry.step_time = entry.pipeline_time + entry.exposed_data + entry.optimizer_time;

  auto const& m = costs.model();
  auto const available = entry.step_time * double(costs.cluster().gpus) * costs.cluster().bf16_rate;
  entry.mfu = step_operations(m, false) / available;
  entry.mfu_causal = step_operations(m, true) / available;
  entry.tokens_per_second = double(m.tokens()) / entry.step_time;
  return entry;
}

}  // namespace v0
}  // namespace pipesched
