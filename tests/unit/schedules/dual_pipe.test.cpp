// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <pipesched/analysis/report.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/schedules/dual_pipe.hpp>

#include "support/catch.hpp"
#include "support/dual_pipe_times.hpp"
#include "support/letters.hpp"
#include "support/recorded_orders.hpp"

using namespace pipesched;
using namespace test_support;

static_assert(schedule_generator<dual_pipe>);
static_assert(schedule_generator<forward_only<dual_pipe>>);
static_assert(analyze(dual_pipe{.ranks = 8, .microbatches = 20}).bubble_time == 6);
static_assert(analyze(dual_pipe{.ranks = 2, .microbatches = 4}).makespan == 12);

namespace {

std::int64_t pairs(int ranks, int microbatches, int rank) {
  int const from_entry = std::min(rank, ranks - 1 - rank);
  return microbatches - 3 * ranks / 2 + 1 + from_entry - (from_entry == ranks / 2 - 1);
}

std::int64_t idle(int ranks, int microbatches, int rank, dual_pipe_times const& t) {
  auto const fewer_pairs = pairs(ranks, microbatches, ranks / 2) - pairs(ranks, microbatches, rank);
  return t.idle_in_the_middle(ranks / 2 - 1) - fewer_pairs * t.saved();
}

std::string refusal(dual_pipe generator) {
  auto const violation = generator.check();
  return violation ? violation->message() : "";
}

}  // namespace

TEST_CASE("DualPipe is the original's order op for op", "[schedules][dual_pipe]") {
  for (auto const& recorded : recorded_orders("dualpipe")) {
    INFO(recorded.file);
    CHECK(first_difference(recorded, generate(dual_pipe{recorded.ranks, recorded.microbatches})) == "");
  }
}

TEST_CASE("DualPipe with 8 ranks and 20 microbatches is the published picture letter for letter",
          "[schedules][dual_pipe]") {
  auto const published = published_dual_pipe_letters();
  auto const schedule = generate(dual_pipe{8, 20});
  auto const drawn = letters_of(schedule, backwards_in_the_slot_of_a_pair(schedule));
  auto const timed = letters_of(schedule);
  REQUIRE(published.size() == 4);
  for (std::size_t rank = 0; rank < 8; ++rank) {
    auto const& picture = published[std::min(rank, 7 - rank)];
    CHECK(drawn[rank] == picture);
    // As early as it can be: the same letters in the same 66 slots, with the 6 idle ones elsewhere.
    CHECK(timed[rank].size() == 66);
    CHECK(std::count(timed[rank].begin(), timed[rank].end(), '.') == 6);
    CHECK(without_idle(timed[rank]) == without_idle(picture));
  }
}

TEST_CASE("DualPipe idles as its closed form says on every rank", "[schedules][dual_pipe]") {
  std::mt19937 random(1);
  for (int ranks = 2; ranks <= 12; ranks += 2)
    for (int microbatches : {2 * ranks, 2 * ranks + 2, 3 * ranks, 5 * ranks + 2}) {
      auto const graph = build_graph(dual_pipe{ranks, microbatches});
      execution_order const order(graph);
      for (int draw = 0; draw < 20; ++draw) {
        auto const t = dual_pipe_times::draw(random);
        auto const all = make_report(graph, make_timeline(graph, order, t.cost()), t.cost());
        std::vector<std::int64_t> expected;
        for (int rank = 0; rank < ranks; ++rank) expected.push_back(idle(ranks, microbatches, rank, t));
        INFO("P=" << ranks << " m=" << microbatches << " F=" << t.f << " I=" << t.i << " W=" << t.w << " F&B=" << t.fb);
        CHECK(idle_per_rank(all) == expected);
      }
    }
}

TEST_CASE("DualPipe's bubble shrinks with shorter pairs, most in the middle", "[schedules][dual_pipe]") {
  dual_pipe const generator{8, 20};
  auto const with_pairs_of = [&](double fb) { return analyze(generator, units_with_pairs_of(fb)); };
  CHECK(with_pairs_of(3).makespan == 66);
  CHECK(idle_per_rank(with_pairs_of(3)) == std::vector<double>(8, 6));
  CHECK(with_pairs_of(2.5).makespan == 59);
  CHECK(idle_per_rank(with_pairs_of(2.5)) == std::vector<double>{3.5, 4, 4.5, 4.5, 4.5, 4.5, 4, 3.5});
  CHECK(with_pairs_of(2).makespan == 52);
}

