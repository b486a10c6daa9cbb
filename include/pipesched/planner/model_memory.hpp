// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Bytes that a GPU holds of a model's piece: activations of a microbatch, weights, gradients and optimiser states.

#include <cstdint>

#include <pipesched/planner/model.hpp>

namespace pipesched {
inline namespace v0 {

/// How many GPUs share one piece of the model, by what they share.
struct parallel_sizes {
  std::int64_t tensor = 1;
  std::int64_t context = 1;  ///< the tokens of a sequence
  std::int64_t expert = 1;   ///< among the tensor * context * data ranks
  std::int64_t data = 1;

  /// Ranks that hold a copy of the parameters that are no experts'.
  [[nodiscard]] constexpr std::int64_t copies() const noexcept { return context * data; }
  /// Ranks that hold a copy of an expert's parameters.
  [[nodiscard]] constexpr std::int64_t expert_copies() const noexcept { return copies() * tensor / expert; }
};

namespace detail {

[[nodiscard]] constexpr std::int64_t divided(std::int64_t amount, std::int64_t parts) noexcept {
  return (amount + parts - 1) / parts;
}

/// Bytes of an element that a matrix product keeps for its backward.
[[nodiscard]] constexpr std::int64_t product_input_bytes(model_spec const& m) noexcept {
  return m.products == precision::fp8 ? 1 : 2;
}

/// The inner activations of an MLP of width `inner`, per token: what goes into the nonlinearity and what comes out.
/// What is computed again needs only the former, which FP8 then keeps in one byte.
[[nodiscard]] constexpr std::int64_t inner_bytes(model_spec const& m, std::int64_t inner, bool gated) noexcept {
  std::int64_t const into = gated ? 2 : 1;
  auto const input = product_input_bytes(m);
  return inner * (m.recompute == recomputation::pointwise ? into * input : 2 * into + input);
}

}  // namespace detail

/// Activations that a layer keeps of one microbatch on one GPU, in bytes.
///
/// With 16-bit products, dropout, a plain MLP of width 4h and as many key heads as heads it is the formula of
/// Korthikanti et al. (arXiv 2205.05198): sbh(34 + 5as/h), and with t tensor-parallel ranks sbh(10 + 24/t + 5as/(ht)),
/// or sbh/t (34 + 5as/h) with sequence parallelism; selective recomputation leaves out 5as/h, the full one leaves 2sbh.
/// Context parallelism divides all of it. The same count covers other widths, gates, experts and FP8: per token, what
/// each product and nonlinearity keeps.
[[nodiscard]] constexpr std::int64_t layer_activation_bytes(model_spec const& m, bool experts, std::int64_t tensor = 1,
                                                            std::int64_t context = 1) noexcept {
  auto const tokens = detail::divided(m.microbatch * m.sequence, context);
  auto const input = detail::product_input_bytes(m);
  auto const every_rank = m.sequence_parallel ? tensor : 1;
  if (m.recompute == recomputation::full) return detail::divided(tokens * 2 * m.hidden, every_rank);

  // Two norms, the inputs of attention and MLP, and the masks of two dropouts.
  auto const replicated = m.hidden * (2 * 2 + 2 * input + (m.dropout ? 2 : 0));
  bool const from_latent = m.recompute == recomputation::pointwise && m.latent_size > 0;
  auto const kept = from_latent ? m.latent_size : m.query_size() + m.key_size() + m.value_size();
  auto const attention = 2 * kept + input * m.attended_size();
  // Softmax's output; with dropout also its mask and result.
  auto const core = m.recompute == recomputation::none ? m.heads * m.sequence * (m.dropout ? 5 : 2) : 0;
  auto const routed = m.top_k * (input * m.hidden + detail::inner_bytes(m, m.expert_hidden, true));
  auto const mlp = experts ? routed + detail::inner_bytes(m, m.shared_experts * m.expert_hidden, true)
                           : detail::inner_bytes(m, m.inner_size(), m.gated_mlp);
  return detail::divided(tokens * replicated, every_rank) + detail::divided(tokens * (attention + core + mlp), tensor);
}

/// What is held besides while a layer is computed again: all that it keeps without recomputation.
[[nodiscard]] constexpr std::int64_t recomputation_bytes(model_spec m, bool experts, std::int64_t tensor = 1,
                                                         std::int64_t context = 1) noexcept {
  if (m.recompute != recomputation::full) return 0;
  m.recompute = recomputation::selective;
  return layer_activation_bytes(m, experts, tensor, context);
}

/// The keys and values of all context-parallel ranks, 16 bit, that a GPU gathers for a layer.
[[nodiscard]] constexpr std::int64_t gathered_bytes(model_spec const& m, std::int64_t tensor = 1,
                                                    std::int64_t context = 1) noexcept {
  if (context == 1) return 0;
  return detail::divided(2 * m.microbatch * m.sequence * (m.key_size() + m.value_size()), tensor);
}

/// What the head keeps of one microbatch: its norm's and product's inputs, 16 bit also where layers have FP8 products,
/// and logits in 32 bit.
[[nodiscard]] constexpr std::int64_t head_activation_bytes(model_spec const& m, std::int64_t tensor = 1,
                                                           std::int64_t context = 1) noexcept {
  auto const tokens = detail::divided(m.microbatch * m.sequence, context);
  return detail::divided(tokens * m.hidden * (2 + 2), m.sequence_parallel ? tensor : 1) +
         detail::divided(tokens * 4 * m.vocabulary, tensor);
}

/// Weights, gradients and optimiser states on one GPU, in bytes.
struct state_bytes {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;

  [[nodiscard]] constexpr std::int64_t total() const noexcept { return weights + gradients + optimizer; }
  constexpr state_bytes& operator+=(state_bytes other) noexcept {
    weights += other.weights;
    gradients += other.gradients;
    optimizer += other.optimizer;
    return *this;
  }
  friend constexpr bool operator==(state_bytes, state_bytes) = default;
};

/// Parameters on one GPU: the shared ones divided among tensor-parallel, the experts among expert-parallel ranks.
[[nodiscard]] constexpr parameter_count parameters_per_gpu(parameter_count count,
                                                           parallel_sizes const& sizes) noexcept {
  return {detail::divided(count.shared, sizes.tensor), detail::divided(count.expert, sizes.expert)};
}

/// The states of `count` parameters of the whole model's piece on one GPU. ZeRO (arXiv 1910.02054) divides them among
/// the ranks that hold copies: context * data of the shared parameters, context * data * tensor / expert of the
/// experts.
[[nodiscard]] constexpr state_bytes states_of(model_spec const& m, parameter_count count,
                                              parallel_sizes const& sizes) noexcept {
  auto const on_gpu = parameters_per_gpu(count, sizes);
  auto const held = [&](std::int64_t bytes, std::int64_t divided_from_stage) {
    bool const shard = m.zero_stage >= divided_from_stage;
    return bytes * (detail::divided(on_gpu.shared, shard ? sizes.copies() : 1) +
                    detail::divided(on_gpu.expert, shard ? sizes.expert_copies() : 1));
  };
  return {held(m.weight_bytes, 3), held(m.gradient_bytes, 2), held(m.optimizer_bytes, 1)};
}

}  // namespace v0
}  // namespace pipesched
