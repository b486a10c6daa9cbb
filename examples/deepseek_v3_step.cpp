// SPDX-License-Identifier: MIT
//
// The published training step of DeepSeek-V3 against this library's graphs: unit times from arXiv 2505.09343, table 4,
// the bubble that they predict, and the same step from the sizes of model and machine alone.
//
// The setting is that of arXiv 2412.19437: 16 pipeline ranks, 61 layers, 20 of an H800's 132 multiprocessors for
// communication; 15360 sequences of 4096 tokens a step on 2048 GPUs are 128 pipelines of 120. That a microbatch is one
// sequence is an assumption.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <pipesched/pipesched.hpp>

using namespace pipesched;

namespace {

constexpr int ranks = 16;
constexpr int microbatches = 120;
constexpr int layers = 61;

/// Seconds of one step.
struct breakdown {
  double forward;   ///< 1F
  double backward;  ///< 1B
  double weight;    ///< 1W
  double pairs;     ///< 1F1B
  double bubble;
  [[nodiscard]] double total() const { return forward + backward + weight + pairs + bubble; }
};
constexpr breakdown published{.forward = 1.13, .backward = 1.99, .weight = 0.48, .pairs = 13.95, .bubble = 2.06};

/// Ops of a rank, mean over all ranks.
struct op_counts {
  double forward = 0;   ///< outside pairs, as the next two
  double backward = 0;  ///< full
  double backward_input = 0;
  double backward_weight = 0;
  double pairs = 0;
};

op_counts count_ops(schedule const& s) {
  op_counts n;
  bool in_pair = false;
  for (op o : s.ops()) {
    if (o.overlaps_next()) ++n.pairs;
    bool const paired = o.overlaps_next() || in_pair;
    in_pair = o.overlaps_next();
    if (paired) continue;
    ++(o.kind() == op_kind::forward          ? n.forward
       : o.kind() == op_kind::backward       ? n.backward
       : o.kind() == op_kind::backward_input ? n.backward_input
                                             : n.backward_weight);
  }
  for (auto* count : {&n.forward, &n.backward, &n.backward_input, &n.backward_weight, &n.pairs}) *count /= ranks;
  return n;
}

/// Unit times that add up to the published parts, where "1B" is all time of backwards outside pairs but that of the
/// weights that are ops of their own...
uniform_cost<double> unit_times_with_full_backwards(op_counts const& n) {
  double const w = published.weight / n.backward_weight;
  double const i = (published.backward - n.backward * w) / (n.backward + n.backward_input);
  return {published.forward / n.forward, i, w, published.pairs / n.pairs};
}

/// ... or where "1B" is only the backward for the input, and "1W" that for all weights outside pairs.
uniform_cost<double> unit_times_with_input_backwards(op_counts const& n) {
  return {published.forward / n.forward, published.backward / (n.backward + n.backward_input),
          published.weight / (n.backward + n.backward_weight), published.pairs / n.pairs};
}

/// 61 layers on 16 stages: four each, but three next to the embedding and to the output's head.
std::vector<int> layers_of_stages() {
  std::vector<int> of_stages(ranks, 4);
  for (int stage : {0, ranks - 2, ranks - 1}) of_stages[std::size_t(stage)] = 3;
  return of_stages;
}

/// What a transfer between ranks takes: one microbatch's BF16 activations over one InfiniBand port.
constexpr double transfer = 4096.0 * 7168 * 2 / infiniband_ndr.bytes_per_second;

template <cost_model Cost>
double mean_idle(op_graph const& graph, Cost const& cost) {
  return analyze(graph, cost).idle_total / ranks;
}

/// The same work, with the layers of each stage and the transfers in place of even stages and free ones.
stage_cost<double> uneven(uniform_cost<double> cost, bool transfers, bool stages) {
  std::vector<double> factors;
  for (int count : layers_of_stages()) factors.push_back(stages ? double(count) * ranks / layers : 1.0);
  if (transfers) cost.latency = transfer;
  return stage_cost<double>::scaled(cost, factors);
}

void print_bubble(std::string_view reading, op_graph const& graph, uniform_cost<double> const& cost) {
  double const bubble = mean_idle(graph, cost);
  double const formula = (ranks / 2 - 1) * (*cost.overlapped + cost.backward_input - 2 * cost.backward_weight);
  fmt::print("{}\n  F {:.4f}  B {:.4f} = {:.4f} + {:.4f}  F&B {:.4f} = {:.2f} (F + B)\n", reading, cost.forward,
             cost.backward_input + cost.backward_weight, cost.backward_input, cost.backward_weight, *cost.overlapped,
             *cost.overlapped / (cost.forward + cost.backward_input + cost.backward_weight));
  auto const line = [](std::string_view what, double seconds) {
    fmt::print("  {:<44} {:5.2f} {:+6.2f}\n", what, seconds, seconds - published.bubble);
  };
  line("bubble from the graph", bubble);
  line("from (P/2-1)(F&B + B - 3W)", formula);
  line(fmt::format("with {:.2f} ms per transfer", 1e3 * transfer), mean_idle(graph, uneven(cost, true, false)));
  line("with 3 or 4 layers a stage", mean_idle(graph, uneven(cost, false, true)));
  line("with both", mean_idle(graph, uneven(cost, true, true)));
}

/// One layer on one GPU.
constexpr moe_sizes layer_sizes{.tokens = 4096,
                                .hidden = 7168,
                                .expert_hidden = 2048,
                                .experts = 256,
                                .top_k = 8,
                                .shared_experts = 1,
                                .nodes_per_token = 4,
                                .sequence = 4096};

/// The GEMM rate with which a lone forward takes what was published; the rated links of section 3.2.2.
moe_machine machine_from_forward(double forward_of_layer) {
  moe_machine machine{
      .nvlink_bandwidth = 160e9, .network_bandwidth = infiniband_ndr.bytes_per_second, .gemm_rate = 1e12};
  auto const at_1_tera = make_moe_cost(layer_sizes, machine);
  machine.gemm_rate *=
      (at_1_tera.attention + at_1_tera.mlp) / (forward_of_layer - at_1_tera.dispatch - at_1_tera.combine);
  return machine;
}

breakdown predict(schedule const& s, moe_cost<double> const& cost) {
  auto const of_stages = layers_of_stages();
  auto const streams = analyze_streams(lower_moe(s, {.layers_by_stage = of_stages}), with_sm_partition(cost));
  breakdown sum{};
  for (auto const& r : streams.per_rank)
    for (auto const& pair : r.pairs) sum.pairs += pair.duration() / ranks;
  bool in_pair = false;
  for (op o : s.ops()) {
    bool const paired = o.overlaps_next() || in_pair;
    in_pair = o.overlaps_next();
    if (paired) continue;
    double const time = cost.chunk_cost(of_stages[std::size_t(o.stage())])(o, 0) / ranks;
    (o.kind() == op_kind::forward           ? sum.forward
     : o.kind() == op_kind::backward_weight ? sum.weight
                                            : sum.backward) += time;
  }
  sum.bubble = streams.makespan - sum.total();
  return sum;
}

void print_line(std::string_view part, double of_table, double predicted) {
  fmt::print("  {:<8} {:9.2f} {:9.2f} {:+10.2f}\n", part, of_table, predicted, predicted - of_table);
}

}  // namespace

