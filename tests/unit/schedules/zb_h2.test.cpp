// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>

#include <pipesched/analysis/report.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/schedules/zb_h2.hpp>

#include "support/catch.hpp"
#include "support/schedule_faults.hpp"

using namespace pipesched;
using namespace test_support;

static_assert(schedule_generator<zb_h2>);
static_assert(analyze(zb_h2{.ranks = 4, .microbatches = 8}).span == 3 * 8);
static_assert(analyze(zb_h2{.ranks = 4, .microbatches = 8}).peak_activations == 7);

TEST_CASE("ZB-H2 runs every op once at any shape", "[schedules][zb_h2]") {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int microbatches = 1; microbatches <= 20; ++microbatches) {
      INFO("P=" << ranks << " m=" << microbatches);
      CHECK(first_fault(zb_h2{ranks, microbatches}) == "");
    }
}

TEST_CASE("ZB-H2 has no bubble within a rank's span where F = I = W", "[schedules][zb_h2]") {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int microbatches = 2 * ranks - 1; microbatches <= 4 * ranks; ++microbatches) {
      auto const all = analyze(zb_h2{ranks, microbatches});
      CHECK(all.span == 3 * microbatches);
      for (auto const& rank : all.per_rank) CHECK(rank.first_start == rank.rank);
    }
}

TEST_CASE("ZB-H2 has the bubble (P-1)(F+I-2W) by span", "[schedules][zb_h2]") {
  for (std::int64_t f : {2, 3, 5, 7})
    for (std::int64_t i : {2, 3, 5, 7})
      for (std::int64_t w : {1, 2, 3, 5, 7}) {
        if (w > std::min(f, i)) continue;
        for (int ranks = 1; ranks <= 6; ++ranks)
          for (int microbatches : {2 * ranks, 2 * ranks + 1, 3 * ranks, 4 * ranks + 3}) {
            INFO("P=" << ranks << " m=" << microbatches << " F=" << f << " I=" << i << " W=" << w);
            auto const all = analyze(zb_h2{ranks, microbatches}, uniform_cost<>{f, i, w, {}, 0});
            CHECK(all.span - microbatches * (f + i + w) == (ranks - 1) * (f + i - 2 * w));
          }
      }
}

TEST_CASE("ZB-H2 holds 2P-1 activations on every rank, 2P-2r-1 of them until I", "[schedules][zb_h2]") {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (int microbatches = 1; microbatches <= 4 * ranks; ++microbatches) {
      auto const until_w = analyze(zb_h2{ranks, microbatches});
      for (auto const& rank : until_w.per_rank) CHECK(rank.peak_activations == std::min(microbatches, 2 * ranks - 1));
      auto const until_i = analyze(zb_h2{ranks, microbatches}, uniform_cost<>{}, activation_size{1, 0});
      for (auto const& rank : until_i.per_rank)
        CHECK(rank.peak_activations == std::min(microbatches, 2 * (ranks - rank.rank) - 1));
    }
}

TEST_CASE("ZB-H2 runs forward only", "[schedules][zb_h2]") { CHECK(analyze(forward_only(zb_h2{4, 9})).makespan == 12); }

TEST_CASE("ZB-H2 names the bound that is broken", "[schedules][zb_h2]") {
  CHECK(zb_h2{0, 1}.check()->parameter == "ranks");
  CHECK(zb_h2{1, 0}.check()->parameter == "microbatches");
}
