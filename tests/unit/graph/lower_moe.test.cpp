// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <pipesched/analysis/moe_cost.hpp>
#include <pipesched/analysis/report.hpp>
#include <pipesched/graph/lower_moe.hpp>

#include "support/moe_schedules.hpp"

using namespace pipesched;
using namespace test_support;
using k = op_kind;

namespace {

/// One rank, two microbatches: F0, the pair (F1;B0), B1.
schedule one_pair(op_kind backward = op_kind::backward) {
  auto const f = [](int b) { return forward(stage_id{0}, microbatch_id{b}); };
  std::vector<op> program{f(0), f(1).overlapping_next(), f(0).as(backward), f(1).as(op_kind::backward)};
  if (backward == op_kind::backward_input) program.push_back(f(0).as(op_kind::backward_weight));
  return schedule(placement::linear(1), 2, {program});
}

/// "ATTN_F1.0": kind, microbatch, layer.
std::vector<std::string> events(op_graph const& g, int rank, stream s, bool only_pairs = false) {
  std::vector<std::string> names;
  auto const lane = g.lane_of(rank, s);
  for (auto n = g.lane_begin(lane); n < g.lane_end(lane); ++n) {
    op const o = g.node(node_id{n});
    if (only_pairs && !o.in_pair()) continue;
    names.push_back(std::string(name_of(o.kind())) + std::to_string(o.microbatch()) + "." +
                    std::to_string(g.layer(node_id{n})));
  }
  return names;
}
using names = std::vector<std::string>;

std::int64_t makespan(op_graph const& g, moe_cost<> const& cost) { return make_timeline(g, cost).makespan(); }

/// Only the edges of one kind that enter a node.
std::vector<op> producers(op_graph const& g, node_id n, edge_kind kind) {
  std::vector<op> from;
  for (auto const l : g.links_in(n))
    if (l.kind() == kind) from.push_back(g.node(node_id{l.node()}));
  return from;
}

}  // namespace

static_assert(lower_moe(one_f_one_b{2, 3}, {.layers = 2}).streams() == 3);

TEST_CASE("A chunk alone becomes its events, layer by layer", "[graph][moe]") {
  auto const both = lower_moe(one_f_one_b{1, 1}, {.layers = 2});
  CHECK(events(both, 0, stream::compute) == names{"ATTN_F0.0", "MLP_F0.0", "ATTN_F0.1", "MLP_F0.1", "MLP_I0.1",
                                                  "MLP_W0.1", "ATTN_I0.1", "ATTN_W0.1", "MLP_I0.0", "MLP_W0.0",
                                                  "ATTN_I0.0", "ATTN_W0.0"});
  CHECK(events(both, 0, stream::all_to_all) == names{"DISPATCH_F0.0", "COMBINE_F0.0", "DISPATCH_F0.1", "COMBINE_F0.1",
                                                     "COMBINE_B0.1", "DISPATCH_B0.1", "COMBINE_B0.0", "DISPATCH_B0.0"});
  CHECK(events(both, 0, stream::p2p).empty());

  op const f(k::forward, stage_id{0}, microbatch_id{0});
  schedule const split(placement::linear(1), 1, {{f, f.as(k::backward_input), f.as(k::backward_weight)}});
  CHECK(events(lower_moe(split), 0, stream::compute) ==
        names{"ATTN_F0.0", "MLP_F0.0", "MLP_I0.0", "ATTN_I0.0", "MLP_W0.0", "ATTN_W0.0"});
}

TEST_CASE("Events outside a pair follow one another, and a chunk's communication blocks the next op", "[graph][moe]") {
  moe_cost<> const cost{.attention = 1, .dispatch = 10, .mlp = 100, .combine = 1000};
  CHECK(makespan(lower_moe(gpipe{1, 1}, {.layers = 3}), cost) == 3 * (1111 + 1111 + 101));
  CHECK(makespan(lower_moe(gpipe{1, 4}, {.layers = 3}), cost) == 4 * 3 * (1111 + 1111 + 101));
  // Asynchronously the last combine of each forward runs beside the next attention and its dispatch queues behind it.
  auto const running_on = lower_moe(gpipe{1, 2}, {.layers = 1, .asynchronous_last_communication = true});
  CHECK(makespan(running_on, cost) == (1 + 10 + 100 + 1000) + (10 + 100 + 1000) + 2 * (1111 + 101));
}

