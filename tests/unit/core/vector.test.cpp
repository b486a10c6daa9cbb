// SPDX-License-Identifier: MIT
#include <pipesched/core/vector.hpp>

#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace {

using pipesched::detail::vector;

struct labelled {
  int number = -1;
  vector<int> labels = {};
  friend constexpr bool operator==(labelled const&, labelled const&) = default;
};

template <class T>
std::vector<T> copy_of(vector<T> const& values) {
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("a vector holds what a std::vector holds after the same calls", "[core]") {
  std::minstd_rand random(7);
  for (int round = 0; round < 200; ++round) {
    vector<int> ours;
    std::vector<int> standard;
    for (int step = 0; step < 60; ++step) {
      auto const at = standard.empty() ? std::size_t{0} : random() % standard.size();
      auto const offset = std::ptrdiff_t(at);
      auto const twice = [&](auto change) {
        change(ours);
        change(standard);
      };
      switch (random() % 12) {
        case 0: twice([&](auto& v) { v.clear(); }); break;
        case 1: twice([&](auto& v) { v.resize(at); }); break;
        case 2: twice([&](auto& v) { v.resize(v.size() + 3, step); }); break;
        case 3: twice([&](auto& v) { v.assign(at, step); }); break;
        case 4: twice([&](auto& v) { v.insert(v.begin() + offset, step); }); break;
        case 5: {
          int const more[] = {step, -step, 2 * step};
          twice([&](auto& v) { v.insert(v.begin() + offset, more, more + 3); });
          break;
        }
        case 6: twice([&](auto& v) { v.erase(v.begin() + offset / 2, v.begin() + offset); }); break;
        case 7: twice([&](auto& v) { v.reserve(at * 2); }); break;
        case 8:
          if (!standard.empty()) twice([](auto& v) { v.pop_back(); });
          break;
        case 9:
          if (!standard.empty()) twice([&](auto& v) { v.push_back(v[at]); });
          break;
        default: twice([&](auto& v) { v.push_back(step); });
      }
      REQUIRE(copy_of(ours) == standard);
      REQUIRE(ours.empty() == standard.empty());
    }
  }
}

TEST_CASE("a vector makes an element of what it is given", "[core]") {
  vector<std::pair<int, int>> v;
  REQUIRE(v.emplace_back(1, 2) == std::pair(1, 2));
  REQUIRE(v.emplace_back() == std::pair(0, 0));
  REQUIRE(v.size() == 2);
  int const array[] = {4, 5};
  REQUIRE(vector<int>(array) == std::vector<int>{4, 5});
  vector<int> const from_array = array;
  REQUIRE(std::vector<int>(from_array.rbegin(), from_array.rend()) == std::vector<int>{5, 4});
}

TEST_CASE("a vector that grows at its end moves its elements seldom", "[core]") {
  vector<int> v;
  int moves = 0;
  int const more[] = {1, 2, 3};
  for (int i = 0; i < 1000; ++i) {
    auto const* const before = v.data();
    v.insert(v.end(), more, more + 3);
    v.resize(v.size() + 1, 7);
    moves += before != v.data();
  }
  REQUIRE(v.size() == 4000);
  REQUIRE(moves < 20);
}

TEST_CASE("what a vector took back from is as new when it grows again", "[core]") {
  vector<labelled> v(2, labelled{.number = 5, .labels = {1, 2}});
  v.clear();
  v.resize(2);
  REQUIRE(v == vector<labelled>{{}, {}});
}

TEST_CASE("copies of a vector are apart, and a moved one is handed on", "[core]") {
  vector<labelled> a{{.number = 1, .labels = {1}}, {.number = 2, .labels = {1, 2}}};
  auto b = a;
  b[1].labels.push_back(3);
  REQUIRE(a[1].labels.size() == 2);
  REQUIRE(!(a == b));
  b = a;
  REQUIRE(a == b);
  auto const& self = b;
  b = self;
  REQUIRE(a == b);
  auto const* const place = b.data();
  vector<labelled> c = std::move(b);
  REQUIRE(c.data() == place);
  REQUIRE(a == c);
  a = std::move(c);
  REQUIRE(a.data() == place);
}

TEST_CASE("a vector works in constant expressions", "[core]") {
  constexpr auto sum = [] {
    vector<int> v{1, 2, 3};
    v.insert(v.begin() + 1, 10);
    v.resize(7);
    v.push_back(v.back() + 100);
    vector<vector<int>> rows(2, v);
    rows[1].erase(rows[1].begin(), rows[1].begin() + 2);
    int total = 0;
    for (auto const& row : rows)
      for (int const value : row) total += value;
    return total;
  };
  static_assert(sum() == 116 + 105);
}
