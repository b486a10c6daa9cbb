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

/// Calls `visit(role, stage, edge kind)` for each op that `o` needs.
template <class Visit>
constexpr void for_each_producer(op o, int stages, graph_options const& options, Visit&& visit) {
  int const s = o.stage();
  if (o.kind() == op_kind::forward) {
    if (options.chain && s > 0) visit(op_role::forward, s - 1, edge_kind::activation);
    for (auto skip : options.skip_connections)
      if (skip.to == s) visit(op_role::forward, skip.from, edge_kind::activation);
  } else if (carries_gradient(o.kind())) {
    if (options.chain && s + 1 < stages) visit(op_role::gradient, s + 1, edge_kind::gradient);
    for (auto skip : options.skip_connections)
      if (skip.from == s) visit(op_role::gradient, skip.to, edge_kind::gradient);
    visit(op_role::forward, s, edge_kind::stash);
  } else if (o.kind() == op_kind::backward_weight) {
    visit(op_role::gradient, s, edge_kind::weight);
  }
}

/// Calls `visit(role, stage, edge kind)` for each op that needs `o`: the mirror image of `for_each_producer`.
template <class Visit>
constexpr void for_each_consumer(op o, int stages, graph_options const& options, Visit&& visit) {
  int const s = o.stage();
  if (o.kind() == op_kind::forward) {
    if (options.chain && s + 1 < stages) visit(op_role::forward, s + 1, edge_kind::activation);
    for (auto skip : options.skip_connections)
      if (skip.from == s) visit(op_role::forward, skip.to, edge_kind::activation);
    visit(op_role::gradient, s, edge_kind::stash);
  } else if (carries_gradient(o.kind())) {
    if (options.chain && s > 0) visit(op_role::gradient, s - 1, edge_kind::gradient);
    for (auto skip : options.skip_connections)
      if (skip.to == s) visit(op_role::gradient, skip.from, edge_kind::gradient);
    if (o.kind() == op_kind::backward_input) visit(op_role::weight, s, edge_kind::weight);
  }
}

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

}  // namespace detail

/// The op graph of a schedule, right or wrong: an op that nobody produces is listed in `missing()`, and a cycle is
/// found by `execution_order`. Of duplicate ops the first counts. Time and memory in proportion to the ops: at most 20
/// bytes an op beside the ops themselves.
/// Throws `parameter_error` for a skip connection or an edge whose end does not exist.
[[nodiscard]] constexpr op_graph build_graph(schedule const& s, graph_options const& options = {}) {
  detail::check_skips(options, s.stages());
  auto const ops = s.ops();
  auto const n = ops.size();
  detail::op_index const index(ops, s.stages(), s.microbatches());
  auto by_consumer = detail::look_up(options.edges, index);
  auto by_producer = by_consumer;
  std::sort(by_consumer.begin(), by_consumer.end(), [](auto const& a, auto const& b) { return a.to < b.to; });
  std::sort(by_producer.begin(), by_producer.end(), [](auto const& a, auto const& b) { return a.from < b.from; });

  op_graph::parts graph{s.where(), s.microbatches(), {s.name().begin(), s.name().end()}};
  for (auto offset : s.offsets()) graph.lane_begin.push_back(std::uint32_t(offset));
  graph.nodes = detail::buffer<op>(n);
  std::copy(ops.begin(), ops.end(), graph.nodes.begin());

  // The ends of all edges, written once and in node order. Their number is a bound: missing ops have none.
  auto ends = options.edges.size();
  for (op o : ops) detail::for_each_producer(o, s.stages(), options, [&](auto...) { ++ends; });
  graph.in_begin = detail::buffer<std::uint32_t>(n + 1);
  graph.out_begin = detail::buffer<std::uint32_t>(n + 1);
  graph.in = detail::buffer<link>(ends);
  graph.out = detail::buffer<link>(ends);
  std::uint32_t in_count = 0;
  std::uint32_t out_count = 0;
  auto own_in = by_consumer.begin();
  auto own_out = by_producer.begin();

  for (int rank = 0; rank < s.ranks(); ++rank) {
    auto const first = graph.lane_begin[std::size_t(rank)];
    auto const last = graph.lane_begin[std::size_t(rank) + 1];
    auto const link_to = [&](std::uint32_t node, edge_kind kind) {
      return link(node, kind, node < first || node >= last);
    };
    for (auto node = first; node < last; ++node) {
      op const o = ops[node];
      graph.in_begin[node] = in_count;
      graph.out_begin[node] = out_count;
      detail::for_each_producer(o, s.stages(), options, [&](detail::op_role role, int stage, edge_kind kind) {
        auto const from = index.find(role, stage, o.microbatch());
        // A full backward has done its weights already: no W may follow it.
        bool const exists =
            from != detail::op_index::none && !(kind == edge_kind::weight && ops[from].kind() == op_kind::backward);
        if (exists) {
          graph.in[in_count++] = link_to(from, kind);
        } else {
          auto const expected = role == detail::op_role::forward ? op_kind::forward
                                : kind == edge_kind::weight      ? op_kind::backward_input
                                                                 : o.kind();
          graph.missing.push_back(missing_producer{
              node_id{node}, op(expected, stage_id{stage}, microbatch_id{o.microbatch()}, replica_id{o.replica()})});
        }
      });
      for (; own_in != by_consumer.end() && own_in->to == node; ++own_in)
        graph.in[in_count++] = link_to(own_in->from, own_in->kind);

      if (index.find(o) == node)
        detail::for_each_consumer(o, s.stages(), options, [&](detail::op_role role, int stage, edge_kind kind) {
          auto const to = index.find(role, stage, o.microbatch());
          if (to != detail::op_index::none) graph.out[out_count++] = link_to(to, kind);
        });
      for (; own_out != by_producer.end() && own_out->from == node; ++own_out)
        graph.out[out_count++] = link_to(own_out->to, own_out->kind);
    }
  }
  graph.in_begin[n] = in_count;
  graph.out_begin[n] = out_count;
  graph.in.resize_uninitialised(in_count);
  graph.out.resize_uninitialised(out_count);
  return op_graph(std::move(graph));
}

/// The op graph of the schedule that `generator` makes.
template <schedule_generator G>
[[nodiscard]] constexpr op_graph build_graph(G const& generator, graph_options const& options = {}) {
  return build_graph(generate(generator), options);
}

}  // namespace v0
}  // namespace pipesched