TEST_CASE("A pair of one layer with unit times takes 6 and hides all four all-to-alls", "[graph][moe]") {
  auto const g = lower_moe(one_pair());
  CHECK(events(g, 0, stream::compute, true) ==
        names{"ATTN_F1.0", "MLP_I0.0", "MLP_W0.0", "MLP_F1.0", "ATTN_I0.0", "ATTN_W0.0"});
  CHECK(events(g, 0, stream::all_to_all, true) ==
        names{"COMBINE_B0.0", "DISPATCH_F1.0", "DISPATCH_B0.0", "COMBINE_F1.0"});
  CHECK(makespan(g, {}) == 4 + 6 + 6);
  CHECK(pair_time_by_hand({}, 1) == 6);
}

TEST_CASE("A pair of several layers is pipelined: the next attention follows this layer's", "[graph][moe]") {
  auto const g = lower_moe(one_pair(), {.layers = 2});
  CHECK(events(g, 0, stream::compute, true) ==
        names{"ATTN_F1.0", "MLP_I0.1", "MLP_W0.1", "MLP_F1.0", "ATTN_I0.1", "ATTN_W0.1",  //
              "ATTN_F1.1", "MLP_I0.0", "MLP_W0.0", "MLP_F1.1", "ATTN_I0.0", "ATTN_W0.0"});
  CHECK(events(g, 0, stream::all_to_all, true) ==
        names{"COMBINE_B0.1", "DISPATCH_F1.0", "DISPATCH_B0.1", "COMBINE_F1.0",  //
              "COMBINE_B0.0", "DISPATCH_F1.1", "DISPATCH_B0.0", "COMBINE_F1.1"});
  CHECK(makespan(g, {}) == 2 * (4 + 6 + 6));
}

TEST_CASE("A pair of F and I has no weight events; its W is an op of its own", "[graph][moe]") {
  auto const g = lower_moe(one_pair(k::backward_input));
  CHECK(events(g, 0, stream::compute, true) == names{"ATTN_F1.0", "MLP_I0.0", "MLP_F1.0", "ATTN_I0.0"});
  CHECK(makespan(g, {}) == 4 + 4 + 6 + 2);
}

TEST_CASE("A user's pair order is run as given", "[graph][moe]") {
  moe_options options;
  options.pair_order.compute = {k::attention_forward,        k::mlp_forward,
                                k::mlp_backward_input,       k::mlp_backward_weight,
                                k::attention_backward_input, k::attention_backward_weight};
  options.pair_order.all_to_all = {k::dispatch_forward, k::combine_backward, k::combine_forward, k::dispatch_backward};
  auto const g = lower_moe(one_pair(), options);
  CHECK(events(g, 0, stream::compute, true).at(1) == "MLP_F1.0");
  // ATTN_F 0-1, DISPATCH_F 1-2, COMBINE_B 2-3, MLP_F 2-3, MLP_I 3-4, COMBINE_F 3-4, MLP_W 4-5, DISPATCH_B 4-5, ...
  CHECK(makespan(g, {}) == 4 + 7 + 6);
}

TEST_CASE("Where one chunk of a pair has more layers, they come last", "[graph][moe]") {
  op const f(k::forward, stage_id{0}, microbatch_id{0});
  op const other(k::forward, stage_id{1}, microbatch_id{0});
  schedule const s(placement::custom(1, 2, 1, {0, 0}), 2,
                   {{f, other, other.next_microbatch().overlapping_next(), f.as(k::backward)}});
  auto const g = lower_moe(s, {.layers_by_stage = {1, 3}});
  CHECK(events(g, 0, stream::compute, true) == names{"ATTN_F1.0", "MLP_I0.0", "MLP_W0.0", "MLP_F1.0", "ATTN_I0.0",
                                                     "ATTN_W0.0", "ATTN_F1.1", "MLP_F1.1", "ATTN_F1.2", "MLP_F1.2"});
}

