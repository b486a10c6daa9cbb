// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <pipesched/analysis/decorators.hpp>
#include <pipesched/analysis/moe_cost.hpp>
#include <pipesched/analysis/report.hpp>
#include <pipesched/analysis/streams.hpp>
#include <pipesched/graph/lower_moe.hpp>

#include "support/moe_schedules.hpp"

using namespace pipesched;
using namespace test_support;
using k = op_kind;

static_assert(analyze_streams(lower_moe(one_f_one_b{2, 3}), moe_cost<>{}).exposed_communication > 0);

namespace {

/// Time during which a rank communicates and computes, moment by moment.
std::int64_t hidden_by_hand(op_graph const& g, timeline<std::int64_t> const& times, int rank) {
  std::vector<char> computes(std::size_t(times.makespan()), 0);
  auto const each = [&](stream s, auto visit) {
    auto const lane = g.lane_of(rank, s);
    for (auto n = g.lane_begin(lane); n < g.lane_end(lane); ++n)
      for (auto t = times.start(node_id{n}); t < times.end(node_id{n}); ++t) visit(std::size_t(t));
  };
  std::int64_t hidden = 0;
  each(stream::compute, [&](std::size_t t) { computes[t] = 1; });
  each(stream::all_to_all, [&](std::size_t t) { hidden += computes[t]; });
  return hidden;
}

}  // namespace

TEST_CASE("1F1B hides nothing; a pair with unit times hides everything", "[analysis][streams]") {
  auto const alone = analyze_streams(lower_moe(one_f_one_b{1, 2}), moe_cost<>{});
  CHECK(alone.hidden_communication == 0);
  CHECK(alone.exposed_communication == 2 * 4);
  CHECK(alone.utilization == 0.6);
  CHECK(!alone.mean_pair);

  auto const dual = analyze_streams(lower_moe(dual_pipe{8, 20}), moe_cost<>{});
  CHECK(dual.mean_pair == 6.0);
  CHECK(dual.pair_utilization == 1.0);
  for (auto const& r : dual.per_rank) {
    CHECK(r.hidden_communication() == 4 * std::int64_t(r.pairs.size()));
    CHECK(r.exposed_communication() == 4 * (20 - std::int64_t(r.pairs.size())));
    for (auto const& pair : r.pairs) CHECK(pair.duration() == 6);
  }
}

TEST_CASE("Kinds sum up to their stream", "[analysis][streams]") {
  auto const report = analyze_streams(lower_moe(dual_pipe{4, 8}, {.layers = 2}), moe_cost<>{1, 2, 3, 4});
  for (auto const& r : report.per_rank)
    for (auto s : {stream::compute, stream::all_to_all, stream::p2p}) {
      std::int64_t busy = 0, exposed = 0, hidden = 0;
      for (auto const& of_kind : r.of(s).kinds) {
        CHECK(stream_of(of_kind.kind) == s);
        busy += of_kind.busy;
        exposed += of_kind.exposed;
        hidden += of_kind.hidden;
      }
      CHECK(busy == r.of(s).busy);
      CHECK(exposed == r.of(s).exposed);
      CHECK(hidden == r.of(s).hidden);
      CHECK(r.of(s).busy + r.of(s).idle == report.makespan);
    }
  auto const& kinds = report.per_rank[0].all_to_all.kinds;
  REQUIRE(kinds.size() == 4);
  CHECK(kinds[0].kind == k::dispatch_forward);
  CHECK(kinds[0].count == 16);
  CHECK(kinds[0].busy == 32);
}

TEST_CASE("Pairs are found on both streams, also side by side and after lone chunks", "[analysis][streams]") {
  std::mt19937 random(11);
  for (auto const& s : moe_schedules())
    for (int layers : {1, 3}) {
      auto const cost = random_moe_cost(random);
      auto const report = analyze_streams(lower_moe(s, {.layers = layers}), cost);
      for (int rank = 0; rank < s.ranks(); ++rank) {
        auto const& found = report.per_rank[std::size_t(rank)].pairs;
        std::size_t count = 0;
        auto const program = s.program(rank);
        for (std::size_t i = 0; i < program.size(); ++i) {
          if (!program[i].overlaps_next()) continue;
          REQUIRE(count < found.size());
          CHECK(found[count].forward == program[i].alone());
          CHECK(found[count].backward == program[i + 1]);
          CHECK(found[count].duration() == pair_time_by_hand(cost, layers));
          ++count;
        }
        CHECK(count == found.size());
      }
    }
}

