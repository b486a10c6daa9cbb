// SPDX-License-Identifier: MIT
//
// What overlap hides: 1F1B and DualPipe on the same ranks, for all-to-alls from nothing to twice as long as the
// attention and the MLP between them. Prints a table, and checks the claim that it shows.

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <pipesched/pipesched.hpp>

using namespace pipesched;

namespace {

constexpr int ranks = 8;
constexpr int microbatches = 40;
constexpr int layers = 4;

/// Attention and MLP take 1 each way; each all-to-all `ratio`: at 1 a forward communicates as long as it computes.
moe_cost<double> layer_times(double ratio) { return {.attention = 1, .dispatch = ratio, .mlp = 1, .combine = ratio}; }

double percent(double share) { return 100 * share; }

bool claim(bool holds, char const* text) {
  fmt::print("{} {}\n", holds ? "holds:" : "FAILS:", text);
  return holds;
}

}  // namespace

int main() {
  auto const plain = lower_moe(one_f_one_b{ranks, microbatches}, {.layers = layers});
  auto const dual = lower_moe(dual_pipe{ranks, microbatches}, {.layers = layers});

  fmt::print("{} ranks, {} microbatches, {} layers a stage\n\n", ranks, microbatches, layers);
  fmt::print("           ---- 1F1B ----   ------------------ DualPipe ------------------   -- 20 of 132 SMs --\n");
  fmt::print("a2a/comp   busy    steady   busy    steady   in pairs   F&B/layer   hidden   F&B/layer   slower\n");
  for (int quarter = 0; quarter <= 8; ++quarter) {
    double const ratio = quarter / 4.0;
    auto const times = layer_times(ratio);
    auto const one = analyze_streams(plain, times);
    auto const two = analyze_streams(dual, times);
    auto const divided = analyze_streams(dual, with_sm_partition(times));
    auto const communication = two.exposed_communication + two.hidden_communication;
    fmt::print("{:8.2f} {:5.1f} % {:7.1f} % {:6.1f} % {:7.1f} % {:8.1f} % {:11.3f} {:6.1f} % {:11.3f} {:7.1f} %\n",
               ratio, percent(one.utilization), percent(*one.steady_utilization), percent(two.utilization),
               percent(*two.steady_utilization), percent(*two.pair_utilization), *two.mean_pair / layers,
               communication > 0 ? percent(two.hidden_communication / communication) : 0.0, *divided.mean_pair / layers,
               percent(divided.makespan / two.makespan - 1));
  }

  fmt::print("\n");
  auto const one = analyze_streams(plain, layer_times(1));
  auto const two = analyze_streams(dual, layer_times(1));
  bool all_hold = true;
  all_hold &=
      claim(one.utilization > 0.4 && one.utilization < 0.6, "1:1, 1F1B keeps the GPUs busy about half of the time");
  all_hold &= claim(one.hidden_communication == 0, "1:1, 1F1B hides none of its all-to-alls");
  all_hold &= claim(*two.pair_utilization == 1, "1:1, DualPipe's overlapped pairs are busy from start to end");
  auto const divided = analyze_streams(dual, with_sm_partition(layer_times(1)));
  all_hold &= claim(divided.makespan > two.makespan, "1:1, the multiprocessors that communicate cost DualPipe time");
  all_hold &= claim(*two.mean_pair == 6 * layers, "1:1, a layer's F&B is 6: the sum of its computation");
  return all_hold ? EXIT_SUCCESS : EXIT_FAILURE;
}
