// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

#include <pipesched/analysis/report.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/schedules/zb_v.hpp>

#include "support/catch.hpp"
#include "support/recorded_orders.hpp"
#include "support/schedule_faults.hpp"
#include "support/uneven_times.hpp"

using namespace pipesched;
using namespace test_support;

static_assert(schedule_generator<zb_v>);
static_assert(emits_together<zb_v>);
static_assert(emits_together<forward_only<zb_v>>);
static_assert(analyze(zb_v{.ranks = 3, .microbatches = 6}).span == 36);
static_assert(analyze(zb_v{.ranks = 3, .microbatches = 6}).peak_activations == 6);
static_assert(analyze(zb_v{.ranks = 1, .microbatches = 1}).makespan == 6);
static_assert(analyze(zb_v{.ranks = 3, .microbatches = 2}).span == 12 + 3);

TEST_CASE("ZB-V is the recorded order op for op", "[schedules][zb_v]") {
  for (auto const& recorded : recorded_orders("zb-v")) {
    INFO(recorded.file);
    CHECK(first_difference(recorded, generate(zb_v{recorded.ranks, recorded.microbatches})) == "");
  }
}

TEST_CASE("ZB-V runs every op once at any shape", "[schedules][zb_v]") {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int microbatches = 1; microbatches <= 20; ++microbatches) {
      INFO("P=" << ranks << " m=" << microbatches);
      CHECK(first_fault(zb_v{ranks, microbatches}) == "");
    }
}

TEST_CASE("ZB-V has no bubble by span where F = I = W and m >= 2P-1, and max(2P-1-m, 4P-1-4m) below",
          "[schedules][zb_v]") {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int microbatches = 1; microbatches <= 3 * ranks; ++microbatches) {
      INFO("P=" << ranks << " m=" << microbatches);
      auto const all = analyze(zb_v{ranks, microbatches});
      CHECK(all.span ==
            6 * microbatches + std::max({0, 2 * ranks - 1 - microbatches, 4 * ranks - 1 - 4 * microbatches}));
      CHECK(all.per_rank.back().first_start == ranks - 1);
    }
}

TEST_CASE("ZB-V holds 2P chunks on every rank", "[schedules][zb_v]") {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int microbatches = 1; microbatches <= 3 * ranks; ++microbatches) {
      auto const all = analyze(zb_v{ranks, microbatches});
      CHECK(all.peak_activations <= 2 * ranks);
      if (microbatches < 2 * ranks) continue;
      for (auto const& rank : all.per_rank) CHECK(rank.peak_activations == 2 * ranks);
    }
}

TEST_CASE("The simulation gives the direct order where both are defined", "[schedules][zb_v]") {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (int microbatches = 2 * ranks - 1; microbatches <= 3 * ranks; ++microbatches) {
      auto const direct = generate(zb_v{ranks, microbatches});
      // A latency too small to matter, so that the order is not taken from the pattern.
      auto const simulated = generate(zb_v{ranks, microbatches, {1000000, 1000000, 1000000, 1}});
      INFO("P=" << ranks << " m=" << microbatches);
      CHECK(first_difference(rows_of(direct), rows_of(simulated)) == "");
    }
}

TEST_CASE("ZB-V has the published bubble rates to four digits", "[schedules][zb_v]") {
  struct row {
    int ranks, microbatches;
    pass_times times;
    double published;
  };
  // arXiv 2401.10241v2, table 8; times of one half-stage chunk, in microseconds
  for (auto const& r :
       {row{16, 48, {14407, 14380, 9676, 1610}, 0.0697}, row{16, 128, {14316, 14306, 9639, 1619}, 0.0274},
        row{24, 72, {6763, 6969, 5251, 755}, 0.0638}, row{24, 96, {6783, 6984, 5259, 758}, 0.0483},
        row{32, 128, {9469, 9744, 7306, 892}, 0.0451}, row{32, 256, {9447, 9644, 7193, 887}, 0.0236}}) {
    INFO("P=" << r.ranks << " m=" << r.microbatches);
    auto const all = analyze(zb_v{r.ranks, r.microbatches, r.times}, cost_of(r.times));
    CHECK(std::round(all.span_bubble_rate * 10000) == std::round(r.published * 10000));
  }
}

TEST_CASE("ZB-V for uneven times is right, within memory, and shorter than the order for equal times",
          "[schedules][zb_v]") {
  std::mt19937 random(3);
  std::int64_t bubble = 0;
  std::int64_t bubble_of_equal = 0;
  for (int n = 0; n < 300; ++n) {
    auto const shape = draw_uneven(random);
    INFO(described(shape));
    zb_v const uneven{shape.ranks, shape.microbatches, shape.times};
    auto const cost = cost_of(shape.times);
    CHECK(first_fault(uneven) == "");
    auto const all = analyze(uneven, cost);
    CHECK(all.peak_activations <= 2 * shape.ranks);
    auto const per_microbatch = shape.times.forward + shape.times.backward_input + shape.times.backward_weight;
    auto const ideal = 2 * shape.microbatches * per_microbatch;
    bubble += all.span - ideal;
    bubble_of_equal += analyze(zb_v{shape.ranks, shape.microbatches}, cost).span - ideal;
  }
  // Not for each of them: the weights are put greedily.
  CHECK(bubble < bubble_of_equal);
}

TEST_CASE("One rank's program is the same alone and with the others", "[schedules][zb_v]") {
  for (auto const& times : {pass_times{}, pass_times{7, 9, 4, 1}})
    for (int microbatches : {3, 9}) CHECK(rows_alone_are_the_same(zb_v{4, microbatches, times}));
  forward_only const evaluation(zb_v{3, 4, {2, 3, 1, 0}});
  for (int rank = 0; rank < 3; ++rank) {
    auto const alone = generate_program(evaluation, rank);
    CHECK(alone.size() == 8);
    CHECK(alone.size() == generate(evaluation).program(rank).size());
  }
}

TEST_CASE("Times are whole numbers, also those from decimals", "[schedules][pass_times]") {
  CHECK(pass_times::of(11.347, 11.248, 8.132, 0.377) == pass_times{11347, 11248, 8132, 377});
  CHECK(pass_times::of(14407, 14380, 9676) == pass_times{14407, 14380, 9676, 0});
  CHECK(pass_times::of(0.5, 0.5, 0.5).equal());
  CHECK(pass_times::of(-1, 1, 1).check(4, 8)->parameter == "forward");
  CHECK(pass_times::of(1, std::nan(""), 1).check(4, 8)->parameter == "backward_input");
  CHECK(zb_v{2, 2, {1, 1, std::int64_t{1} << 60, 0}}.check()->parameter == "backward_weight");
  CHECK(zb_v{0, 2}.check()->parameter == "ranks");
  CHECK(zb_v{2, 0}.check()->parameter == "microbatches");
}