TEST_CASE("Hidden and exposed communication are what a count of moments gives", "[analysis][streams]") {
  std::mt19937 random(5);
  for (auto const& s : moe_schedules())
    for (bool asynchronous : {false, true}) {
      auto const g = lower_moe(s, {.layers = 2, .asynchronous_last_communication = asynchronous});
      auto const times = make_timeline(g, random_moe_cost(random));
      auto const report = analyze_streams(g, times);
      std::int64_t exposed = 0, hidden = 0;
      for (auto const& r : report.per_rank) {
        CHECK(r.hidden_communication() == hidden_by_hand(g, times, r.rank));
        CHECK(r.hidden_communication() + r.exposed_communication() == r.all_to_all.busy);
        exposed += r.exposed_communication();
        hidden += r.hidden_communication();
      }
      CHECK(report.exposed_communication == exposed);
      CHECK(report.hidden_communication == hidden);
    }
}

TEST_CASE("Utilisation is the report's", "[analysis][streams]") {
  for (auto const& s : moe_schedules()) {
    auto const g = lower_moe(s);
    auto const streams = analyze_streams(g, moe_cost<>{});
    auto const report = analyze(g, moe_cost<>{});
    CHECK(streams.utilization == Approx(report.utilization));
    CHECK(streams.steady_utilization.has_value() == report.steady_utilization.has_value());
    if (streams.steady_utilization) CHECK(*streams.steady_utilization == Approx(*report.steady_utilization));
  }
}

TEST_CASE("A graph of chunk ops has the compute stream alone", "[analysis][streams]") {
  auto const report = analyze_streams(build_graph(dual_pipe{4, 8}), uniform_cost<>{.overlapped = 2});
  CHECK(report.exposed_communication == 0);
  CHECK(report.hidden_communication == 0);
  CHECK(report.mean_pair == 2.0);
  CHECK(report.pair_utilization == 1.0);
  CHECK(report.per_rank[0].all_to_all.idle == report.makespan);
}

TEST_CASE("A straggler shows on its own rank", "[analysis][streams]") {
  auto const slow = with_stragglers(moe_cost<>{}, [](op, int rank) { return rank == 1 ? 2 : 1; });
  auto const report = analyze_streams(lower_moe(dual_pipe{4, 8}), slow);
  CHECK(report.per_rank[1].mean_pair == 12.0);
  CHECK(report.per_rank[0].mean_pair == 6.0);
  CHECK(report.per_rank[1].utilization > report.per_rank[0].utilization);
}

TEST_CASE("The makespan never falls when one time grows", "[analysis][streams]") {
  std::mt19937 random(9);
  for (auto const& s : moe_schedules()) {
    auto const g = lower_moe(s, {.layers = 2});
    execution_order const order(g);
    auto const cost = random_moe_cost(random);
    auto const before = make_timeline(g, order, cost).makespan();
    auto const grown = [&](auto change) {
      auto longer = cost;
      change(longer);
      return make_timeline(g, order, longer).makespan();
    };
    CHECK(grown([](auto& c) { ++c.attention; }) >= before);
    CHECK(grown([](auto& c) { ++c.dispatch; }) >= before);
    CHECK(grown([](auto& c) { ++c.mlp; }) >= before);
    CHECK(grown([](auto& c) { ++c.combine; }) >= before);
    CHECK(grown([](auto& c) { ++*c.attention_backward_input; }) >= before);
    CHECK(grown([](auto& c) { ++*c.attention_backward_weight; }) >= before);
    CHECK(grown([](auto& c) { ++*c.mlp_backward_input; }) >= before);
    CHECK(grown([](auto& c) { ++*c.mlp_backward_weight; }) >= before);
    CHECK(grown([](auto& c) { ++*c.dispatch_backward; }) >= before);
    CHECK(grown([](auto& c) { ++*c.combine_backward; }) >= before);
    CHECK(grown([](auto& c) { ++c.send; }) >= before);
    CHECK(grown([](auto& c) { ++c.latency; }) >= before);
  }
}

TEST_CASE("No schedule beats the bound of any of its streams", "[analysis][streams]") {
  std::mt19937 random(10);
  for (auto const& s : moe_schedules())
    for (bool asynchronous : {false, true}) {
      auto const g = lower_moe(s, {.asynchronous_last_communication = asynchronous});
      auto const report = analyze_streams(g, random_moe_cost(random));
      for (auto const& r : report.per_rank) {
        CHECK(r.compute.busy <= report.makespan);
        CHECK(r.all_to_all.busy <= report.makespan);
        CHECK(r.utilization <= 1.0);
      }
    }
}
