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

/// Fills a graph's edges node by node, so that every array is written once and in order.
class edge_writer {
 public:
  constexpr edge_writer(op_graph::parts& graph, op_index const& index, graph_options const& options)
      : graph_(graph),
        index_(index),
        options_(options),
        stages_(graph.where.stages()),
        by_consumer_(look_up(options.edges, index)),
        by_producer_(by_consumer_) {
    detail::sort(by_consumer_, [](auto const& a, auto const& b) { return a.to < b.to; });
    detail::sort(by_producer_, [](auto const& a, auto const& b) { return a.from < b.from; });
    own_in_ = by_consumer_.begin();
    own_out_ = by_producer_.begin();

    // An op has two edges in and two out at most, but for skip connections and the user's own. A bound: what is not
    // written is never touched.
    auto const nodes = graph.nodes.size();
    auto const ends = (2 + options.skip_connections.size()) * nodes + options.edges.size();
    graph.in_begin = buffer<std::uint32_t>(nodes + 1);
    graph.out_begin = buffer<std::uint32_t>(nodes + 1);
    graph.in = buffer<graph_link>(ends);
    graph.out = buffer<graph_link>(ends);
  }

  constexpr void write_rank(std::uint32_t first, std::uint32_t last) {
    first_ = first;
    last_ = last;
    for (auto node = first; node < last; ++node) {
      graph_.in_begin[node] = in_count_;
      graph_.out_begin[node] = out_count_;
      op const o = graph_.nodes[node];
      int const s = o.stage();
      auto const b = o.microbatch();
      bool const counts = index_.find(o) == node;  // of duplicates the first
      switch (o.kind()) {
        case op_kind::forward:
          if (options_.chain && s > 0) needs(node, op_role::forward, s - 1, b, edge_kind::activation);
          if (!counts) break;
          if (options_.chain) feeds(op_role::forward, s + 1, b, edge_kind::activation);
          feeds(op_role::gradient, s, b, edge_kind::stash);
          break;
        case op_kind::backward:
        case op_kind::backward_input:
          if (options_.chain && s + 1 < stages_) needs(node, op_role::gradient, s + 1, b, edge_kind::gradient);
          needs(node, op_role::forward, s, b, edge_kind::stash);
          if (!counts) break;
          if (options_.chain) feeds(op_role::gradient, s - 1, b, edge_kind::gradient);
          if (o.kind() == op_kind::backward_input) feeds(op_role::weight, s, b, edge_kind::weight);
          break;
        case op_kind::backward_weight: needs(node, op_role::gradient, s, b, edge_kind::weight); break;
        default: break;
      }
      if (!options_.skip_connections.empty()) write_skips(node, counts);
      for (; own_in_ != by_consumer_.end() && own_in_->to == node; ++own_in_) add_in(own_in_->from, own_in_->kind);
      for (; own_out_ != by_producer_.end() && own_out_->from == node; ++own_out_)
        add_out(own_out_->to, own_out_->kind);
    }
  }

  constexpr void finish() {
    auto const nodes = graph_.nodes.size();
    graph_.in_begin[nodes] = in_count_;
    graph_.out_begin[nodes] = out_count_;
    graph_.in.resize_uninitialised(in_count_);
    graph_.out.resize_uninitialised(out_count_);
  }

 private:
  constexpr void needs(std::uint32_t node, op_role role, int stage, std::int64_t microbatch, edge_kind kind) {
    auto const from = index_.find(role, stage, microbatch);
    // A full backward has done its weights already: no W may follow it.
    bool const exists =
        from != op_index::none && !(kind == edge_kind::weight && graph_.nodes[from].kind() == op_kind::backward);
    if (exists)
      add_in(from, kind);
    else
      miss(node, role, stage, kind);
  }
  constexpr void feeds(op_role role, int stage, std::int64_t microbatch, edge_kind kind) {
    auto const to = index_.find(role, stage, microbatch);
    if (to != op_index::none) add_out(to, kind);
  }
  constexpr void add_in(std::uint32_t from, edge_kind kind) {
    graph_.in[in_count_++] = graph_link(from, kind, remote(from));
  }
  constexpr void add_out(std::uint32_t to, edge_kind kind) {
    graph_.out[out_count_++] = graph_link(to, kind, remote(to));
  }
  [[nodiscard]] constexpr bool remote(std::uint32_t node) const noexcept { return node < first_ || node >= last_; }

  constexpr void write_skips(std::uint32_t node, bool counts) {
    op const o = graph_.nodes[node];
    if (o.kind() == op_kind::backward_weight) return;
    bool const forward = o.kind() == op_kind::forward;
    auto const role = forward ? op_role::forward : op_role::gradient;
    auto const kind = forward ? edge_kind::activation : edge_kind::gradient;
    for (auto skip : options_.skip_connections) {
      int const producer = forward ? skip.from : skip.to;
      int const consumer = forward ? skip.to : skip.from;
      if (o.stage() == consumer) needs(node, role, producer, o.microbatch(), kind);
      if (o.stage() == producer && counts) feeds(role, consumer, o.microbatch(), kind);
    }
  }

  constexpr void miss(std::uint32_t node, op_role role, int stage, edge_kind kind) {
    op const o = graph_.nodes[node];
    auto const expected = role == op_role::forward    ? op_kind::forward
                          : kind == edge_kind::weight ? op_kind::backward_input
                                                      : o.kind();
    graph_.missing.push_back(missing_producer{
        node_id{node}, op(expected, stage_id{stage}, microbatch_id{o.microbatch()}, replica_id{o.replica()})});
  }

  op_graph::parts& graph_;
  op_index const& index_;
  graph_options const& options_;
  int stages_;
  std::vector<node_edge> by_consumer_;
  std::vector<node_edge> by_producer_;
  std::vector<node_edge>::const_iterator own_in_;
  std::vector<node_edge>::const_iterator own_out_;
  std::uint32_t first_ = 0;
  std::uint32_t last_ = 0;
  std::uint32_t in_count_ = 0;
  std::uint32_t out_count_ = 0;
};

}  // namespace detail

/// The op graph of a schedule, right or wrong: an op that nobody produces is listed in `missing()`, and a cycle is
/// found by `execution_order`. Of duplicate ops the first counts. Time and memory in proportion to the ops: at most 20
/// bytes an op beside the ops themselves.
/// Throws `parameter_error` for a skip connection or an edge whose end does not exist.
[[nodiscard]] constexpr op_graph build_graph(schedule const& s, graph_options const& options = {}) {
  detail::check_skips(options, s.stages());
  op_graph::parts graph{s.where(), s.microbatches(), {s.name().begin(), s.name().end()}};
  for (auto offset : s.offsets()) graph.lane_begin.push_back(std::uint32_t(offset));
  graph.nodes = detail::buffer<op>(s.ops().size());
  std::copy(s.ops().begin(), s.ops().end(), graph.nodes.begin());

  detail::op_index const index(s.ops(), s.stages(), s.microbatches());
  detail::edge_writer edges(graph, index, options);
  for (std::size_t rank = 0; rank + 1 < graph.lane_begin.size(); ++rank)
    edges.write_rank(graph.lane_begin[rank], graph.lane_begin[rank + 1]);
  edges.finish();
  return op_graph(std::move(graph));
}

/// The op graph of the schedule that `generator` makes.
template <schedule_generator G>
[[nodiscard]] constexpr op_graph build_graph(G const& generator, graph_options const& options = {}) {
  return build_graph(generate(generator), options);
}

}  // namespace v0
}  // namespace pipesched
