// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <pipesched/core/forward_only.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/graph/graph_builder.hpp>
#include <pipesched/schedules/dual_pipe.hpp>
#include <pipesched/schedules/gpipe.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

#include "support/random_schedules.hpp"

using namespace pipesched;

namespace {

op F(int s, int b) { return forward(stage_id{s}, microbatch_id{b}); }
op B(int s, int b) { return backward(stage_id{s}, microbatch_id{b}); }
op I(int s, int b) { return backward_input(stage_id{s}, microbatch_id{b}); }
op W(int s, int b) { return backward_weight(stage_id{s}, microbatch_id{b}); }

/// "0F0 activation" for each edge that ends, or begins, at the op.
std::vector<std::string> producers(op_graph const& graph, op o) {
  std::vector<std::string> texts;
  for (auto e : graph.producers(*graph.find(o)))
    texts.push_back(to_string(graph.node(e.from)).append(" ").append(name_of(e.kind)));
  std::sort(texts.begin(), texts.end());
  return texts;
}
std::vector<std::string> consumers(op_graph const& graph, op o) {
  std::vector<std::string> texts;
  for (auto e : graph.consumers(*graph.find(o)))
    texts.push_back(to_string(graph.node(e.to)).append(" ").append(name_of(e.kind)));
  std::sort(texts.begin(), texts.end());
  return texts;
}

using texts = std::vector<std::string>;

/// The edges of a pipeline, found op by op: each waits for the first op that does what it needs.
std::vector<edge> edges_by_search(schedule const& s, std::size_t& missing) {
  std::vector<edge> edges;
  std::map<std::tuple<int, int, std::int64_t>, std::uint32_t> first;  // F, B or I, W; stage; microbatch
  auto const kind_of = [](op o) {
    return o.kind() == op_kind::forward ? 0 : o.kind() == op_kind::backward_weight ? 2 : 1;
  };
  auto const ops = s.ops();
  for (std::uint32_t n = 0; n < ops.size(); ++n)
    if (is_chunk_op(ops[n].kind())) first.emplace(std::tuple(kind_of(ops[n]), ops[n].stage(), ops[n].microbatch()), n);
  for (std::uint32_t n = 0; n < ops.size(); ++n) {
    auto const needs = [&](int kind, int stage, edge_kind why) {
      if (stage < 0 || stage >= s.stages()) return;
      auto const found = first.find(std::tuple(kind, stage, ops[n].microbatch()));
      bool const is_there =
          found != first.end() && (why != edge_kind::weight || ops[found->second].kind() == op_kind::backward_input);
      if (is_there)
        edges.push_back(edge{node_id{found->second}, node_id{n}, why});
      else
        ++missing;
    };
    if (!is_chunk_op(ops[n].kind())) continue;
    if (kind_of(ops[n]) == 0) needs(0, ops[n].stage() - 1, edge_kind::activation);
    if (kind_of(ops[n]) == 1) needs(1, ops[n].stage() + 1, edge_kind::gradient);
    if (kind_of(ops[n]) == 1) needs(0, ops[n].stage(), edge_kind::stash);
    if (kind_of(ops[n]) == 2) needs(1, ops[n].stage(), edge_kind::weight);
  }
  return edges;
}

void check_against_search(schedule const& s) {
  auto const graph = build_graph(s);
  std::size_t missing = 0;
  auto const expected = edges_by_search(s, missing);
  CHECK(graph.link_count() == expected.size());
  CHECK(graph.missing().size() == missing);
  std::vector<edge> in;
  std::size_t out = 0;
  std::size_t wrong = 0;
  for (std::uint32_t n = 0; n < graph.size(); ++n) {
    for (auto l : graph.links_in(node_id{n})) {
      in.push_back(edge{node_id{l.node()}, node_id{n}, l.kind()});
      wrong += l.remote() != (graph.rank_of(node_id{n}) != graph.rank_of(node_id{l.node()}));
    }
    for (auto l : graph.links_out(node_id{n})) {
      ++out;
      wrong += l.remote() != (graph.rank_of(node_id{n}) != graph.rank_of(node_id{l.node()}));
      auto const back = graph.links_in(node_id{l.node()});
      wrong += std::none_of(back.begin(), back.end(), [&](graph_link b) {
        return b.node() == n && b.kind() == l.kind() && b.remote() == l.remote();
      });
    }
  }
  CHECK(in == expected);
  CHECK(wrong == 0);
  CHECK(out <= in.size());  // nothing waits for a duplicate
}

/// Writes one forward on each rank, of a stage and a microbatch that may not exist.
struct anything {
  int microbatches;
  int stage;
  std::int64_t microbatch;
  check_result check() const { return {}; }
  auto placement() const { return placement::linear(2); }
  template <op_sink Sink>
  void emit(int, Sink& out) const {
    out(F(stage, 0).microbatches_later(microbatch));
  }
};

}  // namespace