TEST_CASE("Edges between chunks keep their type and lead from the last event to the first", "[graph][moe]") {
  auto const g = lower_moe(one_f_one_b{2, 1}, {.layers = 2});
  CHECK(events(g, 0, stream::p2p) == names{"SEND_F0.0"});
  CHECK(events(g, 1, stream::p2p) == names{"SEND_B0.0"});
  auto const at = [&](int rank, stream s, std::uint32_t i) { return node_id{g.lane_begin(g.lane_of(rank, s)) + i}; };
  op const f0(k::forward, stage_id{0}, microbatch_id{0});
  op const f1(k::forward, stage_id{1}, microbatch_id{0});

  auto const first_on_1 = at(1, stream::compute, 0);
  CHECK(producers(g, first_on_1, edge_kind::activation) == std::vector<op>{f0.as(k::send_forward)});
  auto const send = at(0, stream::p2p, 0);
  CHECK(producers(g, send, edge_kind::chunk) == std::vector<op>{f0.as(k::combine_forward)});
  CHECK(g.links_in(first_on_1).front().remote());

  auto const last_layer_combine = at(0, stream::all_to_all, 4);
  CHECK(g.node(last_layer_combine) == f0.as(k::combine_backward));
  CHECK(g.layer(last_layer_combine) == 1);
  CHECK(producers(g, last_layer_combine, edge_kind::gradient) == std::vector<op>{f1.as(k::send_backward)});
  CHECK(producers(g, last_layer_combine, edge_kind::stash) == std::vector<op>{f0.as(k::combine_forward)});
  CHECK(producers(g, at(1, stream::p2p, 0), edge_kind::chunk) == std::vector<op>{f1.as(k::attention_backward_weight)});

  // Latency counts between the ranks, once each way.
  CHECK(makespan(g, {.latency = 5}) == makespan(g, {}) + 10);
  CHECK(makespan(g, {.send = 3}) == makespan(g, {}) + 6);
}

TEST_CASE("A lowered graph runs as the chunk graph does whose pairs cost what their events do", "[graph][moe]") {
  std::mt19937 random(3);
  for (auto const& s : moe_schedules())
    for (int layers : {1, 2, 3}) {
      auto const cost = random_moe_cost(random);
      auto chunk = cost.chunk_cost(layers);
      chunk.overlapped = pair_time_by_hand(cost, layers);
      bool const has_input_pairs = [&] {
        for (std::size_t i = 1; i < s.ops().size(); ++i)
          if (s.ops()[i - 1].overlaps_next() && s.ops()[i].kind() != k::backward) return true;
        return false;
      }();
      if (has_input_pairs) continue;
      INFO(s.name() << " P=" << s.ranks() << " m=" << s.microbatches() << " L=" << layers);
      CHECK(makespan(lower_moe(s, {.layers = layers}), cost) == make_timeline(build_graph(s), chunk).makespan());
    }
}

TEST_CASE("Asynchronous last communication is never slower", "[graph][moe]") {
  std::mt19937 random(4);
  for (auto const& s : moe_schedules())
    for (int layers : {1, 2}) {
      auto const cost = random_moe_cost(random);
      CHECK(makespan(lower_moe(s, {.layers = layers, .asynchronous_last_communication = true}), cost) <=
            makespan(lower_moe(s, {.layers = layers}), cost));
    }
}

TEST_CASE("The report of a lowered graph has the chunk graph's memory, warm-up and steady phase", "[graph][moe]") {
  for (auto const& s : moe_schedules()) {
    int const layers = 2;
    auto const chunks = analyze(s, uniform_cost<>{2 * layers, 2 * layers, 2 * layers});
    auto const lowered = analyze(lower_moe(s, {.layers = layers}), moe_cost<>{1, 0, 1, 0});
    INFO(s.name() << " P=" << s.ranks() << " m=" << s.microbatches());
    CHECK(lowered.makespan == chunks.makespan);
    CHECK(lowered.bubble_time == chunks.bubble_time);
    CHECK(lowered.peak_activations == chunks.peak_activations);
    CHECK(lowered.steady_utilization == chunks.steady_utilization);
    for (int r = 0; r < s.ranks(); ++r) {
      auto const& a = lowered.per_rank[std::size_t(r)];
      auto const& b = chunks.per_rank[std::size_t(r)];
      CHECK(a.busy == b.busy);
      CHECK(a.warmup == b.warmup);
      CHECK(a.peak_activations == b.peak_activations);
      CHECK(a.steady_utilization == b.steady_utilization);
      CHECK(a.idle_cause.of(edge_kind::chunk) == 0);
      CHECK(a.idle_cause.of(edge_kind::gradient) == b.idle_cause.of(edge_kind::gradient));
      CHECK(a.idle_cause.of(edge_kind::activation) == b.idle_cause.of(edge_kind::activation));
    }
  }
}

