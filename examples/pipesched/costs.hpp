// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <CLI/CLI.hpp>
#include <pipesched/analysis/cost.hpp>

#include "decimal.hpp"

/// A cost model that counts in whole numbers where every time is one.
using any_cost = std::variant<pipesched::stage_cost<std::int64_t>, pipesched::stage_cost<double>>;

/// The COST part of a command line.
class cost_options {
 public:
  void add_to(CLI::App& command);

  /// The times of each stage of a schedule. Throws `usage_error` where they don't suit it.
  [[nodiscard]] any_cost for_stages(int stages, int ranks) const;

 private:
  std::string forward_ = "1";
  std::string backward_input_ = "1";
  std::string backward_weight_ = "1";
  std::string overlapped_;
  std::string latency_ = "0";
  std::string stage_scale_;
  std::string per_ = "stage";
  std::string file_;
};
