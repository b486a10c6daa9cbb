// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <cmath>
#include <concepts>
#include <cstdint>

#include <pipesched/analysis/decorators.hpp>
#include <pipesched/analysis/moe_cost.hpp>
#include <pipesched/analysis/report.hpp>
#include <pipesched/graph/lower_moe.hpp>
#include <pipesched/schedules/dual_pipe.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

using namespace pipesched;
using k = op_kind;

namespace {

op event(op_kind kind) { return op(kind, stage_id{0}, microbatch_id{0}); }

}  // namespace

TEST_CASE("Computation beside communication slows by total / (total - comm)", "[analysis][decorators]") {
  auto const cost = with_sm_partition(moe_cost<>{});
  CHECK(cost(event(k::mlp_forward), 0) == 1);
  CHECK(cost(event(k::mlp_forward).put_in_pair(), 0) == 132.0 / 112);
  CHECK(cost(event(k::attention_backward_weight).put_in_pair(), 0) == 132.0 / 112);
  CHECK(cost(event(k::dispatch_forward).put_in_pair(), 0) == 1);
  CHECK(with_sm_partition(moe_cost<>{}, 4, 1)(event(k::mlp_forward).put_in_pair(), 0) == 4.0 / 3);
  CHECK(with_sm_partition(moe_cost<>{}, 4, 0)(event(k::mlp_forward).put_in_pair(), 0) == 1);
}

TEST_CASE("More communication multiprocessors than there are is refused", "[analysis][decorators]") {
  CHECK_THROWS_WITH(with_sm_partition(moe_cost<>{}, 132, 133), "sm_comm = 133, must be at most 131 (sm_total - 1)");
  CHECK_THROWS_WITH(with_sm_partition(moe_cost<>{}, 132, 132), "sm_comm = 132, must be at most 131 (sm_total - 1)");
  CHECK_THROWS_WITH(with_sm_partition(moe_cost<>{}, 132, -1), "sm_comm = -1, must be at least 0");
  CHECK_THROWS_WITH(with_sm_partition(moe_cost<>{}, 0, 0), "sm_total = 0, must be at least 1");
}

TEST_CASE("An overhead is added to every op, and twice to a pair", "[analysis][decorators]") {
  auto const cost = with_overhead(uniform_cost<>{.overlapped = 2}, 10);
  CHECK(cost(event(k::forward), 0) == 11);
  CHECK(cost(event(k::backward), 0) == 12);
  CHECK(pair_time(cost, event(k::forward), event(k::backward), 0) == 22);
  STATIC_REQUIRE(std::same_as<time_of<decltype(cost)>, std::int64_t>);
  STATIC_REQUIRE(std::same_as<time_of<decltype(with_overhead(uniform_cost<>{}, 0.5))>, double>);
  // A rank of 1F1B alone runs all its events: 4 + 6 per microbatch.
  CHECK(analyze(lower_moe(one_f_one_b{1, 3}), with_overhead(moe_cost<>{}, 1)).makespan == 3 * (10 + 10));
  CHECK_THROWS_WITH(with_overhead(uniform_cost<>{}, -1), "overhead = -1, must be at least 0");
  CHECK_THROWS_AS(with_overhead(uniform_cost<>{}, std::nan("")), parameter_error);
}

TEST_CASE("A straggler slows its own rank's ops", "[analysis][decorators]") {
  auto const slow_2 = [](op, int rank) { return rank == 2 ? 3 : 1; };
  auto const cost = with_stragglers(uniform_cost<>{.overlapped = 2, .latency = 7}, slow_2);
  CHECK(cost(event(k::backward), 2) == 6);
  CHECK(cost(event(k::backward), 1) == 2);
  CHECK(pair_time(cost, event(k::forward), event(k::backward), 2) == 6);
  CHECK(transfer_time(cost, 2, 1) == 7);
  STATIC_REQUIRE(std::same_as<time_of<decltype(cost)>, std::int64_t>);

  auto const r = analyze(lower_moe(one_f_one_b{4, 8}), with_stragglers(moe_cost<>{}, slow_2));
  CHECK(r.per_rank[2].busy == 3 * r.per_rank[1].busy);
  auto const negative = with_stragglers(moe_cost<>{}, [](op, int) { return -1; });
  CHECK_THROWS_WITH(analyze(lower_moe(one_f_one_b{2, 2}), negative), "straggler factor = -1, must be at least 0");
  auto const nan = with_stragglers(moe_cost<>{}, [](op, int) { return std::nan(""); });
  CHECK_THROWS_AS(analyze(lower_moe(one_f_one_b{2, 2}), nan), parameter_error);
}

TEST_CASE("Decorators compose in the order in which they are written", "[analysis][decorators]") {
  auto const twice = [](op, int) { return 2; };
  auto const pair_event = event(k::mlp_forward).put_in_pair();
  moe_cost<> const base{.mlp = 7};
  CHECK(with_overhead(with_stragglers(base, twice), 1)(pair_event, 0) == 15);
  CHECK(with_stragglers(with_overhead(base, 1), twice)(pair_event, 0) == 16);
  CHECK(with_overhead(with_sm_partition(base, 8, 1), 1)(pair_event, 0) == 9);
  CHECK(with_sm_partition(with_overhead(base, 1), 8, 4)(pair_event, 0) == 16);
}

TEST_CASE("With 20 of 132 multiprocessors the price of hiding shows", "[analysis][decorators]") {
  auto const lowered = lower_moe(dual_pipe{8, 20});
  CHECK(analyze(lowered, with_sm_partition(moe_cost<>{})).makespan > double(analyze(lowered, moe_cost<>{}).makespan));
  auto const unpaired = lower_moe(one_f_one_b{8, 20});
  CHECK(analyze(unpaired, with_sm_partition(moe_cost<>{})).makespan ==
        double(analyze(unpaired, moe_cost<>{}).makespan));
}
