// SPDX-License-Identifier: MIT
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace {

using pipesched::view;

struct pair {
  int first = 0;
  int second = 0;
};

static_assert(std::ranges::contiguous_range<view<pair>>);
static_assert(std::ranges::view<view<pair>>);
static_assert(std::ranges::borrowed_range<view<pair>>);

static_assert(std::convertible_to<view<pair>, std::span<pair const>>);
static_assert(std::convertible_to<std::span<pair const>, view<pair>>);
static_assert(std::convertible_to<std::span<pair>, view<pair>>);
static_assert(std::convertible_to<std::vector<pair>, view<pair>>);
static_assert(std::convertible_to<std::array<pair, 3> const&, view<pair>>);
static_assert(!std::convertible_to<std::vector<int>, view<pair>>);
static_assert(!std::convertible_to<std::vector<int>, view<long>>);
static_assert(!std::convertible_to<view<pair>, std::span<pair>>);

constexpr int sum_of(view<int> numbers) {
  int sum = 0;
  for (int const n : numbers) sum += n;
  return sum;
}

}  // namespace

TEST_CASE("a view looks at what a span would", "[core]") {
  std::vector<int> const numbers{1, 2, 3, 4, 5};
  view<int> const all = numbers;
  REQUIRE(all.data() == numbers.data());
  REQUIRE(all.size() == 5);
  REQUIRE(all.front() == 1);
  REQUIRE(all.back() == 5);
  for (std::size_t from = 0; from <= 5; ++from) {
    auto const same = [](view<int> ours, std::span<int const> standard) {
      return ours.size() == standard.size() && ours.empty() == standard.empty() &&
             std::equal(ours.begin(), ours.end(), standard.begin());
    };
    std::span<int const> const span = numbers;
    REQUIRE(same(all.first(from), span.first(from)));
    REQUIRE(same(all.last(from), span.last(from)));
    REQUIRE(same(all.subspan(from), span.subspan(from)));
    for (std::size_t count = 0; from + count <= 5; ++count)
      REQUIRE(same(all.subspan(from, count), span.subspan(from, count)));
  }
  REQUIRE(view<int>().empty());
}

TEST_CASE("a view is gone through backwards, too", "[core]") {
  int const values[] = {1, 2, 3};
  pipesched::view<int> const v = values;
  REQUIRE(std::vector<int>(v.rbegin(), v.rend()) == std::vector<int>{3, 2, 1});
  REQUIRE(v.size_bytes() == sizeof values);
}

TEST_CASE("a view equals any range of equal elements, and becomes a std::vector", "[core]") {
  std::vector<int> const values{1, 2, 3};
  view<int> const v = values;
  REQUIRE(v == values);
  REQUIRE(values == v);
  REQUIRE(v == view<int>(values));
  REQUIRE(v == std::span(values));
  REQUIRE(v == pipesched::detail::vector<int>{1, 2, 3});
  REQUIRE(pipesched::detail::vector<int>{1, 2, 3} == v);
  REQUIRE_FALSE(v == v.first(2));
  REQUIRE_FALSE(v == std::vector<int>{1, 2, 4});
  std::vector<int> copy = v;
  copy = v.last(1);
  REQUIRE(copy == std::vector<int>{3});
}

struct base {
  int number;
};
struct derived : base {
  int more;
};
// A view steps by the size of its element; and {0, 2} is no view of two elements at the null pointer.
static_assert(!std::is_constructible_v<view<base>, std::vector<derived>>);
static_assert(!std::is_constructible_v<view<int>, int, int>);

TEST_CASE("a view is made from anything in a row, also in constant expressions", "[core]") {
  constexpr int array[] = {1, 2, 3};
  STATIC_REQUIRE(sum_of(array) == 6);
  STATIC_REQUIRE(sum_of(std::array{4, 5}) == 9);
  STATIC_REQUIRE(sum_of(std::span<int const>(array).subspan(1)) == 5);
  STATIC_REQUIRE(sum_of(view<int>(array, 2)) == 3);
  REQUIRE(sum_of(std::vector<int>{7, 8}) == 15);
  REQUIRE(*std::ranges::find(view<int>(array), 2) == 2);
}
