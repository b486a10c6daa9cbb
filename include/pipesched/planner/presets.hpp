// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Published training runs: models and the clusters that trained them.

#include <pipesched/planner/cluster.hpp>
#include <pipesched/planner/model.hpp>

namespace pipesched {
inline namespace v0 {

/// DeepSeek-V3 (arXiv 2412.19437, section 4.2): 671 billion parameters, of which a token uses 37. Its attention is
/// latent: queries through a rank of 1536, keys and values through 512, with 64 elements more for positions. FP8
/// products, moments of the optimiser in 16 bit (section 3.3), tokens sent to at most four nodes.
[[nodiscard]] inline model_spec deepseek_v3() {
  model_spec m{.name = "DeepSeek-V3", .layers = 61, .hidden = 7168, .heads = 128};
  m.head_size = 128 + 64;
  m.value_head_size = 128;
  m.attention_parameters =
      7168 * 1536 + 1536 * 128 * (128 + 64) + 7168 * (512 + 64) + 512 * 128 * (128 + 128) + 128 * 128 * 7168;
  m.latent_size = 1536 + 512 + 64;
  m.latent_parameters = 1536 * 128 * (128 + 64) + 512 * 128 * (128 + 128);
  m.recompute = recomputation::pointwise;
  m.sequence = 4096;
  m.vocabulary = 129280;
  m.mlp_hidden = 18432;
  m.gated_mlp = true;
  m.dropout = false;
  m.experts = 256;
  m.top_k = 8;
  m.shared_experts = 1;
  m.expert_hidden = 2048;
  m.dense_layers = 3;
  m.nodes_per_token = 4;
  m.batch = 15360;
  m.products = precision::fp8;
  m.optimizer_bytes = 4 + 2 + 2;
  return m;
}
[[nodiscard]] inline cluster_spec deepseek_v3_cluster() { return cluster_spec::of(h800, 2048); }

/// Llama 3 405B (arXiv 2407.21783, tables 3 and 4): 16 million tokens a step. That the output of the gated products is
/// computed again is an assumption: the paper frees tensors early and checkpoints no layers.
[[nodiscard]] inline model_spec llama_3_405b() {
  model_spec m{.name = "Llama 3 405B", .layers = 126, .hidden = 16384, .heads = 128, .kv_heads = 8};
  m.sequence = 8192;
  m.vocabulary = 128256;
  m.mlp_hidden = 53248;
  m.gated_mlp = true;
  m.dropout = false;
  m.recompute = recomputation::pointwise;
  m.batch = 2048;
  return m;
}
[[nodiscard]] inline cluster_spec llama_3_405b_cluster() { return cluster_spec::of(h100, 16384); }

/// A dense model of 70 billion parameters: Llama 3 70B (arXiv 2407.21783, table 3), on 1024 H100.
[[nodiscard]] inline model_spec llama_3_70b() {
  model_spec m{.name = "Llama 3 70B", .layers = 80, .hidden = 8192, .heads = 64, .kv_heads = 8};
  m.sequence = 8192;
  m.vocabulary = 128256;
  m.mlp_hidden = 28672;
  m.gated_mlp = true;
  m.dropout = false;
  m.batch = 2048;
  return m;
}
[[nodiscard]] inline cluster_spec llama_3_70b_cluster() { return cluster_spec::of(h100, 1024); }

}  // namespace v0
}  // namespace pipesched
