// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What a rank holds: activations over time, and parameters by placement.

#include <cstddef>
#include <cstdint>

#include <pipesched/analysis/timeline.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/graph/op_graph.hpp>

namespace pipesched {
inline namespace v0 {

/// What one stage holds of one microbatch, in any whole unit: stage activations by default, or bytes.
///
/// F adds `activation`; B frees it; I frees what W does not need, and W frees the rest, `held_for_weight`. The default
/// holds all until W; {2, 1} counts in halves and frees one of them at I.
struct activation_size {
  std::int64_t activation = 1;
  std::int64_t held_for_weight = 1;

  [[nodiscard]] constexpr check_result check() const {
    return first_violation({at_least("activation", activation, 0), at_least("held_for_weight", held_for_weight, 0),
                            at_most("held_for_weight", held_for_weight, activation, "activation")});
  }
};

/// The activation sizes of every stage: one for all, or one each.
class memory_model {
 public:
  constexpr memory_model(activation_size every_stage = {}) : sizes_(1, every_stage) {
    check();
  }  // NOLINT(*-explicit-*)
  /// One entry per stage; a stage beyond the last entry has its size.
  constexpr explicit memory_model(detail::vector<activation_size> by_stage) : sizes_(std::move(by_stage)) {
    require(at_least("by_stage (size)", sizes_.size(), 1));
    check();
  }
  [[nodiscard]] constexpr activation_size const& of(int stage) const noexcept {
    return sizes_[std::size_t(stage) < sizes_.size() ? std::size_t(stage) : sizes_.size() - 1];
  }

  /// What a node adds when it starts. Of a lowered chunk, the first event of the first layer adds all.
  [[nodiscard]] constexpr std::int64_t taken(op o, int layer) const noexcept {
    bool const takes = o.kind() == op_kind::forward || (o.kind() == op_kind::attention_forward && layer == 0);
    return takes ? of(o.stage()).activation : 0;
  }
  /// What a node frees when it ends. Of a lowered chunk, the last event of each pass, on the first layer, frees all.
  [[nodiscard]] constexpr std::int64_t freed(op o, int layer) const noexcept {
    auto const& size = of(o.stage());
    switch (o.kind()) {
      case op_kind::backward: return size.activation;
      case op_kind::backward_input: return size.activation - size.held_for_weight;
      case op_kind::backward_weight: return size.held_for_weight;
      case op_kind::attention_backward_input: return layer == 0 ? size.activation - size.held_for_weight : 0;
      case op_kind::attention_backward_weight: return layer == 0 ? size.held_for_weight : 0;
      default: return 0;
    }
  }

 private:
  constexpr void check() const {
    for (auto const& size : sizes_) require(size.check());
  }

  detail::vector<activation_size> sizes_;
};

/// The most that a rank holds, and the first node that reaches it.
struct memory_peak {
  std::int64_t held = 0;
  node_id node{0};
};

/// Calls `visit(node, held)` after each change of what a rank holds, in order: when a node starts, `starts` is true.
/// In an overlapped pair the forward's activation is added before the backward's is freed.
template <class Visit>
constexpr void for_each_memory_change(op_graph const& graph, int rank, memory_model const& model, Visit&& visit) {
  auto const lane = graph.lane_of(rank, stream::compute);
  auto const end = graph.lane_end(lane);
  std::int64_t held = 0;
  for (auto node = graph.lane_begin(lane); node < end;) {
    auto const after = node + (graph.opens_pair(node, end) ? 2 : 1);
    auto const change = [&](std::int64_t amount, std::uint32_t n, bool starts) {
      if (amount == 0) return;
      held += amount;
      visit(node_id{n}, held, starts);
    };
    for (auto n = node; n < after; ++n) change(model.taken(graph.node(node_id{n}), graph.layer(node_id{n})), n, true);
    for (auto n = node; n < after; ++n) change(-model.freed(graph.node(node_id{n}), graph.layer(node_id{n})), n, false);
    node = after;
  }
}

/// The peak of a rank's activations. It follows from the order alone; when it is reached, from a timeline: at
/// `times.start(peak.node)`.
[[nodiscard]] constexpr memory_peak peak_activations(op_graph const& graph, int rank, memory_model const& model = {}) {
  memory_peak peak;
  for_each_memory_change(graph, rank, model, [&](node_id n, std::int64_t held, bool) {
    if (held > peak.held) peak = {held, n};
  });
  return peak;
}

/// From `time` on, a rank holds `held`.
template <time_value T>
struct memory_point {
  T time;
  std::int64_t held;
  friend constexpr bool operator==(memory_point const&, memory_point const&) = default;
};

/// A rank's activations over time: every change, at the start or the end of the node that makes it. Points of equal
/// time stand in the order of the changes.
template <time_value T>
[[nodiscard]] constexpr detail::vector<memory_point<T>> memory_curve(op_graph const& graph, timeline<T> const& times,
                                                                     int rank, memory_model const& model = {}) {
  detail::vector<memory_point<T>> curve;
  for_each_memory_change(graph, rank, model, [&](node_id n, std::int64_t held, bool starts) {
    curve.push_back(memory_point<T>{starts ? times.start(n) : times.end(n), held});
  });
  return curve;
}

/// What each rank holds all the time: the sum over its stages' copies of `bytes_per_stage` (weights, or weights with
/// gradients and optimiser states). Throws `parameter_error` unless there is one entry >= 0 per stage.
[[nodiscard]] constexpr detail::vector<std::int64_t> static_memory(placement const& where,
                                                                   view<std::int64_t> bytes_per_stage) {
  if (bytes_per_stage.size() != std::size_t(where.stages()))
    require(parameter_violation{"bytes_per_stage (size)", bytes_per_stage.size(), "must be", where.stages(), "stages"});
  for (auto bytes : bytes_per_stage) require(at_least("bytes_per_stage", bytes, 0));
  detail::vector<std::int64_t> held(std::size_t(where.ranks()), 0);
  for (int stage = 0; stage < where.stages(); ++stage)
    for (int replica = 0; replica < where.replicas(); ++replica)
      held[std::size_t(where.rank_of(stage, replica))] += bytes_per_stage[std::size_t(stage)];
  return held;
}

}  // namespace v0
}  // namespace pipesched
