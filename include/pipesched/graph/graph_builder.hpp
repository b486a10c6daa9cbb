// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// An op graph node by node: for lowering passes and for graphs that come from no schedule.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/sort.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/edge.hpp>
#include <pipesched/graph/op_graph.hpp>

namespace pipesched {
inline namespace v0 {

/// Collects nodes, each at the end of its lane, and edges between them; `build` numbers the nodes lane by lane.
class graph_builder {
 public:
  /// A node of the graph that is being built: the order in which it was added. Not yet a `node_id`.
  struct handle {
    std::uint32_t value;
  };

  /// `streams`: 1 for a graph of chunk ops, 3 for one of events.
  constexpr graph_builder(placement where, std::int64_t microbatches, std::string_view name = "custom", int streams = 1)
      : where_(std::move(where)), microbatches_(microbatches), name_(name.begin(), name.end()), streams_(streams) {
    require(first_violation({at_least("streams", streams, 1), at_most("streams", streams, 3)}));
  }

  /// A node at the end of a rank's stream. Throws `parameter_error` where there is no such rank or stream, or the graph
  /// is full.
  constexpr handle add(op o, int rank, stream s = stream::compute, int layer = 0) {
    require(first_violation({at_least("rank", rank, 0), at_most("rank", rank, where_.ranks() - 1, "ranks - 1"),
                             at_most("stream", int(s), streams_ - 1, "streams - 1"), at_least("layer", layer, 0),
                             at_most("layer", layer, 65535),
                             at_most("nodes", std::int64_t(nodes_.size()) + 1, max_nodes)}));
    nodes_.push_back(entry{o, std::uint32_t(rank * streams_ + int(s)), std::uint16_t(layer)});
    return {std::uint32_t(nodes_.size() - 1)};
  }

  /// An edge from one node to another. Program and pair edges follow from the order of the nodes and are not added.
  constexpr void add_edge(handle from, handle to, edge_kind kind) {
    auto const last = std::int64_t(nodes_.size()) - 1;
    require(first_violation({at_most("from", from.value, last, "nodes - 1"), at_most("to", to.value, last, "nodes - 1"),
                             at_most("kind", int(kind), int(edge_kind::custom_3),
                                     "program and pair edges follow from the order of the nodes")}));
    edges_.push_back(raw_edge{from.value, to.value, kind});
  }

  /// `node` needs an op that no rank runs; see `op_graph::missing`.
  constexpr void add_missing(handle node, op expected) {
    require(at_most("node", node.value, std::int64_t(nodes_.size()) - 1, "nodes - 1"));
    missing_.push_back(missing_entry{node.value, expected});
  }

  [[nodiscard]] constexpr op_graph build() const {
    auto const n = nodes_.size();
    op_graph::parts graph{where_, microbatches_, name_, streams_};
    auto const lanes = std::size_t(where_.ranks() * streams_);
    graph.lane_begin.assign(lanes + 1, 0);
    for (auto const& node : nodes_) ++graph.lane_begin[node.lane + 1];
    for (std::size_t lane = 0; lane < lanes; ++lane) graph.lane_begin[lane + 1] += graph.lane_begin[lane];

    detail::vector<std::uint32_t> number(n, 0);
    auto next = graph.lane_begin;
    graph.nodes = detail::buffer<op>(n);
    graph.layers = detail::buffer<std::uint16_t>(n);
    for (std::size_t i = 0; i < n; ++i) {
      number[i] = next[nodes_[i].lane]++;
      graph.nodes[number[i]] = nodes_[i].what;
      graph.layers[number[i]] = nodes_[i].layer;
    }
    for (auto const& m : missing_) graph.missing.push_back(missing_producer{node_id{number[m.node]}, m.expected});
    detail::sort(graph.missing, [](missing_producer const& a, missing_producer const& b) { return a.node < b.node; });
    graph.links = edges_.size();
    fill(graph.in_begin, graph.in, number, &raw_edge::to, &raw_edge::from);
    fill(graph.out_begin, graph.out, number, &raw_edge::from, &raw_edge::to);
    return op_graph(std::move(graph));
  }

 private:
  struct entry {
    op what;
    std::uint32_t lane;
    std::uint16_t layer;
  };
  struct raw_edge {
    std::uint32_t from;
    std::uint32_t to;
    edge_kind kind;
  };

  struct missing_entry {
    std::uint32_t node;
    op expected;
  };

  /// One direction of the edges, grouped by node: `here` is the end that keeps the link, `there` the other one.
  constexpr void fill(detail::buffer<std::uint32_t>& begin, detail::buffer<graph_link>& links,
                      detail::vector<std::uint32_t> const& number, std::uint32_t raw_edge::* here,
                      std::uint32_t raw_edge::* there) const {
    begin = detail::buffer<std::uint32_t>(nodes_.size() + 1, 0);
    links = detail::buffer<graph_link>(edges_.size());
    for (auto const& e : edges_) ++begin[number[e.*here] + 1];
    for (std::size_t i = 0; i < nodes_.size(); ++i) begin[i + 1] += begin[i];
    detail::vector<std::uint32_t> next(begin.begin(), begin.end());
    auto const rank = [&](std::uint32_t node) { return nodes_[node].lane / std::uint32_t(streams_); };
    for (auto const& e : edges_)
      links[next[number[e.*here]]++] = graph_link(number[e.*there], e.kind, rank(e.*here) != rank(e.*there));
  }

  placement where_;
  std::int64_t microbatches_;
  detail::vector<char> name_;
  int streams_;
  detail::vector<entry> nodes_;
  detail::vector<raw_edge> edges_;
  detail::vector<missing_entry> missing_;
};

}  // namespace v0
}  // namespace pipesched
