// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// An op graph in the DOT language of Graphviz.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <pipesched/graph/op_graph.hpp>
#include <pipesched/io/append.hpp>

namespace pipesched {
inline namespace v0 {

namespace detail {

/// How each type of edge is drawn, by `edge_kind`.
[[nodiscard]] constexpr std::string_view dot_style(edge_kind kind) noexcept {
  switch (kind) {
    case edge_kind::activation: return "color=\"#0072b2\"";
    case edge_kind::gradient: return "color=\"#009e73\"";
    case edge_kind::stash: return "color=\"#56b4e9\", style=dashed";
    case edge_kind::weight: return "color=\"#e69f00\", style=dashed";
    case edge_kind::chunk: return "color=\"#cc79a7\"";
    case edge_kind::program: return "color=\"#999999\", style=dotted";
    case edge_kind::pair: return "color=\"#000000\", dir=both";
    default: return "color=\"#d55e00\"";
  }
}

[[nodiscard]] inline std::string dot_string(std::string_view text) {
  std::string quoted = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace detail

/// The graph with one cluster per rank and stream, a node per op labelled as text writes it ("3F12"), and every typed
/// edge with its type as `class`. Equal graphs give equal text: nodes are numbered and edges listed in the order of the
/// nodes, program edges from the last member of a pair alone.
[[nodiscard]] inline std::string dot(op_graph const& graph) {
  std::string text;
  detail::append(text, "digraph {} {{\n  rankdir=LR;\n  node [shape=box];\n", detail::dot_string(graph.name()));
  for (int lane = 0; lane < graph.lanes(); ++lane) {
    if (graph.lane_begin(lane) == graph.lane_end(lane)) continue;
    int const rank = lane / graph.streams();
    auto const name = graph.streams() > 1 ? fmt::format("rank {}, {}", rank, name_of(stream(lane % graph.streams())))
                                          : fmt::format("rank {}", rank);
    detail::append(text, "  subgraph cluster_{} {{\n    label=\"{}\";\n", lane, name);
    for (auto n = graph.lane_begin(lane); n < graph.lane_end(lane); ++n)
      detail::append(text, "    n{} [label=\"{}\"];\n", n, to_string(graph.node(node_id{n})));
    text += "  }\n";
  }
  auto const add = [&](std::uint32_t from, std::uint32_t to, edge_kind kind) {
    detail::append(text, "  n{} -> n{} [class={}, {}];\n", from, to, name_of(kind), detail::dot_style(kind));
  };
  for (int lane = 0; lane < graph.lanes(); ++lane) {
    auto const end = graph.lane_end(lane);
    for (auto n = graph.lane_begin(lane); n < end; ++n) {
      for (graph_link l : graph.links_out(node_id{n})) add(n, l.node(), l.kind());
      if (graph.opens_pair(n, end))
        add(n, n + 1, edge_kind::pair);
      else if (n + 1 < end)
        add(n, n + 1, edge_kind::program);
    }
  }
  text += "}\n";
  return text;
}

}  // namespace v0
}  // namespace pipesched