TEST_CASE("DualPipe's bubble is the general form where the published one falls short", "[schedules][dual_pipe]") {
  // (P/2-1)(F&B+B-3W) is 15.
  CHECK(analyze(dual_pipe{8, 20}, dual_pipe_times{3, 2, 2, 7}.cost()).bubble_time == 18);
}

TEST_CASE("DualPipe with unit times takes 3m + P - 2 and holds P + 1 activations and 2 copies on every rank",
          "[schedules][dual_pipe]") {
  for (int ranks = 2; ranks <= 12; ranks += 2)
    for (int microbatches = 2 * ranks; microbatches <= 3 * ranks + 4; microbatches += 2) {
      INFO("P=" << ranks << " m=" << microbatches);
      auto const all = analyze(dual_pipe{ranks, microbatches});
      CHECK(all.makespan == 3 * microbatches + ranks - 2);
      CHECK(all.bubble_time == ranks - 2);
      for (auto const& rank : all.per_rank) {
        CHECK(rank.peak_activations == ranks + 1);
        CHECK(rank.parameter_copies == 2);
      }
    }
}

TEST_CASE("DualPipe knows how many ops each rank has", "[schedules][dual_pipe]") {
  for (int ranks = 2; ranks <= 10; ranks += 2)
    for (int rank = 0; rank < ranks; ++rank) {
      dual_pipe const generator{ranks, 2 * ranks + 2};
      count_sink counted;
      generator.emit(rank, counted);
      CHECK(counted.count == generator.operations(rank));
    }
}

TEST_CASE("DualPipe pairs a forward with a full backward of the other flow", "[schedules][dual_pipe]") {
  for (int ranks : {2, 4, 6, 10})
    for (int microbatches : {2 * ranks, 4 * ranks + 2})
      for (int rank = 0; rank < ranks; ++rank) {
        auto const program = generate_program(dual_pipe{ranks, microbatches}, rank);
        std::int64_t found = 0;
        for (std::size_t at = 0; at + 1 < program.size(); ++at) {
          if (!program[at].overlaps_next()) continue;
          ++found;
          CHECK(program[at].kind() == op_kind::forward);
          CHECK(program[at + 1].kind() == op_kind::backward);
          CHECK(program[at].replica() != program[at + 1].replica());
        }
        CHECK(found == pairs(ranks, microbatches, rank));
      }
}

TEST_CASE("DualPipe's first half of the microbatches enters at rank 0, the second at the last rank",
          "[schedules][dual_pipe]") {
  auto const schedule = generate(dual_pipe{4, 12});
  for (int rank = 0; rank < 4; ++rank)
    for (op o : schedule.program(rank)) {
      CHECK(o.replica() == (o.microbatch() < 6 ? 0 : 1));
      CHECK(schedule.where().rank_of(o.stage(), o.replica()) == rank);
    }
}

TEST_CASE("DualPipe refuses what its definition forbids and names the bound", "[schedules][dual_pipe]") {
  CHECK(refusal({8, 16}) == "");
  CHECK(refusal({1, 8}) == "ranks = 1, must be a multiple of 2 (two equal halves)");
  CHECK(refusal({8, 17}) == "microbatches = 17, must be a multiple of 2 (half of them enter at each end)");
  CHECK(refusal({8, 14}) == "microbatches = 14, must be at least 16 (2 * ranks)");
  CHECK(refusal({0, 14}).substr(0, 9) == "ranks = 0");
}

TEST_CASE("DualPipe runs forward only", "[schedules][dual_pipe]") {
  for (int ranks : {2, 4, 8}) {
    auto const all = analyze(forward_only(dual_pipe{ranks, 2 * ranks}));
    CHECK(all.operations == 2 * ranks * ranks);
    CHECK(all.makespan <= 3 * ranks);
  }
}

TEST_CASE("DualPipe makes single ranks of 1024 with 8192 microbatches", "[schedules][dual_pipe]") {
  dual_pipe const generator{1024, 8192};
  for (int rank : {0, 511, 512, 1023})
    CHECK(std::int64_t(generate_program(generator, rank).size()) == generator.operations(rank));
}