int main() {
  auto const step = generate(dual_pipe{ranks, microbatches});
  auto const n = count_ops(step);
  fmt::print("DualPipe, {} ranks, {} microbatches: a rank runs {:.2f} pairs and, outside them,\n", ranks, microbatches,
             n.pairs);
  fmt::print("{:.2f} F, {:.2f} B, {:.2f} I, {:.2f} W (mean over ranks)\n\n", n.forward, n.backward, n.backward_input,
             n.backward_weight);

  auto const graph = build_graph(step);
  auto const full = unit_times_with_full_backwards(n);
  auto const input = unit_times_with_input_backwards(n);
  fmt::print("Unit times from table 4, and the mean bubble of a rank beside the {:.2f} s published\n",
             published.bubble);
  print_bubble("1B is all of a lone backward:", graph, full);
  print_bubble("1B is a backward for the input:", graph, input);

  double const forward_of_layer = full.forward * ranks / layers;
  auto const machine = machine_from_forward(forward_of_layer);
  auto const cost = make_moe_cost(layer_sizes, machine);
  fmt::print("\nA layer from its sizes: a lone forward of {:.1f} ms leaves a GEMM rate of {:.0f} Tflop/s\n",
             1e3 * forward_of_layer, machine.gemm_rate / 1e12);
  fmt::print(
      "  attention {:.2f}  dispatch {:.2f}  mlp {:.2f}  combine {:.2f} ms: computation to communication {:.2f}\n",
      1e3 * cost.attention, 1e3 * cost.dispatch, 1e3 * cost.mlp, 1e3 * cost.combine,
      (cost.attention + cost.mlp) / (cost.dispatch + cost.combine));

  auto const predicted = predict(step, cost);
  fmt::print("\nThe step from these events, 20 of 132 multiprocessors communicating, in seconds\n");
  fmt::print("           published predicted difference\n");
  print_line("1F", published.forward, predicted.forward);
  print_line("1B", published.backward, predicted.backward);
  print_line("1W", published.weight, predicted.weight);
  print_line("1F1B", published.pairs, predicted.pairs);
  print_line("bubble", published.bubble, predicted.bubble);
  print_line("sum", published.total(), predicted.total());

  // What must hold whatever the readings: all microbatches are run, and no schedule idles less than its graph says.
  bool const complete = std::abs(n.forward + n.pairs - microbatches) < 1e-9;
  bool const below = std::max(mean_idle(graph, full), mean_idle(graph, input)) < published.bubble;
  return complete && below ? EXIT_SUCCESS : EXIT_FAILURE;
}
