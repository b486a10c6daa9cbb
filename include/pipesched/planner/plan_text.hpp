// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A plan in words: the ranking, why the first comes first, and what would change that.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <pipesched/core/vector.hpp>
#include <pipesched/io/text_table.hpp>
#include <pipesched/planner/plan.hpp>

namespace pipesched {
inline namespace v0 {

/// "dualpipe, P 16, v 1, m 120, tensor 1, expert 64, data 128"; with "context 16" where a sequence is divided.
[[nodiscard]] inline std::string to_string(plan_shape const& s) {
  auto const context = s.sizes.context > 1 ? fmt::format(", context {}", s.sizes.context) : "";
  return fmt::format("{}, P {}, v {}, m {}, tensor {}{}, expert {}, data {}", s.schedule, s.pipeline, s.chunks,
                     s.microbatches, s.sizes.tensor, context, s.sizes.expert, s.sizes.data);
}

namespace detail {

[[nodiscard]] inline std::string gigabytes(std::int64_t bytes) { return fmt::format("{:.1f} GB", double(bytes) / 1e9); }

/// A part of a step's time that a difference may come from.
struct step_part {
  std::string_view name;
  double seconds;
};
[[nodiscard]] inline vector<step_part> parts_of(ranked_plan const& e) {
  auto const bubble = e.bubble_fraction * e.pipeline_time;
  auto const exposed = e.exposed_all_to_all + e.exposed_tensor + e.exposed_context;
  return {{"bubble", bubble},
          {"exposed all-to-alls", e.exposed_all_to_all},
          {"tensor parallelism", e.exposed_tensor},
          {"context parallelism", e.exposed_context},
          {"data parallelism", e.exposed_data},
          {"optimizer", e.optimizer_time},
          {"computation", e.pipeline_time - bubble - exposed}};
}

/// What was dropped, by the constraint's name.
[[nodiscard]] inline std::array<std::pair<std::string_view, std::int64_t>, 10> counts_of(plan_drops const& d) {
  return {{{"memory", d.memory},
           {"slower", d.slower},
           {"schedule", d.schedule},
           {"batch", d.batch},
           {"gpus", d.gpus},
           {"heads", d.heads},
           {"sequence", d.sequence},
           {"experts", d.experts},
           {"stages", d.stages},
           {"size", d.size}}};
}

/// How `other` differs from the first, the largest part first: "bubble +0.90 s, exposed all-to-alls +3.10 s".
[[nodiscard]] inline std::string difference_text(ranked_plan const& first, ranked_plan const& other) {
  auto parts = parts_of(other);
  auto const of_first = parts_of(first);
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].seconds -= of_first[i].seconds;
  std::stable_sort(parts.begin(), parts.end(),
                   [](step_part const& a, step_part const& b) { return std::abs(a.seconds) > std::abs(b.seconds); });
  std::string text;
  for (auto const& part : parts)
    if (std::abs(part.seconds) >= 0.005)
      text += fmt::format("{}{} {:+.2f} s", text.empty() ? "" : ", ", part.name, part.seconds);
  return text.empty() ? "nothing above 0.01 s" : text;
}

[[nodiscard]] inline text_table ranking(std::vector<ranked_plan> const& entries) {
  text_table table({"schedule", "P", "v", "m", "tensor", "context", "expert", "data", "step s", "bubble", "exposed s",
                    "GB/GPU", "MFU", "tokens/s"},
                   1);
  for (auto const& e : entries) {
    auto const& s = e.shape;
    table.add({std::string(s.schedule), fmt::format("{}", s.pipeline), fmt::format("{}", s.chunks),
               fmt::format("{}", s.microbatches), fmt::format("{}", s.sizes.tensor), fmt::format("{}", s.sizes.context),
               fmt::format("{}", s.sizes.expert), fmt::format("{}", s.sizes.data), fmt::format("{:.2f}", e.step_time),
               fmt::format("{:.1f} %", 100 * e.bubble_fraction), fmt::format("{:.2f}", e.exposed_communication()),
               fmt::format("{:.1f}", double(e.memory.total()) / 1e9), fmt::format("{:.1f} %", 100 * e.mfu),
               fmt::format("{:.0f}", e.tokens_per_second)});
  }
  return table;
}

}  // namespace detail

/// Why the first plan comes first: what its step and the best of each other schedule differ in, one line each.
[[nodiscard]] inline std::vector<std::string> reasons(plan_result const& result, cluster_spec const& cluster) {
  std::vector<std::string> lines;
  if (result.entries.empty()) return lines;
  auto const& first = result.entries.front();
  for (auto const& other : result.alternatives) {
    auto const difference = other.step_time - first.step_time;
    if (other.memory.total() > cluster.usable_memory())
      lines.push_back(fmt::format("{} does not fit: {} on rank {}, {} may be filled", to_string(other.shape),
                                  detail::gigabytes(other.memory.total()), other.memory.rank,
                                  detail::gigabytes(cluster.usable_memory())));
    else
      lines.push_back(fmt::format("{} takes {:.2f} s longer: {}", to_string(other.shape), difference,
                                  detail::difference_text(first, other)));
  }
  return lines;
}

/// What would change the choice, one line each.
[[nodiscard]] inline std::vector<std::string> sensitivities(plan_result const& result) {
  std::vector<std::string> lines;
  for (auto const& change : result.changes) {
    auto const then = !change.possible ? "no plan fits"
                      : change.same
                          ? fmt::format("the same, {:.2f} s", change.entry.step_time)
                          : fmt::format("{}, {:.2f} s", to_string(change.entry.shape), change.entry.step_time);
    lines.push_back(fmt::format("{}: {}", change.change, then));
  }
  return lines;
}

/// Why there is no plan, and what is nearest.
[[nodiscard]] inline std::string failure_text(plan_failure const& failure) {
  auto text = fmt::format("no plan: {}: {}\n", failure.constraint, failure.message);
  if (failure.closest)
    text += fmt::format("closest: {}: {} on rank {}\n", to_string(failure.closest->shape),
                        detail::gigabytes(failure.closest->memory.total()), failure.closest->memory.rank);
  for (auto const& near : failure.nearest)
    text += fmt::format("nearest that fits: with {}: {}: {:.2f} s, {}\n", near.change, to_string(near.entry.shape),
                        near.entry.step_time, detail::gigabytes(near.entry.memory.total()));
  return text;
}

/// All of it.
[[nodiscard]] inline std::string plan_text(plan_result const& result, plan_request const& request) {
  auto const& m = request.model;
  auto const& c = request.cluster;
  auto text = fmt::format("{} ({:.1f} billion parameters) on {} {}: {} shapes, {} fit\n", m.name,
                          double(parameters(m)) / 1e9, c.gpus, c.gpu, result.considered, result.fitting);
  text += "dropped:";
  std::string_view comma = " ";
  for (auto const& [name, count] : detail::counts_of(result.drops)) {
    if (count > 0) text += fmt::format("{}{} {}", std::exchange(comma, ", "), name, count);
  }
  text += result.drops.total() == 0 ? " none\n\n" : "\n\n";
  if (result.failure) return text + failure_text(*result.failure);

  text += detail::ranking(result.entries).text();
  auto const& first = result.entries.front();
  auto const& states = first.memory.states;
  text += fmt::format("\nfirst: {}\n  layout {}\n", to_string(first.shape), first.layout);
  text += fmt::format(
      "  memory of rank {}: weights {}, gradients {}, optimizer {}, activations {}; parameter copies {}\n",
      first.memory.rank, detail::gigabytes(states.weights), detail::gigabytes(states.gradients),
      detail::gigabytes(states.optimizer), detail::gigabytes(first.memory.activations), first.parameter_copies);
  text += "  step:";
  for (auto const& part : detail::parts_of(first))
    if (part.seconds >= 0.005)
      text += fmt::format("{} {} {:.2f} s", text.back() == ':' ? "" : ",", part.name, part.seconds);
  text += fmt::format("\n  MFU {:.1f} % of the 16-bit rate, {:.1f} % with a causal mask's half of attention\n",
                      100 * first.mfu, 100 * first.mfu_causal);
  text += "\nwhy it is first\n";
  for (auto const& line : reasons(result, c)) text += "  " + line + '\n';
  text += "\nwhat would change the choice\n";
  for (auto const& line : sensitivities(result)) text += "  " + line + '\n';
  return text;
}

}  // namespace v0
}  // namespace pipesched
