// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <array>

#include <pipesched/graph/moe_pair_order.hpp>

using namespace pipesched;
using k = op_kind;

namespace {

constexpr moe_pair_order rotation_of_one_layer{
    .compute = {k::attention_forward, k::mlp_backward_input, k::mlp_backward_weight, k::mlp_forward,
                k::attention_backward_input, k::attention_backward_weight},
    .all_to_all = {k::combine_backward, k::dispatch_forward, k::dispatch_backward, k::combine_forward}};

}  // namespace

TEST_CASE("Figure 4 of DeepSeek-V3 begins in the middle of a layer; a pair runs its rotation", "[graph][moe]") {
  constexpr moe_pair_order figure_4;
  STATIC_REQUIRE(!figure_4.can_run());
  STATIC_REQUIRE(!figure_4.check());
  STATIC_REQUIRE(figure_4.rotated() == rotation_of_one_layer);
  STATIC_REQUIRE(rotation_of_one_layer.rotated() == rotation_of_one_layer);
}

TEST_CASE("A pair order holds each event once on its own stream", "[graph][moe]") {
  moe_pair_order order;
  SECTION("an event twice") {
    order.compute[0] = k::mlp_forward;
    CHECK(order.check()->message() == "MLP_F = 2, must be 1 (times in the pair order's compute stream)");
  }
  SECTION("an event on the other stream") {
    order.all_to_all[0] = k::mlp_forward;
    CHECK(order.check()->message() == "MLP_F = 1, must be 0 (times in the pair order's all-to-all stream)");
  }
  SECTION("an all-to-all that is missing") {
    order.all_to_all[0] = k::combine_forward;
    CHECK(order.check()->message() == "DISPATCH_F = 0, must be 1 (times in the pair order's all-to-all stream)");
  }
}

TEST_CASE("A pair order that no rotation can run is refused", "[graph][moe]") {
  moe_pair_order order;
  order.compute = {k::attention_backward_weight,
                   k::attention_backward_input,
                   k::mlp_backward_weight,
                   k::mlp_backward_input,
                   k::mlp_forward,
                   k::attention_forward};
  REQUIRE(order.check());
  CHECK(order.check()->parameter == "pair order (rotations that can run)");
}
