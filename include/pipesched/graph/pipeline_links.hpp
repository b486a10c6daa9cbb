// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The edges that every pipeline has, each node's at once.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <pipesched/core/op.hpp>
#include <pipesched/core/prefetch.hpp>
#include <pipesched/core/sort.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/edge.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/graph/op_index.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// A rule by which a consumer needs a producer of the same microbatch.
struct dependency {
  op_role consumer;
  op_role producer;
  int producer_stage;  ///< less the consumer's
  edge_kind kind;
  std::size_t in_place;   ///< which of the consumer's two places for edges into it is this one's
  std::size_t out_place;  ///< and which of the producer's
};

/// What every pipeline has. No two that meet at a node have the same place there.
inline constexpr std::array<dependency, 4> pipeline_rules{{
    {op_role::forward, op_role::forward, -1, edge_kind::activation, 0, 0},
    {op_role::gradient, op_role::gradient, +1, edge_kind::gradient, 0, 0},
    {op_role::gradient, op_role::forward, 0, edge_kind::stash, 1, 1},
    {op_role::weight, op_role::gradient, 0, edge_kind::weight, 0, 1},
}};

/// The nodes of one rank.
struct node_range {
  std::uint32_t first;
  std::uint32_t length;
  [[nodiscard]] constexpr bool contains(std::uint32_t node) const noexcept { return node - first < length; }
};

/// The nodes of the rank that has this one.
[[nodiscard]] constexpr node_range rank_around(op_graph::parts const& graph, std::uint32_t node) noexcept {
  auto const after = std::upper_bound(graph.lane_begin.begin(), graph.lane_begin.end(), node);
  return {*(after - 1), *after - *(after - 1)};
}

/// Ops that nodes need and that no rank runs, as they are noticed.
class missing_ops {
 public:
  constexpr void add(op_graph::parts const& graph, std::uint32_t node, op_kind kind, int stage) {
    op const o = graph.nodes[node];
    op const expected(kind, stage_id{stage}, microbatch_id{o.microbatch()}, replica_id{o.replica()});
    found_.push_back(entry{node, found_.size(), expected});
  }
  /// Node by node.
  constexpr void list(vector<missing_producer>& missing) {
    detail::sort(found_, [](entry const& a, entry const& b) {
      return a.node != b.node ? a.node < b.node : a.sequence < b.sequence;
    });
    missing.clear();
    for (auto const& m : found_) missing.push_back(missing_producer{node_id{m.node}, m.expected});
  }

 private:
  struct entry {
    std::uint32_t node;
    std::size_t sequence;
    op expected;
  };
  vector<entry> found_;
};

/// Two links that stand one after the other, made and stored as one number.
class two_links {
 public:
  /// Added to the node at the end of a link between two ranks.
  static constexpr std::uint32_t remote_end = std::uint32_t{1} << 31;

  constexpr two_links(graph_link first, graph_link second) noexcept : bits_(both(first.bits_, second.bits_)) {}

  /// The same links, made to node 0, to these ends: `none()` where there is none, that is to say all ones, or where the
  /// link was `none()` before.
  [[nodiscard]] constexpr two_links joined_to(std::uint32_t first, std::uint32_t second) const noexcept {
    auto result = *this;
    result.bits_ |= both(first, second);
    return result;
  }
  constexpr void store(graph_link* at) const noexcept {
    if (std::is_constant_evaluated()) {
      at[is_little ? 0 : 1].bits_ = std::uint32_t(bits_);
      at[is_little ? 1 : 0].bits_ = std::uint32_t(bits_ >> 32);
    } else {
      std::memcpy(static_cast<void*>(at), &bits_, sizeof bits_);
    }
  }

 private:
  static constexpr bool is_little = std::endian::native == std::endian::little;
  [[nodiscard]] static constexpr std::uint64_t both(std::uint32_t first, std::uint32_t second) noexcept {
    return is_little ? first | std::uint64_t{second} << 32 : second | std::uint64_t{first} << 32;
  }

  std::uint64_t bits_;
};

/// Gives each node of a graph its links by the rules, two places in each direction.
class pipeline_linker {
 public:
  /// `chain`: whether stage s follows stage s-1.
  constexpr pipeline_linker(op_graph::parts& graph, op_index const& index, bool chain, missing_ops& missing)
      : graph_(graph), index_(index), chain_(chain), missing_(missing) {
    graph.in_begin = {};
    graph.out_begin = {};
    graph.links = 0;
    graph.in.resize_uninitialised(2 * graph.nodes.size());
    graph.out.resize_uninitialised(2 * graph.nodes.size());
  }

