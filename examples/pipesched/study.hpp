// SPDX-License-Identifier: MIT
#pragma once

#include <CLI/CLI.hpp>
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

  [[nodiscard]] pipesched::schedule load() const { return input_.load(cost_); }

  /// Whether the graph is one of mixture-of-experts events.
  [[nodiscard]] bool lowers() const { return cost_.lowers(); }
  /// The graph of the schedule's ops, or of their mixture-of-experts events. Throws what the library throws.
  [[nodiscard]] pipesched::op_graph graph() const { return cost_.lowered(pipesched::build_graph(load())); }

  /// Calls `visit(graph, timeline, cost)`. Throws what the library throws.
  template <class Visit>
  void with_timeline(Visit&& visit) const {
    auto const graph = this->graph();
    cost_.with_model(graph.stages(), graph.ranks(),
                     [&](auto const& cost) { visit(graph, pipesched::make_timeline(graph, cost), cost); });
  }

 private:
  input_options input_;
  cost_options cost_;
};