TEST_CASE("Idle time is that of communication only while it runs", "[graph][moe]") {
  // Two ranks, one microbatch. Of its four all-to-alls a rank waits for the forward's dispatch and the backward's two;
  // the forward's combine runs while it waits for the next chunk's input: the other rank's, or its own stash.
  auto const r = analyze(lower_moe(one_f_one_b{2, 1}), moe_cost<>{.dispatch = 3, .combine = 5, .latency = 100});
  CHECK(r.per_rank[0].idle_cause.of(edge_kind::chunk) == 3 + 5 + 3);
  CHECK(r.per_rank[1].idle_cause.of(edge_kind::chunk) == 3 + 5 + 3);
  CHECK(r.per_rank[1].idle_cause.of(edge_kind::stash) == 5);
  CHECK(r.per_rank[1].idle_cause.of(edge_kind::activation) == 10 + 100);
  CHECK(r.per_rank[0].idle_cause.of(edge_kind::gradient) == 5 + 100 + (10 + 12) + 100);
  CHECK(r.per_rank[1].idle_cause.finished == 100 + 12);
}

TEST_CASE("Collectives are issued in an order that only the program decides", "[graph][moe]") {
  auto const a = lower_moe(dual_pipe{4, 8}, {.layers = 2});
  auto const b = lower_moe(dual_pipe{4, 8}, {.layers = 2});
  for (int rank = 0; rank < 4; ++rank) CHECK(collective_digest(a, rank) == collective_digest(b, rank));
  CHECK(collective_digest(a, 0) != collective_digest(a, 1));
  CHECK(collective_digest(a, 0) != collective_digest(lower_moe(dual_pipe{4, 8}, {.layers = 1}), 0));
}

TEST_CASE("An op that nobody produces is missing in the lowered graph too", "[graph][moe]") {
  op const f(k::forward, stage_id{1}, microbatch_id{0});
  auto const g = lower_moe(schedule(placement::linear(2), 1, {{}, {f}}));
  REQUIRE(g.missing().size() == 1);
  CHECK(g.missing().front().expected == op(k::forward, stage_id{0}, microbatch_id{0}));
  CHECK(g.node(g.missing().front().node) == f.as(k::attention_forward));
}

TEST_CASE("What cannot be lowered is refused, and named", "[graph][moe]") {
  auto const graph = build_graph(one_f_one_b{2, 2});
  CHECK_THROWS_WITH(lower_moe(graph, {.layers = 0}), "layers = 0, must be at least 1");
  CHECK_THROWS_WITH(lower_moe(graph, {.layers = -3}), "layers = -3, must be at least 1");
  CHECK_THROWS_WITH(lower_moe(graph, {.layers = 65537}), "layers = 65537, must be at most 65536");
  CHECK_THROWS_WITH(lower_moe(graph, {.layers_by_stage = {1, 0}}), "layers = 0, must be at least 1");
  CHECK_THROWS_WITH(lower_moe(graph, {.layers_by_stage = {1}}), "layers_by_stage (size) = 1, must be 2 (stages)");
  CHECK_THROWS_WITH(lower_moe(lower_moe(graph)), contains("streams = 3, must be at most 1"));
  CHECK_THROWS_WITH(lower_moe(one_f_one_b{64, 64}, {.layers = 65536}), contains("events = "));

  moe_options wrong;
  wrong.pair_order.compute[0] = k::attention_forward;
  CHECK_THROWS_AS(lower_moe(graph, wrong), parameter_error);

  op const f(k::forward, stage_id{0}, microbatch_id{0});
  auto const pair_of = [&](op second) {
    return schedule(placement::linear(1), 2, {{f, f.next_microbatch().overlapping_next(), second}});
  };
  CHECK_THROWS_WITH(lower_moe(pair_of(f.as(k::backward_weight))),
                    "the pair (0F1;0W0) on rank 0 cannot be lowered: it is not one forward and one backward");
  CHECK_THROWS_AS(lower_moe(pair_of(f)), schedule_error);
}
