// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <pipesched/analysis/memory.hpp>
#include <pipesched/analysis/plan_buffers.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/graph/plan_communication.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

#include "support/built_in_schedules.hpp"

using namespace pipesched;

namespace {

std::vector<std::int64_t> slots(communication_plan const& plan, buffer_kind kind) {
  buffer_plan const buffers(plan);
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < plan.ranks(); ++rank) counts.push_back(buffers.slots(rank, kind));
  return counts;
}

/// Walks every row with the slots that are in use: no slot twice at once, and none more than at the peak.
std::string fault_of(communication_plan const& plan, buffer_plan const& buffers) {
  for (int rank = 0; rank < plan.ranks(); ++rank)
    for (std::size_t kind = 0; kind < buffer_kinds; ++kind) {
      std::set<std::uint32_t> used;
      std::vector<std::uint32_t> users;
      std::size_t peak = 0;
      auto const end = plan.row_begin(rank + 1);
      for (auto e = plan.row_begin(rank); e < end;) {
        bool const pair = plan.entries()[e].what.overlaps_next();
        auto const after = e + (pair ? 2 : 1);
        for (auto t = e; t < after; ++t) {
          if (buffer_plan::kind_taken_by(plan.entries()[t].what.kind()) != int(kind)) continue;
          if (!used.insert(buffers.use_of(t).slot).second) return "a slot used twice at once";
          if (buffers.use_of(t).free_after < t) return "a slot freed before it is taken";
          users.push_back(t);
        }
        peak = std::max(peak, used.size());
        e = after;
        std::erase_if(users, [&](auto u) {
          bool const ends = buffers.use_of(u).free_after < after;
          if (ends) used.erase(buffers.use_of(u).slot);
          return ends;
        });
      }
      if (!used.empty()) return "a slot that is never freed";
      if (buffers.slots(rank, buffer_kind(kind)) != std::int64_t(peak)) return "more slots than the peak";
    }
  return {};
}

}  // namespace

TEST_CASE("1F1B stashes P-r activations, and receives into no more slots") {
  for (auto policy : {comm_policy::eager, comm_policy::just_in_time, comm_policy::parity, comm_policy::grouped}) {
    auto const plan = plan_communication(one_f_one_b{4, 8}, policy);
    CHECK(slots(plan, buffer_kind::stashed_activation) == std::vector<std::int64_t>{4, 3, 2, 1});
    auto const received = slots(plan, buffer_kind::received_activation);
    auto const stashed = slots(plan, buffer_kind::stashed_activation);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      INFO(name_of(policy) << " rank " << rank << ": " << received[rank]);
      CHECK(received[rank] <= stashed[rank]);
    }
  }
}

TEST_CASE("slots of every plan are the peak, and none is used twice at once") {
  for (int ranks : {1, 2, 3, 4, 6})
    for (int chunks : {1, 2, 3})
      for (int microbatches : {1, 3, 8})
        test_support::for_each_built_in(ranks, chunks, microbatches, [&](schedule const& s) {
          auto const graph = build_graph(s);
          for (auto policy : {comm_policy::eager, comm_policy::just_in_time, comm_policy::grouped}) {
            auto const plan = plan_communication(graph, policy);
            for (auto inputs : {received_input::freed_by_forward, received_input::kept_for_backward}) {
              buffer_plan const buffers(plan, inputs);
              auto const fault = fault_of(plan, buffers);
              if (!fault.empty())
                FAIL(s.name() << " " << ranks << " " << chunks << " " << microbatches << ": " << fault);
              for (int rank = 0; rank < ranks; ++rank)
                REQUIRE(buffers.slots(rank, buffer_kind::stashed_activation) == peak_activations(graph, rank).held);
            }
          }
        });
}

TEST_CASE("just-in-time receives need one slot of each kind, or what a consumer needs at once") {
  auto const plan = plan_communication(one_f_one_b{4, 8}, comm_policy::just_in_time);
  CHECK(slots(plan, buffer_kind::received_activation) == std::vector<std::int64_t>{0, 1, 1, 1});
  CHECK(slots(plan, buffer_kind::received_gradient) == std::vector<std::int64_t>{1, 1, 1, 0});
}

TEST_CASE("a received activation can stay for the backward") {
  auto const plan = plan_communication(one_f_one_b{4, 8}, comm_policy::just_in_time);
  buffer_plan const buffers(plan, received_input::kept_for_backward);
  for (int rank = 1; rank < 4; ++rank) CHECK(buffers.slots(rank, buffer_kind::received_activation) == 4 - rank);
}

TEST_CASE("forward-only plans free their stash at once, and sends without a wait last until the end") {
  auto const plan = plan_communication(forward_only<one_f_one_b>{{3, 5}});
  CHECK(slots(plan, buffer_kind::stashed_activation) == std::vector<std::int64_t>{1, 1, 1});
  CHECK(slots(plan, buffer_kind::outstanding_send) == std::vector<std::int64_t>{5, 5, 0});
}

static_assert(buffer_plan(plan_communication(one_f_one_b{4, 8})).slots(0, buffer_kind::stashed_activation) == 4);
