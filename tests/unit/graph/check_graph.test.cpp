// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <algorithm>

#include <pipesched/graph/check_graph.hpp>
#include <pipesched/graph/lower_moe.hpp>

#include "support/moe_schedules.hpp"

using namespace pipesched;
using k = op_kind;

static_assert(check(lower_moe(one_f_one_b{2, 2})).empty());

TEST_CASE("Graphs of schedules that run have no faults, lowered or not", "[graph][checker]") {
  for (auto const& s : test_support::moe_schedules()) {
    CHECK(check(build_graph(s)).empty());
    CHECK(check(lower_moe(s, {.layers = 2})).empty());
  }
}

TEST_CASE("A deadlock of chunks is one of their events", "[graph][checker]") {
  op const f(k::forward, stage_id{0}, microbatch_id{0});
  schedule const backward_first(placement::linear(1), 1, {{f.as(k::backward), f}});
  auto const faults = check(lower_moe(backward_first));
  REQUIRE(!faults.empty());
  CHECK(faults.front().kind == fault_kind::deadlock);
  // The compute stream stops at MLP_I, which needs COMBINE_B, which needs the forward behind it.
  auto const stopped = std::find_if(faults.begin(), faults.end(), [](fault const& x) {
    return x.kind == fault_kind::blocked_rank && x.what.kind() == k::mlp_backward_input;
  });
  REQUIRE(stopped != faults.end());
  CHECK(stopped->where == program_place{0, 0});
  CHECK(stopped->other == f.as(k::combine_backward));
  CHECK(stopped->other_where == program_place{0, 0});
}

TEST_CASE("What nodes need and no rank runs is missing", "[graph][checker]") {
  op const f(k::forward, stage_id{1}, microbatch_id{0});
  schedule const alone(placement::linear(2), 1, {{}, {f, f.as(k::backward_weight)}});
  auto const faults = check(lower_moe(alone));
  REQUIRE(faults.size() == 2);
  CHECK(faults[0].kind == fault_kind::missing_forward);
  CHECK(faults[0].what == op(k::forward, stage_id{0}, microbatch_id{0}));
  CHECK(faults[0].where == program_place{0, -1});
  CHECK(faults[0].other == f.as(k::attention_forward));
  CHECK(faults[1].kind == fault_kind::missing_input);
  CHECK(faults[1].what == f.as(k::backward_input));
  CHECK(check(lower_moe(alone), 1).back().kind == fault_kind::not_listed);
}
