// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <string>
#include <vector>

#include <pipesched/core/forward_only.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/schedules/gpipe.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

using namespace pipesched;

namespace {

/// Ten lines of a user: one microbatch after another, no pipelining at all.
struct one_at_a_time {
  int ranks;
  int microbatches;
  constexpr check_result check() const { return at_least("ranks", ranks, 1); }
  constexpr auto placement() const { return placement::linear(ranks); }
  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    stage_writer stage(out, rank);
    repeat(microbatches, [&] { stage.forward().backward_input().backward_weight(); });
  }
};

/// Says of its length what it is told to.
struct miscounts : one_at_a_time {
  std::int64_t stated;
  constexpr std::int64_t operations(int) const { return stated; }
};

struct returns_all_at_once {
  int microbatches;
  check_result check() const { return {}; }
  std::vector<std::vector<op>> operator()() const { return {}; }
};

}  // namespace

static_assert(schedule_generator<gpipe> && schedule_generator<one_f_one_b> && schedule_generator<one_at_a_time>);
static_assert(schedule_generator<forward_only<one_f_one_b>>);
static_assert(!schedule_generator<int> && !schedule_generator<returns_all_at_once>);
static_assert(op_sink<count_sink> && !op_sink<std::vector<op>>);
static_assert(generate(one_f_one_b{4, 8}).digest() == digest_of(one_f_one_b{4, 8}));

TEST_CASE("A rank's program made alone is the one in the whole schedule", "[core][schedule]") {
  for (int ranks : {1, 2, 3, 8})
    for (int microbatches : {1, 2, 7, 16}) {
      one_f_one_b const generator{ranks, microbatches};
      auto const whole = generate(generator);
      for (int rank = 0; rank < ranks; ++rank) {
        auto const row = generate_program(generator, rank);
        REQUIRE(std::vector<op>(whole.program(rank).begin(), whole.program(rank).end()) == row);
        REQUIRE(std::int64_t(row.size()) == operations_of(generator, rank));
      }
    }
}

TEST_CASE("A user's generator needs nothing but its shape, its placement and emit", "[core][schedule]") {
  auto const s = generate(one_at_a_time{2, 3});
  CHECK(s.name() == "custom");
  REQUIRE(s.program(1).size() == 9);
  CHECK(to_string(s.program(1)[4]) == "1I1");
  CHECK(to_string(s.program(1)[8]) == "1W2");
}

TEST_CASE("Equal schedules have equal digests, different ones differ", "[core][schedule]") {
  CHECK(generate(gpipe{4, 8}).digest() == generate(gpipe{4, 8}).digest());
  CHECK(generate(gpipe{4, 8}).digest() != generate(one_f_one_b{4, 8}).digest());
  CHECK(generate(gpipe{4, 8}).digest() != generate(gpipe{4, 9}).digest());
  CHECK(generate(gpipe{1, 1}).digest() == generate(one_f_one_b{1, 1}).digest());
  CHECK(generate(gpipe{1, 1}) == generate(one_f_one_b{1, 1}));
  // Pinned: a change of the digest is a decision, since ranks of different builds compare it.
  CHECK(digest_of(one_f_one_b{2, 2}) == 0x482e'2b77'9e1d'8329ULL);
}

TEST_CASE("Memory of an old schedule is used again", "[core][schedule]") {
  auto first = generate(one_f_one_b{4, 100});
  auto const* memory = first.ops().data();
  auto const second = generate(gpipe{4, 50}, std::move(first));
  CHECK(second.ops().data() == memory);
  CHECK(second == generate(gpipe{4, 50}));
}

TEST_CASE("Forward-only keeps the forwards in their order", "[core][schedule]") {
  auto const s = generate(forward_only(one_f_one_b{3, 5}));
  for (int rank = 0; rank < 3; ++rank) {
    REQUIRE(s.program(rank).size() == 5);
    for (int b = 0; b < 5; ++b) REQUIRE(s.program(rank)[std::size_t(b)] == forward(stage_id{rank}, microbatch_id{b}));
  }
  CHECK(s.name() == "1f1b");
}

TEST_CASE("Wrong shapes are refused with parameter, value and bound", "[core][schedule]") {
  auto const message = [](auto generator) {
    try {
      (void)generate(generator);
    } catch (parameter_error const& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  CHECK(message(gpipe{0, 1}) == "ranks = 0, must be at least 1");
  CHECK(message(gpipe{-3, 1}) == "ranks = -3, must be at least 1");
  CHECK(message(one_f_one_b{4, 0}) == "microbatches = 0, must be at least 1");
  CHECK(message(gpipe{65537, 1}) == "ranks = 65537, must be at most 65536");
  CHECK(message(gpipe{65536, 2147483647}) ==
        "operations = 4294967294, must be at most 268435455 (what a stored schedule can hold)");
  CHECK_FALSE(gpipe{65536, 2147483647}.check());
  CHECK(one_f_one_b{4, 0}.check()->value == number(0));
  REQUIRE_THROWS_AS(generate_program(gpipe{4, 4}, 4), parameter_error);
}

TEST_CASE("A generator that miscounts its ops is refused", "[core][schedule]") {
  CHECK(generate(miscounts{{2, 4}, 12}) == generate(one_at_a_time{2, 4}));
  CHECK_THROWS_AS(generate(miscounts{{2, 4}, 13}), parameter_error);
  CHECK_THROWS_AS(generate_program(miscounts{{2, 4}, 13}, 1), parameter_error);
}

TEST_CASE("A schedule written by hand has one program per rank and ops in range", "[core][schedule]") {
  auto const F = [](int s, int b) { return forward(stage_id{s}, microbatch_id{b}); };
  CHECK(schedule(placement::linear(2), 1, {{F(0, 0)}, {F(1, 0)}}).program(1).size() == 1);
  REQUIRE_THROWS_AS(schedule(placement::linear(2), 1, {{F(0, 0)}}), parameter_error);
  REQUIRE_THROWS_AS(schedule(placement::linear(2), 1, {{F(0, 1)}, {}}), parameter_error);
  REQUIRE_THROWS_AS(schedule(placement::linear(2), 1, {{F(2, 0)}, {}}), parameter_error);
  REQUIRE_THROWS_AS(schedule(placement::linear(2), 0, std::vector<std::vector<op>>(2)), parameter_error);
}
