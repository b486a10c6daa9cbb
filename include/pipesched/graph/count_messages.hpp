// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// How many messages each rank of a graph sends and receives, and how many each node waits for.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/communication_plan.hpp>
#include <pipesched/graph/edge.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/graph/op_graph.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Whether something is sent along a link.
[[nodiscard]] constexpr bool is_message(graph_link l) noexcept { return l.joins_ranks(); }

/// Calls `visit(link, is_sent)` for the links out of a node: one tensor is sent once, however many edges there are to
/// its consumer.
template <class Visit>
constexpr void for_each_link_out(op_graph const& graph, std::uint32_t node, Visit const& visit) {
  auto const links = graph.links_out(node_id{node});
  for (auto const* l = links.data(); l != links.data() + links.size(); ++l)
    visit(*l,
          l->remote() && std::none_of(links.data(), l, [&](graph_link other) { return other.node() == l->node(); }));
}

/// The messages of a graph before any of them is sent.
class message_counts {
 public:
  struct node_state {
    std::uint32_t missing;  ///< messages that have not come; more than there are where one never comes
    std::uint32_t arrived;  ///< the last that has, for the writer of the plan
  };
  struct rank_count {
    std::uint32_t sent = 0;
    std::uint32_t received = 0;
  };

  /// Throws `schedule_error` where a duplicate of an op waits for ever.
  constexpr explicit message_counts(op_graph const& graph)
      : nodes(graph.size()), ranks(std::size_t(graph.ranks())), graph_(graph) {
    if (graph.places_in() == nullptr || graph.places_out_of_nodes() == nullptr || !count_at_both_ends())
      count_along_links();
  }

  buffer<node_state> nodes;
  vector<rank_count> ranks;

 private:
  static constexpr std::uint32_t none = plan_entry::no_message;

  /// In one pass over the nodes of a graph with two places a node. False where the two ends of the links differ: a
  /// duplicate waits, but nothing is sent to it.
  [[nodiscard]] constexpr bool count_at_both_ends() {
    auto const* const all_in = graph_.places_in();
    auto const* const all_out = graph_.places_out_of_nodes();
    auto* const states = nodes.data();
    std::size_t sent = 0;
    std::size_t received = 0;
    for (int rank = 0; rank < graph_.ranks(); ++rank) {
      rank_count count;
      auto const end = graph_.lane_end(rank);
      for (auto n = graph_.lane_begin(rank); n < end; ++n) {
        auto const* const in = all_in + 2 * std::size_t{n};
        auto const* const out = all_out + 2 * std::size_t{n};
        auto const missing = std::uint32_t{is_message(in[0])} + std::uint32_t{is_message(in[1])};
        count.received += missing;
        count.sent += std::uint32_t{is_message(out[0])} + std::uint32_t{is_message(out[1])};
        bool const stuck = never_comes(in[0], n) || never_comes(in[1], n);
        states[n] = node_state{missing + std::uint32_t{stuck}, none};
      }
      ranks[std::size_t(rank)] = count;
      sent += count.sent;
      received += count.received;
    }
    return sent == received;
  }

  /// Of any graph, from what is sent alone.
  constexpr void count_along_links() {
    for (auto& n : nodes) n = node_state{0, none};
    std::size_t links = 0;
    for (int rank = 0; rank < graph_.ranks(); ++rank) {
      auto& count = ranks[std::size_t(rank)] = {};
      for (auto n = graph_.lane_begin(rank); n < graph_.lane_end(rank); ++n)
        for_each_link_out(graph_, n, [&](graph_link l, bool is_sent) {
          ++links;
          count.sent += is_sent;
          nodes[l.node()].missing += is_sent || never_comes(graph_link(n, l.kind(), l.remote()), l.node());
        });
    }
    for (int rank = 0; rank < graph_.ranks(); ++rank)
      for (auto n = graph_.lane_begin(rank); n < graph_.lane_end(rank); ++n)
        ranks[std::size_t(rank)].received += nodes[n].missing;
    if (links < graph_.link_count()) require_runnable(graph_, execution_order(graph_));
  }

  /// Whether a link into a node is from an op of its own rank that does not come before it.
  [[nodiscard]] constexpr bool never_comes(graph_link in, std::uint32_t node) const noexcept {
    if (in.remote() || in.node() + 1 < node) return false;
    return in.node() >= node || (graph_.node(node_id{in.node()}).overlaps_next() && ends_pair(node));
  }
  /// Whether a node after one that opens a pair is in that pair: not where the one before is the end of a pair itself.
  [[nodiscard]] constexpr bool ends_pair(std::uint32_t node) const noexcept {
    auto const begin = graph_.lane_begin(graph_.lane_of(node_id{node}));
    bool ends = false;
    for (auto n = node; n > begin && graph_.node(node_id{n - 1}).overlaps_next(); --n) ends = !ends;
    return ends;
  }

  op_graph const& graph_;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
