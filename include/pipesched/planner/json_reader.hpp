// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Reads models and clusters from JSON, with nlohmann's parser; the umbrella header leaves it out.

#include <algorithm>
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
#include <pipesched/io/json_reader_document.hpp>
#include <pipesched/planner/cluster.hpp>
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

/// Reads the members of one object into variables, and complains of those that it was not asked for.
class object_reader {
 public:
  using json = nlohmann::json;

  object_reader(json const& object, std::string path, std::vector<diagnostic>& diagnostics)
      : object_(object), path_(std::move(path)), diagnostics_(diagnostics) {}

  /// The member of a key that the object may have.
  json const* find(std::string_view key) {
    known_.push_back(key);
    return json_members::find(object_, key);
  }
  void require(std::string_view key) {
    if (!json_members::find(object_, key)) complain(key, "is missing", "a value");
  }
  void whole(std::string_view key, std::int64_t& into) {
    auto const* value = find(key);
    if (!value) return;
    auto const number = json_members::whole_value(*value);
    number ? void(into = *number) : complain(key, "is of a wrong kind", "a whole number");
  }
  void real(std::string_view key, double& into) {
    auto const* value = find(key);
    if (!value) return;
    value->is_number() ? void(into = value->get<double>()) : complain(key, "is of a wrong kind", "a number");
  }
  void flag(std::string_view key, bool& into) {
    auto const* value = find(key);
    if (!value) return;
    value->is_boolean() ? void(into = value->get<bool>()) : complain(key, "is of a wrong kind", "true or false");
  }
  void text(std::string_view key, std::string& into) {
    auto const* value = find(key);
    if (!value) return;
    value->is_string() ? void(into = value->get<std::string>()) : complain(key, "is of a wrong kind", "a string");
  }
  /// One of `values`, by name.
  template <class Value, std::size_t N>
  void one_of(std::string_view key, Value& into, std::array<Value, N> const& values) {
    auto const* value = find(key);
    if (!value) return;
    std::string expected;
    for (auto const& candidate : values) {
      if (value->is_string() && value->get_ref<std::string const&>() == name_of(candidate)) {
        into = candidate;
        return;
      }
      expected += (expected.empty() ? "" : ", ") + std::string(name_of(candidate));
    }
    complain(key, "is of a wrong value", "one of " + expected);
  }
  /// A bandwidth in bytes per second, or the name of a known link.
  void bandwidth(std::string_view key, double& into) {
    auto const* value = find(key);
    if (!value || !value->is_string()) return value ? real(key, into) : void();
    for (auto const& link : known_links)
      if (link.name == value->get_ref<std::string const&>()) return void(into = link.bytes_per_second);
    complain(key, "names no known link", "bytes per second, or a link's name such as InfiniBand NDR");
  }
  /// A whole number or an array of them, not too long.
  void sizes(std::string_view key, std::vector<std::int64_t>& into) {
    auto const* value = find(key);
    if (!value) return;
    into.clear();
    auto const add = [&](json const& element) {
      auto const number = json_members::whole_value(element);
      if (number) into.push_back(*number);
      return number.has_value();
    };
    bool const fine = value->is_array()
                          ? value->size() <= most_choices && std::all_of(value->begin(), value->end(), add)
                          : add(*value);
    if (!fine) complain(key, "is of a wrong kind", fmt::format("a whole number, or at most {} of them", most_choices));
  }
  void names(std::string_view key, std::vector<std::string>& into) {
    auto const* value = find(key);
    if (!value) return;
    bool const fine = value->is_array() && value->size() <= most_choices &&
                      std::all_of(value->begin(), value->end(), [](json const& name) { return name.is_string(); });
    if (!fine) return complain(key, "is of a wrong kind", "an array of names");
    for (auto const& name : *value) into.push_back(name.get<std::string>());
  }

  void complain(std::string_view key, std::string message, std::string expected) {
    diagnostics_.push_back({.kind = "bad_value",
                            .op = path_ + '.' + printable(key),
                            .message = std::move(message),
                            .expected = std::move(expected)});
  }
  /// Complains of the first members that were not asked for.
  void finish() {
    int count = 0;
    for (auto const& [key, value] : object_.items())
      if (std::find(known_.begin(), known_.end(), key) == known_.end() && count++ < 8)
        complain(key, "is unknown", "a key of the schema");
  }

 private:
  static constexpr std::size_t most_choices = 64;

  json const& object_;
  std::string path_;
  std::vector<diagnostic>& diagnostics_;
  std::vector<std::string_view> known_;
};

/// The preset that an object names; nothing where it names none, and a complaint where there is none of that name.
inline std::optional<std::string> preset_of(object_reader& object) {
  std::string name;
  object.text("preset", name);
  if (name.empty()) return {};
  if (name != "deepseek-v3" && name != "llama-3-405b" && name != "llama-3-70b")
    object.complain("preset", "is unknown", "deepseek-v3, llama-3-405b or llama-3-70b");
  return name;
}

inline void read_choices(nlohmann::json const& value, plan_choices& choices, std::vector<diagnostic>& diagnostics) {
  object_reader object(value, "choices", diagnostics);
  object.sizes("pipeline", choices.pipeline);
  object.sizes("chunks", choices.chunks);
  object.sizes("tensor", choices.tensor);
  object.sizes("expert", choices.expert);
  object.names("schedules", choices.schedules);
  std::string layout;
  object.text("layout", layout);
  if (!layout.empty()) {
    auto read = read_layout(layout);
    choices.layout = std::move(read.layout);
    for (auto& d : read.diagnostics) diagnostics.push_back(std::move(d));
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
  object.whole("zero_stage", m.zero_stage);
  object.whole("weight_bytes", m.weight_bytes);
  object.whole("gradient_bytes", m.gradient_bytes);
  object.whole("optimizer_bytes", m.optimizer_bytes);
  if (auto const* choices = object.find("choices")) {
    if (choices->is_object())
      read_choices(*choices, file.choices, file.diagnostics);
    else
      object.complain("choices", "is of a wrong kind", "an object");
  }
  object.finish();
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
  std::string kind;
  object.text("gpu", kind);
  if (!kind.empty()) {
    // A kind that is not in the table needs its figures, all of which a known kind gives.
    if (auto const known = find_gpu(kind))
      c.use(*known);
    else
      for (auto const* key : {"bf16_rate", "memory", "nvlink"}) object.require(key);
    c.gpu = kind;
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
  object.real("link_share", c.link_share);
  object.real("memory_share", c.memory_share);
  object.real("transfer_latency", c.transfer_latency);
  object.finish();
}

/// The file's object, or nothing and a diagnostic.
[[nodiscard]] inline std::optional<nlohmann::json> parse_object(std::string_view text,
                                                                std::vector<diagnostic>& diagnostics) {
  auto document = parse_json(text, diagnostics);
  if (document && !document->is_object()) {
    diagnostics.push_back({.kind = "bad_value", .message = "the file is no object", .expected = "a JSON object"});
    document.reset();
  }
  return document;
}

}  // namespace detail

/// Reads a model, how it is trained, and the choices that the planner is left with. Never throws for what is in `text`.
[[nodiscard]] inline model_file read_model(std::string_view text) {
  model_file file;
  if (auto const document = detail::parse_object(text, file.diagnostics)) detail::read_model(*document, file);
  return file;
}

/// Reads a cluster. Never throws for what is in `text`.
[[nodiscard]] inline cluster_file read_cluster(std::string_view text) {
  cluster_file file;
  if (auto const document = detail::parse_object(text, file.diagnostics)) detail::read_cluster(*document, file);
  return file;
}

}  // namespace v0
}  // namespace pipesched