  /// Where there is a table of ops, block by block, so that no link costs a search; those of one rank's stages in turn,
  /// as their nodes are neighbours.
  constexpr void link_nodes() {
    std::size_t linked = 0;
    if (index_.has_rows()) {
      auto const stages = stages_by_rank();
      for (std::size_t first = 0, last = 0; first < stages.size(); first = last) {
        while (last < stages.size() && stages[last].rank == stages[first].rank) ++last;
        for (std::int64_t b = 0; b < index_.microbatches(); b += op_index::block_size)
          for (auto i = first; i < last; ++i)
            for (auto role : {op_role::forward, op_role::gradient, op_role::weight})
              if (index_.has_rows_of(role)) linked += link_block(role, stages[i].stage, b);
      }
    }
    if (linked == graph_.nodes.size()) return;
    for (std::uint32_t node = 0; node < graph_.nodes.size(); ++node)  // duplicates, and what is no chunk op
      if (!index_.has_rows() || index_.find(graph_.nodes[node]) != node) link_node(node);
  }

 private:
  struct stage_on_rank {
    int rank;
    int stage;
  };
  [[nodiscard]] constexpr vector<stage_on_rank> stages_by_rank() const {
    vector<stage_on_rank> stages;
    for (int stage = 0; stage < graph_.where.stages(); ++stage)
      stages.push_back(stage_on_rank{graph_.where.rank_of(stage), stage});
    detail::sort(stages, [](stage_on_rank a, stage_on_rank b) {
      return a.rank != b.rank ? a.rank < b.rank : a.stage < b.stage;
    });
    return stages;
  }

  /// Whether a rule holds for a consumer on `stage`.
  [[nodiscard]] constexpr bool applies(dependency const& rule, int stage) const noexcept {
    if (rule.producer_stage == 0) return true;
    auto const producer = stage + rule.producer_stage;
    auto const stages = graph_.where.stages();
    return chain_ && stage >= 0 && stage < stages && producer >= 0 && producer < stages;
  }
  /// A full backward has done its weights already: no W may follow it.
  [[nodiscard]] constexpr bool can_feed(dependency const& rule, std::uint32_t producer) const noexcept {
    if (producer == op_index::none) return false;
    return rule.kind != edge_kind::weight || graph_.nodes[producer].kind() == op_kind::backward_input;
  }

  /// The links of one place of a block's nodes: what they have in common, and their other ends, one for each
  /// microbatch. Where a place has none, its other ends are not looked at.
  struct place_links {
    graph_link link;
    std::uint32_t const* ends;
  };
  struct places {
    place_links first;
    place_links second;
    [[nodiscard]] constexpr place_links& operator[](std::size_t place) noexcept { return place == 0 ? first : second; }
  };

  /// The links of the nodes of a row; `OneRankEach`: all of them are on one rank, and so are all ends of a place.
  /// False where an op that one of them needs is missing.
  template <bool OneRankEach>
  [[nodiscard]] constexpr bool link_rows(std::uint32_t const* nodes, std::size_t count, places from, places to,
                                         std::size_t& linked) {
    auto* const in = graph_.in.data();
    auto* const out = graph_.out.data();
    two_links const links_in(from.first.link, from.second.link);
    two_links const links_out(to.first.link, to.second.link);
    auto const end_of = [&](std::uint32_t end) {
      if constexpr (!OneRankEach)
        if (!rank_.contains(end)) return end | two_links::remote_end;
      return end;
    };
    // Those of nodes some way on: a block is too short for the processor to see by itself that there will be more.
    constexpr std::size_t ahead = 512;
    std::uint32_t any = 0;  // `op_index::none` has bits that no node has
    std::size_t absent = 0;
    for (std::size_t b = 0; b < count; ++b) {
      auto const node = std::size_t{nodes[b]};
      if (node == op_index::none) {
        ++absent;
        continue;
      }
      if constexpr (!OneRankEach)
        if (!rank_.contains(nodes[b])) rank_ = rank_around(graph_, nodes[b]);
      prefetch(in, 2 * node + ahead);
      prefetch(out, 2 * node + ahead);
      auto const first = from.first.ends[b];
      auto const second = from.second.ends[b];
      any |= first | second;
      links_in.joined_to(end_of(first), end_of(second)).store(in + 2 * node);
      links_out.joined_to(end_of(to.first.ends[b]), end_of(to.second.ends[b])).store(out + 2 * node);
    }
    linked = count - absent;
    return any != op_index::none;
  }

  /// Whether each consumer of a block has its producer.
  [[nodiscard]] constexpr bool each_is_fed(dependency const& rule, std::uint32_t const* consumers,
                                           std::uint32_t const* producers, std::size_t count) const noexcept {
    for (std::size_t b = 0; b < count; ++b)
      if (consumers[b] != op_index::none && !can_feed(rule, producers[b])) return false;
    return true;
  }

