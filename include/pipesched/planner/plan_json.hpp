// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A plan as JSON; its schema is docs/plan.schema.json.

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <pipesched/io/report_json.hpp>
#include <pipesched/planner/plan.hpp>
#include <pipesched/planner/plan_text.hpp>

namespace pipesched {
inline namespace v0 {

/// One entry as a JSON object. Times are seconds, memory bytes, shares of one.
[[nodiscard]] inline std::string ranked_plan_json(ranked_plan const& e) {
  auto const& s = e.shape;
  auto text = fmt::format(
      R"({{"schedule": "{}", "pipeline": {}, "chunks": {}, "microbatches": {}, "tensor": {}, "context": {}, "expert": {}, "data": {}, )",
      s.schedule, s.pipeline, s.chunks, s.microbatches, s.sizes.tensor, s.sizes.context, s.sizes.expert, s.sizes.data);
  text += fmt::format(R"("layout": {})", detail::json_string(e.layout));
  auto const real = [&](std::string_view key, double value) {
    text += fmt::format(R"(, "{}": {})", key, detail::json_fraction(value));
  };
  real("step_time", e.step_time);
  real("pipeline_time", e.pipeline_time);
  real("bubble_fraction", e.bubble_fraction);
  real("exposed_all_to_all", e.exposed_all_to_all);
  real("exposed_tensor", e.exposed_tensor);
  real("exposed_context", e.exposed_context);
  real("exposed_data", e.exposed_data);
  real("exposed_communication", e.exposed_communication());
  real("optimizer_time", e.optimizer_time);
  real("mfu", e.mfu);
  real("mfu_causal", e.mfu_causal);
  real("tokens_per_second", e.tokens_per_second);
  auto const& m = e.memory;
  return text +
         fmt::format(
             R"(, "parameter_copies": {}, "memory": {{"rank": {}, "weights": {}, "gradients": {}, "optimizer": {}, )"
             R"("activations": {}, "total": {}}}}})",
             e.parameter_copies, m.rank, m.states.weights, m.states.gradients, m.states.optimizer, m.activations,
             m.total());
}

/// The whole result.
[[nodiscard]] inline std::string plan_json(plan_result const& result, plan_request const& request) {
  auto const list = [](auto const& elements, auto&& element_text) {
    std::string text = "[";
    for (std::size_t i = 0; i < elements.size(); ++i) text += (i == 0 ? "\n  " : ",\n  ") + element_text(elements[i]);
    return text + "]";
  };
  auto const quoted = [](std::string const& line) { return detail::json_string(line); };
  auto const changed = [](plan_change const& change) {
    return fmt::format(R"({{"change": {}, "same": {}, "plan": {}}})", detail::json_string(change.change), change.same,
                       change.possible ? ranked_plan_json(change.entry) : "null");
  };
  auto text = fmt::format(R"({{"model": {}, "parameters": {}, "gpus": {}, "gpu": {}, "usable_memory": {},)",
                          detail::json_string(request.model.name), parameters(request.model), request.cluster.gpus,
                          detail::json_string(request.cluster.gpu), request.cluster.usable_memory());
  text += fmt::format("\n \"considered\": {}, \"fitting\": {}, \"dropped\": {{", result.considered, result.fitting);
  std::string_view comma = "";
  for (auto const& [name, count] : detail::counts_of(result.drops))
    text += fmt::format("{}\"{}\": {}", std::exchange(comma, ", "), name, count);
  text += "},\n \"plans\": " + list(result.entries, ranked_plan_json);
  text += ",\n \"reasons\": " + list(reasons(result, request.cluster), quoted);
  text += ",\n \"alternatives\": " + list(result.alternatives, ranked_plan_json);
  text += ",\n \"changes\": " + list(result.changes, changed);
  if (result.failure) {
    auto const& f = *result.failure;
    text += fmt::format(",\n \"failure\": {{\"constraint\": {}, \"message\": {}, \"closest\": {},\n  \"nearest\": {}}}",
                        detail::json_string(f.constraint), detail::json_string(f.message),
                        f.closest ? ranked_plan_json(*f.closest) : "null", list(f.nearest, changed));
  }
  return text + "}\n";
}

}  // namespace v0
}  // namespace pipesched
