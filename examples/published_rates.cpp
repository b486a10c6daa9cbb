// SPDX-License-Identifier: MIT

/// \file
/// The bubble rates that the Zero Bubble paper prints (arXiv 2401.10241, tables 5, 8 and 9) beside those computed from
/// the op graph, as a Markdown table.
///
///     published_rates [FILE.csv]     columns: table,p,m,v,T_F,T_B,T_W,T_comm,schedule,bubble_rate
///
/// The paper's conventions: T_B is the backward for the input; times are of a whole rank, for ZB-V of one of its two
/// chunks; 1F1B, interleaved 1F1B and ZB-H1 cost what the step takes from time 0, the others the longest span of a
/// rank.

#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include <pipesched/analysis/report.hpp>
#include <pipesched/schedules/interleaved.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>
#include <pipesched/schedules/zb_h1.hpp>
#include <pipesched/schedules/zb_h2.hpp>
#include <pipesched/schedules/zb_v.hpp>

namespace {

struct published {
  std::string table;
  int ranks, microbatches, chunks;
  double forward, backward_input, backward_weight, latency;
  std::string schedule;
  double bubble_rate;
};

/// The makespan or the span that the paper's rate is a part of.
double cost_of(published const& row) {
  using namespace pipesched;
  uniform_cost<double> const cost{row.forward, row.backward_input, row.backward_weight, {}, row.latency};
  if (row.schedule == "1f1b") return analyze(one_f_one_b{row.ranks, row.microbatches}, cost).makespan;
  if (row.schedule == "zb-h1") return analyze(zb_h1{row.ranks, row.microbatches}, cost).makespan;
  if (row.schedule == "zb-h2") return analyze(zb_h2{row.ranks, row.microbatches}, cost).span;
  if (row.schedule == "interleaved-1f1b") {
    auto const v = row.chunks;
    uniform_cost<double> const of_chunk{
        cost.forward / v, cost.backward_input / v, cost.backward_weight / v, {}, row.latency};
    return analyze(interleaved{row.ranks, row.microbatches, v}, of_chunk).makespan;
  }
  auto const times = pass_times::of(row.forward, row.backward_input, row.backward_weight, row.latency);
  return analyze(zb_v{row.ranks, row.microbatches, times}, cost).span;
}

double rate_of(published const& row) {
  int const chunks = row.schedule == "zb-v" ? 2 : 1;  // whose times these are
  double const work = row.microbatches * chunks * (row.forward + row.backward_input + row.backward_weight);
  double const cost = cost_of(row);
  return (cost - work) / cost;
}

}  // namespace

int main(int argc, char** argv) {
  std::string const path = argc > 1 ? argv[1] : "tests/data/zero_bubble_table.csv";
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "published_rates: cannot read %s\n", path.c_str());
    return 1;
  }
  fmt::print(
      "| table | schedule | P | m | v | published | computed | difference |\n|---|---|---|---|---|---|---|---|\n");
  std::string line;
  std::getline(file, line);  // the header
  while (std::getline(file, line)) {
    for (char& c : line)
      if (c == ',') c = ' ';
    published row;
    if (!(std::istringstream(line) >> row.table >> row.ranks >> row.microbatches >> row.chunks >> row.forward >>
          row.backward_input >> row.backward_weight >> row.latency >> row.schedule >> row.bubble_rate))
      continue;
    double const rate = rate_of(row);
    auto const digits = [](double value) { return std::lround(value * 1e4); };
    fmt::print("| {} | {} | {} | {} | {} | {:.4f} | {:.4f} | {} |\n", row.table, row.schedule, row.ranks,
               row.microbatches, row.chunks, row.bubble_rate, rate,
               double(digits(rate) - digits(row.bubble_rate)) / 1e4);
  }
}
