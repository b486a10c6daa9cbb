// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "decimal.hpp"

/// The times in a cost file; empty where it does not give them, one entry for all stages or one per stage.
struct cost_file {
  std::vector<decimal> forward;
  std::vector<decimal> backward_input;
  std::vector<decimal> backward_weight;
  std::vector<decimal> overlapped;
  std::optional<decimal> latency;
};

/// Reads a JSON object with any of the keys "forward", "backward_input", "backward_weight", "overlapped" (a number for
/// every stage, or an array with one number per stage) and "latency" (a number). Throws `usage_error`.
cost_file read_cost_file(std::string const& path);
