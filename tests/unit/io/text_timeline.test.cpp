// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/timeline.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/io/text_timeline.hpp>
#include <pipesched/schedules/registry.hpp>

#include "support/built_in_schedules.hpp"

using namespace pipesched;

namespace {

template <class Cost = uniform_cost<>>
std::string draw(schedule const& s, Cost const& cost = {}, text_timeline_options const& options = {}) {
  auto const graph = build_graph(s);
  return text_timeline(graph, make_timeline(graph, cost), options);
}

template <schedule_generator Generator, class Cost = uniform_cost<>>
std::string draw(Generator const& generator, Cost const& cost = {}, text_timeline_options const& options = {}) {
  return draw(generate(generator), cost, options);
}

std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The rows of one rank, folds joined.
std::string row_of(std::string const& picture, int rank) {
  auto const name = "rank " + std::to_string(rank) + " ";
  std::string row;
  for (auto const& line : lines_of(picture))
    if (line.rfind(name, 0) == 0) row += line.substr(8);
  return row;
}

}  // namespace

TEST_CASE("A small schedule is drawn on one screen", "[io][text_timeline]") {
  CHECK(draw(one_f_one_b{4, 8}) ==
        "time    0         5         10        15        20        25        30\n"
        "rank 0  F0F1F2F3............B0--F4B1--F5B2--F6B3--F7B4--..B5--..B6--..B7--\n"
        "rank 1  ..F0F1F2........B0--F3B1--F4B2--F5B3--F6B4--F7B5--..B6--..B7--....\n"
        "rank 2  ....F0F1....B0--F2B1--F3B2--F4B3--F5B4--F6B5--F7B6--..B7--........\n"
        "rank 3  ......F0B0--F1B1--F2B2--F3B3--F4B4--F5B5--F6B6--F7B7--............\n"
        "\n"
        "F forward, B backward\nnumber: microbatch\n");
  CHECK(draw(zb_h1{2, 2}) ==
        "time    0              5\n"
        "rank 0  F0 F1 ...I0 W0 I1 W1\n"
        "rank 1  ...F0 I0 F1 I1 W0 W1\n"
        "\n"
        "F forward, I backward-input, W backward-weight\nnumber: microbatch\n");
}

TEST_CASE("Time folds at the width, wherever that is", "[io][text_timeline]") {
  for (int const width : {40, 60, 80, 200, 1000})
    for (auto const& s : test_support::default_schedules(4, 12)) {
      auto const picture = draw(s, uniform_cost<>{}, {.width = width});
      INFO(s.name() << " at " << width << "\n" << picture);
      auto const lines = lines_of(picture);
      for (auto const& line : lines) CHECK(line.size() <= std::size_t(std::max(width, 80)));
      for (auto const& line : lines)
        if (line.rfind("rank", 0) == 0 || line.rfind("time", 0) == 0) CHECK(line.size() <= std::size_t(width));
      // No rank is left out.
      auto const graph = build_graph(s);
      for (int rank = 0; rank < graph.ranks(); ++rank) CHECK(row_of(picture, rank).find('0') != std::string::npos);
    }
}

TEST_CASE("Directions and chunks are told apart, pairs are seen", "[io][text_timeline]") {
  auto const both = draw(dual_pipe{2, 4});
  CHECK(both.find("upper case: down from rank 0, lower case: up from the last") != std::string::npos);
  CHECK(both.find("F+B overlapped") != std::string::npos);
  CHECK(row_of(both, 1).rfind("f2", 0) == 0);
  CHECK(row_of(both, 0).find("f3+B0") != std::string::npos);

  auto const chunks = draw(zb_v{2, 4});
  CHECK(chunks.find("upper case: first stage of the rank, lower case: second") != std::string::npos);
  auto const three = draw(interleaved{.ranks = 2, .microbatches = 4, .chunks = 3});
  CHECK(three.find("letter after it: which stage of the rank, from a") != std::string::npos);
  CHECK(row_of(three, 0).rfind("F0a F1a F0b F1b F0c", 0) == 0);
  CHECK(draw(interleaved{.ranks = 1, .microbatches = 1, .chunks = 30}).find("F0/29") != std::string::npos);
}

TEST_CASE("Colours end where they begin, and say nothing that is not there without", "[io][text_timeline]") {
  for (auto const& s : test_support::default_schedules(4, 8)) {
    auto const plain = draw(s);
    CHECK(plain.find('\x1b') == std::string::npos);
    std::string stripped;
    bool colored = false;
    auto const picture = draw(s, uniform_cost<>{}, {.width = 80, .color = true});
    for (std::size_t i = 0; i < picture.size(); ++i) {
      if (picture[i] != '\x1b') {
        CHECK_FALSE((picture[i] == '\n' && colored));
        stripped += picture[i];
        continue;
      }
      auto const end = picture.find('m', i);
      colored = picture.substr(i, end - i) != "\x1b[0";
      i = end;
    }
    std::string expected = plain;
    std::replace(expected.begin(), expected.end(), '-', ' ');
    auto const normalised = [](std::string const& text) {
      std::string result;
      for (auto line : lines_of(text)) {
        std::replace(line.begin(), line.end(), '-', ' ');
        line.erase(line.find_last_not_of(' ') + 1);
        result += line + "\n";
      }
      return result;
    };
    CHECK(normalised(stripped) == normalised(expected));
  }
}

TEST_CASE("Any times are drawn to scale", "[io][text_timeline]") {
  // Large whole times look like small ones.
  CHECK(row_of(draw(one_f_one_b{4, 8}, uniform_cost<>{1000, 1000, 1000}), 0) == row_of(draw(one_f_one_b{4, 8}), 0));
  auto const real = draw(one_f_one_b{4, 8}, uniform_cost<double>{11.347, 11.248, 8.132, {}, 0.377});
  CHECK(row_of(real, 3).find("F7") != std::string::npos);
  auto const uneven = draw(one_f_one_b{2, 3}, uniform_cost<>{1, 100000, 0});
  CHECK(uneven.size() < 10000);
  CHECK(uneven.find("6 ops are too short to be drawn at this scale") != std::string::npos);
  CHECK(draw(one_f_one_b{2, 3}, uniform_cost<>{0, 0, 0}).find("12 ops are too short") != std::string::npos);
  CHECK(draw(one_f_one_b{2, 3}, uniform_cost<double>{1e-300, 1e300, 0}).size() < 10000);
  CHECK(draw(one_f_one_b{2, 3}, uniform_cost<>{std::int64_t{1} << 55, 1, 1}).size() < 10000);
  CHECK(row_of(draw(one_f_one_b{1, 1}, uniform_cost<double>{0.5, 0.25, 0.25}), 0) == "F0 B0");
}
