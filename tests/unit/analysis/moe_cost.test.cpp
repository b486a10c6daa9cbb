// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

#include <pipesched/analysis/hardware.hpp>
#include <pipesched/analysis/moe_cost.hpp>
#include <pipesched/analysis/timeline.hpp>
#include <pipesched/graph/lower_moe.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

using namespace pipesched;
using k = op_kind;

namespace {

op event(op_kind kind) { return op(kind, stage_id{0}, microbatch_id{0}); }

/// DeepSeek-V3: 4096 tokens, 8 of 256 experts and one shared, at most 4 nodes.
constexpr moe_sizes deepseek_v3{.tokens = 4096,
                                .hidden = 7168,
                                .expert_hidden = 2048,
                                .experts = 256,
                                .top_k = 8,
                                .shared_experts = 1,
                                .nodes_per_token = 4};

}  // namespace

static_assert(cost_model<moe_cost<>> && cost_model<moe_cost<double>>);

TEST_CASE("Backward events take the forward ones' times unless said otherwise", "[analysis][moe]") {
  moe_cost<> cost{.attention = 2, .dispatch = 3, .mlp = 5, .combine = 7};
  CHECK(cost(event(k::attention_backward_input), 0) == 2);
  CHECK(cost(event(k::attention_backward_weight), 0) == 2);
  CHECK(cost(event(k::mlp_backward_input), 0) == 5);
  CHECK(cost(event(k::mlp_backward_weight), 0) == 5);
  CHECK(cost(event(k::dispatch_backward), 0) == 3);
  CHECK(cost(event(k::combine_backward), 0) == 7);
  CHECK(cost(event(k::send_forward), 0) == 0);
  cost.mlp_backward_weight = 11;
  CHECK(cost(event(k::mlp_backward_weight), 0) == 11);
  CHECK(cost(event(k::mlp_backward_input), 0) == 5);

  auto const chunk = cost.chunk_cost(3);
  CHECK(chunk.forward == 3 * 17);
  CHECK(chunk.backward_input == 3 * 17);
  CHECK(chunk.backward_weight == 3 * (2 + 11));
}

TEST_CASE("Negative times and NaN are refused by name", "[analysis][moe]") {
  auto const nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(!moe_cost<>{}.check());
  CHECK(moe_cost<>{.dispatch = -1}.check()->message() == "dispatch = -1, must be at least 0");
  CHECK(moe_cost<double>{.attention = nan}.check()->parameter == "attention");
  CHECK(moe_cost<double>{.mlp_backward_weight = nan}.check()->parameter == "mlp_backward_weight");
  CHECK(moe_cost<double>{.combine_backward = -0.5}.check()->message() == "combine_backward = -0.5, must be at least 0");
  auto const lowered = lower_moe(one_f_one_b{2, 2});
  CHECK_THROWS_AS(make_timeline(lowered, moe_cost<double>{.mlp = nan}), parameter_error);
  CHECK_THROWS_AS(make_timeline(lowered, moe_cost<>{.combine = -2}), parameter_error);
}

TEST_CASE("An all-to-all takes the longer of its network and its NVLink hop", "[analysis][moe]") {
  moe_machine const machine{.nvlink_bandwidth = 160e9, .network_bandwidth = 50e9, .gemm_rate = 400e12};
  double const bytes = 4096.0 * 7168;
  auto const cost = make_moe_cost(deepseek_v3, machine);
  CHECK(cost.dispatch == Approx(4 * bytes / 50e9));
  CHECK(cost.combine == Approx(2 * cost.dispatch));
  // Gradients of what was combined go out as narrow as what is dispatched, and come back wide.
  CHECK(*cost.combine_backward == cost.dispatch);
  CHECK(*cost.dispatch_backward == cost.combine);

  // The report's own count: 160/50 = 3.2 experts per node cost no more than one.
  auto wider = deepseek_v3;
  wider.top_k = 12;
  CHECK(make_moe_cost(wider, machine).dispatch == cost.dispatch);
  wider.top_k = 13;
  CHECK(make_moe_cost(wider, machine).dispatch > cost.dispatch);
  auto one_node = deepseek_v3;
  one_node.nodes_per_token = 0;
  CHECK(make_moe_cost(one_node, machine).dispatch == Approx(8 * bytes / 160e9));
}

