// SPDX-License-Identifier: MIT
#include <pipesched/io/svg.hpp>

#include "support/catch.hpp"

#include <string>

#include <fmt/format.h>
#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/moe_cost.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/graph/lower_moe.hpp>
#include <pipesched/schedules/registry.hpp>

#include "support/markup.hpp"
#include "support/sanitized.hpp"

using namespace pipesched;
using test_support::count_of;
using test_support::is_well_formed;

namespace {

template <class Visit>
void with_timeline(std::string_view name, int ranks, int microbatches, Visit&& visit) {
  shape wanted;
  wanted.ranks = ranks;
  wanted.microbatches = microbatches;
  with_schedule(name, wanted, [&](auto const& generator) {
    auto const graph = build_graph(generator);
    visit(graph, make_timeline(graph, uniform_cost<>{}));
  });
}

std::string draw(std::string_view name, int ranks, int microbatches, bool memory = false) {
  std::string text;
  with_timeline(name, ranks, microbatches, [&](auto const& graph, auto const& times) {
    svg_options options;
    options.memory = memory;
    text = svg(graph, times, options);
  });
  return text;
}

}  // namespace

TEST_CASE("An SVG of every schedule is well-formed XML, the same each time", "[io][svg]") {
  for (auto const name : schedule_names) {
    INFO(name);
    auto const text = draw(name, 4, 8, true);
    CHECK(is_well_formed(text));
    CHECK(text == draw(name, 4, 8, true));
  }
}

TEST_CASE("Every op of a small timeline has its label and its times in an SVG", "[io][svg]") {
  for (auto const* name : {"1f1b", "zb-h1", "dualpipe", "dualpipe-v"})
    with_timeline(name, 4, 8, [&](auto const& graph, auto const& times) {
      auto const text = svg(graph, times);
      CHECK(count_of(text, "<title>") == graph.size() + std::size_t(graph.ranks()) + 1);
      op_labels const labels(graph.where());
      for (std::uint32_t n = 0; n < graph.size(); ++n) {
        auto const o = graph.node(node_id{n});
        INFO(to_string(o));
        CHECK(count_of(text, fmt::format("<title>{}: {} to {}</title>", to_string(o), times.start(node_id{n}),
                                         times.end(node_id{n}))) > 0);
        CHECK(count_of(text, ">" + labels(o) + "</text>") > 0);
      }
    });
}

TEST_CASE("An SVG shows pairs, directions, axis and legend where there are any", "[io][svg]") {
  auto const plain = draw("1f1b", 4, 8);
  CHECK(count_of(plain, "class=\"pair\"") == 0);
  CHECK(count_of(plain, "hatched") == 0);
  CHECK(count_of(plain, ">backward</text>") == 1);
  CHECK(count_of(plain, ">30</text>") == 1);
  CHECK(count_of(plain, "class=\"memory\"") == 0);
  auto const pairs = draw("dualpipe", 4, 8, true);
  CHECK(count_of(pairs, "class=\"pair\"") == 5);  // a frame or several per rank, and the legend's
  CHECK(count_of(pairs, "hatched, lower case: up, from the last rank") == 1);
  CHECK(count_of(pairs, "class=\"memory\"") == 4);
}

TEST_CASE("Runs of equal ops are one element of an SVG", "[io][svg]") {
  for (std::size_t i = 0; i < schedule_names.size(); i += test_support::sanitized ? 5 : 1) {
    auto const name = schedule_names[i];
    INFO(name);
    auto const bytes = draw(name, 64, 512).size();
    CHECK(bytes < 400000);
    CHECK(bytes > 5000);
  }
  CHECK(draw("1f1b", 64, 4096).size() < 100000);
}

TEST_CASE("An SVG of a lowered graph has a row per stream", "[io][svg]") {
  auto const graph = lower_moe(build_graph(make_generator<dual_pipe>(shape{.ranks = 2, .microbatches = 4})));
  auto const text = svg(graph, make_timeline(graph, moe_cost<>{}));
  CHECK(is_well_formed(text));
  CHECK(count_of(text, ">all-to-all</text>") == 2);
  CHECK(count_of(text, ">p2p</text>") == 0);  // transfers take no time here
  CHECK(count_of(text, "class=\"pair\"") > 0);
}

TEST_CASE("Text from outside is text in an SVG", "[io][svg]") {
  with_timeline("1f1b", 1, 1, [&](auto const& graph, auto const& times) {
    svg_options options;
    options.caption = "<script>&\"'\x01\xff";
    auto const text = svg(graph, times, options);
    CHECK(is_well_formed(text));
    CHECK(count_of(text, "<script>") == 0);
    CHECK(count_of(text, "&lt;script&gt;&amp;&quot;&#39;\xEF\xBF\xBD\xEF\xBF\xBD") == 1);
  });
}

TEST_CASE("Timelines without length can be drawn", "[io][svg]") {
  auto const graph = build_graph(make_generator<gpipe>(shape{.ranks = 2, .microbatches = 2}));
  CHECK(is_well_formed(svg(graph, make_timeline(graph, uniform_cost<>{0, 0, 0}))));
  CHECK(is_well_formed(svg(graph, make_timeline(graph, uniform_cost<double>{1e-9, 2e-9, 1e-9}))));
}

TEST_CASE("One rank, one microbatch and many ranks can be drawn", "[io][svg]") {
  auto const one = draw("1f1b", 1, 1, true);
  CHECK(is_well_formed(one));
  CHECK(count_of(one, "1f1b: 1 rank, 1 stage, 1 microbatch<") == 2);
  CHECK(count_of(one, ">F0</text>") == 1);
  CHECK(count_of(one, ">B0</text>") == 1);
  auto const many = draw("zb-h1", 128, 256);
  CHECK(is_well_formed(many));
  CHECK(count_of(many, ">rank 127</text>") == 1);
  CHECK(many.size() < 400000);
}

TEST_CASE("Ops at equal distances are one run", "[io][svg]") {
  detail::run_merger merged(1e-9);
  for (double const start : {0.0, 1.0, 2.0, 5.0, 8.0, 11.0}) merged.add(start, 1);
  REQUIRE(merged.runs().size() == 2);
  CHECK(merged.runs()[0].count == 3);
  CHECK(merged.runs()[0].period == 1);
  CHECK(merged.runs()[1].start == 5);
  CHECK(merged.runs()[1].count == 3);
  CHECK(merged.runs()[1].period == 3);
}

TEST_CASE("a label takes what its letters take") {
  // Helvetica's, 10 pixels.
  CHECK(detail::svg_text_width("W5") > 9.44 + 5.56);
  CHECK(detail::svg_text_width("MF0") > 8.33 + 6.11 + 5.56);
  CHECK(detail::svg_text_width("I10") > 2.78 + 2 * 5.56);
  CHECK(detail::svg_text_width("I10") < detail::svg_text_width("W10") - 6);
}
