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
#include <pipesched/schedules/dual_pipe_v.hpp>

#include "support/catch.hpp"
#include "support/dual_pipe_times.hpp"
#include "support/letters.hpp"
#include "support/recorded_orders.hpp"

using namespace pipesched;
using namespace test_support;

static_assert(schedule_generator<dual_pipe_v>);
static_assert(schedule_generator<forward_only<dual_pipe_v>>);
static_assert(analyze(dual_pipe_v{.ranks = 4, .microbatches = 10}).bubble_time == 6);
static_assert(analyze(dual_pipe_v{.ranks = 1, .microbatches = 2}).bubble_time == 0);

namespace {

std::int64_t pairs(int ranks, int microbatches, int rank) {
  return 2 * microbatches - 3 * ranks + 1 + rank - (rank == ranks - 1);
}

std::int64_t idle(int ranks, int microbatches, int rank, dual_pipe_times const& t) {
  auto const fewer_pairs = pairs(ranks, microbatches, ranks - 1) - pairs(ranks, microbatches, rank);
  return t.idle_in_the_middle(ranks - 1) - fewer_pairs * t.saved();
}

std::string refusal(dual_pipe_v generator) {
  auto const violation = generator.check();
  return violation ? violation->message() : "";
}

}  // namespace

TEST_CASE("DualPipeV is the original's order op for op", "[schedules][dual_pipe_v]") {
  for (auto const& recorded : recorded_orders("dualpipe-v")) {
    INFO(recorded.file);
    CHECK(first_difference(recorded, generate(dual_pipe_v{recorded.ranks, recorded.microbatches})) == "");
  }
}

TEST_CASE("DualPipeV with 4 ranks and 10 microbatches is the published picture letter for letter",
          "[schedules][dual_pipe_v]") {
  auto const published = published_dual_pipe_letters();
  auto const schedule = generate(dual_pipe_v{4, 10});
  auto const timed = letters_of(schedule);
  CHECK(letters_of(schedule, backwards_in_the_slot_of_a_pair(schedule)) == published);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    // As early as it can be: the same letters in the same 66 slots, with the 6 idle ones elsewhere.
    CHECK(timed[rank].size() == 66);
    CHECK(std::count(timed[rank].begin(), timed[rank].end(), '.') == 6);
    CHECK(without_idle(timed[rank]) == without_idle(published[rank]));
  }
}

TEST_CASE("DualPipeV idles as its closed form says on every rank", "[schedules][dual_pipe_v]") {
  std::mt19937 random(2);
  for (int ranks = 1; ranks <= 7; ++ranks)
    for (int microbatches : {2 * ranks, 2 * ranks + 1, 3 * ranks + 2, 5 * ranks}) {
      auto const graph = build_graph(dual_pipe_v{ranks, microbatches});
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

TEST_CASE("DualPipeV's bubble shrinks with shorter pairs, most on the first rank", "[schedules][dual_pipe_v]") {
  dual_pipe_v const generator{4, 10};
  auto const with_pairs_of = [&](double fb) { return analyze(generator, units_with_pairs_of(fb)); };
  CHECK(with_pairs_of(3).makespan == 66);
  CHECK(idle_per_rank(with_pairs_of(3)) == std::vector<double>{6, 6, 6, 6});
  CHECK(with_pairs_of(2.5).makespan == 59);
  CHECK(idle_per_rank(with_pairs_of(2.5)) == std::vector<double>{3.5, 4, 4.5, 4.5});
  CHECK(with_pairs_of(2).makespan == 52);
  CHECK(idle_per_rank(with_pairs_of(2)) == std::vector<double>{1, 2, 3, 3});
}

TEST_CASE("DualPipeV with unit times takes 6m + 2(P - 1) and holds 2P + 1 chunks and 1 copy on every rank",
          "[schedules][dual_pipe_v]") {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int microbatches = 2 * ranks; microbatches <= 3 * ranks + 4; ++microbatches) {
      INFO("P=" << ranks << " m=" << microbatches);
      auto const all = analyze(dual_pipe_v{ranks, microbatches});
      CHECK(all.makespan == 6 * microbatches + 2 * (ranks - 1));
      CHECK(all.bubble_time == 2 * (ranks - 1));
      for (auto const& rank : all.per_rank) {
        CHECK(rank.peak_activations == 2 * ranks + 1);
        CHECK(rank.parameter_copies == 1);
      }
    }
}

TEST_CASE("DualPipeV knows how many ops each rank has", "[schedules][dual_pipe_v]") {
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (int rank = 0; rank < ranks; ++rank) {
      dual_pipe_v const generator{ranks, 2 * ranks + 1};
      count_sink counted;
      generator.emit(rank, counted);
      CHECK(counted.count == generator.operations(rank));
    }
}

TEST_CASE("DualPipeV's ranks are the first half of a DualPipe's of twice as many", "[schedules][dual_pipe_v]") {
  for (int ranks : {1, 2, 5})
    for (int rank = 0; rank < ranks; ++rank) {
      int const microbatches = 2 * ranks + 3;
      auto const folded = generate_program(dual_pipe_v{ranks, microbatches}, rank);
      auto const whole = generate_program(dual_pipe{2 * ranks, 2 * microbatches}, rank);
      REQUIRE(folded.size() == whole.size());
      for (std::size_t at = 0; at < folded.size(); ++at) {
        CHECK(folded[at].kind() == whole[at].kind());
        CHECK(folded[at].stage() == whole[at].stage());
        CHECK(folded[at].overlaps_next() == whole[at].overlaps_next());
      }
    }
}

TEST_CASE("DualPipeV refuses fewer than 2P microbatches and names the bound", "[schedules][dual_pipe_v]") {
  CHECK(refusal({1, 2}) == "");
  CHECK(refusal({5, 10}) == "");
  CHECK(refusal({1, 1}) == "microbatches = 1, must be at least 2 (2 * ranks)");
  CHECK(refusal({5, 9}) == "microbatches = 9, must be at least 10 (2 * ranks)");
  CHECK(refusal({0, 9}).substr(0, 9) == "ranks = 0");
  CHECK(refusal({32769, 70000}) == "stages = 65538, must be at most 65536");
}

TEST_CASE("DualPipeV runs forward only", "[schedules][dual_pipe_v]") {
  for (int ranks : {1, 2, 4})
    CHECK(analyze(forward_only(dual_pipe_v{ranks, 2 * ranks})).operations == 4 * ranks * ranks);
}

TEST_CASE("DualPipeV makes single ranks of 1024 with 8192 microbatches", "[schedules][dual_pipe_v]") {
  dual_pipe_v const generator{1024, 8192};
  for (int rank : {0, 511, 1023})
    CHECK(std::int64_t(generate_program(generator, rank).size()) == generator.operations(rank));
}
