// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <CLI/CLI.hpp>
#include <pipesched/analysis/decorators.hpp>
#include <pipesched/analysis/moe_cost.hpp>
#include <pipesched/graph/lower_moe.hpp>

#include "decimal.hpp"

/// One factor per stage, as a callable on (op, rank).
template <class T>
struct stage_factors {
  std::vector<T> of_stage;
  T operator()(pipesched::op o, int) const { return of_stage[static_cast<std::size_t>(o.stage())]; }
};

/// Times of mixture-of-experts events; whole numbers where every time is one and no multiprocessors are divided.
template <class T>
using scaled_moe_cost = pipesched::straggler_cost<pipesched::moe_cost<T>, stage_factors<T>>;
using any_moe_cost = std::variant<scaled_moe_cost<std::int64_t>, scaled_moe_cost<double>,
                                  pipesched::sm_partition_cost<scaled_moe_cost<double>>>;

/// The MoE part of a command line. Any of its options makes the schedule's chunks mixture-of-experts layers.
class moe_cost_options {
 public:
  /// Returns the options: none goes with those that give the times of whole chunks.
  std::vector<CLI::Option*> add_to(CLI::App& command);

  [[nodiscard]] bool given() const;
  /// Throws `usage_error` where a number is wrong.
  [[nodiscard]] pipesched::moe_options lowering() const;
  /// `factors`: one per stage. Throws `usage_error` or `pipesched::parameter_error` where a number is wrong.
  [[nodiscard]] any_moe_cost costs(decimal latency, std::vector<decimal> const& factors) const;
  /// What a chunk takes whose events follow one another.
  [[nodiscard]] pipesched::uniform_cost<double> chunk_times(decimal latency) const;

 private:
  /// The times that are given, by place in the table of their names.
  [[nodiscard]] std::array<std::optional<decimal>, 10> given_times() const;

  /// As written.
  std::array<std::optional<std::string>, 10> times_;
  std::optional<std::string> layers_;
  std::optional<std::string> sm_total_;
  std::optional<std::string> sm_comm_;
  bool asynchronous_ = false;
};
