// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// From a schedule to its op graph.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/concepts.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/core/sort.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/graph/edge.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/graph/op_index.hpp>
#include <pipesched/graph/pipeline_links.hpp>

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
  detail::vector<stage_link> skip_connections = {};
  detail::vector<op_edge> edges = {};
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

constexpr vector<node_edge> look_up(vector<op_edge> const& edges, op_index const& index) {
  vector<node_edge> result;
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

/// Adds to a pipeline's edges those of the options. Then a node may have more than two, and all are laid out anew.
class extra_edges {
 public:
  constexpr extra_edges(op_graph::parts& graph, op_index const& index, graph_options const& options,
                        missing_ops& missing)
      : graph_(graph), index_(index), options_(options), missing_(missing) {}

  constexpr void write() {
    auto const extra = list();
    lay_out(graph_.in_begin, graph_.in, extra, &node_edge::to, &node_edge::from);
    lay_out(graph_.out_begin, graph_.out, extra, &node_edge::from, &node_edge::to);
    graph_.links += extra.size();
  }

 private:
  /// Node by node; of one node the skip connections first.
  [[nodiscard]] constexpr vector<node_edge> list() {
    vector<node_edge> extra;
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
          missing_.add(graph_, node, o.kind(), producer);
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
  constexpr void lay_out(buffer<std::uint32_t>& begin, buffer<graph_link>& links, vector<node_edge> const& extra,
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
    vector<std::uint32_t> next(begin.begin(), begin.end());
    for (std::size_t place = 0; place < links.size(); ++place)
      if (links[place] != graph_link::none()) all[next[place / 2]++] = links[place];
    for (auto const& e : extra) {
      if (!counts(e)) continue;
      all[next[e.*here]++] = graph_link(e.*there, e.kind, !rank_around(graph_, e.*here).contains(e.*there));
    }
    links = std::move(all);
  }

  op_graph::parts& graph_;
  op_index const& index_;
  graph_options const& options_;
  missing_ops& missing_;
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

/// A graph whose nodes are there, or in `elsewhere` and to be copied, with its edges.
constexpr op_graph connect(op_graph::parts graph, graph_options const& options, view<op> elsewhere = {}) {
  check_skips(options, graph.where.stages());
  bool const copies = !elsewhere.empty();
  op_index const index(copies ? elsewhere : graph.nodes.view(), graph.where.stages(), graph.microbatches,
                       graph.lane_begin, copies ? graph.nodes.data() : nullptr);
  missing_ops missing;
  pipeline_linker(graph, index, options.chain, missing).link_nodes();
  if (!options.skip_connections.empty() || !options.edges.empty()) extra_edges(graph, index, options, missing).write();
  missing.list(graph.missing);
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
  return detail::connect(std::move(graph), options, s.ops());
}
/// \}

/// The op graph of the schedule that `generator` makes.
template <schedule_generator G>
[[nodiscard]] constexpr op_graph build_graph(G const& generator, graph_options const& options = {}) {
  return build_graph(generate(generator), options);
}

}  // namespace v0
}  // namespace pipesched