TEST_CASE("Each op has the typed edges of a pipeline", "[graph]") {
  schedule const s(placement::linear(2), 2,
                   {{F(0, 0), F(0, 1), I(0, 0), W(0, 0), B(0, 1)}, {F(1, 0), B(1, 0), F(1, 1), B(1, 1)}});
  auto const graph = build_graph(s);
  CHECK(graph.missing().empty());
  CHECK(producers(graph, F(0, 0)) == texts{});
  CHECK(producers(graph, F(1, 1)) == texts{"0F1 activation", "1B0 program"});
  CHECK(producers(graph, I(0, 0)) == texts{"0F0 stash", "0F1 program", "1B0 gradient"});
  CHECK(producers(graph, W(0, 0)) == texts{"0I0 program", "0I0 weight"});
  CHECK(producers(graph, B(1, 1)) == texts{"1F1 program", "1F1 stash"});
  CHECK(consumers(graph, F(0, 0)) == texts{"0F1 program", "0I0 stash", "1F0 activation"});
  CHECK(consumers(graph, B(1, 0)) == texts{"0I0 gradient", "1F1 program"});
  CHECK(consumers(graph, I(0, 0)) == texts{"0W0 program", "0W0 weight"});
  CHECK(consumers(graph, B(0, 1)) == texts{});
  CHECK_FALSE(graph.find(F(0, 7)));
}

TEST_CASE("The members of a pair are joined, and both follow what stood before", "[graph]") {
  schedule const s(placement::linear(1), 2, {{F(0, 0), F(0, 1).overlapping_next(), B(0, 0), B(0, 1)}});
  auto const graph = build_graph(s);
  CHECK(producers(graph, F(0, 1)) == texts{"0B0 pair", "0F0 program"});
  CHECK(producers(graph, B(0, 0)) == texts{"0F0 program", "0F0 stash", "0F1 pair"});
  CHECK(producers(graph, B(0, 1)) == texts{"0B0 program", "0F1 program", "0F1 stash"});
  CHECK(consumers(graph, F(0, 0)) == texts{"0B0 program", "0B0 stash", "0F1 program"});
}

TEST_CASE("Consumers are the mirror image of producers", "[graph]") {
  std::mt19937 random(7);
  for (auto const& where :
       {placement::linear(3), placement::loop(2, 2), placement::v(2), placement::bidirectional(4)}) {
    auto const graph = build_graph(test_support::random_schedule(where, 5, random),
                                   {.skip_connections = {{0, 2}, {1, 3 % where.stages()}}});
    std::vector<edge> in;
    std::vector<edge> out;
    for (std::uint32_t n = 0; n < graph.size(); ++n) {
      for (auto e : graph.producers(node_id{n})) in.push_back(e);
      for (auto e : graph.consumers(node_id{n})) out.push_back(e);
    }
    auto const by_ends = [](edge const& a, edge const& b) {
      return std::tuple(a.from, a.to, a.kind) < std::tuple(b.from, b.to, b.kind);
    };
    // A pair edge has no direction: it is seen from both members either way.
    std::sort(in.begin(), in.end(), by_ends);
    std::sort(out.begin(), out.end(), by_ends);
    REQUIRE(in == out);
  }
}

