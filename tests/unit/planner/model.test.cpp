// SPDX-License-Identifier: MIT
#include <cstdint>

#include <pipesched/planner/cluster.hpp>
#include <pipesched/planner/model.hpp>
#include <pipesched/planner/model_memory.hpp>
#include <pipesched/planner/presets.hpp>

#include "support/catch.hpp"

using namespace pipesched;

namespace {

/// GPT-3 as arXiv 2205.05198 has it: a plain MLP of 4h, dropout, 16-bit products.
model_spec gpt_3() {
  model_spec m{.name = "GPT-3", .layers = 96, .hidden = 12288, .heads = 96};
  m.sequence = 2048;
  m.vocabulary = 51200;
  m.batch = 64;
  return m;
}

}  // namespace

TEST_CASE("a layer's activations follow sbh(34 + 5as/h) and its variants") {
  for (std::int64_t b : {1, 2, 4})
    for (std::int64_t t : {1, 2, 8}) {
      auto m = gpt_3();
      m.microbatch = b;
      auto const sbh = m.sequence * b * m.hidden;
      auto const core = 5 * m.heads * m.sequence * m.sequence * b;  // sbh * 5as/h
      m.recompute = recomputation::none;
      m.sequence_parallel = false;
      CHECK(layer_activation_bytes(m, false, t) == 10 * sbh + (24 * sbh + core) / t);
      m.sequence_parallel = true;
      CHECK(layer_activation_bytes(m, false, t) == (34 * sbh + core) / t);
      m.recompute = recomputation::selective;
      CHECK(layer_activation_bytes(m, false, t) == 34 * sbh / t);
      m.recompute = recomputation::full;
      CHECK(layer_activation_bytes(m, false, t) == 2 * sbh / t);
      CHECK(recomputation_bytes(m, false, t) == 34 * sbh / t);
      m.sequence_parallel = false;
      CHECK(layer_activation_bytes(m, false, t) == 2 * sbh);
      m.recompute = recomputation::selective;
      CHECK(layer_activation_bytes(m, false, t) == 10 * sbh + 24 * sbh / t);
    }
}

TEST_CASE("models have the parameters that were published") {
  CHECK(double(parameters(gpt_3())) == Approx(175e9).epsilon(0.01));
  CHECK(double(parameters(deepseek_v3())) == Approx(671e9).epsilon(0.002));
  CHECK(double(parameters(llama_3_405b())) == Approx(405e9).epsilon(0.005));
  CHECK(double(parameters(llama_3_70b())) == Approx(70.6e9).epsilon(0.005));
}

TEST_CASE("a step takes six operations for each parameter and token, and attention's") {
  auto const m = llama_3_405b();
  auto const attention = step_operations(m, false) - step_operations(m, true);
  CHECK(attention == 3.0 * double(m.tokens()) * 126 * 8192 * 2 * 16384);
  auto const products = step_operations(m, true) - attention;
  auto const weights = double(parameters(m) - embedding_parameters(m).total());
  CHECK(products == Approx(6 * weights * double(m.tokens())).epsilon(2e-5));  // norms are no products
  // DeepSeek-V3 uses 37 billion parameters a token.
  auto v3 = deepseek_v3();
  v3.sequence = 1;
  v3.batch = 1;
  CHECK(step_operations(v3, true) / 6 == Approx(37e9).epsilon(0.02));
}

TEST_CASE("DeepSeek-V3's step has the operations of its published rates") {
  // arXiv 2505.09343, table 4: 432 Tflop/s, 385 with the causal half, in 19.926 s on 2048 GPUs.
  CHECK(step_operations(deepseek_v3(), false) == Approx(432e12 * 2048 * 19.926).epsilon(0.005));
  CHECK(step_operations(deepseek_v3(), true) == Approx(385e12 * 2048 * 19.926).epsilon(0.005));
}

