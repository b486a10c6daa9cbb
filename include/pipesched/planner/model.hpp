// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A model as a planner sees it: its sizes, how it is trained, and its parameters.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <pipesched/core/error.hpp>

namespace pipesched {
inline namespace v0 {

/// The precision of a layer's matrix products. With FP8 the inputs that they keep for the backward take one byte an
/// element. Attention's core and the output's head stay at 16 bits (DeepSeek-V3, arXiv 2412.19437, section 3.3.1).
enum class precision : std::uint8_t { bf16, fp8 };

/// What of a layer's activations is computed again in the backward (Korthikanti et al., arXiv 2205.05198, but for
/// `pointwise`).
enum class recomputation : std::uint8_t {
  none,
  selective,  ///< attention's core: what grows with the square of the sequence; FlashAttention never stores it
  /// Besides, what a nonlinearity puts out, and the queries, keys and values of latent attention (DeepSeek-V3, arXiv
  /// 2412.19437, section 3.2.3).
  pointwise,
  full,  ///< all but the layer's input
};

/// How context-parallel ranks, which divide the tokens of a sequence, come to the keys and values of all of them.
enum class context_exchange : std::uint8_t {
  gather,  ///< an all-gather before attention, with nothing beside it (Llama 3, arXiv 2407.21783, section 3.3.2)
  ring,    ///< from neighbour to neighbour, beside attention's core (Ring Attention, arXiv 2310.01889)
};

[[nodiscard]] constexpr std::string_view name_of(precision p) noexcept { return p == precision::bf16 ? "bf16" : "fp8"; }
[[nodiscard]] constexpr std::string_view name_of(context_exchange e) noexcept {
  return e == context_exchange::gather ? "gather" : "ring";
}
[[nodiscard]] constexpr std::string_view name_of(recomputation r) noexcept {
  switch (r) {
    case recomputation::none: return "none";
    case recomputation::selective: return "selective";
    case recomputation::pointwise: return "pointwise";
    case recomputation::full: return "full";
  }
  return "?";
}

/// A transformer and how it is trained. The sizes of experts matter only where there are experts.
struct model_spec {
  std::string name = "model";
  std::int64_t layers = 1;  ///< transformer layers, without those of multi-token prediction
  std::int64_t hidden = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 0;         ///< of keys and values, which divide the heads; 0: as many as heads
  std::int64_t head_size = 0;        ///< of queries and keys; 0: hidden / heads
  std::int64_t value_head_size = 0;  ///< 0: head_size
  /// Parameters of a layer's attention where they are not those of four projections (multi-head latent attention);
  /// 0: from the heads.
  std::int64_t attention_parameters = 0;
  /// Of latent attention: the elements that a token's queries, keys and values are made of, and the parameters that
  /// make them; 0: none, queries, keys and values are never computed again.
  std::int64_t latent_size = 0;
  std::int64_t latent_parameters = 0;
  std::int64_t sequence = 1;    ///< tokens
  std::int64_t vocabulary = 1;  ///< tokens
  std::int64_t mlp_hidden = 0;  ///< inner width of a dense MLP; 0: 4 * hidden
  bool gated_mlp = false;       ///< three products (SwiGLU) in place of two; experts always have three
  bool tied_embedding = false;  ///< the head has the embedding's weights
  bool dropout = true;          ///< keeps masks, as in arXiv 2205.05198; large models train without

  std::int64_t experts = 0;  ///< that the gate chooses among; 0: a dense model
  std::int64_t top_k = 0;
  std::int64_t shared_experts = 0;
  std::int64_t expert_hidden = 0;
  std::int64_t dense_layers = 0;     ///< the first ones, which have no experts
  std::int64_t nodes_per_token = 0;  ///< the most nodes that the gate sends a token to; 0: no such limit
  std::int64_t mtp_layers = 0;       ///< of multi-token prediction

  std::int64_t batch = 1;       ///< sequences of a step, over all GPUs
  std::int64_t microbatch = 1;  ///< sequences
  precision products = precision::bf16;
  recomputation recompute = recomputation::selective;
  bool sequence_parallel = true;  ///< norms and dropout divided among tensor-parallel ranks
  context_exchange exchange = context_exchange::gather;
  std::int64_t zero_stage = 1;    ///< divided among data-parallel ranks: 1 optimiser states, 2 gradients, 3 weights
  std::int64_t weight_bytes = 2;  ///< per parameter
  std::int64_t gradient_bytes = 4;
  std::int64_t optimizer_bytes = 12;  ///< master weight and two moments, 4 each

  [[nodiscard]] constexpr bool is_moe() const noexcept { return experts > 0; }
  /// Whether layer `index`, from 0, has experts.
  [[nodiscard]] constexpr bool has_experts(std::int64_t index) const noexcept {
    return is_moe() && index >= dense_layers;
  }
  [[nodiscard]] constexpr std::int64_t key_heads() const noexcept { return kv_heads > 0 ? kv_heads : heads; }
  [[nodiscard]] constexpr std::int64_t query_size() const noexcept {
    return heads * (head_size > 0 ? head_size : hidden / heads);
  }
  [[nodiscard]] constexpr std::int64_t key_size() const noexcept { return query_size() / heads * key_heads(); }
  [[nodiscard]] constexpr std::int64_t attended_size() const noexcept {
    return value_head_size > 0 ? heads * value_head_size : query_size();
  }
  [[nodiscard]] constexpr std::int64_t value_size() const noexcept { return attended_size() / heads * key_heads(); }
  [[nodiscard]] constexpr std::int64_t inner_size() const noexcept { return mlp_hidden > 0 ? mlp_hidden : 4 * hidden; }
  [[nodiscard]] constexpr std::int64_t tokens() const noexcept { return batch * sequence; }

  [[nodiscard]] constexpr check_result check() const;
};

constexpr check_result model_spec::check() const {
  // Bounds that keep every sum of bytes over the model within 64 bits.
  constexpr std::int64_t wide = 1 << 17;
  constexpr std::int64_t most_tokens = 1 << 20;
  auto const within = [](std::string_view parameter, std::int64_t value, std::int64_t low, std::int64_t high) {
    return first_violation({at_least(parameter, value, low), at_most(parameter, value, high)});
  };
  if (auto wrong = first_violation(
          {within("layers", layers, 1, 1024),
           within("hidden", hidden, 1, wide),
           within("heads", heads, 1, 1024),
           within("kv_heads", kv_heads, 0, heads),
           within("head_size", head_size, 0, 4096),
           within("value_head_size", value_head_size, 0, 4096),
           within("attention_parameters", attention_parameters, 0, std::int64_t{1} << 40),
           within("latent_size", latent_size, 0, wide),
           within("latent_parameters", latent_parameters, 0, attention_parameters),
           within("sequence", sequence, 1, most_tokens),
           within("vocabulary", vocabulary, 1, 1 << 24),
           within("mlp_hidden", mlp_hidden, 0, 16 * wide),
           within("experts", experts, 0, 4096),
           within("mtp_layers", mtp_layers, 0, 16),
           within("batch", batch, 1, std::int64_t{1} << 31),
           at_least("microbatch", microbatch, 1),
           at_most("microbatch", microbatch, batch, "batch"),
           at_most("microbatch", microbatch, most_tokens / std::max<std::int64_t>(sequence, 1), "2^20 tokens"),
           within("zero_stage", zero_stage, 0, 3),
           within("weight_bytes", weight_bytes, 1, 8),
           within("gradient_bytes", gradient_bytes, 1, 8),
           within("optimizer_bytes", optimizer_bytes, 0, 16)}))
    return wrong;
  if (kv_heads > 0)
    if (auto wrong = multiple_of("heads", heads, kv_heads, "kv_heads")) return wrong;
  if (head_size == 0)
    if (auto wrong = multiple_of("hidden", hidden, heads, "heads, where head_size is not given")) return wrong;
  if (!is_moe())
    return first_violation({within("top_k", top_k, 0, 0), within("shared_experts", shared_experts, 0, 0),
                            within("dense_layers", dense_layers, 0, 0)});
  return first_violation(
      {within("top_k", top_k, 1, std::min<std::int64_t>(experts, 1024)),
       within("shared_experts", shared_experts, 0, 1024), within("expert_hidden", expert_hidden, 1, wide),
       within("dense_layers", dense_layers, 0, layers), within("nodes_per_token", nodes_per_token, 0, 65536)});
}

/// Parameters, apart by how they are divided among GPUs.
struct parameter_count {
  std::int64_t shared = 0;  ///< on every data-parallel rank, divided among tensor-parallel ones
  std::int64_t expert = 0;  ///< of routed experts, divided among expert-parallel ranks

  [[nodiscard]] constexpr std::int64_t total() const noexcept { return shared + expert; }
  constexpr parameter_count& operator+=(parameter_count other) noexcept {
    shared += other.shared;
    expert += other.expert;
    return *this;
  }
  friend constexpr bool operator==(parameter_count, parameter_count) = default;
};

/// \name Parameters of one piece of a model. Precondition: `check` passed.
/// \{
[[nodiscard]] constexpr std::int64_t attention_parameters(model_spec const& m) noexcept {
  if (m.attention_parameters > 0) return m.attention_parameters;
  return m.hidden * (m.query_size() + m.key_size() + m.value_size() + m.attended_size());
}
[[nodiscard]] constexpr parameter_count layer_parameters(model_spec const& m, bool experts) noexcept {
  auto const norms = 2 * m.hidden;
  if (!experts) return {attention_parameters(m) + norms + (m.gated_mlp ? 3 : 2) * m.hidden * m.inner_size(), 0};
  auto const one = 3 * m.hidden * m.expert_hidden;
  return {attention_parameters(m) + norms + m.hidden * m.experts + m.shared_experts * one, m.experts * one};
}
[[nodiscard]] constexpr parameter_count embedding_parameters(model_spec const& m) noexcept {
  return {m.vocabulary * m.hidden, 0};
}
/// The last norm and the projection to the vocabulary. A stage of its own has a copy also where they are tied.
[[nodiscard]] constexpr parameter_count head_parameters(model_spec const& m) noexcept {
  return {m.vocabulary * m.hidden + m.hidden, 0};
}
/// A layer of multi-token prediction: a transformer layer and the projection of two inputs to one.
[[nodiscard]] constexpr parameter_count mtp_parameters(model_spec const& m) noexcept {
  auto count = layer_parameters(m, m.is_moe());
  count.shared += 2 * m.hidden * m.hidden;
  return count;
}
/// \}

/// The model's parameters, without those of multi-token prediction.
[[nodiscard]] constexpr std::int64_t parameters(model_spec const& m) noexcept {
  auto sum = embedding_parameters(m).total() + (m.tied_embedding ? m.hidden : head_parameters(m).total());
  for (std::int64_t layer = 0; layer < m.layers; ++layer) sum += layer_parameters(m, m.has_experts(layer)).total();
  return sum;
}

/// \name Floating-point operations of a forward, per token; a multiply-add is two
/// \{
/// Attention's products with weights.
[[nodiscard]] constexpr double projection_operations(model_spec const& m) noexcept {
  return 2.0 * double(attention_parameters(m));
}
/// Scores and values. A causal mask needs half of the matrix.
[[nodiscard]] constexpr double core_operations(model_spec const& m, bool causal) noexcept {
  return (causal ? 1.0 : 2.0) * double(m.sequence) * double(m.query_size() + m.attended_size());
}
/// The MLP, or the experts that a token is sent to, with the gate.
[[nodiscard]] constexpr double mlp_operations(model_spec const& m, bool experts) noexcept {
  auto const h = double(m.hidden);
  if (!experts) return (m.gated_mlp ? 6.0 : 4.0) * h * double(m.inner_size());
  return 6.0 * h * double(m.expert_hidden) * double(m.top_k + m.shared_experts) + 2.0 * h * double(m.experts);
}
/// Elements that a layer's norms, residual sums, rotations and nonlinearity read and write besides, each fused into one
/// kernel: of attention's half of the layer and of the MLP's, in a forward and in a backward.
struct pointwise_elements {
  double attention;
  double attention_backward;
  double mlp;
  double mlp_backward;
};
[[nodiscard]] constexpr pointwise_elements pointwise_traffic(model_spec const& m, bool experts) noexcept {
  // A norm reads the residual stream and what is added to it, and writes the sum and its result; backward alike.
  auto const norm = 4.0 * double(m.hidden);
  auto const rotation = 2.0 * double(m.query_size() + m.key_size());
  auto const inner = double(experts ? m.expert_hidden * (m.top_k + m.shared_experts) : m.inner_size());
  bool const gated = experts || m.gated_mlp;
  return {norm + rotation, norm + rotation, norm + (gated ? 3 : 2) * inner, norm + (gated ? 5 : 3) * inner};
}
[[nodiscard]] constexpr double head_operations(model_spec const& m) noexcept {
  return 2.0 * double(m.hidden) * double(m.vocabulary);
}
[[nodiscard]] constexpr double layer_operations(model_spec const& m, bool experts, bool causal) noexcept {
  return projection_operations(m) + core_operations(m, causal) + mlp_operations(m, experts);
}
/// \}

/// Operations of a training step: three forwards' worth (forward, backward for the input, for the weights), as model
/// FLOPs utilisation counts them: nothing that is computed again. With `causal` the half of attention's matrix that a
/// mask leaves; Megatron-LM's count and most published figures take the whole.
[[nodiscard]] constexpr double step_operations(model_spec const& m, bool causal) noexcept {
  auto per_token = head_operations(m) * double(1 + m.mtp_layers);
  for (std::int64_t layer = 0; layer < m.layers; ++layer)
    per_token += layer_operations(m, m.has_experts(layer), causal);
  per_token +=
      double(m.mtp_layers) * (layer_operations(m, m.is_moe(), causal) + 4.0 * double(m.hidden) * double(m.hidden));
  return 3.0 * per_token * double(m.tokens());
}

}  // namespace v0
}  // namespace pipesched
