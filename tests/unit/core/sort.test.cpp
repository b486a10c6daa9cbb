// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <pipesched/core/sort.hpp>

#include "support/catch.hpp"

using namespace pipesched;

namespace {

constexpr bool sorts_at_compile_time() {
  std::array<int, 40> numbers{};
  for (int i = 0; i < 40; ++i) numbers[std::size_t(i)] = i * 17 % 40;
  detail::sort(numbers);
  for (int i = 0; i < 40; ++i)
    if (numbers[std::size_t(i)] != i) return false;
  return true;
}
static_assert(sorts_at_compile_time());

/// Numbers below `distinct`, the same in each run.
std::vector<std::uint32_t> numbers(std::size_t count, std::uint32_t distinct) {
  std::vector<std::uint32_t> result;
  for (std::uint32_t state = 12345; result.size() < count; result.push_back((state >> 8) % distinct))
    state = state * 1664525 + 1013904223;
  return result;
}

}  // namespace

TEST_CASE("Any numbers are sorted, of many or few values, and none is lost", "[sort]") {
  for (std::size_t count : {0u, 1u, 2u, 15u, 16u, 17u, 18u, 100u, 1000u, 50000u})
    for (std::uint32_t distinct : {1u, 2u, 7u, 1000000u}) {
      auto sorted = numbers(count, distinct);
      detail::sort(sorted);
      auto expected = numbers(count, distinct);
      std::sort(expected.begin(), expected.end());
      REQUIRE(sorted == expected);
      detail::sort(sorted, [](auto a, auto b) { return a > b; });
      std::reverse(expected.begin(), expected.end());
      REQUIRE(sorted == expected);
    }
}
