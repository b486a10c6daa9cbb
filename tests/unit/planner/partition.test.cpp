// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <vector>

#include <pipesched/planner/partition.hpp>

#include "support/catch.hpp"
#include "support/sanitized.hpp"

using namespace pipesched;

namespace {

using cut = std::vector<std::size_t>;

std::vector<chain_item> equal_items(std::size_t count) { return std::vector<chain_item>(count, chain_item{1, 1}); }

std::vector<double> sums(std::vector<chain_item> const& chain, cut const& begins, double chain_item::* of) {
  std::vector<double> all;
  for (std::size_t s = 0; s < begins.size(); ++s) {
    auto const end = s + 1 < begins.size() ? begins[s + 1] : chain.size();
    double sum = 0;
    for (auto i = begins[s]; i < end; ++i) sum += chain[i].*of;
    all.push_back(sum);
  }
  return all;
}

double longest(std::vector<chain_item> const& chain, cut const& begins) {
  auto const costs = sums(chain, begins, &chain_item::cost);
  return *std::max_element(costs.begin(), costs.end());
}

/// The shortest possible longest stage, by trying every cut.
double shortest_by_trial(std::vector<chain_item> const& chain, std::size_t from, int stages) {
  double rest = 0;
  for (auto i = from; i < chain.size(); ++i) rest += chain[i].cost;
  if (stages == 1) return rest;
  double best = rest;
  double first = 0;
  for (auto to = from; to <= chain.size(); ++to) {
    best = std::min(best, std::max(first, shortest_by_trial(chain, to, stages - 1)));
    if (to < chain.size()) first += chain[to].cost;
  }
  return best;
}

}  // namespace

TEST_CASE("61 equal layers over 16 stages are thirteen of four and three of three") {
  auto const chain = equal_items(61);
  auto const begins = balance(chain, 16);
  REQUIRE(begins);
  auto const layers = sums(chain, *begins, &chain_item::cost);
  CHECK(std::count(layers.begin(), layers.end(), 4) == 13);
  CHECK(std::count(layers.begin(), layers.end(), 3) == 3);
}

TEST_CASE("no cut has a shorter longest stage") {
  std::uint32_t state = 1;
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<chain_item> chain;
    for (int i = 0; i < 4 + trial % 6; ++i) {
      state = state * 1664525 + 1013904223;
      chain.push_back({double(state >> 28), double(state >> 24 & 15)});
    }
    for (int stages = 1; stages <= 5; ++stages) {
      auto const begins = balance(chain, stages);
      REQUIRE(begins);
      CHECK(begins->size() == std::size_t(stages));
      CHECK(begins->front() == 0);
      CHECK(std::is_sorted(begins->begin(), begins->end()));
      CHECK(longest(chain, *begins) == shortest_by_trial(chain, 0, stages));
    }
  }
}

TEST_CASE("a thousand layers over hundreds of stages are cut in no time") {
  auto chain = equal_items(1024);
  chain.push_back({7, 3});
  for (int stages = 1; stages <= 1025; stages += test_support::sanitized ? 512 : 128)
    CHECK(longest(chain, *balance(chain, stages)) == std::max(7.0, double((1024 + 7 + stages - 1) / stages)));
}

TEST_CASE("a costly head gets fewer layers beside it") {
  auto chain = equal_items(32);
  chain.push_back({3, 0});
  auto const begins = balance(chain, 5);
  REQUIRE(begins);
  CHECK(longest(chain, *begins) == 7);
  CHECK(sums(chain, *begins, &chain_item::cost).back() <= 7);
}

TEST_CASE("among cuts of equal cost the lighter one is taken") {
  std::vector<chain_item> const chain{{2, 1}, {0, 9}, {0, 9}, {2, 1}};
  auto const begins = balance(chain, 2);
  REQUIRE(begins);
  CHECK(*begins == cut{0, 2});
}

TEST_CASE("a weight limit costs time, or leaves no cut") {
  std::vector<chain_item> const chain{{1, 1}, {1, 1}, {1, 5}, {1, 5}};
  CHECK(longest(chain, *balance(chain, 2)) == 2);
  CHECK(longest(chain, *balance(chain, 2, 7)) == 3);
  CHECK_FALSE(balance(chain, 2, 5));
}

TEST_CASE("more stages than layers leave stages empty") {
  auto const begins = balance(equal_items(3), 8);
  REQUIRE(begins);
  CHECK(longest(equal_items(3), *begins) == 1);
  CHECK(balance({}, 3) == cut{0, 0, 0});
  CHECK_THROWS_AS(balance(equal_items(3), 0), parameter_error);
  CHECK_THROWS_AS(balance({{-1}}, 1), parameter_error);
}
