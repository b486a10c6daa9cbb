// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <string>
#include <vector>

#include <pipesched/core/placement.hpp>

using namespace pipesched;

namespace {

std::vector<int> ranks_of(placement const& where, int replica = 0) {
  std::vector<int> ranks;
  for (int s = 0; s < where.stages(); ++s) ranks.push_back(where.rank_of(s, replica));
  return ranks;
}

}  // namespace

TEST_CASE("Each placement puts the stages where its schedule wants them", "[core][placement]") {
  CHECK(ranks_of(placement::linear(3)) == std::vector{0, 1, 2});
  CHECK(ranks_of(placement::loop(3, 2)) == std::vector{0, 1, 2, 0, 1, 2});
  CHECK(ranks_of(placement::v(3)) == std::vector{0, 1, 2, 2, 1, 0});
  CHECK(ranks_of(placement::bidirectional(4), 0) == std::vector{0, 1, 2, 3});
  CHECK(ranks_of(placement::bidirectional(4), 1) == std::vector{3, 2, 1, 0});
  CHECK(ranks_of(placement::bidirectional(8, 4), 0) == std::vector{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(ranks_of(placement::bidirectional(8, 4), 1) == std::vector{4, 5, 6, 7, 0, 1, 2, 3});
  CHECK(ranks_of(placement::bidirectional(8, 4), 2) == std::vector{7, 6, 5, 4, 3, 2, 1, 0});
  CHECK(ranks_of(placement::bidirectional(8, 4), 3) == std::vector{3, 2, 1, 0, 7, 6, 5, 4});
  CHECK(ranks_of(placement::custom(2, 3, 1, {1, 0, 1})) == std::vector{1, 0, 1});
}

TEST_CASE("Every rank's stages and parameter copies follow from the placement", "[core][placement]") {
  for (auto const& where : {placement::linear(5), placement::loop(4, 3), placement::v(4), placement::bidirectional(6),
                            placement::bidirectional(8, 4)}) {
    int held = 0;
    for (int rank = 0; rank < where.ranks(); ++rank) {
      for (auto copy : where.held_by(rank)) REQUIRE(where.rank_of(copy.stage, copy.replica) == rank);
      held += int(where.held_by(rank).size());
      REQUIRE(where.parameter_copies(rank) == where.replicas());
    }
    REQUIRE(held == where.stages() * where.replicas());
  }
}

TEST_CASE("A custom placement with a stage on no rank is refused with the value and the bound", "[core][placement]") {
  auto const high = placement::check_custom(2, 3, 1, {0, 1, 2});
  REQUIRE(high);
  CHECK(high->message() == "rank_of_stage = 2, must be at most 1 (ranks - 1: each stage is on a rank)");
  CHECK(placement::check_custom(2, 3, 1, {0, -1, 1})->value == number(-1));
  CHECK(placement::check_custom(2, 3, 1, {0, 1})->message() ==
        "rank_of_stage (size) = 2, must be 3 (stages * replicas)");
  CHECK(placement::check_custom(0, 3, 1, {})->parameter == "ranks");
  CHECK(placement::check_custom(1, 70000, 1, {})->parameter == "stages");
  CHECK(placement::check_custom(1, 1, 257, {})->parameter == "replicas");
  REQUIRE_THROWS_AS(placement::custom(2, 2, 1, {0, 7}), parameter_error);
}
