// SPDX-License-Identifier: MIT
#include <pipesched/io/html.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>
#include <pipesched/analysis/cost.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/schedules/registry.hpp>

#include "support/markup.hpp"

using namespace pipesched;
using test_support::count_of;

namespace {

/// What the page's script reads.
nlohmann::json data_of(std::string const& page) {
  std::string const open = "<script type=\"application/json\" id=\"data\">";
  auto const begin = page.find(open) + open.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

op_graph zb_h1_graph() { return build_graph(make_generator<zb_h1>(shape{.ranks = 4, .microbatches = 6})); }

}  // namespace

TEST_CASE("A page holds every op with its times, what it needs, and what it waited for", "[io][html]") {
  auto const graph = zb_h1_graph();
  uniform_cost<> const cost{2, 3, 1, {}, 1};
  auto const times = make_timeline(graph, cost);
  auto const data = data_of(html(graph, times, cost)).at("schedules").at(0);
  CHECK(data.at("makespan") == times.makespan());
  std::uint32_t n = 0;
  for (auto const& lane : data.at("lanes"))
    for (std::size_t i = 0; i < lane.at("type").size(); ++i, ++n) {
      auto const o = graph.node(node_id{n});
      auto const& type = data.at("types").at(lane.at("type").at(i).get<std::size_t>());
      auto const name = type.at("name").get<std::string>() + std::to_string(lane.at("microbatch").at(i).get<int>());
      CHECK(name == to_string(o));
      CHECK(lane.at("start").at(i) == times.start(node_id{n}));
      CHECK(lane.at("duration").at(i) == times.duration(node_id{n}));
      CHECK(data.at("links").at(n).size() == 2 * graph.links_in(node_id{n}).size());
      auto const cause = cause_of_start(graph, times, cost, node_id{n});
      CHECK(data.at("causes").at(2 * n) == (cause ? std::int64_t{cause->from.value} : -1));
    }
  CHECK(n == graph.size());
  CHECK(data.at("critical").size() == critical_path(graph, times, cost).size());
  CHECK(data.at("peaks").at(0) == 4);
}

TEST_CASE("A page takes several timelines and figures, and needs no other file", "[io][html]") {
  html_page page("two & <more>");
  auto const graph = zb_h1_graph();
  page.add(graph, make_timeline(graph, uniform_cost<>{}), uniform_cost<>{}, "</script><script>alert(1)");
  page.add(graph, make_timeline(graph, uniform_cost<double>{0.1, 0.2, 0.3}), uniform_cost<double>{0.1, 0.2, 0.3});
  page.add_figure("<svg id=\"mine\"></svg>");
  auto const text = page.text();
  CHECK(data_of(text).at("schedules").size() == 2);
  CHECK(count_of(text, "<svg id=\"mine\">") == 1);
  CHECK(count_of(text, "<title>two &amp; &lt;more&gt;</title>") == 1);
  CHECK(count_of(text, "</script>") == 2);
  CHECK(count_of(text, "http://") + count_of(text, "https://") == 0);
  CHECK(count_of(text, "src=") == 0);
  CHECK(count_of(text, "default-src 'none'") == 1);
  CHECK(text == page.text());
}
