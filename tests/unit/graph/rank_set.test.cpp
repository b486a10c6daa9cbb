// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <cstdint>
#include <random>
#include <set>

#include <pipesched/graph/rank_set.hpp>

using pipesched::detail::rank_set;

TEST_CASE("a set of ranks finds what is in it, in ascending order, while it changes", "[graph]") {
  std::mt19937 random(7);
  for (int ranks : {1, 2, 63, 64, 65, 4095, 4096, 4097, 65536}) {
    rank_set set(ranks);
    std::set<std::uint32_t> expected;
    CHECK(set.empty());
    auto const any = [&] { return std::uint32_t(random() % std::uint32_t(ranks)); };
    for (int i = 0; i < 300; ++i) {
      auto const rank = any();
      if (random() % 2 == 0) {
        set.insert(rank);
        expected.insert(rank);
      } else {
        set.erase(rank);
        expected.erase(rank);
      }
      CHECK(set.empty() == expected.empty());
      for (auto from : {std::uint32_t{0}, rank, rank + 1, any(), std::uint32_t(ranks - 1), std::uint32_t(ranks)}) {
        auto const first = expected.lower_bound(from);
        CHECK(set.first_from(from) == (first == expected.end() ? rank_set::none : *first));
      }
    }
  }
}
