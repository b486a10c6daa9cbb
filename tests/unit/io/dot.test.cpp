// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <pipesched/graph/build_graph.hpp>
#include <pipesched/io/dot.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

#include "support/built_in_schedules.hpp"

using namespace pipesched;

namespace {

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t found = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + what.size())) ++found;
  return found;
}

}  // namespace

TEST_CASE("A graph in DOT, letter for letter", "[io][dot]") {
  CHECK(dot(build_graph(one_f_one_b{2, 1})) ==
        "digraph \"1f1b\" {\n  rankdir=LR;\n  node [shape=box];\n"
        "  subgraph cluster_0 {\n    label=\"rank 0\";\n    n0 [label=\"0F0\"];\n    n1 [label=\"0B0\"];\n  }\n"
        "  subgraph cluster_1 {\n    label=\"rank 1\";\n    n2 [label=\"1F0\"];\n    n3 [label=\"1B0\"];\n  }\n"
        "  n0 -> n2 [class=activation, color=\"#0072b2\"];\n"
        "  n0 -> n1 [class=stash, color=\"#56b4e9\", style=dashed];\n"
        "  n0 -> n1 [class=program, color=\"#999999\", style=dotted];\n"
        "  n2 -> n3 [class=stash, color=\"#56b4e9\", style=dashed];\n"
        "  n2 -> n3 [class=program, color=\"#999999\", style=dotted];\n"
        "  n3 -> n1 [class=gradient, color=\"#009e73\"];\n}\n");
}

TEST_CASE("DOT has every node and typed edge once", "[io][dot]") {
  for (auto const& s : test_support::default_schedules(4, 8)) {
    auto const graph = build_graph(s);
    INFO(s.name());
    auto const text = dot(graph);
    CHECK(count(text, "[label=") == graph.size());
    std::size_t pairs = 0;
    for (op o : graph.nodes()) pairs += o.overlaps_next();
    CHECK(count(text, "class=pair") == pairs);
    CHECK(count(text, "class=program") == graph.size() - std::size_t(graph.ranks()) - pairs);
    CHECK(count(text, "class=") == graph.link_count() + graph.size() - std::size_t(graph.ranks()));
  }
}
