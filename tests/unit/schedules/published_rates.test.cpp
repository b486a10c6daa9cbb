// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <pipesched/analysis/report.hpp>
#include <pipesched/graph/graph_builder.hpp>
#include <pipesched/schedules/interleaved.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>
#include <pipesched/schedules/zb_h1.hpp>
#include <pipesched/schedules/zb_h2.hpp>

#include "support/catch.hpp"
#include "support/published_rates.hpp"

using namespace pipesched;
using namespace test_support;

namespace {

/// As the paper prints it.
double four_digits(double rate) { return std::round(rate * 1e4) / 1e4; }

/// The graph in which the paper's program sees interleaved 1F1B: of a group's microbatches only the first waits for
/// what comes over the loop's seam, from the last rank's chunk to the first rank's next one and back.
op_graph with_the_papers_seam(interleaved const& generator) {
  auto const graph = build_graph(generator);
  graph_builder builder(graph.where(), graph.microbatches());
  std::vector<graph_builder::handle> nodes;
  for (std::size_t n = 0; n < graph.size(); ++n)
    nodes.push_back(builder.add(graph.nodes()[n], graph.rank_of(node_id{n})));
  for (std::size_t n = 0; n < graph.size(); ++n)
    for (auto const l : graph.links_in(node_id{n})) {
      op const to = graph.nodes()[n];
      op const from = graph.nodes()[l.node()];
      bool const over_the_seam = l.remote() && std::max(from.stage(), to.stage()) % generator.ranks == 0;
      if (over_the_seam && to.microbatch() % generator.ranks != 0) continue;
      builder.add_edge(nodes[l.node()], nodes[n], l.kind());
    }
  return builder.build();
}

}  // namespace

TEST_CASE("1F1B has the published bubble rates", "[schedules][one_f_one_b]") {
  for (auto const& row : published_rates())
    if (row.schedule == "1f1b")
      CHECK(four_digits(row.rate_of(analyze(one_f_one_b{row.ranks, row.microbatches}, row.chunk_cost()).makespan)) ==
            row.bubble_rate);
}

TEST_CASE("ZB-H1 has the published bubble rates", "[schedules][zb_h1]") {
  for (auto const& row : published_rates())
    if (row.schedule == "zb-h1")
      CHECK(four_digits(row.rate_of(analyze(zb_h1{row.ranks, row.microbatches}, row.chunk_cost()).makespan)) ==
            row.bubble_rate);
}

TEST_CASE("ZB-H2 has the published bubble rates, by span", "[schedules][zb_h2]") {
  for (auto const& row : published_rates())
    if (row.schedule == "zb-h2") {
      auto const all = analyze(zb_h2{row.ranks, row.microbatches}, row.chunk_cost());
      CHECK(four_digits(row.rate_of(all.span)) == row.bubble_rate);
      CHECK(four_digits(all.span_bubble_rate) == row.bubble_rate);
    }
}

TEST_CASE("Interleaved 1F1B has the published bubble rates where only a group's first microbatch waits at the seam",
          "[schedules][interleaved]") {
  for (auto const& row : published_rates())
    if (row.schedule == "interleaved-1f1b") {
      interleaved const generator{row.ranks, row.microbatches, row.chunks};
      auto const cost = row.chunk_cost();
      auto const published = make_timeline(with_the_papers_seam(generator), cost).makespan();
      CHECK(four_digits(row.rate_of(published)) == row.bubble_rate);
      // With every dependency kept, the latency of P more hops shows.
      CHECK(analyze(generator, cost).makespan == Approx(published + row.ranks * row.latency));
    }
}
