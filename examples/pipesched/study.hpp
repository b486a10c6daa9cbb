// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstdint>
#include <utility>

#include <CLI/CLI.hpp>
#include <pipesched/analysis/folded.hpp>
#include <pipesched/analysis/timeline.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/graph/build_graph.hpp>

#include "costs.hpp"
#include "input.hpp"

/// What show, analyze and export start from: a schedule under a cost model.
class study_options {
 public:
  void add_to(CLI::App& command) {
    input_.add_to(command);
    cost_.add_to(command);
  }

  /// A schedule, and the times that are to be put to it: those of its file are among them.
  struct loaded {
    pipesched::schedule schedule;
    cost_options cost;
    /// The graph of the schedule's ops, or of their mixture-of-experts events. Throws what the library throws.
    [[nodiscard]] pipesched::op_graph graph() const { return cost.lowered(pipesched::build_graph(schedule)); }
  };
  [[nodiscard]] loaded load() const {
    auto file = input_.load(cost_);
    auto cost = cost_.with_times_of(file);
    return {std::move(file.schedule), std::move(cost)};
  }

  /// Whether the graph is one of mixture-of-experts events.
  [[nodiscard]] bool lowers() const { return cost_.lowers(); }

  /// Calls `visit(report, name)` for a schedule that is large for being stored, where its figures can be had without
  /// that: whole times, and chunks that stay whole. Returns whether it did.
  template <class Visit>
  bool with_large_report(Visit&& visit) const {
    if (lowers() || cost_.measured()) return false;
    auto const folded = input_.fold_large(cost_);
    if (!folded) return false;
    bool visited = false;
    cost_.with_model(folded->where.stages(), folded->where.ranks(), [&]<class Cost>(Cost const& cost) {
      if constexpr (std::same_as<Cost, pipesched::stage_cost<std::int64_t>>)
        if (auto const report = pipesched::analyze_folded(*folded, cost)) {
          visit(*report, input_.name());
          visited = true;
        }
    });
    return visited;
  }

  /// Calls `visit(graph, timeline, cost)`. Throws what the library throws.
  template <class Visit>
  void with_timeline(Visit&& visit) const {
    auto const [schedule, cost] = load();
    auto const graph = cost.lowered(pipesched::build_graph(schedule));
    auto const visit_with = [&](auto const& model) { visit(graph, pipesched::make_timeline(graph, model), model); };
    if (cost.measured())
      visit_with(cost.for_ops_of(schedule));
    else
      cost.with_model(graph.stages(), graph.ranks(), visit_with);
  }

 private:
  input_options input_;
  cost_options cost_;
};
