// SPDX-License-Identifier: MIT
#include <pipesched/io/plots.hpp>

#include "support/catch.hpp"

#include <set>
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
  CHECK(count_of(text, "<path transform") == 4 + 2);  // and a sample of each in the legend
  CHECK(count_of(text, "<title>1f1b: 8, 20.5</title>") == 1);
  CHECK(count_of(text, ">a&lt;b</text>") == 1);
  CHECK(count_of(text, ">microbatches</text>") == 1);
  for (auto const* tick : {">4</text>", ">8</text>", ">16</text>"}) CHECK(count_of(text, tick) >= 1);
}

TEST_CASE("Lines that coincide can be told apart", "[io][plots]") {
  plot_series const first{"first", {{1, 4}, {2, 2}, {4, 1}}};
  // All of it: one line with both names.
  auto const equal = svg(bubble_plot(4, {first, {"second", first.points}, {"third", {{1, 3}, {4, 3}}}}));
  CHECK(count_of(equal, ">first, second</text>") == 1);
  CHECK(count_of(equal, "<title>first, second: 2, 2</title>") == 1);
  CHECK(count_of(equal, "class=\"ring\"") == 0);
  CHECK(count_of(equal, "stroke-dashoffset") == 0);
  // A part of it: stripes in the colours of both, and a ring where they meet, whatever follows there.
  auto const part = svg(bubble_plot(4, {first, {"second", {{1, 5}, {2, 2}, {4, 1}}}}));
  CHECK(is_well_formed(part));
  CHECK(count_of(part, "stroke-dashoffset") == 2);
  CHECK(count_of(part, "class=\"ring\"") == 2);
  CHECK(count_of(part, "<title>first: 2, 2; second: 2, 2</title>") == 1);
  CHECK(count_of(part, ">first</text>") == 1);
  CHECK(count_of(part, ">second</text>") == 1);
}

TEST_CASE("Fifty lines differ in colour and marker or in colour and dashes", "[io][plots]") {
  plot many{.title = "many", .x_label = "x", .y_label = "y"};
  for (int i = 0; i < 50; ++i) many.lines.push_back({"line", {{0, double(i)}, {1, double(2 * i)}}});
  auto const text = svg(many);
  std::set<std::string> looks;
  std::size_t markers = 0;
  std::string const open = ")\" d=\"";
  for (auto at = text.find(open); at != std::string::npos; at = text.find(open, at + 1), ++markers)
    looks.insert(text.substr(at + 1, text.find('>', at) - at));
  CHECK(markers > 50);
  CHECK(looks.size() >= 50);
}

TEST_CASE("Marks at one place share a name", "[io][plots]") {
  auto const what = memory_plot(4, 8, "units", {{"a", {{1, 5}}}, {"b", {{1, 5}}}, {"c", {{3, 1}}}});
  CHECK(what.front == std::vector<plot_point>{{1, 5}, {3, 1}});
  auto const text = svg(what);
  CHECK(count_of(text, ">a, b</text>") == 1);
  CHECK(count_of(text, "<circle") == 2);
  CHECK(count_of(text, "fill=\"#d55e00\"") == 2);  // both are on the front
  CHECK(count_of(text, "Pareto front") == 1);
}

TEST_CASE("Many names at one place stand in rows within the plot", "[io][plots]") {
  std::vector<plot_series> marks;
  for (int i = 0; i < 12; ++i) marks.push_back({"schedule-" + std::to_string(i), {{1, 0}}});
  auto const text = svg(memory_plot(1, 1, "units", marks));
  CHECK(count_of(text, "<title>Memory against bubble, 1 rank, 1 microbatch</title>") == 1);
  CHECK(count_of(text, ">schedule-0, schedule-1, schedule-2,</text>") == 1);
  CHECK(count_of(text, "x=\"-") == 0);
}

TEST_CASE("Plots without points, with one, and several in a picture can be drawn", "[io][plots]") {
  std::vector<plot> const plots{bubble_plot(1, {}), exposed_plot(1, 1, {{"x", {{0, 0}}}}), memory_plot(1, 1, "u", {})};
  CHECK(is_well_formed(svg(plots)));
  CHECK(count_of(svg(plots), "<g transform=") >= 3);
  CHECK(count_of(svg(plots), "nan") == 0);
}
