// SPDX-License-Identifier: MIT
#include <cstdint>

#include <pipesched/planner/planner.hpp>
#include <pipesched/planner/presets.hpp>
#include <pipesched/planner/stage_costs.hpp>

#include "support/catch.hpp"

using namespace pipesched;

namespace {

/// A cluster of round numbers: 10^15 operations a second at half of the rate, 10^12 bytes a second.
cluster_spec round_cluster() {
  auto c = cluster_spec::of(h100, 64);
  c.bf16_rate = 1e15;
  c.bf16_share = 0.5;
  c.fp8_rate = 2e15;
  c.fp8_share = 0.5;
  c.attention_share = 0.25;
  c.memory_bandwidth = 1e12;
  return c;
}

/// 1000 tokens of width 1024.
model_spec round_model() {
  model_spec m{.layers = 8, .hidden = 1024, .heads = 8, .sequence = 1000, .vocabulary = 50'000, .batch = 64};
  m.dropout = false;
  return m;
}

}  // namespace

TEST_CASE("a layer takes its operations at the rates that are reached, and the bytes beside them") {
  auto const m = round_model();
  auto const chunk = model_costs(m, round_cluster(), {}).layer(false).events.chunk_cost(1);
  constexpr double products = 1000.0 * 2 * 12 * 1024 * 1024 / 0.5e15;
  constexpr double core = 1000.0 * 1000 * 2 * 1024 / 0.25e15;  // half of the matrix
  constexpr double norms_and_rotation = 2.0 * 1000 * (4 + 4) * 1024 / 1e12;
  constexpr double norm_and_nonlinearity = 2.0 * 1000 * (4 * 1024 + 2 * 4096) / 1e12;
  CHECK(chunk.forward == Approx(products + core + norms_and_rotation + norm_and_nonlinearity));
  // FlashAttention computes five products for the forward's two, at 63/73 of its rate.
  constexpr double back = 2.0 * 1000 * (4 * 1024 + 3 * 4096) / 1e12;
  CHECK(chunk.backward_input == Approx(products + 2.5 * core * 73 / 63 + norms_and_rotation + back));
  // All gradients, 32 bit, are read and written.
  auto const parameters = double(layer_parameters(m, false).total());
  CHECK(chunk.backward_weight == Approx(products + 2 * 4 * parameters / 1e12));
}

TEST_CASE("a microbatch adds to the gradients of every expert that a GPU holds, whether few or many tokens come") {
  auto m = round_model();
  m.experts = 16;
  m.top_k = 1;
  m.expert_hidden = 1024;
  auto const weights = [&](std::int64_t expert, std::int64_t tensor = 1) {
    return model_costs(m, round_cluster(), {.tensor = tensor, .expert = expert})
        .layer(true)
        .events.chunk_cost(1)
        .backward_weight;
  };
  auto const bytes_of_all = 2.0 * 4 * double(layer_parameters(m, true).expert);
  CHECK(weights(1) - weights(16) == Approx(bytes_of_all * 15 / 16 / 1e12));
  auto const shared = 2.0 * 4 * double(layer_parameters(m, true).shared);
  auto const products = 1000.0 * (projection_operations(m) + mlp_operations(m, true)) / 0.5e15;
  CHECK(weights(1, 2) == Approx(products / 2 + (shared / 2 + bytes_of_all) / 1e12));
}

TEST_CASE("the head's product has 16 bits, and the loss moves its logits") {
  auto m = round_model();
  auto const head = [&] { return model_costs(m, round_cluster(), {}).head().events.chunk_cost(1); };
  constexpr double product = 1000.0 * 2 * 1024 * 50'000 / 0.5e15;
  constexpr double loss = 1000.0 * 50'000 * (2 + 4) / 1e12;
  CHECK(head().forward == Approx(product + loss));
  CHECK(head().backward_input == Approx(product + loss));
  CHECK(head().backward_weight == Approx(product + 2 * 4 * (50'000.0 + 1) * 1024 / 1e12));
  auto const of_bf16 = head().forward;
  auto const layer = [&] { return model_costs(m, round_cluster(), {}).layer(false).events.chunk_cost(1).forward; };
  auto const layer_of_bf16 = layer();
  m.products = precision::fp8;
  CHECK(head().forward == of_bf16);
  CHECK(layer() < layer_of_bf16);
  CHECK(head_activation_bytes(m) == 1000 * (4 * 1024 + 4 * 50'000));
}

TEST_CASE("where pairs hide all-to-alls, their time is balanced, unless a rank has the ends of the pipeline") {
  plan_request request{deepseek_v3(), deepseek_v3_cluster()};
  plan_shape shape{.schedule = "1f1b-overlap", .pipeline = 16, .sizes = {.expert = 64}};
  auto const planned = evaluate_plan(request, shape);
  model_costs const costs(request.model, request.cluster, planned.shape.sizes);
  auto const by_ops = balanced_layout(costs, 16);
  CHECK(planned.layout == write_layout(balanced_layout(costs, 16, balanced_by::pairs)));
  CHECK(planned.layout != write_layout(by_ops));

  request.choices.layout = by_ops;
  CHECK(planned.step_time < evaluate_plan(request, shape).step_time);
  request.choices.layout.reset();
  for (auto const* alone : {"1f1b", "zb-h1"}) {
    shape.schedule = alone;
    CHECK(evaluate_plan(request, shape).layout == write_layout(by_ops));
  }
}
