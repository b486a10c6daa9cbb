// SPDX-License-Identifier: MIT

/// \file
/// V-Half and V-Min, which differ in their building block alone.

#include <pipesched/schedules/squeezed_v.hpp>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <pipesched/analysis/report.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/schedules/v_half.hpp>
#include <pipesched/schedules/v_min.hpp>

#include "support/catch.hpp"
#include "support/recorded_orders.hpp"
#include "support/schedule_faults.hpp"
#include "support/squeezing_by_search.hpp"
#include "support/uneven_times.hpp"

using namespace pipesched;
using namespace test_support;

namespace {

/// The bubble where F = I = W, by span, and the chunks held; of at least two ranks and 2P microbatches.
std::int64_t bubble(v_half const& s) { return s.ranks == 2 ? 1 : 3 * s.ranks - (s.ranks % 2 == 0 ? 7 : 4); }
std::int64_t bubble(v_min const& s) { return 4 * s.ranks - (s.ranks % 3 == 0 ? 7 : 5); }
std::int64_t chunks_held(v_half const& s) { return 2 * ((s.ranks + 2) / 2); }
std::int64_t chunks_held(v_min const& s) { return 2 * ((s.ranks + 4) / 3); }

template <class Generator>
constexpr bool is_right_at_compile_time() {
  return emits_together<Generator> && emits_together<forward_only<Generator>> &&
         analyze(Generator{.ranks = 1, .microbatches = 1}).makespan == 6 &&
         analyze(Generator{.ranks = 3, .microbatches = 6}).span == 36 + 5 &&
         analyze(Generator{.ranks = 3, .microbatches = 6}).peak_activations == 4;
}
static_assert(is_right_at_compile_time<v_half>());
static_assert(is_right_at_compile_time<v_min>());

/// The first rank whose program is not the one that `squeezed_by_search` finds; -1 where there is none.
template <class Generator>
int first_row_squeezed_otherwise(Generator const& generator) {
  squeezed_by_search const expected(generator.ranks, generator.microbatches,
                                    [&](int rank) { return generator.block(rank); });
  auto const generated = generate(generator);
  for (int rank = 0; rank < generator.ranks; ++rank) {
    std::vector<op> row;
    auto append = [&](op o) { row.push_back(o); };
    expected.emit(rank, append);
    auto const program = generated.program(rank);
    if (!std::equal(row.begin(), row.end(), program.begin(), program.end())) return rank;
  }
  return -1;
}

}  // namespace

TEMPLATE_TEST_CASE("A squeezed V is the recorded order op for op", "[schedules]", v_half, v_min) {
  auto const all = recorded_orders(std::string(TestType::info.name));
  REQUIRE_FALSE(all.empty());
  for (auto const& recorded : all) {
    INFO(recorded.file);
    CHECK(first_difference(recorded, generate(TestType{recorded.ranks, recorded.microbatches})) == "");
  }
}

TEMPLATE_TEST_CASE("A squeezed V runs every op once at any shape", "[schedules]", v_half, v_min) {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int microbatches = 1; microbatches <= 20; ++microbatches) {
      INFO("P=" << ranks << " m=" << microbatches);
      CHECK(first_fault(TestType{ranks, microbatches}) == "");
    }
}

TEMPLATE_TEST_CASE("A squeezed V has its closed forms of bubble and memory where F = I = W", "[schedules]", v_half,
                   v_min) {
  for (int ranks = 1; ranks <= 12; ++ranks)
    for (int microbatches = 1; microbatches <= 3 * ranks + 1; ++microbatches) {
      INFO("P=" << ranks << " m=" << microbatches);
      TestType const generator{ranks, microbatches};
      auto const all = analyze(generator);
      CHECK(generator.memory() == chunks_held(generator));
      CHECK(all.peak_activations <= generator.memory());
      if (microbatches < 2 * ranks) continue;
      CHECK(all.peak_activations == generator.memory());
      if (ranks > 1) CHECK(all.span - 6 * microbatches == bubble(generator));
    }
}

TEMPLATE_TEST_CASE("A squeezed V is what squeezing all of its microbatches slot by slot comes to", "[schedules]",
                   v_half, v_min) {
  auto const check = [](int ranks, int microbatches) {
    INFO("P=" << ranks << " m=" << microbatches);
    CHECK(first_row_squeezed_otherwise(TestType{ranks, microbatches}) == -1);
  };
  // All phases of a step: no rank full, warm-up and cool-down in one, with and without a steady state between them.
  for (int ranks = 1; ranks <= 14; ++ranks)
    for (int microbatches = 1; microbatches <= 2 * ranks + 5; ++microbatches) check(ranks, microbatches);
  for (int ranks : {15, 16, 17, 23, 24, 30, 31, 37, 44})
    for (int microbatches :
         {ranks / 2, 2 * ranks / 3 + 3, ranks - 1, ranks, ranks + 1, ranks + 3, ranks + 9, 3 * ranks})
      check(ranks, microbatches);
  for (int ranks : {59, 62, 63, 64}) check(ranks, ranks + 12);
}

TEMPLATE_TEST_CASE("A squeezed V for uneven times is right, within memory, and shorter than the order for equal times",
                   "[schedules]", v_half, v_min) {
  std::mt19937 random(4);
  std::int64_t span = 0;
  std::int64_t span_of_equal = 0;
  for (int n = 0; n < 200; ++n) {
    auto const shape = draw_uneven(random);
    INFO(described(shape));
    TestType const uneven{shape.ranks, shape.microbatches, shape.times};
    auto const cost = cost_of(shape.times);
    CHECK(first_fault(uneven) == "");
    auto const all = analyze(uneven, cost);
    CHECK(all.peak_activations <= uneven.memory());
    span += all.span;
    span_of_equal += analyze(TestType{shape.ranks, shape.microbatches}, cost).span;
  }
  CHECK(span < span_of_equal);
}

TEMPLATE_TEST_CASE("One rank's program of a squeezed V is the same alone and with the others", "[schedules]", v_half,
                   v_min) {
  for (auto const& times : {pass_times{}, pass_times{7, 9, 4, 1}})
    for (int microbatches : {3, 17}) CHECK(rows_alone_are_the_same(TestType{4, microbatches, times}));
  CHECK(TestType{0, 2}.check()->parameter == "ranks");
  CHECK(TestType{2, 0}.check()->parameter == "microbatches");
}
