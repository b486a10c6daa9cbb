// SPDX-License-Identifier: MIT
#include <cstdint>
#include <limits>

#include <pipesched/analysis/report.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/schedules/looped_bfs.hpp>

#include "support/catch.hpp"
#include "support/recorded_orders.hpp"
#include "support/schedule_faults.hpp"

using namespace pipesched;
using namespace test_support;

static_assert(schedule_generator<looped_bfs>);
static_assert(analyze(looped_bfs{.ranks = 2, .microbatches = 4, .chunks = 2}).bubble_time == 3);

TEST_CASE("Looped BFS is torch's order op for op", "[schedules][looped_bfs]") {
  for (auto const& recorded : recorded_orders("looped-bfs")) {
    INFO(recorded.file);
    CHECK(first_difference(recorded, generate(looped_bfs{recorded.ranks, recorded.microbatches, recorded.chunks})) ==
          "");
  }
}

TEST_CASE("Looped BFS runs every op once and has the bubble and the peaks of its closed forms",
          "[schedules][looped_bfs]") {
  for (int chunks = 1; chunks <= 4; ++chunks)
    for (int ranks = 1; ranks <= 6; ++ranks)
      for (int microbatches = 1; microbatches <= 13; ++microbatches) {
        INFO("P=" << ranks << " m=" << microbatches << " v=" << chunks);
        looped_bfs const generator{ranks, microbatches, chunks};
        CHECK(first_fault(generator) == "");
        for (std::int64_t backward_input : {1, 2, 5}) {
          auto const all = analyze(generator, uniform_cost<>{3, backward_input, 2, {}, 0});
          auto const f_b = 3 + backward_input + 2;
          if (microbatches >= ranks)
            CHECK(all.bubble_time == (ranks - 1) * f_b);
          else
            CHECK(all.bubble_time == (chunks * (ranks - microbatches) + microbatches - 1) * f_b);
          for (auto const& rank : all.per_rank) CHECK(rank.peak_activations == microbatches * chunks);
        }
      }
}

TEST_CASE("Looped BFS names the bound that is broken", "[schedules][looped_bfs]") {
  int const most = std::numeric_limits<int>::max();
  CHECK(looped_bfs{0, 1, 1}.check()->parameter == "ranks");
  CHECK(looped_bfs{1, 0, 1}.check()->parameter == "microbatches");
  CHECK(looped_bfs{1, 1, 0}.check()->parameter == "chunks");
  CHECK(looped_bfs{2, 1, most}.check()->parameter == "chunks");
}

TEST_CASE("Looped BFS runs forward only", "[schedules][looped_bfs]") {
  CHECK(analyze(forward_only(looped_bfs{4, 8, 2})).makespan == 19);
}
