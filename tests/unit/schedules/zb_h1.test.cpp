// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>

#include <pipesched/analysis/report.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/schedules/zb_h1.hpp>

#include "support/catch.hpp"
#include "support/recorded_orders.hpp"
#include "support/schedule_faults.hpp"

using namespace pipesched;
using namespace test_support;

static_assert(schedule_generator<zb_h1>);
static_assert(analyze(zb_h1{.ranks = 4, .microbatches = 8}).bubble_time == 3);
static_assert(analyze(zb_h1{.ranks = 4, .microbatches = 8}).peak_activations == 4);

TEST_CASE("ZB-H1 is torch's order op for op", "[schedules][zb_h1]") {
  for (auto const& recorded : recorded_orders("zb-h1")) {
    INFO(recorded.file);
    CHECK(first_difference(recorded, generate(zb_h1{recorded.ranks, recorded.microbatches})) == "");
  }
}

TEST_CASE("ZB-H1 runs every op once at any shape", "[schedules][zb_h1]") {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int microbatches = 1; microbatches <= 20; ++microbatches) {
      INFO("P=" << ranks << " m=" << microbatches);
      CHECK(first_fault(zb_h1{ranks, microbatches}) == "");
    }
}

TEST_CASE("ZB-H1 has the bubble (P-1)(F+I-min(F,I,W)) where m >= P", "[schedules][zb_h1]") {
  for (std::int64_t f : {1, 2, 3, 7})
    for (std::int64_t i : {1, 2, 3, 7})
      for (std::int64_t w : {1, 2, 3, 7})
        for (int ranks = 1; ranks <= 6; ++ranks)
          for (int microbatches = ranks; microbatches <= 3 * ranks; ++microbatches) {
            INFO("P=" << ranks << " m=" << microbatches << " F=" << f << " I=" << i << " W=" << w);
            CHECK(analyze(zb_h1{ranks, microbatches}, uniform_cost<>{f, i, w, {}, 0}).bubble_time ==
                  (ranks - 1) * (f + i - std::min({f, i, w})));
          }
}

TEST_CASE("ZB-H1 with fewer microbatches than ranks has the bubble 2(P-1)-(m-1) in equal times", "[schedules][zb_h1]") {
  for (int ranks = 2; ranks <= 9; ++ranks)
    for (int microbatches = 1; microbatches < ranks; ++microbatches)
      CHECK(analyze(zb_h1{ranks, microbatches}).bubble_time == 2 * (ranks - 1) - (microbatches - 1));
}

TEST_CASE("ZB-H1 holds min(m, P) activations until W, and P-r until I", "[schedules][zb_h1]") {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (int microbatches = 1; microbatches <= 15; ++microbatches) {
      auto const until_w = analyze(zb_h1{ranks, microbatches});
      for (auto const& rank : until_w.per_rank) CHECK(rank.peak_activations == std::min(microbatches, ranks));
      if (microbatches <= ranks) continue;
      auto const until_i = analyze(zb_h1{ranks, microbatches}, uniform_cost<>{}, activation_size{1, 0});
      for (auto const& rank : until_i.per_rank) CHECK(rank.peak_activations == ranks - rank.rank);
    }
}

TEST_CASE("ZB-H1 runs forward only", "[schedules][zb_h1]") { CHECK(analyze(forward_only(zb_h1{4, 9})).makespan == 12); }

TEST_CASE("ZB-H1 makes single ranks of 1024 with 8192 microbatches", "[schedules][zb_h1]") {
  zb_h1 const generator{1024, 8192};
  for (int rank : {0, 511, 1023})
    CHECK(std::int64_t(generate_program(generator, rank).size()) == generator.operations(rank));
}

TEST_CASE("ZB-H1 names the bound that is broken", "[schedules][zb_h1]") {
  CHECK(zb_h1{0, 1}.check()->parameter == "ranks");
  CHECK(zb_h1{1, 0}.check()->parameter == "microbatches");
}
