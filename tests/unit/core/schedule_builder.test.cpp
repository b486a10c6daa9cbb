// SPDX-License-Identifier: MIT
#include <pipesched/core/schedule_builder.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

#include "support/catch.hpp"

using namespace pipesched;

namespace {

constexpr schedule by_hand() {
  return schedule_builder(2).rank(0).F(0).F(1).B(0).F(2).B(1).B(2).rank(1).F(0).B(0).F(1).B(1).F(2).B(2).build();
}

static_assert(by_hand() == generate(one_f_one_b{.ranks = 2, .microbatches = 3}));

}  // namespace

TEST_CASE("1F1B written by hand equals the generated one") {
  CHECK(by_hand() == generate(one_f_one_b{.ranks = 2, .microbatches = 3}));
  CHECK(by_hand().digest() == digest_of(one_f_one_b{.ranks = 2, .microbatches = 3}));
}

TEST_CASE("A rank's program may be written in several goes") {
  schedule_builder b(2);
  b.rank(0).F(0);
  b.rank(1).F(0).B(0);
  b.rank(0).B(0);
  CHECK(b.build() == generate(one_f_one_b{.ranks = 2, .microbatches = 1}));
}

TEST_CASE("A rank that holds several stages names them") {
  auto const s = schedule_builder(placement::v(1)).rank(0).stage(0).F(0).stage(1).F(0).I(0).W(0).stage(0).B(0).build();
  REQUIRE(s.program(0).size() == 5);
  CHECK(to_string(s.program(0)[1]) == "1F0");
  CHECK(to_string(s.program(0)[3]) == "1W0");
  CHECK(to_string(s.program(0)[4]) == "0B0");
  CHECK_THROWS_AS(schedule_builder(placement::v(1)).rank(0).F(0), parameter_error);
}

TEST_CASE("The rank and the stage tell the copy of a bidirectional placement") {
  auto const s = schedule_builder(placement::bidirectional(2))
                     .rank(0)
                     .stage(0)
                     .F(0)
                     .stage(1)
                     .F(1)
                     .overlapping()
                     .stage(0)
                     .B(0)
                     .stage(1)
                     .replica(0)
                     .B(1)
                     .build();
  CHECK(s.program(0)[0].replica() == 0);
  CHECK(s.program(0)[1].replica() == 1);
  CHECK(s.program(0)[1].overlaps_next());
  CHECK(s.program(0)[3].replica() == 0);
}

TEST_CASE("A custom placement may leave a rank without a stage") {
  auto const where = placement::custom(3, 2, 1, {2, 0});
  auto const s = schedule_builder(where).rank(2).F(0).rank(0).F(0).B(0).rank(2).B(0).build("mine");
  CHECK(s.program(1).empty());
  CHECK(s.name() == "mine");
  CHECK(to_string(s.program(0)[0]) == "1F0");
}

TEST_CASE("The builder refuses what does not exist, and names it") {
  CHECK_THROWS_AS(schedule_builder(0), parameter_error);
  CHECK_THROWS_AS(schedule_builder(2).rank(2), parameter_error);
  CHECK_THROWS_AS(schedule_builder(2).F(0), parameter_error);
  CHECK_THROWS_AS(schedule_builder(2).rank(0).stage(2), parameter_error);
  CHECK_THROWS_AS(schedule_builder(2).rank(0).replica(1), parameter_error);
  CHECK_THROWS_AS(schedule_builder(2).rank(0).F(-1), parameter_error);
  CHECK_THROWS_AS(schedule_builder(2).rank(0).F(std::int64_t{1} << 31), parameter_error);
  CHECK_THROWS_AS(schedule_builder(2).rank(0).overlapping(), parameter_error);
}
