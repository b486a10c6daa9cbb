// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// From a schedule to its op graph.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/concepts.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/core/sort.hpp>
#include <pipesched/graph/edge.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/graph/op_index.hpp>

namespace pipesched {
inline namespace v0 {

/// A skip connection: the forward of `to` also needs that of `from`, and the gradient of `from` that of `to`.
struct stage_link {
  int from;
  int to;
};

/// A dependency of the user's own, between two chunk ops of the schedule.
struct op_edge {
  op from;
  op to;
  edge_kind kind = edge_kind::custom;
};

/// What a graph has beside the edges that every pipeline has.
struct graph_options {
  std::vector<stage_link> skip_connections = {};
  std::vector<op_edge> edges = {};
  /// Whether stage s follows stage s-1. Without it `skip_connections` are all the connections that there are.
  bool chain = true;
};

namespace detail {

/// A user's edge, its ops looked up.
struct node_edge {
  std::uint32_t from;
  std::uint32_t to;
  edge_kind kind;
};

constexpr std::vector<node_edge> look_up(std::vector<op_edge> const& edges, op_index const& index) {
  std::vector<node_edge> result;
  for (auto const& e : edges) {
    require(at_most("edges.kind", std::int64_t(e.kind), std::int64_t(edge_kind::custom_3),
                    "program and pair edges follow from the programs"));
    node_edge const found{index.find(e.from), index.find(e.to), e.kind};
    if (found.from == op_index::none || found.to == op_index::none) {
      op const absent = found.from == op_index::none ? e.from : e.to;
      require(parameter_violation{"edges (microbatch of an op that is in no program)", absent.microbatch(),
                                  "belongs to no op of stage", absent.stage(),
                                  "an edge joins two ops of the schedule"});
    }
    result.push_back(found);
  }
  return result;
}

constexpr void check_skips(graph_options const& options, int stages) {
  for (auto skip : options.skip_connections)
    require(first_violation({at_least("skip_connections.from", skip.from, 0),
                             at_most("skip_connections.from", skip.from, stages - 1, "stages - 1"),
                             at_least("skip_connections.to", skip.to, 0),
                             at_most("skip_connections.to", skip.to, stages - 1, "stages - 1")}));
}

/// A rule by which a consumer needs a producer of the same microbatch.
struct dependency {
  op_role consumer;
  op_role producer;
  int producer_stage;  ///< less the consumer's
  edge_kind kind;
  int in_place;   ///< which of the consumer's two places for edges into it is this one's
  int out_place;  ///< and which of the producer's
};

/// What every pipeline has. No two that meet at a node have the same place there.
struct pipeline {
  static constexpr dependency activation{op_role::forward, op_role::forward, -1, edge_kind::activation, 0, 0};
  static constexpr dependency gradient{op_role::gradient, op_role::gradient, +1, edge_kind::gradient, 0, 0};
  static constexpr dependency stash{op_role::gradient, op_role::forward, 0, edge_kind::stash, 1, 1};
  static constexpr dependency weight{op_role::weight, op_role::gradient, 0, edge_kind::weight, 0, 1};
};

/// Fills in a graph's edges.
class edge_writer {
  // Templates before their callers: clang 16 calls no other in constant expressions.
  struct absent_op {
    std::uint32_t node;
    std::size_t sequence;
    op expected;
  };

  struct node_range {
    std::uint32_t first;
    std::uint32_t length;
    [[nodiscard]] constexpr bool contains(std::uint32_t node) const noexcept { return node - first < length; }
  };

  /// The nodes of the rank that has this one.
  [[nodiscard]] constexpr node_range rank_around(std::uint32_t node) const noexcept {
    auto const after = std::upper_bound(graph_.lane_begin.begin(), graph_.lane_begin.end(), node);
    return {*(after - 1), *after - *(after - 1)};
  }

  constexpr void miss(std::uint32_t node, op_kind expected, int stage) {
    op const o = graph_.nodes[node];
    absent_.push_back(absent_op{node, absent_.size(),
                                op(expected, stage_id{stage}, microbatch_id{o.microbatch()}, replica_id{o.replica()})});
  }

  template <dependency D>
  constexpr void miss(std::uint32_t node, int stage) {
    auto const expected = D.producer == op_role::forward  ? op_kind::forward
                          : D.consumer == op_role::weight ? op_kind::backward_input
                                                          : graph_.nodes[node].kind();
    miss(node, expected, stage + D.producer_stage);
  }
  /// A full backward has done its weights already: no W may follow it.
  template <edge_kind Kind>
  [[nodiscard]] constexpr bool can_feed(std::uint32_t producer) const noexcept {
    if (producer == op_index::none) return false;
    return Kind != edge_kind::weight || graph_.nodes[producer].kind() == op_kind::backward_input;
  }

  /// One dependency of the ops of a stage, for microbatches `begin` to `end`. The inner loop goes on for as long as
  /// nothing is missing and the consumers are on one rank, so that all it needs is in registers.
  template <dependency D>
  constexpr void connect_rows(int stage, std::int64_t begin, std::int64_t end) {
    auto const* const consumers = index_.row(D.consumer, stage);
    auto const* const producers = index_.row(D.producer, stage + D.producer_stage);
    if (consumers == nullptr) return;
    auto* const in = graph_.in.data() + D.in_place;
    auto* const out = graph_.out.data() + D.out_place;
    auto absent = std::int64_t{0};
    for (auto b = begin; b < end;) {
      if (consumers[b] == op_index::none || !can_feed<D.kind>(producers[b])) {
        if (consumers[b] != op_index::none) miss<D>(consumers[b], stage);
        ++absent;
        ++b;
        continue;
      }
      auto const rank = rank_around(consumers[b]);
      do {
        auto const consumer = consumers[b];
        auto const producer = producers[b];
        graph_link const link(0, D.kind, !rank.contains(producer));
        in[2 * std::size_t{consumer}] = link.to(producer);
        out[2 * std::size_t{producer}] = link.to(consumer);
        ++b;
      } while (b < end && rank.contains(consumers[b]) && can_feed<D.kind>(producers[b]));
    }
    graph_.links += std::size_t(end - begin - absent);
  }

  template <dependency D>
  constexpr void connect_node_by(std::uint32_t node) {
    op const o = graph_.nodes[node];
    int const producer_stage = o.stage() + D.producer_stage;
    if (!is_chunk_op(o.kind()) || role_of(o.kind()) != D.consumer) return;
    if (D.producer_stage != 0 && (!options_.chain || producer_stage < 0 || producer_stage >= graph_.where.stages()))
      return;
    auto const producer = index_.find(D.producer, producer_stage, o.microbatch());
    if (!can_feed<D.kind>(producer)) return miss<D>(node, o.stage());
    bool const remote = !rank_around(node).contains(producer);
    graph_.in[2 * std::size_t{node} + std::size_t(D.in_place)] = graph_link(producer, D.kind, remote);
    if (index_.find(o) == node)
      graph_.out[2 * std::size_t{producer} + std::size_t(D.out_place)] = graph_link(node, D.kind, remote);
    ++graph_.links;
  }

  /// All dependencies of one node. A duplicate waits as the first does; what follows waits for the first alone.
  constexpr void connect_node(std::uint32_t node) {
    connect_node_by<pipeline::activation>(node);
    connect_node_by<pipeline::gradient>(node);
    connect_node_by<pipeline::stash>(node);
    connect_node_by<pipeline::weight>(node);
  }

 public:
  constexpr edge_writer(op_graph::parts& graph, op_index const& index, graph_options const& options)
      : graph_(graph), index_(index), options_(options) {
    graph.in_begin = {};
    graph.out_begin = {};
    graph.links = 0;
    for (auto* links : {&graph.in, &graph.out}) {
      links->resize_uninitialised(2 * graph.nodes.size());
      std::fill(links->begin(), links->end(), graph_link::none());
    }
  }

  /// The edges that every pipeline has: where there is a table of ops, row by row, so that an edge costs no search. A
  /// few microbatches at a time, whose nodes stay in the cache from one row to the next.
  constexpr void write_pipeline() {
    if (graph_.nodes.size() == 0) return;
    if (!index_.has_rows()) {
      for (std::uint32_t node = 0; node < graph_.nodes.size(); ++node) connect_node(node);
      return;
    }
    constexpr std::int64_t at_once = 1024;
    int const stages = graph_.where.stages();
    for (int stage = 0; stage < stages; ++stage)
      for (std::int64_t b = 0; b < index_.microbatches(); b += at_once) {
        auto const end = std::min(b + at_once, index_.microbatches());
        bool const is_followed = options_.chain && stage + 1 < stages;
        if (is_followed) connect_rows<pipeline::activation>(stage + 1, b, end);
        if (is_followed) connect_rows<pipeline::gradient>(stage, b, end);
        connect_rows<pipeline::stash>(stage, b, end);
        connect_rows<pipeline::weight>(stage, b, end);
      }
    for (auto node : index_.duplicates()) connect_node(node);
  }

  /// Skip connections and the user's edges. Then a node may have more than two, and all edges are laid out anew.
  constexpr void write_extra() {
    auto const extra = list_extra();
    lay_out(graph_.in_begin, graph_.in, extra, &node_edge::to, &node_edge::from);
    lay_out(graph_.out_begin, graph_.out, extra, &node_edge::from, &node_edge::to);
    graph_.links += extra.size();
  }

  constexpr void list_missing() {
    detail::sort(absent_, [](absent_op const& a, absent_op const& b) {
      return a.node != b.node ? a.node < b.node : a.sequence < b.sequence;
    });
    graph_.missing.clear();
    for (auto const& a : absent_) graph_.missing.push_back(missing_producer{node_id{a.node}, a.expected});
  }

 private:
  /// Node by node; of one node the skip connections first.
  [[nodiscard]] constexpr std::vector<node_edge> list_extra() {
    std::vector<node_edge> extra;
    for (std::uint32_t node = 0; node < graph_.nodes.size(); ++node) {
      op const o = graph_.nodes[node];
      if (!is_chunk_op(o.kind()) || o.kind() == op_kind::backward_weight) continue;
      bool const forward = o.kind() == op_kind::forward;
      for (auto skip : options_.skip_connections) {
        int const producer = forward ? skip.from : skip.to;
        int const consumer = forward ? skip.to : skip.from;
        if (o.stage() != consumer) continue;
        auto const from = index_.find(role_of(o.kind()), producer, o.microbatch());
        if (from == op_index::none)
          miss(node, o.kind(), producer);
        else
          extra.push_back(node_edge{from, node, forward ? edge_kind::activation : edge_kind::gradient});
      }
    }
    auto const own = look_up(options_.edges, index_);
    extra.insert(extra.end(), own.begin(), own.end());
    return extra;
  }

  /// Moves one direction of the edges from two places a node to as many as there are. `here` is the end that keeps the
  /// link, `there` the other one.
  constexpr void lay_out(buffer<std::uint32_t>& begin, buffer<graph_link>& links, std::vector<node_edge> const& extra,
                         std::uint32_t node_edge::* here, std::uint32_t node_edge::* there) {
    auto const nodes = graph_.nodes.size();
    // A duplicate waits but nothing waits for it, so its producer does not list it.
    auto const counts = [&](node_edge const& e) {
      return here == &node_edge::to || index_.find(graph_.nodes[e.to]) == e.to;
    };
    begin = buffer<std::uint32_t>(nodes + 1, 0);
    for (std::size_t place = 0; place < links.size(); ++place)
      if (links[place] != graph_link::none()) ++begin[place / 2 + 1];
    for (auto const& e : extra)
      if (counts(e)) ++begin[e.*here + 1];
    for (std::size_t node = 0; node < nodes; ++node) begin[node + 1] += begin[node];

    buffer<graph_link> all(begin[nodes]);
    std::vector<std::uint32_t> next(begin.begin(), begin.end());
    for (std::size_t place = 0; place < links.size(); ++place)
      if (links[place] != graph_link::none()) all[next[place / 2]++] = links[place];
    for (auto const& e : extra) {
      if (!counts(e)) continue;
      all[next[e.*here]++] = graph_link(e.*there, e.kind, !rank_around(e.*here).contains(e.*there));
    }
    links = std::move(all);
  }

  op_graph::parts& graph_;
  op_index const& index_;
  graph_options const& options_;
  std::vector<absent_op> absent_;
};

/// A graph with all but its nodes and edges, in the memory of another.
constexpr op_graph::parts begin_graph(schedule const& s, op_graph::parts reuse) {
  reuse.where = s.where();
  reuse.microbatches = s.microbatches();
  reuse.name.assign(s.name().begin(), s.name().end());
  reuse.streams = 1;
  reuse.lane_begin.clear();
  for (auto offset : s.offsets()) reuse.lane_begin.push_back(std::uint32_t(offset));
  reuse.layers = {};
  return reuse;
}

/// A graph whose nodes are there, with its edges.
constexpr op_graph connect(op_graph::parts graph, graph_options const& options) {
  check_skips(options, graph.where.stages());
  op_index const index(graph.nodes.view(), graph.where.stages(), graph.microbatches);
  edge_writer edges(graph, index, options);
  edges.write_pipeline();
  if (!options.skip_connections.empty() || !options.edges.empty()) edges.write_extra();
  edges.list_missing();
  return op_graph(std::move(graph));
}

}  // namespace detail

/// The op graph of a schedule, right or wrong: an op that nobody produces is listed in `missing()`, and a cycle is
/// found by `execution_order`. Of duplicate ops the first counts. Time in proportion to the ops. Memory: 16 bytes an op
/// beside the ops themselves, or 8 bytes and 8 for each edge where `options` add any.
/// Throws `parameter_error` for a skip connection or an edge whose end does not exist, and for an op on a stage or of a
/// microbatch that does not, as a generator of the user's own may write.
/// \{
[[nodiscard]] constexpr op_graph build_graph(schedule&& s, graph_options const& options = {}) {
  auto graph = detail::begin_graph(s, op_graph::parts{s.where(), s.microbatches(), {}});
  graph.nodes = std::move(s).take_ops();
  return detail::connect(std::move(graph), options);
}
[[nodiscard]] constexpr op_graph build_graph(schedule const& s, graph_options const& options = {}) {
  return build_graph(schedule(s), options);
}
/// In the memory of a graph that is no longer needed, where that is large enough.
[[nodiscard]] constexpr op_graph build_graph(schedule const& s, op_graph&& reuse, graph_options const& options = {}) {
  auto graph = detail::begin_graph(s, std::move(reuse).take_parts());
  graph.nodes.resize_uninitialised(s.ops().size());
  std::copy(s.ops().begin(), s.ops().end(), graph.nodes.begin());
  return detail::connect(std::move(graph), options);
}
/// \}

/// The op graph of the schedule that `generator` makes.
template <schedule_generator G>
[[nodiscard]] constexpr op_graph build_graph(G const& generator, graph_options const& options = {}) {
  return build_graph(generate(generator), options);
}

}  // namespace v0
}  // namespace pipesched
