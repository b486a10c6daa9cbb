// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The bubble rates that the Zero Bubble paper prints (arXiv 2401.10241, tables 5, 8, 9), with the times it measured.

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <pipesched/analysis/cost.hpp>

namespace test_support {

struct published_rate {
  std::string schedule;  ///< as the library names it
  int ranks;
  int microbatches;
  int chunks;
  double forward, backward_input, backward_weight;  ///< of a whole rank; of one of the two chunks for zb-v
  double latency;
  double bubble_rate;  ///< four digits

  /// The times of a chunk, where a rank's time is shared among its chunks.
  [[nodiscard]] pipesched::uniform_cost<double> chunk_cost() const {
    return {forward / chunks, backward_input / chunks, backward_weight / chunks, {}, latency};
  }
  /// The paper's rate of a schedule that takes `cost`: the part of it that is not `ideal`, the work of a rank.
  [[nodiscard]] double rate_of(double cost) const {
    return (cost - microbatches * (forward + backward_input + backward_weight)) / cost;
  }
};

inline std::vector<published_rate> published_rates() {
  auto const path = std::filesystem::path(__FILE__).parent_path().parent_path() / "data" / "zero_bubble_table.csv";
  std::vector<published_rate> rates;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // the header: table,p,m,v,T_F,T_B,T_W,T_comm,schedule,bubble_rate
  while (std::getline(file, line)) {
    for (char& c : line)
      if (c == ',') c = ' ';
    std::istringstream cells(line);
    std::string table;
    published_rate r{};
    if (cells >> table >> r.ranks >> r.microbatches >> r.chunks >> r.forward >> r.backward_input >> r.backward_weight >>
        r.latency >> r.schedule >> r.bubble_rate)
      rates.push_back(r);
  }
  if (rates.empty()) throw std::runtime_error("no published rates in " + path.string());
  return rates;
}

}  // namespace test_support