TEST_CASE("Links are those that a search finds, in schedules right and wrong", "[graph]") {
  std::mt19937 random(11);
  std::vector<schedule> made;
  for (auto const& where : {placement::linear(1), placement::loop(3, 2), placement::v(2), placement::bidirectional(4)})
    for (int const microbatches : {1, 5, 40})
      made.push_back(test_support::random_schedule(where, microbatches, random));
  made.push_back(generate(one_f_one_b{3, 700}));  // more than what is looked at together
  made.push_back(generate(dual_pipe{4, 20}));     // two ranks to a stage
  made.push_back(generate(dual_pipe{4, 700}));
  made.push_back(generate(forward_only{gpipe{3, 5}}));
  for (auto const& s : made) {
    check_against_search(s);
    for (int change = 0; change < 12; ++change) {
      std::vector<std::vector<op>> programs;
      for (int rank = 0; rank < s.ranks(); ++rank)
        programs.emplace_back(s.program(rank).begin(), s.program(rank).end());
      auto const pick = [&](std::size_t count) { return std::ptrdiff_t(random() % count); };
      auto& from = programs[std::size_t(pick(programs.size()))];
      if (from.empty()) continue;
      auto const at = from.begin() + pick(from.size());
      op const o = *at;
      if (change % 4 == 0) *at = o.as(op_kind::backward_weight);
      if (change % 4 == 1) *at = o.as(op_kind::unshard);
      if (change % 4 == 2) from.erase(at);
      auto& to = programs[std::size_t(pick(programs.size()))];
      if (change % 4 >= 2) to.insert(to.begin() + pick(to.size() + 1), o);  // moved, or there twice
      check_against_search(schedule(s.where(), s.microbatches(), programs));
    }
  }
}

TEST_CASE("Skip connections carry activations forward and gradients back", "[graph]") {
  auto const graph = build_graph(gpipe{3, 1}, {.skip_connections = {{0, 2}}});
  CHECK(producers(graph, F(2, 0)) == texts{"0F0 activation", "1F0 activation"});
  CHECK(producers(graph, B(0, 0)) == texts{"0F0 program", "0F0 stash", "1B0 gradient", "2B0 gradient"});
  auto const unchained = build_graph(gpipe{3, 1}, {.skip_connections = {{0, 2}}, .chain = false});
  CHECK(producers(unchained, F(2, 0)) == texts{"0F0 activation"});
  CHECK(producers(unchained, F(1, 0)) == texts{});
  REQUIRE_THROWS_AS(build_graph(gpipe{3, 1}, {.skip_connections = {{0, 3}}}), parameter_error);
}

TEST_CASE("A user's edges join any two ops", "[graph]") {
  auto const graph = build_graph(gpipe{2, 2}, {.edges = {{F(1, 0), F(0, 1)}, {B(0, 0), B(1, 1), edge_kind::custom_2}}});
  CHECK(producers(graph, F(0, 1)) == texts{"0F0 program", "1F0 custom"});
  CHECK(consumers(graph, B(0, 0)) == texts{"0B1 program", "1B1 custom_2"});
  REQUIRE_THROWS_AS(build_graph(gpipe{2, 2}, {.edges = {{F(1, 0), F(0, 5)}}}), parameter_error);
  REQUIRE_THROWS_AS(build_graph(gpipe{2, 2}, {.edges = {{F(1, 0), F(0, 1), edge_kind::pair}}}), parameter_error);
}

TEST_CASE("Ops that nobody produces are listed", "[graph]") {
  auto const missing = [](schedule const& s) {
    texts found;
    auto const graph = build_graph(s);
    for (auto m : graph.missing()) found.push_back(to_string(graph.node(m.node)) + " needs " + to_string(m.expected));
    return found;
  };
  CHECK(missing(schedule(placement::linear(1), 1, {{B(0, 0)}})) == texts{"0B0 needs 0F0"});
  CHECK(missing(schedule(placement::linear(2), 1, {{F(0, 0), I(0, 0), W(0, 0)}, {F(1, 0)}})) == texts{"0I0 needs 1I0"});
  CHECK(missing(schedule(placement::linear(1), 1, {{F(0, 0), B(0, 0), W(0, 0)}})) == texts{"0W0 needs 0I0"});
}

