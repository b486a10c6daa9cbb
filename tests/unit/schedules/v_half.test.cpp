// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <pipesched/analysis/report.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/schedules/v_half.hpp>

#include "support/catch.hpp"
#include "support/recorded_orders.hpp"
#include "support/schedule_faults.hpp"

using namespace pipesched;
using namespace test_support;

static_assert(schedule_generator<v_half>);
static_assert(emits_together<v_half>);
static_assert(emits_together<forward_only<v_half>>);
static_assert(analyze(v_half{.ranks = 1, .microbatches = 1}).makespan == 6);
static_assert(analyze(v_half{.ranks = 3, .microbatches = 6}).span == 36 + 5);
static_assert(analyze(v_half{.ranks = 3, .microbatches = 6}).peak_activations == 4);

TEST_CASE("V-Half is the recorded order op for op", "[schedules][v_half]") {
  for (auto const& recorded : recorded_orders("v-half")) {
    INFO(recorded.file);
    CHECK(first_difference(recorded, generate(v_half{recorded.ranks, recorded.microbatches})) == "");
  }
}

TEST_CASE("V-Half runs every op once at any shape", "[schedules][v_half]") {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int microbatches = 1; microbatches <= 20; ++microbatches) {
      INFO("P=" << ranks << " m=" << microbatches);
      CHECK(first_fault(v_half{ranks, microbatches}) == "");
    }
}

TEST_CASE("V-Half has its closed forms of bubble and memory where F = I = W", "[schedules][v_half]") {
  for (int ranks = 1; ranks <= 12; ++ranks)
    for (int microbatches = 1; microbatches <= 3 * ranks + 1; ++microbatches) {
      INFO("P=" << ranks << " m=" << microbatches);
      v_half const generator{ranks, microbatches};
      auto const all = analyze(generator);
      CHECK(all.peak_activations <= generator.memory());
      if (microbatches < 2 * ranks) continue;
      CHECK(all.peak_activations == generator.memory());
      if (ranks > 1) CHECK(all.span - 6 * microbatches == (ranks == 2 ? 1 : 3 * ranks - (ranks % 2 == 0 ? 7 : 4)));
    }
}

TEST_CASE("V-Half repeats between warm-up and cool-down as if all microbatches were squeezed", "[schedules][v_half]") {
  for (int ranks = 1; ranks <= 14; ++ranks)
    for (int microbatches : {2 * ranks + 3, 3 * ranks + 8, 4 * ranks + 13}) {
      v_half const generator{ranks, microbatches};
      pipesched::detail::squeezed_blocks const blocks(ranks, microbatches,
                                                      [&](int rank) { return generator.block(rank); });
      auto const repeated = generate(generator);
      INFO("P=" << ranks << " m=" << microbatches);
      for (int rank = 0; rank < ranks; ++rank) {
        std::vector<op> squeezed;
        auto append = [&](op o) { squeezed.push_back(o); };
        blocks.emit(rank, append);
        auto const row = repeated.program(rank);
        CHECK(std::equal(squeezed.begin(), squeezed.end(), row.begin(), row.end()));
      }
    }
}

TEST_CASE("V-Half for uneven times is right, within memory, and shorter than the order for equal times",
          "[schedules][v_half]") {
  std::mt19937 random(4);
  auto const draw = [&](int most) { return std::int64_t(random() % unsigned(most)) + 1; };
  std::int64_t span = 0;
  std::int64_t span_of_equal = 0;
  for (int n = 0; n < 200; ++n) {
    int const ranks = int(draw(7));
    int const microbatches = int(draw(20));
    pass_times const times{draw(20), draw(20), draw(20), draw(6) - 1};
    INFO("P=" << ranks << " m=" << microbatches << " F=" << times.forward << " I=" << times.backward_input
              << " W=" << times.backward_weight << " latency=" << times.latency);
    v_half const uneven{ranks, microbatches, times};
    uniform_cost<> const cost{times.forward, times.backward_input, times.backward_weight, {}, times.latency};
    CHECK(first_fault(uneven) == "");
    auto const all = analyze(uneven, cost);
    CHECK(all.peak_activations <= uneven.memory());
    span += all.span;
    span_of_equal += analyze(v_half{ranks, microbatches}, cost).span;
  }
  CHECK(span < span_of_equal);
}

TEST_CASE("One rank's program of V-Half is the same alone and with the others", "[schedules][v_half]") {
  for (auto const& times : {pass_times{}, pass_times{7, 9, 4, 1}})
    for (int microbatches : {3, 17}) {
      v_half const generator{4, microbatches, times};
      auto const all = generate(generator);
      CHECK(digest_of(generator) == all.digest());
      for (int rank = 0; rank < 4; ++rank) {
        auto const alone = generate_program(generator, rank);
        auto const row = all.program(rank);
        CHECK(std::equal(alone.begin(), alone.end(), row.begin(), row.end()));
      }
    }
  CHECK(v_half{0, 2}.check()->parameter == "ranks");
  CHECK(v_half{2, 0}.check()->parameter == "microbatches");
}
