// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The op graph: every op of a step as a node, and typed edges between them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/ids.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/graph/edge.hpp>

namespace pipesched {
inline namespace v0 {

/// What a rank runs side by side. A graph of chunk ops has the compute stream alone.
enum class stream : std::uint8_t { compute, all_to_all, p2p };

[[nodiscard]] constexpr std::string_view name_of(stream s) noexcept {
  switch (s) {
    case stream::compute: return "compute";
    case stream::all_to_all: return "all-to-all";
    case stream::p2p: return "p2p";
  }
  return "?";
}

/// An op that a node needs and that no rank runs.
struct missing_producer {
  node_id node;
  op expected;
};

/// Nodes and typed edges of one training step. Immutable; const calls are safe from many threads.
///
/// The nodes of one stream of one rank (a *lane*) are numbered without gaps in the order in which they run, lanes by
/// rank and then stream. Made by `build_graph` from a schedule, or node by node with a `graph_builder`.
class op_graph {
 public:
  /// The arrays that a graph is made of; filled by `build_graph` and `graph_builder`.
  ///
  /// The edges of each direction are in one of two forms. In a plain pipeline no node has more than two: each has two
  /// places of its own, `graph_link::none()` where there is no edge, and `begin` is empty. Else `begin` says where the
  /// edges of each node begin.
  struct parts {
    placement where;
    std::int64_t microbatches;
    detail::vector<char> name;  // not std::string, which libstdc++ 12 cannot use in constant expressions
    int streams = 1;
    detail::vector<std::uint32_t> lane_begin = {};  // lanes + 1
    detail::buffer<op> nodes = {};                  // lane by lane
    detail::buffer<std::uint16_t> layers = {};      // per node, or empty
    detail::buffer<std::uint32_t> in_begin = {};    // nodes + 1, or empty
    detail::buffer<graph_link> in = {};
    detail::buffer<std::uint32_t> out_begin = {};  // nodes + 1, or empty
    detail::buffer<graph_link> out = {};
    std::size_t links = 0;
    detail::vector<missing_producer> missing = {};
  };

  constexpr explicit op_graph(parts filled) : p_(std::move(filled)) {}
  /// What the graph is made of, for another one to use the memory.
  [[nodiscard]] constexpr parts take_parts() && noexcept { return std::move(p_); }

  [[nodiscard]] constexpr std::string_view name() const noexcept { return {p_.name.data(), p_.name.size()}; }
  [[nodiscard]] constexpr placement const& where() const noexcept { return p_.where; }
  [[nodiscard]] constexpr int ranks() const noexcept { return p_.where.ranks(); }
  [[nodiscard]] constexpr int stages() const noexcept { return p_.where.stages(); }
  [[nodiscard]] constexpr std::int64_t microbatches() const noexcept { return p_.microbatches; }

  /// The number of nodes.
  [[nodiscard]] constexpr std::size_t size() const noexcept { return p_.nodes.size(); }
  [[nodiscard]] constexpr op node(node_id n) const noexcept { return p_.nodes[n.value]; }
  [[nodiscard]] constexpr view<op> nodes() const noexcept { return p_.nodes.view(); }
  /// The layer, within its chunk, of a lowered event; 0 for everything else.
  [[nodiscard]] constexpr int layer(node_id n) const noexcept { return p_.layers.size() ? p_.layers[n.value] : 0; }

  /// \name Lanes
  /// \{
  /// Streams per rank: 1, or 3 where the graph is lowered to events.
  [[nodiscard]] constexpr int streams() const noexcept { return p_.streams; }
  [[nodiscard]] constexpr int lanes() const noexcept { return ranks() * p_.streams; }
  [[nodiscard]] constexpr int lane_of(int rank, stream s) const noexcept { return rank * p_.streams + int(s); }
  [[nodiscard]] constexpr std::uint32_t lane_begin(int lane) const noexcept { return p_.lane_begin[std::size_t(lane)]; }
  [[nodiscard]] constexpr std::uint32_t lane_end(int lane) const noexcept {
    return p_.lane_begin[std::size_t(lane) + 1];
  }
  /// The rank of a lane. The common case is worth its branch: a division costs more than the rest of a timeline's step.
  [[nodiscard]] constexpr int rank_of_lane(std::uint32_t lane) const noexcept {
    return int(p_.streams == 1 ? lane : lane / std::uint32_t(p_.streams));
  }
  /// The lane, rank or stream of a node. Time in proportion to the logarithm of the number of lanes.
  [[nodiscard]] constexpr int lane_of(node_id n) const noexcept {
    auto const after = std::upper_bound(p_.lane_begin.begin(), p_.lane_begin.end(), n.value);
    return int(after - p_.lane_begin.begin()) - 1;
  }
  [[nodiscard]] constexpr int rank_of(node_id n) const noexcept { return rank_of_lane(std::uint32_t(lane_of(n))); }
  [[nodiscard]] constexpr stream stream_of(node_id n) const noexcept { return stream(lane_of(n) % p_.streams); }
  /// The ops that one stream of a rank runs, in order.
  [[nodiscard]] constexpr view<op> program(int rank, stream s = stream::compute) const noexcept {
    auto const lane = lane_of(rank, s);
    return nodes().subspan(lane_begin(lane), lane_end(lane) - lane_begin(lane));
  }
  /// The other member of a node's overlapped pair.
  [[nodiscard]] constexpr std::optional<node_id> partner(node_id n) const noexcept {
    auto const lane = lane_of(n);
    if (opens_pair(n.value, lane_end(lane))) return node_id{n.value + 1};
    if (n.value > lane_begin(lane) && p_.nodes[n.value - 1].overlaps_next()) return node_id{n.value - 1};
    return {};
  }
  /// Whether a node and the next one of its lane, which ends at `lane_end`, are an overlapped pair. Constant time.
  [[nodiscard]] constexpr bool opens_pair(std::uint32_t n, std::uint32_t lane_end) const noexcept {
    return p_.nodes[n].overlaps_next() && n + 1 < lane_end;
  }
  /// \}

  /// \name Edges
  /// \{
  /// The stored edges into and out of a node: all but program and pair edges. Constant time.
  [[nodiscard]] constexpr view<graph_link> links_in(node_id n) const noexcept {
    return links_of(n, p_.in_begin, p_.in);
  }
  [[nodiscard]] constexpr view<graph_link> links_out(node_id n) const noexcept {
    return links_of(n, p_.out_begin, p_.out);
  }
  /// Where no node can have more than two stored edges in: node n's, at 2n and 2n + 1, with `graph_link::none()` where
  /// there are fewer. Null for other graphs.
  [[nodiscard]] constexpr graph_link const* places_in() const noexcept {
    return p_.in_begin.size() == 0 ? p_.in.data() : nullptr;
  }
  /// The same of the edges out.
  [[nodiscard]] constexpr graph_link const* places_out_of_nodes() const noexcept {
    return p_.out_begin.size() == 0 ? p_.out.data() : nullptr;
  }
  /// The number of stored edges.
  [[nodiscard]] constexpr std::size_t link_count() const noexcept { return p_.links; }
  /// A number of its own, less than `places_out()`, for an element of `links_out`: to keep something for each edge.
  [[nodiscard]] constexpr std::size_t place_of(graph_link const& out) const noexcept {
    return std::size_t(&out - p_.out.data());
  }
  [[nodiscard]] constexpr std::size_t places_out() const noexcept { return p_.out.size(); }

  /// All typed edges into a node, program and pair edges included.
  [[nodiscard]] constexpr detail::vector<edge> producers(node_id n) const {
    detail::vector<edge> edges;
    for (graph_link l : links_in(n)) edges.push_back(edge{node_id{l.node()}, n, l.kind()});
    auto const mate = partner(n);
    auto const block = mate && *mate < n ? *mate : n;
    if (block.value > lane_begin(lane_of(n)))
      for (auto from : block_of(node_id{block.value - 1})) edges.push_back(edge{from, n, edge_kind::program});
    if (mate) edges.push_back(edge{*mate, n, edge_kind::pair});
    return edges;
  }
  /// All typed edges out of a node, program and pair edges included.
  [[nodiscard]] constexpr detail::vector<edge> consumers(node_id n) const {
    detail::vector<edge> edges;
    for (graph_link l : links_out(n)) edges.push_back(edge{n, node_id{l.node()}, l.kind()});
    auto const mate = partner(n);
    auto const block = mate && *mate > n ? *mate : n;
    if (block.value + 1 < lane_end(lane_of(n)))
      for (auto to : block_of(node_id{block.value + 1})) edges.push_back(edge{n, to, edge_kind::program});
    if (mate) edges.push_back(edge{n, *mate, edge_kind::pair});
    return edges;
  }
  /// \}

  /// The node of a chunk op, overlapped or not. Time in proportion to the program of the op's rank.
  [[nodiscard]] constexpr std::optional<node_id> find(op o) const noexcept {
    if (o.stage() >= stages() || o.replica() >= p_.where.replicas()) return {};
    auto const rank = p_.where.rank_of(o.stage(), o.replica());
    auto const ops = program(rank);
    auto const at = std::find_if(ops.begin(), ops.end(), [&](op other) { return other.alone() == o.alone(); });
    if (at == ops.end()) return {};
    return node_id{lane_begin(lane_of(rank, stream::compute)) + (at - ops.begin())};
  }

  /// Ops that nodes need and that no rank runs, in the order of the nodes; empty for a schedule that can train.
  [[nodiscard]] constexpr view<missing_producer> missing() const noexcept {
    return {p_.missing.data(), p_.missing.size()};
  }

 private:
  [[nodiscard]] static constexpr view<graph_link> links_of(node_id n, detail::buffer<std::uint32_t> const& begin,
                                                           detail::buffer<graph_link> const& links) noexcept {
    if (begin.size() != 0) return links.view().subspan(begin[n.value], begin[n.value + 1] - begin[n.value]);
    auto const* const two = links.data() + 2 * std::size_t{n.value};
    bool const has_first = two[0] != graph_link::none();
    bool const has_second = two[1] != graph_link::none();
    return {two + !has_first, std::size_t{has_first} + std::size_t{has_second}};
  }
  /// A node and its partner, in order.
  [[nodiscard]] constexpr detail::vector<node_id> block_of(node_id n) const {
    auto const mate = partner(n);
    if (!mate) return {n};
    return {std::min(n, *mate), std::max(n, *mate)};
  }

  parts p_;
};

}  // namespace v0
}  // namespace pipesched
