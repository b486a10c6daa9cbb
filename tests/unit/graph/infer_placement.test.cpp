// SPDX-License-Identifier: MIT
#include <pipesched/graph/infer_placement.hpp>

#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/random_schedules.hpp"

using namespace pipesched;

namespace {

std::vector<std::vector<op>> programs_of(schedule const& s) {
  std::vector<std::vector<op>> programs;
  for (int rank = 0; rank < s.ranks(); ++rank) programs.emplace_back(s.program(rank).begin(), s.program(rank).end());
  return programs;
}

op f(int stage, int microbatch = 0) { return forward(stage_id{stage}, microbatch_id{microbatch}); }

}  // namespace

TEST_CASE("The placement of complete programs is found, and with it the replicas") {
  std::mt19937 random(5);
  for (auto const& where :
       {placement::linear(1), placement::linear(5), placement::loop(1, 3), placement::loop(2, 2), placement::loop(4, 3),
        placement::v(2), placement::v(5), placement::bidirectional(2), placement::bidirectional(8),
        placement::bidirectional(8, 4), placement::custom(3, 3, 1, {2, 0, 1}), placement::custom(4, 2, 1, {3, 1})}) {
    auto const s = test_support::random_schedule(where, 8, random);
    auto programs = programs_of(s);
    CAPTURE(name_of(where.kind()), where.ranks(), where.stages());
    CHECK(infer_placement(programs) == where);
    for (auto& program : programs)
      for (auto& o : program) o = op::from_packed(o.packed() & ~(std::uint64_t{0xFF} << 48));
    assign_replicas(programs, where);
    CHECK(schedule(where, 8, programs) == s);
  }
}

TEST_CASE("One op on a wrong rank does not change what is found") {
  std::mt19937 random(6);
  for (auto const& where :
       {placement::linear(4), placement::loop(3, 2), placement::v(4), placement::bidirectional(6)}) {
    auto programs = programs_of(test_support::random_schedule(where, 6, random));
    programs[1].push_back(f(where.rank_of(2) == 1 ? 3 : 2, 5));
    CHECK(infer_placement(programs) == where);
  }
}

TEST_CASE("A stage without ops stands where the pattern of the others says") {
  CHECK(infer_placement({{f(0)}, {}, {f(2)}}) == placement::linear(3));
  CHECK(infer_placement({{f(0), f(3)}, {f(1)}, {f(5)}}) == placement::loop(3, 2));
  CHECK(infer_placement({{f(3)}, {f(0)}}) == placement::custom(2, 4, 1, {1, 0, 0, 0}));
}
