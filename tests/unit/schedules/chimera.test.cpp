// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <pipesched/analysis/report.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/schedules/chimera.hpp>

#include "support/catch.hpp"
#include "support/recorded_orders.hpp"

using namespace pipesched;
using namespace test_support;

static_assert(schedule_generator<chimera>);
static_assert(schedule_generator<forward_only<chimera>>);

namespace {

constexpr uniform_cost<> times(std::int64_t forward, std::int64_t backward) {
  return {.forward = forward, .backward_input = backward, .backward_weight = 0, .overlapped = {}, .latency = 0};
}

/// Ranks and pipelines.
constexpr std::pair<int, int> shapes[] = {{2, 2}, {4, 2}, {4, 4}, {6, 2}, {8, 2}, {8, 4}, {8, 8}, {12, 4}, {12, 6}};

constexpr chimera_scaling scalings[] = {chimera_scaling::direct_concatenation, chimera_scaling::forward_doubling,
                                        chimera_scaling::backward_halving};

std::string refusal(chimera generator) {
  auto const violation = generator.check();
  return violation ? violation->message() : "";
}

/// The microbatches of each kind that a rank's program has of each pipeline, in order.
std::vector<std::int64_t> sequence(std::vector<op> const& program, op_kind kind, int replica) {
  std::vector<std::int64_t> found;
  for (op o : program)
    if (o.kind() == kind && o.replica() == replica) found.push_back(o.microbatch());
  return found;
}

}  // namespace

static_assert(analyze(chimera{.ranks = 4, .microbatches = 4}, times(1, 1)).makespan == 2 * 4 + 4 - 2);
static_assert(analyze(chimera{.ranks = 8, .microbatches = 8, .pipelines = 4}, times(1, 1)).bubble_time == 2);

TEST_CASE("Chimera with as many microbatches as ranks is the original's order op for op", "[schedules][chimera]") {
  for (auto const& recorded : recorded_orders("chimera")) {
    INFO(recorded.file);
    CHECK(first_difference(recorded, generate(chimera{recorded.ranks, recorded.microbatches})) == "");
  }
}

TEST_CASE("Chimera's bubble is its closed form with any times of forward and backward", "[schedules][chimera]") {
  std::mt19937 random(3);
  for (auto [ranks, pipelines] : shapes)
    for (int units = 1; units <= 4; ++units) {
      auto const graph = build_graph(chimera{ranks, units * ranks, pipelines});
      for (int draw = 0; draw < 10; ++draw) {
        auto const f = 1 + std::int64_t(random()) % 9;
        auto const b = draw == 0 ? f : 1 + std::int64_t(random()) % 9;
        INFO("P=" << ranks << " 2f=" << pipelines << " units=" << units << " F=" << f << " B=" << b);
        auto const all = analyze(graph, times(f, b));
        auto const idle = (2 * ranks / pipelines - 2) * (std::max(f, b) + (units - 1) * std::abs(f - b));
        CHECK(all.bubble_time == idle);
        CHECK(all.idle_total == ranks * idle);
      }
    }
}

TEST_CASE("Chimera's bubble fraction is (D-2f)/(2fN+D-2f) where F = B", "[schedules][chimera]") {
  for (auto [ranks, pipelines] : shapes)
    for (int microbatches : {ranks, 3 * ranks}) {
      auto const all = analyze(chimera{ranks, microbatches, pipelines}, times(1, 1));
      CHECK(all.idle_total * (pipelines * microbatches + ranks - pipelines) ==
            (ranks - pipelines) * ranks * all.makespan);
    }
}

TEST_CASE("Chimera with two pipelines has no larger bubble for any even m from P on", "[schedules][chimera]") {
  for (int ranks : {2, 4, 6, 10})
    for (int microbatches = ranks; microbatches <= 4 * ranks; microbatches += 2)
      CHECK(analyze(chimera{ranks, microbatches}, times(1, 1)).makespan == 2 * microbatches + ranks - 2);
}

TEST_CASE("Chimera holds between D - D/(2f) + 1 and D activations, and 2f copies", "[schedules][chimera]") {
  for (auto [ranks, pipelines] : shapes)
    for (int units = 1; units <= 3; ++units) {
      auto const all = analyze(chimera{ranks, units * ranks, pipelines}, times(1, 2));
      auto const by_peak = [](auto const& a, auto const& b) { return a.peak_activations < b.peak_activations; };
      auto const [least, most] = std::minmax_element(all.per_rank.begin(), all.per_rank.end(), by_peak);
      CHECK(least->peak_activations == ranks - ranks / pipelines + 1);
      CHECK(most->peak_activations == ranks);
      CHECK(all.parameter_copies == pipelines);
    }
}

