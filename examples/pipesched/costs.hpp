// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <CLI/CLI.hpp>
#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/measured_cost.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/schedules/pass_times.hpp>

#include "cost_file.hpp"
#include "decimal.hpp"
#include "moe_costs.hpp"
#include "schedule_file.hpp"

/// A cost model that counts in whole numbers where every time is one.
using any_cost = std::variant<pipesched::stage_cost<std::int64_t>, pipesched::stage_cost<double>>;

/// Times of every stage in decimal, before it is known whether all are whole; one entry stands for all stages.
struct stage_times {
  std::vector<decimal> forward;
  std::vector<decimal> backward_input;
  std::vector<decimal> backward_weight;
  std::vector<decimal> overlapped;  ///< empty: the sum of the members
  decimal latency;
};

/// The COST part of a command line.
class cost_options {
 public:
  void add_to(CLI::App& command);

  /// These options, with the times of a schedule's file for what the command line does not give.
  [[nodiscard]] cost_options with_times_of(schedule_file const& file) const;
  /// Whether the command line or the schedule's file says anything about the times of stages.
  [[nodiscard]] bool given() const;
  /// Whether times are those of the single ops of a run, and not of stages.
  [[nodiscard]] bool measured() const { return !measured_ops().empty(); }
  /// The times of the run. Throws `usage_error` where an op of the schedule has none, or an option does not suit it.
  [[nodiscard]] pipesched::measured_cost for_ops_of(pipesched::schedule const& schedule) const;
  /// The times of the run, or what the schedule's file has of one that is not in use.
  [[nodiscard]] std::vector<pipesched::measured_op> const& known_run() const;

  /// The times of each stage of a schedule. Throws `usage_error` where they don't suit it.
  [[nodiscard]] any_cost for_stages(int stages, int ranks) const;
  /// The same in floating point.
  [[nodiscard]] pipesched::stage_cost<double> real_times(int stages, int ranks) const;
  /// The times for schedules whose order depends on them: those of a stage, the mean of them where stages differ,
  /// or those of its events. `stages_per_rank`: how many share a rank's time, where times are of a rank.
  [[nodiscard]] pipesched::pass_times pass_times(std::int64_t stages_per_rank) const;
  /// Whether the times are of a rank, whose stages share them.
  [[nodiscard]] bool per_rank() const { return per_ == "rank"; }

  /// Whether chunks are to become mixture-of-experts events.
  [[nodiscard]] bool lowers() const { return moe_.given(); }
  /// The graph that the times are of: `chunks` itself, or its events. Throws `usage_error` and what lowering throws.
  [[nodiscard]] pipesched::op_graph lowered(pipesched::op_graph chunks) const;
  /// The times of events. Throws `usage_error` where they don't suit the stages.
  [[nodiscard]] any_moe_cost for_events(int stages) const;
  /// Calls `visit(cost)` with the times that `lowered` graphs of so many stages and ranks take.
  template <class Visit>
  void with_model(int stages, int ranks, Visit&& visit) const {
    if (lowers())
      std::visit(visit, for_events(stages));
    else
      std::visit(visit, for_stages(stages, ranks));
  }

 private:
  /// As the command line and the cost file give them.
  [[nodiscard]] stage_times given_times() const;
  /// Whether an option gives a stage's times.
  [[nodiscard]] bool stage_times_given() const;
  /// The run whose times are in use; empty where they are of stages.
  [[nodiscard]] std::vector<pipesched::measured_op> const& measured_ops() const;
  /// A stage's times before scaling: the mean of them, or the sums of its events.
  [[nodiscard]] pipesched::uniform_cost<double> mean_chunk_times() const;
  /// The factors of `--stage-scale`, one per stage.
  [[nodiscard]] std::vector<decimal> factors_of(int stages) const;

  moe_cost_options moe_;
  std::optional<std::string> forward_;
  std::optional<std::string> backward_input_;
  std::optional<std::string> backward_weight_;
  std::optional<std::string> overlapped_;
  std::optional<std::string> latency_;
  std::string stage_scale_;
  std::string per_ = "stage";
  std::optional<cost_file> file_;
  /// Of the schedule's own file.
  std::optional<pipesched::stage_cost<double>> schedule_costs_;
  std::vector<pipesched::measured_op> schedule_run_;
};
