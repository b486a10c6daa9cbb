// SPDX-License-Identifier: MIT
#include <pipesched/io/plots.hpp>

#include "support/catch.hpp"

#include <string>
#include <vector>

#include "support/markup.hpp"

using namespace pipesched;
using test_support::count_of;
using test_support::is_well_formed;

TEST_CASE("The Pareto front holds the points that no other beats", "[io][plots]") {
  CHECK(pareto_front({}).empty());
  CHECK(pareto_front({{2, 1}, {1, 3}, {1, 2}, {3, 1}, {2, 1}, {4, 0}}) ==
        std::vector<plot_point>{{1, 2}, {2, 1}, {4, 0}});
}

TEST_CASE("A plot names its lines, its axes and every point", "[io][plots]") {
  auto const text = svg(bubble_plot(4, {{"1f1b", {{4, 30}, {8, 20.5}, {16, 10}}}, {"a<b", {{4, 3}}}}));
  CHECK(is_well_formed(text));
  CHECK(count_of(text, "<circle") == 4);
  CHECK(count_of(text, "<title>1f1b: 8, 20.5</title>") == 1);
  CHECK(count_of(text, ">a&lt;b</text>") == 1);
  CHECK(count_of(text, ">microbatches</text>") == 1);
  for (auto const* tick : {">4</text>", ">8</text>", ">16</text>"}) CHECK(count_of(text, tick) >= 1);
}

TEST_CASE("Marks at one place share a name", "[io][plots]") {
  auto const what = memory_plot(4, 8, "units", {{"a", {{1, 5}}}, {"b", {{1, 5}}}, {"c", {{3, 1}}}});
  CHECK(what.front == std::vector<plot_point>{{1, 5}, {3, 1}});
  auto const text = svg(what);
  CHECK(count_of(text, ">a, b</text>") == 1);
  CHECK(count_of(text, "<circle") == 2);
  CHECK(count_of(text, "Pareto front") == 1);
}

TEST_CASE("Plots without points, with one, and several in a picture can be drawn", "[io][plots]") {
  std::vector<plot> const plots{bubble_plot(1, {}), exposed_plot(1, 1, {{"x", {{0, 0}}}}), memory_plot(1, 1, "u", {})};
  CHECK(is_well_formed(svg(plots)));
  CHECK(count_of(svg(plots), "<g transform=") >= 3);
  CHECK(count_of(svg(plots), "nan") == 0);
}
