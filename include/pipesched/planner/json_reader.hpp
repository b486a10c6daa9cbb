// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Reads models and clusters from JSON, with nlohmann's parser; the umbrella header leaves it out.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <pipesched/analysis/hardware.hpp>
#include <pipesched/io/diagnostic.hpp>
#include <pipesched/planner/cluster.hpp>
#include <pipesched/planner/json_reader_object.hpp>
#include <pipesched/planner/layout.hpp>
#include <pipesched/planner/model.hpp>
#include <pipesched/planner/plan.hpp>
#include <pipesched/planner/presets.hpp>

namespace pipesched {
inline namespace v0 {

/// What was read from a file; complete where there are no diagnostics. Bounds are `check_request`'s question.
struct model_file {
  model_spec model = {};
  plan_choices choices = {};
  std::vector<diagnostic> diagnostics = {};
};
struct cluster_file {
  cluster_spec cluster = {};
  std::vector<diagnostic> diagnostics = {};
};

namespace detail {

/// The preset that an object names; nothing where it names none, and a complaint where there is none of that name.
inline std::optional<std::string> preset_of(object_reader& object) {
  std::string name;
  object.text("preset", name);
  if (name.empty()) return {};
  if (name != "deepseek-v3" && name != "llama-3-405b" && name != "llama-3-70b")
    object.complain("preset", "is \"" + printable(name) + '"', "deepseek-v3, llama-3-405b or llama-3-70b");
  return name;
}

inline void read_choices(nlohmann::json const& value, plan_choices& choices, std::vector<diagnostic>& diagnostics) {
  object_reader object(value, "model.choices", diagnostics);
  object.sizes("pipeline", choices.pipeline);
  object.sizes("chunks", choices.chunks);
  object.sizes("tensor", choices.tensor);
  object.sizes("expert", choices.expert);
  object.sizes("context", choices.context);
  object.names("schedules", choices.schedules);
  std::string layout;
  object.text("layout", layout);
  if (!layout.empty()) {
    auto read = read_layout(layout);
    choices.layout = std::move(read.layout);
    for (auto& d : read.diagnostics) {
      // The place is one of the layout's text, not of the file.
      d.message = fmt::format("column {}{}{}: {}", d.column, d.op.empty() ? "" : ", ", d.op, d.message);
      d.op = "model.choices.layout";
      d.line = d.column = 0;
      diagnostics.push_back(std::move(d));
    }
  }
  object.finish();
}

inline void read_model(nlohmann::json const& document, model_file& file) {
  object_reader object(document, "model", file.diagnostics);
  auto& m = file.model;
  if (auto const preset = preset_of(object)) {
    m = *preset == "llama-3-405b" ? llama_3_405b() : *preset == "llama-3-70b" ? llama_3_70b() : deepseek_v3();
  } else {
    for (auto const* key : {"layers", "hidden", "heads", "sequence", "vocabulary", "batch"}) object.require(key);
  }
  object.text("name", m.name);
  object.whole("layers", m.layers);
  object.whole("hidden", m.hidden);
  object.whole("heads", m.heads);
  object.whole("kv_heads", m.kv_heads);
  object.whole("head_size", m.head_size);
  object.whole("value_head_size", m.value_head_size);
  object.whole("attention_parameters", m.attention_parameters);
  object.whole("latent_size", m.latent_size);
  object.whole("latent_parameters", m.latent_parameters);
  object.whole("sequence", m.sequence);
  object.whole("vocabulary", m.vocabulary);
  object.whole("mlp_hidden", m.mlp_hidden);
  object.flag("gated_mlp", m.gated_mlp);
  object.flag("tied_embedding", m.tied_embedding);
  object.flag("dropout", m.dropout);
  object.whole("experts", m.experts);
  object.whole("top_k", m.top_k);
  object.whole("shared_experts", m.shared_experts);
  object.whole("expert_hidden", m.expert_hidden);
  object.whole("dense_layers", m.dense_layers);
  object.whole("nodes_per_token", m.nodes_per_token);
  object.whole("mtp_layers", m.mtp_layers);
  object.whole("batch", m.batch);
  object.whole("microbatch", m.microbatch);
  object.one_of("precision", m.products, std::array{precision::bf16, precision::fp8});
  object.one_of(
      "recomputation", m.recompute,
      std::array{recomputation::none, recomputation::selective, recomputation::pointwise, recomputation::full});
  object.flag("sequence_parallel", m.sequence_parallel);
  object.one_of("context_exchange", m.exchange, std::array{context_exchange::gather, context_exchange::ring});
  object.whole("zero_stage", m.zero_stage);
  object.whole("weight_bytes", m.weight_bytes);
  object.whole("gradient_bytes", m.gradient_bytes);
  object.whole("optimizer_bytes", m.optimizer_bytes);
  if (auto const* choices = object.find("choices")) {
    if (choices->is_object())
      read_choices(*choices, file.choices, file.diagnostics);
    else
      object.complain("choices", "is " + object.shown(*choices), "an object");
  }
  object.finish();
}

/// What GPUs are called that have figures but no name: "custom GPUs (as H100: fp8_rate)" names those not given.
inline std::string custom_gpu_name(object_reader const& object) {
  std::string missing;
  int count = 0;
  constexpr std::array figures{"bf16_rate", "fp8_rate", "memory", "memory_bandwidth", "nvlink", "multiprocessors"};
  for (auto const* key : figures)
    if (object.has(key))
      ++count;
    else
      missing += (missing.empty() ? "" : ", ") + std::string(key);
  if (count == 0) return std::string(h100.name);
  return missing.empty() ? "custom GPUs" : fmt::format("custom GPUs (as {}: {})", h100.name, missing);
}

inline void read_cluster(nlohmann::json const& document, cluster_file& file) {
  object_reader object(document, "cluster", file.diagnostics);
  auto& c = file.cluster;
  if (auto const preset = preset_of(object))
    c = *preset == "llama-3-405b"  ? llama_3_405b_cluster()
        : *preset == "llama-3-70b" ? llama_3_70b_cluster()
                                   : deepseek_v3_cluster();
  else
    object.require("gpus");
  bool const given = object.has("preset");
  std::string kind;
  object.text("gpu", kind);
  if (!kind.empty()) {
    // A kind that is not in the table needs its figures, all of which a known kind gives. One without an FP8 rate has
    // no FP8 products.
    if (auto const* const known = find_gpu(kind)) {
      c.use(*known);
    } else {
      for (auto const* key : {"bf16_rate", "memory", "memory_bandwidth", "nvlink"}) object.require_of_kind(key, kind);
      c.fp8_rate = 0;
    }
    c.gpu = kind;
  } else if (!given) {
    c.gpu = custom_gpu_name(object);
  }
  object.whole("gpus", c.gpus);
  object.whole("gpus_per_node", c.gpus_per_node);
  object.real("bf16_rate", c.bf16_rate);
  object.real("fp8_rate", c.fp8_rate);
  object.real("memory", c.memory);
  object.real("memory_bandwidth", c.memory_bandwidth);
  object.bandwidth("nvlink", c.nvlink);
  object.bandwidth("network", c.network);
  object.whole("multiprocessors", c.multiprocessors);
  object.whole("communication_multiprocessors", c.communication_multiprocessors);
  object.real("bf16_share", c.bf16_share);
  object.real("fp8_share", c.fp8_share);
  object.real("attention_share", c.attention_share);
  object.real("link_share", c.link_share);
  object.real("memory_share", c.memory_share);
  object.real("transfer_latency", c.transfer_latency);
  object.finish();
}

}  // namespace detail

/// Reads a model, how it is trained, and the choices that the planner is left with. Never throws for what is in `text`.
[[nodiscard]] inline model_file read_model(std::string_view text) {
  model_file file;
  if (auto const document = detail::parse_object(text, "model", file.diagnostics)) detail::read_model(*document, file);
  return file;
}

/// Reads a cluster. Never throws for what is in `text`.
[[nodiscard]] inline cluster_file read_cluster(std::string_view text) {
  cluster_file file;
  if (auto const document = detail::parse_object(text, "cluster", file.diagnostics))
    detail::read_cluster(*document, file);
  return file;
}

}  // namespace v0
}  // namespace pipesched
