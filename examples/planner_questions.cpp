// SPDX-License-Identifier: MIT
//
// What a schedule is worth in GPU-hours and gigabytes: the questions that a training run raises before it starts,
// answered by the planner's models, and published figures beside what it predicts. docs/planner.md explains each.

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <pipesched/pipesched.hpp>

using namespace pipesched;

namespace {

double gpu_hours_per_million_tokens(plan_request const& r, ranked_plan const& e) {
  return double(r.cluster.gpus) / e.tokens_per_second * 1e6 / 3600;
}

/// DeepSeek-V3 on `pipelines` pipelines of `ranks` GPUs, `microbatches` in each.
plan_request deepseek_on(std::int64_t ranks, std::int64_t microbatches, std::int64_t pipelines) {
  plan_request request{deepseek_v3(), deepseek_v3_cluster()};
  request.cluster.gpus = ranks * pipelines;
  request.model.batch = microbatches * pipelines;
  return request;
}

/// GPU-seconds that DeepSeek-V3 computes for a token: all its pieces, forward and backward, without communication.
double deepseek_computation() {
  auto const m = deepseek_v3();
  model_costs const costs(m, deepseek_v3_cluster(), {.expert = 64});
  double seconds = 0;
  auto const add = [&](piece_cost const& piece, std::int64_t count) {
    auto events = piece.events;
    events.dispatch = events.combine = 0;
    events.dispatch_backward = events.combine_backward = 0.0;
    auto const chunk = events.chunk_cost(1);
    seconds += double(count) * (chunk.forward + chunk.backward_input + chunk.backward_weight);
  };
  add(costs.embedding(), 1);
  add(costs.layer(false), m.dense_layers);
  add(costs.layer(true), m.layers - m.dense_layers);
  add(costs.head(), 1);
  return seconds / double(m.microbatch * m.sequence);
}

bool recovered_hours() {
  constexpr int ranks = 8;
  constexpr int microbatches = 16;
  auto const one = analyze(one_f_one_b{ranks, microbatches});
  auto const dual = analyze(dual_pipe{ranks, microbatches});
  fmt::print("DualPipe against 1F1B, 8 ranks, 16 microbatches\n");
  fmt::print("  equal times for F, I and W: utilization {:.1f} % and {:.1f} %\n", 100 * dual.utilization,
             100 * one.utilization);
  auto const busy = deepseek_computation() * 1e6 / 3600;
  auto const hours = [&](double utilization) { return busy / utilization; };
  auto const saved = hours(one.utilization) - hours(dual.utilization);
  fmt::print("  DeepSeek-V3's computation takes {:.4f} GPU-hours a million tokens; with the bubble of 1F1B {:.4f},\n",
             busy, hours(one.utilization));
  fmt::print("  with DualPipe's {:.4f}: {:.4f} recovered\n", hours(dual.utilization), saved);

  auto const request = deepseek_on(ranks, microbatches, 128);
  plan_shape shape{.schedule = "1f1b", .pipeline = ranks, .sizes = {.expert = 64}};
  auto const planned_one = evaluate_plan(request, shape);
  shape.schedule = "dualpipe";
  auto const planned_dual = evaluate_plan(request, shape);
  auto const hours_one = gpu_hours_per_million_tokens(request, planned_one);
  auto const hours_dual = gpu_hours_per_million_tokens(request, planned_dual);
  fmt::print("  with its all-to-alls, planned on 1024 H800: {:.4f} and {:.4f}: {:.4f} recovered\n\n", hours_one,
             hours_dual, hours_one - hours_dual);
  return saved > 0 && hours_dual < hours_one;
}

/// The share of a GPU's memory that the second copy of weights and gradients takes.
double second_copy(std::string_view name, plan_request const& request, plan_shape shape) {
  shape.schedule = "1f1b";
  auto const one = evaluate_plan(request, shape);
  shape.schedule = "dualpipe";
  auto const two = evaluate_plan(request, shape);
  auto const& m = request.model;
  auto const all = parameters(m);
  std::int64_t experts = 0;
  for (std::int64_t i = 0; i < m.layers; ++i) experts += layer_parameters(m, m.has_experts(i)).expert;
  auto const copy = double(two.memory.states.weights + two.memory.states.gradients) -
                    double(one.memory.states.weights + one.memory.states.gradients);
  fmt::print(
      "  {:<38} {:5.1f} % in experts, weights {:4.1f} -> {:4.1f} GB, gradients {:4.1f} -> {:4.1f} GB: +{:.1f} GB\n",
      name, 100 * double(experts) / double(all), double(one.memory.states.weights) / 1e9,
      double(two.memory.states.weights) / 1e9, double(one.memory.states.gradients) / 1e9,
      double(two.memory.states.gradients) / 1e9, copy / 1e9);
  return copy / request.cluster.memory;
}

bool two_copies() {
  fmt::print("The second copy of the parameters, on the fullest GPU\n");
  plan_request const dense{llama_3_70b(), llama_3_70b_cluster()};
  plan_request const moe{deepseek_v3(), deepseek_v3_cluster()};
  auto const of_dense = second_copy("70B dense, P = 8", dense, {.pipeline = 8});
  auto const divided = second_copy("70B dense, P = 8, tensor 8", dense, {.pipeline = 8, .sizes = {.tensor = 8}});
  auto const whole = second_copy("671B MoE, P = 16, experts not divided", moe, {.pipeline = 16});
  auto const of_moe = second_copy("671B MoE, P = 16, expert 64", moe, {.pipeline = 16, .sizes = {.expert = 64}});
  fmt::print("  of an 80 GB GPU: {:.0f} %, {:.0f} %, {:.0f} %, {:.0f} %\n\n", 100 * of_dense, 100 * divided,
             100 * whole, 100 * of_moe);
  return of_moe < of_dense && of_moe < whole;
}

ranked_plan deepseek_step(std::string_view schedule) {
  return evaluate_plan(
      {deepseek_v3(), deepseek_v3_cluster()},
      {.schedule = schedule, .pipeline = 16, .chunks = schedule.ends_with("-v") ? 2 : 1, .sizes = {.expert = 64}});
}

bool lost_hours() {
  constexpr double run = 2.8e6;
  auto const dual = deepseek_step("dualpipe");
  auto const even = analyze(dual_pipe{16, 120}).bubble_fraction;
  fmt::print("GPU-hours lost to bubbles in a run of 2.8 million\n");
  auto const lost = [&](std::string_view name, double fraction) {
    fmt::print("  {:<52} {:5.1f} %  {:7.0f}\n", name, 100 * fraction, run * fraction);
  };
  lost("at 12 %", 0.12);
  lost("at 15 %", 0.15);
  lost("DualPipe, P = 16, m = 120, equal times", even);
  lost("DualPipe as planned: uneven stages, transfers", dual.bubble_fraction);
  fmt::print("  saved: {:.0f} to {:.0f}, and with equal stages {:.0f} to {:.0f}\n\n",
             run * (0.12 - dual.bubble_fraction), run * (0.15 - dual.bubble_fraction), run * (0.12 - even),
             run * (0.15 - even));
  return even < dual.bubble_fraction && dual.bubble_fraction < 0.12;
}

bool expected_bubble() {
  fmt::print("The bubble to expect: DeepSeek-V3 on 2048 H800, P = 16, m = 120, expert 64\n");
  text_table table({"schedule", "equal times", "as planned", "step s", "exposed s", "GB/GPU"}, 1);
  bool bounded = true;
  for (std::string_view name : {"gpipe", "1f1b", "zb-h1", "zb-v", "1f1b-overlap", "dualpipe", "dualpipe-v"}) {
    auto const planned = deepseek_step(name);
    double equal = 0;
    with_schedule(name, {.ranks = 16, .microbatches = 120},
                  [&](auto const& generator) { equal = analyze(generator).bubble_fraction; });
    bounded = bounded && planned.bubble_fraction > 0 && planned.bubble_fraction < 0.5;
    table.add({std::string(name), fmt::format("{:.1f} %", 100 * equal),
               fmt::format("{:.1f} %", 100 * planned.bubble_fraction), fmt::format("{:.2f}", planned.step_time),
               fmt::format("{:.2f}", planned.exposed_communication()),
               fmt::format("{:.1f}", double(planned.memory.total()) / 1e9)});
  }
  fmt::print("{}\n", table.text());
  return bounded;
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

/// A step by what it is spent on, published beside predicted, in seconds; the parts add up to the step.
class step_table {
 public:
  explicit step_table(std::string_view title)
      : table_({std::string(title), "published", "predicted", "difference"}, 1) {}

  void add(std::string_view part, std::optional<double> published, double predicted) {
    table_.add({std::string(part), published ? fmt::format("{:.2f}", *published) : "", fmt::format("{:.2f}", predicted),
                published ? fmt::format("{:+.2f}", predicted - *published) : ""});
  }
  void print() const { fmt::print("\n{}", table_.text()); }

 private:
  text_table table_;
};

/// Busy time of the mean rank of DualPipe, by kind of op.
struct busy_times {
  double forward = 0;
  double input = 0;
  double weight = 0;
  double pairs = 0;
};
busy_times busy_of(dual_pipe const& shape, plan_cost const& cost) {
  busy_times sum;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    auto const program = generate_program(shape, rank);
    for (std::size_t i = 0; i < program.size(); ++i) {
      auto const o = program[i];
      auto const time_of = [&](op_kind kind) {
        return cost(op(kind, stage_id(o.stage()), microbatch_id(o.microbatch())), rank) / shape.ranks;
      };
      if (o.overlaps_next()) {
        sum.pairs += cost.pair_time(o, program[++i], rank) / shape.ranks;
        continue;
      }
      if (o.kind() == op_kind::forward) sum.forward += time_of(op_kind::forward);
      if (carries_gradient(o.kind())) sum.input += time_of(op_kind::backward_input);
      if (o.kind() == op_kind::backward || o.kind() == op_kind::backward_weight)
        sum.weight += time_of(op_kind::backward_weight);
    }
  }
  return sum;
}

/// DeepSeek-V3's step by part, and by op and layer, in milliseconds: arXiv 2505.09343, table 4, whose op times
/// docs/moe.md takes apart.
void deepseek_by_part(ranked_plan const& step) {
  model_costs const costs(deepseek_v3(), deepseek_v3_cluster(), step.shape.sizes);
  auto const stages = stages_of(costs, *read_layout(step.layout).layout);
  auto const busy = busy_of({.ranks = 16, .microbatches = 120}, {&stages, costs.transfer()});
  step_table parts("DeepSeek-V3's step, seconds");
  parts.add("lone forwards", 1.13, busy.forward);
  parts.add("lone backwards for the input", 1.99, busy.input);
  parts.add("lone backwards for the weights", 0.48, busy.weight);
  parts.add("overlapped pairs", 13.95, busy.pairs);
  parts.add("bubble", 2.06, step.bubble_fraction * step.pipeline_time);
  parts.add("optimizer, gradients and weights", 0.29, step.optimizer_time + step.exposed_data);
  parts.add("step", 19.93, step.step_time);
  parts.print();

  auto const layer = costs.layer(true).events.chunk_cost(1);
  text_table ops({"a layer of it, milliseconds", "published", "predicted"}, 1);
  auto const op_line = [&](std::string_view part, double published, double predicted) {
    ops.add({std::string(part), fmt::format("{:.1f}", published), fmt::format("{:.1f}", 1e3 * predicted)});
  };
  // Of 16 stages with 61 layers.
  constexpr double layers = 61.0 / 16;
  op_line("forward", 57.6 / layers, layer.forward);
  op_line("backward for the input", 101.4 / layers, layer.backward_input);
  op_line("backward for the weights", 24.5 / layers, layer.backward_weight);
  op_line("overlapped pair", 139.0 / layers, stages[8].pair / double(stages[8].layers));  // four layers with experts
  fmt::print("\n{}", ops.text());
}

/// Llama 3's step on 16384 GPUs, of which the operations per second are published.
void llama_by_part(ranked_plan const& step) {
  auto const published = step_operations(llama_3_405b(), false) / (16384 * 400e12);
  step_table parts("Llama 3 405B's step, seconds");
  auto const bubble = step.bubble_fraction * step.pipeline_time;
  parts.add("computation", {}, step.pipeline_time - bubble - step.exposed_tensor);
  parts.add("bubble", {}, bubble);
  parts.add("tensor parallelism", {}, step.exposed_tensor);
  parts.add("optimizer, gradients and weights", {}, step.optimizer_time + step.exposed_data);
  parts.add("step", published, step.step_time);
  parts.print();
}

bool published_figures() {
  fmt::print("Published figures beside predictions, MFU with attention's whole matrix and with its causal half\n");
  text_table table({"run", "published", "whole", "causal"}, 1);
  auto const row = [&](std::string_view run, std::string_view published, ranked_plan const& e) {
    table.add({std::string(run), std::string(published), percent(e.mfu), percent(e.mfu_causal)});
  };
  auto const v3 = deepseek_step("dualpipe");
  row("DeepSeek-V3, 2048 H800", "43.7 %, causal 38.9 %", v3);

  plan_request llama{llama_3_405b(), llama_3_405b_cluster()};
  plan_shape shape{.schedule = "interleaved-1f1b", .pipeline = 16, .chunks = 8, .sizes = {.tensor = 8}};
  auto const all = evaluate_plan(llama, shape);
  auto slower = llama;
  slower.cluster.bf16_share = 0.55;
  auto const with_slower_products = evaluate_plan(slower, shape);
  llama.cluster.gpus = 8192;
  auto const half = evaluate_plan(llama, shape);
  row("Llama 3 405B, 8192 H100", "43 %", half);
  row("Llama 3 405B, 16384 H100", "41 %", all);
  row("  with bf16_share 0.55 in place of 0.65", "", with_slower_products);
  // As many tokens in sequences of 128 Ki, each on 16 context-parallel ranks.
  plan_request longer{llama_3_405b(), llama_3_405b_cluster()};
  longer.model.sequence = 131072;
  longer.model.batch = 128;
  shape.sizes.context = 16;
  auto const context = evaluate_plan(longer, shape);
  row("Llama 3 405B, sequences of 131072", "38 %", context);
  longer.cluster.attention_share = 0.5;
  row("  with attention_share 0.5 in place of 0.35", "", evaluate_plan(longer, shape));
  fmt::print("{}", table.text());
  fmt::print("Llama 3 405B, bubble: {} on 8192, {} on 16384 GPUs\n", percent(half.bubble_fraction),
             percent(all.bubble_fraction));
  fmt::print("Llama 3 405B, keys and values of sequences of 131072: {:.2f} s of {:.2f}\n", context.exposed_context,
             context.step_time);
  deepseek_by_part(v3);
  llama_by_part(all);
  return v3.mfu > 0.437 && v3.mfu < 0.6 && all.mfu < half.mfu && all.mfu > 0.38 && context.mfu_causal < all.mfu_causal;
}

}  // namespace

int main() {
  bool const holds[]{recovered_hours(), two_copies(), lost_hours(), expected_bubble(), published_figures()};
  for (bool const one : holds)
    if (!one) return EXIT_FAILURE;
  return EXIT_SUCCESS;
}
