// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <pipesched/analysis/measured_cost.hpp>

#include "decimal.hpp"

/// The times in a cost file: those of stages and kinds, or of the single ops of a run. Times of stages are empty where
/// it does not give them, one entry for all stages or one per stage.
struct cost_file {
  std::vector<decimal> forward;
  std::vector<decimal> backward_input;
  std::vector<decimal> backward_weight;
  std::vector<decimal> overlapped;
  std::optional<decimal> latency;
  std::vector<pipesched::measured_op> measured;
};

/// Reads a JSON object with any of the keys "forward", "backward_input", "backward_weight", "overlapped" (a number for
/// every stage, or an array with one number per stage) and "latency" (a number), the "costs" of a schedule's file, or
/// measured times in any of the formats that the library reads. Throws `usage_error`.
cost_file read_cost_file(std::string const& path);