TEST_CASE("Computation takes its multiply-adds at the GEMM rate", "[analysis][moe]") {
  moe_machine const machine{1e9, 1e9, 1e12};
  moe_sizes sizes{.tokens = 10, .hidden = 100, .expert_hidden = 50, .experts = 8, .top_k = 2};
  auto cost = make_moe_cost(sizes, machine);
  CHECK(cost.attention == Approx(2 * 10 * 100 * (400 + 8) / 1e12));
  CHECK(cost.mlp == Approx(3 * 2 * 10 * 100 * 50 * 2 / 1e12));
  CHECK(*cost.attention_backward_weight == cost.attention);
  sizes.sequence = 1000;
  sizes.shared_experts = 1;
  auto const longer = make_moe_cost(sizes, machine);
  CHECK(longer.mlp == Approx(1.5 * cost.mlp));
  CHECK(longer.attention - cost.attention == Approx(2 * 10 * 100 * 1000 / 1e12));
  CHECK(*longer.attention_backward_input - cost.attention == Approx(2 * (longer.attention - cost.attention)));
  CHECK(*longer.attention_backward_weight == cost.attention);
}

TEST_CASE("Sizes and rates out of bounds are refused by name", "[analysis][moe]") {
  moe_machine const machine{1, 1, 1};
  auto const refused = [&](auto change) {
    auto sizes = deepseek_v3;
    change(sizes);
    CHECK_THROWS_AS(make_moe_cost(sizes, machine), parameter_error);
    return sizes.check()->message();
  };
  CHECK(refused([](auto& s) { s.tokens = 0; }) == "tokens = 0, must be at least 1");
  CHECK(refused([](auto& s) { s.top_k = 257; }) == "top_k = 257, must be at most 256 (experts)");
  CHECK(refused([](auto& s) { s.nodes_per_token = 9; }) ==
        "nodes_per_token = 9, must be at most 8 (top_k: one node for each expert)");
  CHECK(refused([](auto& s) { s.bytes_to_experts = std::nan(""); }) ==
        "bytes_to_experts = nan, must be greater than 0");
  CHECK_THROWS_WITH(make_moe_cost(deepseek_v3, {0, 1, 1}), "nvlink_bandwidth = 0, must be greater than 0");
  CHECK_THROWS_WITH(make_moe_cost(deepseek_v3, {1, 1, -1}), "gemm_rate = -1, must be greater than 0");
}

TEST_CASE("The hardware table is consistent and every entry has a source", "[analysis][moe]") {
  CHECK(infiniband_ndr.bytes_per_second == 50e9);
  CHECK(infiniband_xdr.bytes_per_second == 100e9);
  CHECK(nvlink_5.bytes_per_second == 2 * nvlink_4.bytes_per_second);
  CHECK(find_gpu("H800")->nvlink.bytes_per_second == 200e9);
  CHECK(find_gpu("H800")->multiprocessors == 132);
  CHECK(!find_gpu("A100"));
  for (auto const& gpu : known_gpus) {
    CHECK(!gpu.source.empty());
    CHECK(gpu.fp8_rate == Approx(2 * gpu.bf16_rate).epsilon(0.001));
    CHECK(gpu.memory_bandwidth > gpu.nvlink.bytes_per_second);
    CHECK(find_gpu(gpu.name)->memory_bytes == gpu.memory_bytes);
  }
  for (auto const& l : known_links) CHECK(!l.source.empty());

  auto const half = moe_machine::of(h800, infiniband_ndr, 0.5, 0.8);
  CHECK(half.gemm_rate == 0.5 * h800.bf16_rate);
  CHECK(half.nvlink_bandwidth == Approx(160e9));
  CHECK(half.network_bandwidth == Approx(40e9));
  CHECK_THROWS_AS(moe_machine::of(h800, infiniband_ndr, -1), parameter_error);
}