  /// All links of one node, whatever there is of it and of others. A duplicate waits as the first does; what follows
  /// waits for the first alone.
  constexpr void link_node(std::uint32_t node) {
    auto* const in = graph_.in.data() + 2 * std::size_t{node};
    auto* const out = graph_.out.data() + 2 * std::size_t{node};
    in[0] = in[1] = out[0] = out[1] = graph_link::none();
    op const o = graph_.nodes[node];
    if (!is_chunk_op(o.kind())) return;
    auto const role = role_of(o.kind());
    if (!rank_.contains(node)) rank_ = rank_around(graph_, node);
    for (auto const& rule : pipeline_rules) {
      if (rule.consumer == role && applies(rule, o.stage())) {
        auto const producer = index_.find(rule.producer, o.stage() + rule.producer_stage, o.microbatch());
        if (can_feed(rule, producer)) {
          in[rule.in_place] = graph_link(producer, rule.kind, !rank_.contains(producer));
          ++graph_.links;
        } else {
          miss(node, rule);
        }
      }
      if (rule.producer == role && applies(rule, o.stage() - rule.producer_stage) && can_feed(rule, node)) {
        auto const consumer = index_.find(rule.consumer, o.stage() - rule.producer_stage, o.microbatch());
        if (consumer != op_index::none && index_.find(o) == node)
          out[rule.out_place] = graph_link(consumer, rule.kind, !rank_.contains(consumer));
      }
    }
  }
  constexpr void miss(std::uint32_t node, dependency const& rule) {
    op const o = graph_.nodes[node];
    auto const expected = rule.producer == op_role::forward  ? op_kind::forward
                          : rule.consumer == op_role::weight ? op_kind::backward_input
                                                             : o.kind();
    missing_.add(graph_, node, expected, o.stage() + rule.producer_stage);
  }

  /// All links of a block's nodes, whose number it returns. Where nothing is missing, a link is put together of what
  /// all of its place have in common and an entry of a row; else it is looked up like that of any node.
  constexpr std::size_t link_block(op_role role, int stage, std::int64_t begin) {
    auto const block = index_.block_at(role, stage, begin);
    if (block.lane == op_index::block::no_lane) return 0;
    auto const count = std::size_t(std::min(op_index::block_size, index_.microbatches() - begin));
    auto const* const nodes = index_.row(role, stage) + begin;
    places in{{graph_link::none(), nodes}, {graph_link::none(), nodes}};
    places out = in;
    std::size_t needed = 0;
    bool one_rank_each = block.lane != op_index::block::many_lanes;
    bool is_complete = true;
    auto const join = [&](dependency const& rule, place_links& place, op_role other, int other_stage) {
      auto const there = index_.block_at(other, other_stage, begin);
      bool const two_ranks = there.lane != op_index::block::many_lanes && block.lane != op_index::block::many_lanes;
      place = {graph_link(0, rule.kind, two_ranks && there.lane != block.lane), index_.row(other, other_stage) + begin};
      if (there.lane == op_index::block::many_lanes) one_rank_each = false;
      if (rule.kind == edge_kind::weight && (block.has_full_backward || there.has_full_backward))
        is_complete = each_is_fed(rule, index_.row(rule.consumer, stage) + begin,
                                  index_.row(rule.producer, stage) + begin, count);
    };
    for (auto const& rule : pipeline_rules) {
      if (rule.consumer == role && applies(rule, stage)) {
        join(rule, in[rule.in_place], rule.producer, stage + rule.producer_stage);
        ++needed;
      }
      auto const consumers = stage - rule.producer_stage;
      if (rule.producer == role && applies(rule, consumers) && index_.has_rows_of(rule.consumer) &&
          index_.block_at(rule.consumer, consumers, begin).lane != op_index::block::no_lane)
        join(rule, out[rule.out_place], rule.consumer, consumers);
    }
    std::size_t linked = 0;
    if (is_complete && (one_rank_each ? link_rows<true>(nodes, count, in, out, linked)
                                      : link_rows<false>(nodes, count, in, out, linked))) {
      graph_.links += needed * linked;
      return linked;
    }
    linked = 0;
    for (std::size_t b = 0; b < count; ++b) {
      if (nodes[b] == op_index::none) continue;
      link_node(nodes[b]);
      ++linked;
    }
    return linked;
  }

  op_graph::parts& graph_;
  op_index const& index_;
  bool chain_;
  missing_ops& missing_;
  node_range rank_{0, 0};  // of the node that was linked last
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