TEST_CASE("Chimera with doubled forwards has no bubbles between units where B = 2F, and twice the activations",
          "[schedules][chimera]") {
  for (auto [ranks, pipelines] : shapes)
    for (int units = 1; units <= 4; ++units) {
      INFO("P=" << ranks << " 2f=" << pipelines << " units=" << units);
      int const microbatches = 2 * units * ranks;
      auto const doubled =
          analyze(chimera{ranks, microbatches, pipelines, chimera_scaling::forward_doubling}, times(1, 2));
      auto const direct = analyze(chimera{ranks, microbatches, pipelines}, times(1, 2));
      CHECK(doubled.bubble_time == (ranks / pipelines - 1) * 3);
      CHECK(doubled.bubble_time <= direct.bubble_time);
      CHECK(doubled.peak_activations <= 2 * ranks);
      CHECK(doubled.peak_activations > ranks);
    }
}

TEST_CASE("Chimera with halved backwards is the order of doubled forwards", "[schedules][chimera]") {
  CHECK(digest_of(chimera{8, 32, 2, chimera_scaling::backward_halving}) ==
        digest_of(chimera{8, 32, 2, chimera_scaling::forward_doubling}));
}

TEST_CASE("Chimera is complete and runs for any number of microbatches", "[schedules][chimera]") {
  for (auto [ranks, pipelines] : shapes)
    for (auto scaling : scalings)
      for (int microbatches = 1; microbatches <= 5 * ranks; microbatches += microbatches < 2 * ranks ? 1 : 3) {
        chimera const generator{ranks, microbatches, pipelines, scaling};
        INFO("P=" << ranks << " 2f=" << pipelines << " m=" << microbatches << " scaling " << int(scaling));
        auto const where = generator.placement();
        CHECK(analyze(generator, times(1, 2)).operations == std::int64_t{2} * ranks * microbatches);
        for (int rank = 0; rank < ranks; ++rank) {
          auto const program = generate_program(generator, rank);
          REQUIRE(std::int64_t(program.size()) == generator.operations(rank));
          REQUIRE(std::all_of(program.begin(), program.end(),
                              [&](op o) { return where.rank_of(o.stage(), o.replica()) == rank; }));
          std::vector<std::int64_t> forwards;
          std::vector<std::int64_t> backwards;
          for (int replica = 0; replica < pipelines; ++replica) {
            auto const f = sequence(program, op_kind::forward, replica);
            auto const b = sequence(program, op_kind::backward, replica);
            forwards.insert(forwards.end(), f.begin(), f.end());
            backwards.insert(backwards.end(), b.begin(), b.end());
          }
          // Replica after replica, each in order: exactly 0..m-1.
          std::vector<std::int64_t> all;
          for (int i = 0; i < microbatches; ++i) all.push_back(i);
          CHECK(forwards == all);
          CHECK(backwards == all);
        }
      }
}

TEST_CASE("Chimera gives the larger half of an odd number of microbatches to the pipeline that runs down",
          "[schedules][chimera]") {
  auto const program = generate_program(chimera{4, 7}, 0);
  CHECK(sequence(program, op_kind::forward, 0) == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(sequence(program, op_kind::forward, 1) == std::vector<std::int64_t>{4, 5, 6});
}

TEST_CASE("Chimera with one microbatch takes one way there and back", "[schedules][chimera]") {
  for (auto [ranks, pipelines] : shapes)
    CHECK(analyze(chimera{ranks, 1, pipelines}, times(2, 3)).makespan == ranks * (2 + 3));
}

TEST_CASE("Chimera refuses what its definition forbids and names the bound", "[schedules][chimera]") {
  CHECK(refusal({2, 1}) == "");
  CHECK(refusal({1, 4}) == "ranks = 1, must be a multiple of 2 (an odd number puts two ops in one slot)");
  CHECK(refusal({8, 0}) == "microbatches = 0, must be at least 1");
  CHECK(refusal({8, 8, 0}) == "pipelines = 0, must be at least 2");
  CHECK(refusal({8, 8, 3}) == "pipelines = 3, must be a multiple of 2 (as many run down as up)");
  CHECK(refusal({8, 8, 6}) == "ranks = 8, must be a multiple of 6 (pipelines: their entries are equally far apart)");
  CHECK(refusal({1024, 8, 512}) == "pipelines = 512, must be at most 256");
  CHECK(refusal({0, 8}).substr(0, 9) == "ranks = 0");
}

TEST_CASE("Chimera runs forward only", "[schedules][chimera]") {
  for (auto [ranks, pipelines] : shapes) {
    auto const all = analyze(forward_only(chimera{ranks, 2 * ranks, pipelines}));
    CHECK(all.operations == 2 * ranks * ranks);
  }
}

TEST_CASE("Chimera makes single ranks of 1024 with 8192 microbatches", "[schedules][chimera]") {
  for (int pipelines : {2, 256})
    for (int rank : {0, 511, 512, 1023}) CHECK(generate_program(chimera{1024, 8192, pipelines}, rank).size() == 16384);
}
