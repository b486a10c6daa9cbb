// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What the events of a mixture-of-experts layer cost: given one by one, or from the sizes of model and machine.

#include <algorithm>
#include <cstdint>
#include <optional>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/hardware.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/op.hpp>

namespace pipesched {
inline namespace v0 {

/// The times of one layer's events, for graphs that `lower_moe` makes. Any other op takes no time.
template <time_value T = std::int64_t>
struct moe_cost {
  T attention = 1;  ///< forward, as the next three
  T dispatch = 1;
  T mlp = 1;
  T combine = 1;
  /// \name Backward, as forward where not given
  /// \{
  std::optional<T> attention_backward_input = {};
  std::optional<T> attention_backward_weight = {};
  std::optional<T> mlp_backward_input = {};
  std::optional<T> mlp_backward_weight = {};
  std::optional<T> dispatch_backward = {};
  std::optional<T> combine_backward = {};
  /// \}
  T send = 0;     ///< how long a result occupies the p2p stream of the rank that sends it
  T latency = 0;  ///< between different ranks

  [[nodiscard]] constexpr T operator()(op o, int /*rank*/) const noexcept {
    switch (o.kind()) {
      case op_kind::attention_forward: return attention;
      case op_kind::attention_backward_input: return attention_backward_input.value_or(attention);
      case op_kind::attention_backward_weight: return attention_backward_weight.value_or(attention);
      case op_kind::mlp_forward: return mlp;
      case op_kind::mlp_backward_input: return mlp_backward_input.value_or(mlp);
      case op_kind::mlp_backward_weight: return mlp_backward_weight.value_or(mlp);
      case op_kind::dispatch_forward: return dispatch;
      case op_kind::dispatch_backward: return dispatch_backward.value_or(dispatch);
      case op_kind::combine_forward: return combine;
      case op_kind::combine_backward: return combine_backward.value_or(combine);
      case op_kind::send_forward:
      case op_kind::send_backward: return send;
      default: return 0;
    }
  }
  [[nodiscard]] constexpr T transfer_time(int, int) const noexcept { return latency; }

  /// The first time that is negative or not a number.
  [[nodiscard]] constexpr check_result check() const {
    auto const time = [](std::string_view name, std::optional<T> value) {
      return at_least(name, value.value_or(0), 0);
    };
    return first_violation(
        {time("attention", attention), time("dispatch", dispatch), time("mlp", mlp), time("combine", combine),
         time("attention_backward_input", attention_backward_input),
         time("attention_backward_weight", attention_backward_weight), time("mlp_backward_input", mlp_backward_input),
         time("mlp_backward_weight", mlp_backward_weight), time("dispatch_backward", dispatch_backward),
         time("combine_backward", combine_backward), time("send", send), time("latency", latency)});
  }

  /// What chunk ops of `layers` layers take where nothing overlaps: the sums of their events. A pair takes the sum of
  /// its members.
  [[nodiscard]] constexpr uniform_cost<T> chunk_cost(int layers) const {
    auto const time = [&](op_kind kind) { return (*this)(op(kind, stage_id{0}, microbatch_id{0}), 0); };
    auto const n = static_cast<T>(layers);
    return {.forward = n * (attention + dispatch + mlp + combine),
            .backward_input = n * (time(op_kind::combine_backward) + time(op_kind::mlp_backward_input) +
                                   time(op_kind::dispatch_backward) + time(op_kind::attention_backward_input)),
            .backward_weight = n * (time(op_kind::mlp_backward_weight) + time(op_kind::attention_backward_weight)),
            .latency = latency};
  }
};

/// The sizes of one mixture-of-experts layer on one GPU.
struct moe_sizes {
  std::int64_t tokens;         ///< of one microbatch, on one GPU
  std::int64_t hidden;         ///< the model's width
  std::int64_t expert_hidden;  ///< an expert's inner width
  std::int64_t experts;        ///< that the gate chooses among
  std::int64_t top_k;          ///< experts that each token is sent to
  std::int64_t shared_experts = 0;
  /// Nodes that each token is sent to over the network; copies for several experts of one node go over NVLink.
  double nodes_per_token = 1;
  /// An element on its way to the experts (dispatch, and the gradient of combine), and on its way back.
  double bytes_to_experts = 1;
  double bytes_from_experts = 2;
  std::int64_t sequence = 0;  ///< tokens that attention looks back over; 0 leaves attention's own products out

  [[nodiscard]] constexpr check_result check() const {
    return first_violation(
        {at_least("tokens", tokens, 1), at_least("hidden", hidden, 1), at_least("expert_hidden", expert_hidden, 1),
         at_least("experts", experts, 1), at_least("top_k", top_k, 1), at_most("top_k", top_k, experts, "experts"),
         at_least("shared_experts", shared_experts, 0), at_least("nodes_per_token", nodes_per_token, 0.0),
         at_most("nodes_per_token", nodes_per_token, top_k, "top_k: one node for each expert"),
         above("bytes_to_experts", bytes_to_experts, 0.0), above("bytes_from_experts", bytes_from_experts, 0.0),
         at_least("sequence", sequence, 0)});
  }
};

/// The times in seconds that follow from sizes, for evenly loaded experts.
///
/// An all-to-all takes the longer of its two hops, which run side by side (DeepSeek-V3, arXiv 2412.19437, section
/// 3.2.2): `nodes_per_token` copies of each token over the network, `top_k` over NVLink. Computation takes its
/// multiply-adds, two operations each, at `gemm_rate`: attention four hidden x hidden projections, the scores and
/// values of a causal mask, and the gate; the MLP three hidden x expert_hidden products per expert and token. The
/// backward for the input takes what the forward does, with the scores' products twice; that for the weights the
/// products that have weights. Throws `parameter_error` for sizes or rates out of bounds.
[[nodiscard]] constexpr moe_cost<double> make_moe_cost(moe_sizes const& sizes, moe_machine const& machine) {
  require(sizes.check());
  require(machine.check());
  auto const tokens = double(sizes.tokens);
  auto const hidden = double(sizes.hidden);
  auto const top_k = double(sizes.top_k);

  auto const all_to_all = [&](double bytes_per_element) {
    double const copy = tokens * hidden * bytes_per_element;
    return std::max(sizes.nodes_per_token * copy / machine.network_bandwidth, top_k * copy / machine.nvlink_bandwidth);
  };
  double const projections = 2 * tokens * hidden * (4 * hidden + double(sizes.experts)) / machine.gemm_rate;
  double const scores = 2 * tokens * hidden * double(sizes.sequence) / machine.gemm_rate;
  double const mlp =
      6 * tokens * hidden * double(sizes.expert_hidden) * (top_k + double(sizes.shared_experts)) / machine.gemm_rate;

  return {.attention = projections + scores,
          .dispatch = all_to_all(sizes.bytes_to_experts),
          .mlp = mlp,
          .combine = all_to_all(sizes.bytes_from_experts),
          .attention_backward_input = projections + 2 * scores,
          .attention_backward_weight = projections,
          .dispatch_backward = all_to_all(sizes.bytes_from_experts),
          .combine_backward = all_to_all(sizes.bytes_to_experts)};
}

}  // namespace v0
}  // namespace pipesched
