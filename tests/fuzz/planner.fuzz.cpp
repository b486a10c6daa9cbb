// SPDX-License-Identifier: MIT
// Whatever is in a planner's file: it is read or refused, and what passes the checks has a plan or a reason.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <nlohmann/json.hpp>
#include <pipesched/planner/json_reader.hpp>
#include <pipesched/planner/plan_json.hpp>
#include <pipesched/planner/planner.hpp>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace pipesched;
  std::string_view const text(reinterpret_cast<char const*>(data), size);
  auto const layout = read_layout(text);
  if (layout.layout.has_value() != layout.diagnostics.empty()) std::abort();
  if (layout.layout && read_layout(write_layout(*layout.layout)).layout != layout.layout) std::abort();

  auto const cluster = read_cluster(text);
  auto const model = read_model(text);
  static_cast<void>(to_json(cluster.diagnostics));
  plan_request request{model.model, cluster.cluster, model.choices, 3};
  if (!cluster.diagnostics.empty()) request.cluster = cluster_spec::of(h100, 8);
  if (!model.diagnostics.empty()) {
    request.model = {.name = "tiny", .layers = 2};
    request.choices = {};
  }
  auto const wrong = check_request(request);
  static_cast<void>(to_json(wrong));
  // A plan of a large cluster takes longer than an input may.
  if (!wrong.empty() || request.cluster.gpus > 8 || request.model.layers > 4 || request.model.batch > 8) return 0;
  auto const result = plan(request);
  if (result.fitting + result.drops.total() != result.considered) std::abort();
  if (result.entries.empty() != result.failure.has_value()) std::abort();
  static_cast<void>(plan_text(result, request));
  if (!nlohmann::json::accept(plan_json(result, request))) std::abort();
  return 0;
}
