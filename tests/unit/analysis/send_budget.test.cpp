// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <vector>

#include <pipesched/analysis/plan_buffers.hpp>
#include <pipesched/analysis/send_budget.hpp>
#include <pipesched/graph/plan_communication.hpp>
#include <pipesched/schedules/dual_pipe.hpp>
#include <pipesched/schedules/interleaved.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

#include "support/built_in_schedules.hpp"

using namespace pipesched;

TEST_CASE("eager, parity and grouped plans are safe within any budget under every transport") {
  for (int ranks : {2, 3, 5})
    for (int chunks : {1, 2})
      for (int microbatches : {2, 7})
        test_support::for_each_built_in(ranks, chunks, microbatches, [&](schedule const& s) {
          for (auto policy : {comm_policy::eager, comm_policy::parity, comm_policy::grouped}) {
            auto const plan = plan_communication(s, policy);
            for (std::int64_t budget = std::max<std::int64_t>(1, detail::largest_group(plan)); budget < 6; ++budget)
              for (auto kind : all_transports) {
                auto const budgeted = with_send_budget(plan, budget, {kind});
                INFO(s.name() << " " << name_of(policy) << " budget " << budget << " " << name_of(kind));
                REQUIRE(budgeted.plan);
                buffer_plan const buffers(*budgeted.plan);
                for (int rank = 0; rank < ranks; ++rank)
                  REQUIRE(buffers.slots(rank, buffer_kind::outstanding_send) <= budget);
              }
          }
        });
}

TEST_CASE("a budget keeps messages and chunk ops as they are, and waits for every send") {
  auto const plan = plan_communication(interleaved{.ranks = 4, .microbatches = 8});
  auto const budgeted = with_send_budget(plan, 2);
  REQUIRE(budgeted.plan);
  CHECK(budgeted.plan->entries().size() == plan.entries().size() + plan.messages().size());
  for (std::size_t id = 0; id < plan.messages().size(); ++id) {
    auto const& before = plan.messages()[id];
    auto const& after = budgeted.plan->messages()[id];
    CHECK(budgeted.plan->producer_of(after) == plan.producer_of(before));
    CHECK(budgeted.plan->consumer_of(after) == plan.consumer_of(before));
    CHECK(budgeted.plan->entries()[after.send] == plan.entries()[before.send]);
    CHECK(budgeted.plan->entries()[after.receive] == plan.entries()[before.receive]);
  }
}

TEST_CASE("a budget that makes ranks wait for each other is refused with the cycle") {
  auto const plan = plan_communication(dual_pipe{.ranks = 4, .microbatches = 16}, comm_policy::just_in_time);
  auto const needed = least_send_budget(plan);
  REQUIRE(needed);
  REQUIRE(*needed > 1);
  auto const refused = with_send_budget(plan, *needed - 1);
  CHECK_FALSE(refused.plan);
  CHECK(refused.report.cycle.size() >= 2);
  REQUIRE(refused.refused);
  for (auto const& wait : refused.report.cycle) CHECK(refused.refused->rank_of(wait.entry) == wait.rank);
  CHECK_FALSE(least_send_budget(plan, {transport_kind::rank_queue}));  // hangs whatever the budget
}

TEST_CASE("a budget below one, or below a group's sends, is an error") {
  auto const plan = plan_communication(one_f_one_b{2, 2});
  CHECK_THROWS_AS(with_send_budget(plan, 0), parameter_error);
  CHECK_THROWS_AS(with_send_budget(*with_send_budget(plan, 1).plan, 1), parameter_error);
}