TEST_CASE("Three ops with huge microbatch numbers need no huge table", "[graph]") {
  schedule const s(placement::linear(2), 2'000'000'000, {{F(0, 1'999'999'999), F(0, 3)}, {F(1, 1'999'999'999)}});
  auto const graph = build_graph(s);
  CHECK(producers(graph, F(1, 1'999'999'999)) == texts{"0F1999999999 activation"});
}

TEST_CASE("A graph in the memory of another is that of its own schedule", "[graph]") {
  auto const edges_of = [](op_graph const& graph) {
    std::vector<edge> edges;
    for (std::uint32_t n = 0; n < graph.size(); ++n)
      for (auto e : graph.producers(node_id{n})) edges.push_back(e);
    return edges;
  };
  auto const small = generate(gpipe{2, 3});
  auto const large = generate(one_f_one_b{4, 7});
  graph_options const skip{.skip_connections = {{0, 2}}};
  auto graph = build_graph(large, skip);
  for (auto const* made : {&small, &large, &small}) {
    graph = build_graph(*made, std::move(graph));
    auto const fresh = build_graph(*made);
    CHECK(graph.ranks() == made->ranks());
    CHECK(graph.name() == made->name());
    CHECK(graph.link_count() == fresh.link_count());
    CHECK(edges_of(graph) == edges_of(fresh));
  }
  graph = build_graph(large, std::move(graph), skip);
  CHECK(edges_of(graph) == edges_of(build_graph(large, skip)));
}

TEST_CASE("Many stages and microbatches without an op make a graph without a node", "[graph]") {
  auto const graph = build_graph(schedule(placement::linear(3), 1'000'000'000, {{}, {}, {}}));
  CHECK(graph.size() == 0);
  CHECK(graph.missing().empty());
  CHECK_FALSE(graph.find(F(1, 5)));
}

TEST_CASE("A graph can be built node by node, with streams and layers", "[graph]") {
  graph_builder builder(placement::linear(2), 1, "events", 3);
  auto const attention = builder.add(op(op_kind::attention_forward, stage_id{1}, microbatch_id{0}), 1);
  auto const dispatch =
      builder.add(op(op_kind::dispatch_forward, stage_id{1}, microbatch_id{0}), 1, stream::all_to_all, 4);
  auto const first = builder.add(op(op_kind::mlp_forward, stage_id{0}, microbatch_id{0}), 0);
  builder.add_edge(first, attention, edge_kind::activation);
  builder.add_edge(attention, dispatch, edge_kind::chunk);
  auto const graph = builder.build();
  REQUIRE(graph.size() == 3);
  CHECK(graph.lanes() == 6);
  CHECK(graph.program(1, stream::all_to_all).size() == 1);
  node_id const d{2};
  CHECK(graph.rank_of(d) == 1);
  CHECK(graph.stream_of(d) == stream::all_to_all);
  CHECK(graph.layer(d) == 4);
  CHECK(graph.producers(d) == std::vector<edge>{{node_id{1}, d, edge_kind::chunk}});
  CHECK(graph.links_in(node_id{1})[0].remote());
  CHECK_FALSE(graph.links_in(d)[0].remote());
  REQUIRE_THROWS_AS(builder.add(F(0, 0), 2), parameter_error);
  REQUIRE_THROWS_AS(graph_builder(placement::linear(2), 1).add(F(0, 0), 0, stream::p2p), parameter_error);
}

TEST_CASE("An op on a stage or of a microbatch that does not exist is refused", "[graph]") {
  CHECK_NOTHROW(build_graph(anything{4, 1, 3}));
  for (int const microbatches : {4, 1'000'000'000}) {  // few are looked up in a table, many in a list
    CHECK_THROWS_AS(build_graph(anything{microbatches, 2, 0}), parameter_error);
    CHECK_THROWS_AS(build_graph(anything{microbatches, 60'000, 3}), parameter_error);
    CHECK_THROWS_AS(build_graph(anything{microbatches, 1, microbatches}), parameter_error);
    CHECK_THROWS_AS(build_graph(anything{microbatches, 0, 4'000'000'000}), parameter_error);
  }
}