TEST_CASE("activations are those of the published table, and fall to what its text says") {
  // arXiv 2205.05198, table 2, for GPT-3's 175 billion parameters (a = 96, s = 2048, h = 12288): 5as/h = 80; section 5:
  // of what a layer keeps, selective recomputation saves 70 % there and 65 % for the 530 billion ones (a = 128, h =
  // 20480).
  auto m = gpt_3();
  auto const saved = [&m] {
    m.recompute = recomputation::none;
    auto const all = layer_activation_bytes(m, false, 8);
    m.recompute = recomputation::selective;
    return 1 - double(layer_activation_bytes(m, false, 8)) / double(all);
  };
  CHECK(saved() == Approx(0.70).margin(0.005));
  m.hidden = 20480;
  m.heads = 128;
  CHECK(saved() == Approx(0.65).margin(0.005));
  // Bytes of one layer of the 22 billion model (s = 2048, b = 4, h = 6144, a = 64) on 8 ranks, by hand.
  m = gpt_3();
  m.hidden = 6144;
  m.heads = 64;
  m.microbatch = 4;
  std::int64_t const sbh = 2048LL * 4 * 6144;
  m.recompute = recomputation::none;
  m.sequence_parallel = false;
  CHECK(layer_activation_bytes(m, false, 8) == 10 * sbh + 24 * sbh / 8 + 5 * 64 * 2048LL * 2048 * 4 / 8);
  CHECK(5.0 * 64 * 2048 / 6144 == Approx(106.67).epsilon(1e-4));
  // Context parallelism divides all of it.
  m.sequence_parallel = true;
  for (auto const again : {recomputation::none, recomputation::selective, recomputation::full}) {
    m.recompute = again;
    CHECK(layer_activation_bytes(m, false, 8, 4) == layer_activation_bytes(m, false, 8) / 4);
  }
}

TEST_CASE("states are those of the published example of ZeRO") {
  // arXiv 1910.02054, figure 1: 7.5 billion parameters, 16 bytes each, 64 ranks: 120, 31.4, 16.6 and 1.9 GB.
  auto m = gpt_3();
  m.gradient_bytes = 2;
  parallel_sizes const sizes{.data = 64};
  std::int64_t const parameters = 7'500'000'000;
  double const gigabytes[]{120, 31.4, 16.6, 1.88};
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    m.zero_stage = stage;
    CHECK(double(states_of(m, {parameters, 0}, sizes).total()) / 1e9 == Approx(gigabytes[stage]).epsilon(0.003));
  }
  // Context-parallel ranks hold copies too.
  CHECK(states_of(m, {parameters, 0}, {.context = 8, .data = 8}) == states_of(m, {parameters, 0}, sizes));
}

TEST_CASE("ZeRO divides states among the ranks that hold copies") {
  auto m = gpt_3();
  parallel_sizes const sizes{.tensor = 2, .expert = 1, .data = 4};
  parameter_count const count{800, 0};
  m.zero_stage = 0;
  CHECK(states_of(m, count, sizes) == state_bytes{800, 1600, 4800});
  m.zero_stage = 1;
  CHECK(states_of(m, count, sizes) == state_bytes{800, 1600, 1200});
  m.zero_stage = 2;
  CHECK(states_of(m, count, sizes) == state_bytes{800, 400, 1200});
  m.zero_stage = 3;
  CHECK(states_of(m, count, sizes) == state_bytes{200, 400, 1200});
  // Experts are divided once by the expert-parallel size; only what is left of data * tensor holds copies.
  parallel_sizes const moe{.tensor = 2, .expert = 4, .data = 4};
  CHECK(states_of(m, {0, 800}, moe) == state_bytes{200, 400, 1200});
  m.zero_stage = 0;
  CHECK(states_of(m, {0, 800}, moe) == state_bytes{400, 800, 2400});
}

TEST_CASE("experts multiply the activations of a token's MLP") {
  auto m = deepseek_v3();
  auto const kept = layer_activation_bytes(m, true);
  m.recompute = recomputation::selective;
  CHECK(layer_activation_bytes(m, true) - kept ==
        m.sequence * (2 * (128 * (2 * 192 + 128) - 2112) + 9 * 2048 * (5 - 2)));
  auto const dense = layer_activation_bytes(m, false);
  auto const sparse = layer_activation_bytes(m, true);
  auto const tokens = m.sequence;
  CHECK(sparse - dense == tokens * (8 * 7168 + 9 * 2048 * 5 - 18432 * 5));
  m.products = precision::bf16;
  CHECK(layer_activation_bytes(m, true) > sparse);
}

TEST_CASE("sizes out of bounds are named") {
  CHECK_FALSE(gpt_3().check());
  CHECK_FALSE(deepseek_v3().check());
  CHECK_FALSE(llama_3_405b().check());
  CHECK_FALSE(deepseek_v3_cluster().check());
  auto m = gpt_3();
  m.heads = 95;
  CHECK(m.check()->message() == "hidden = 12288, must be a multiple of 95 (heads, where head_size is not given)");
  m = deepseek_v3();
  m.top_k = 257;
  CHECK(m.check()->parameter == "top_k");
  m.top_k = 8;
  m.batch = 0;
  CHECK(m.check()->parameter == "batch");
  auto c = cluster_spec::of(b200, 64);
  CHECK(c.multiprocessors == 148);
  c.communication_multiprocessors = 148;
  CHECK(c.check()->parameter == "communication_multiprocessors");
  c.communication_multiprocessors = 20;
  c.network = 0;
  CHECK(c.check()->parameter == "network");
}
