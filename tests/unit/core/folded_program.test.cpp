// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/generator_shapes.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <pipesched/core/folded_program.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/schedules/registry.hpp>

using namespace pipesched;

namespace {

std::vector<op> unfolded(folded_program const& program) {
  std::vector<op> ops;
  auto append = [&](op o) { ops.push_back(o); };
  program.unfold(append);
  return ops;
}

folded_program folded(std::vector<op> const& ops) {
  program_folder out;
  for (op o : ops) out(o);
  return out.finish();
}

template <class Visit>
void for_each_small_shape(Visit&& visit) {
  for_each_schedule([&]<class Generator>() {
    for (int const P : {1, 2, 3, 4, 6})
      for (int const m : {1, 2, 3, 5, 8, 12, 13, 24, 40})
        for (int const v : {1, 2, 3})
          for (int const n : {0, 1, 3, 5}) test_support::with_shape<Generator>(P, m, v, n, visit);
  });
}

}  // namespace

TEST_CASE("A folded program unfolds to the program that the generator writes", "[core][folded_program]") {
  for_each_small_shape([](auto const& generator) {
    for (int rank = 0; rank < generator.ranks; ++rank) {
      auto const program = fold_program(generator, rank);
      auto const ops = generate_program(generator, rank);
      INFO(name_of(generator) << " P=" << generator.ranks << " m=" << generator.microbatches << " rank " << rank);
      REQUIRE(unfolded(program) == ops);
      REQUIRE(program.operations() == std::int64_t(ops.size()));
    }
  });
}

TEST_CASE("So does Chimera with several pipelines and with doubled forwards", "[core][folded_program]") {
  for (int const P : {4, 8, 12})
    for (int const pipelines : {2, 4, 6})
      for (auto const scaling : {chimera_scaling::direct_concatenation, chimera_scaling::forward_doubling})
        for (int const m : {1, 3, 8, 17, 64, 100, 200}) {
          chimera const generator{P, m, pipelines, scaling};
          if (generator.check()) continue;
          for (int rank = 0; rank < P; ++rank)
            REQUIRE(unfolded(fold_program(generator, rank)) == generate_program(generator, rank));
        }
}

TEST_CASE("All programs are folded at once", "[core][folded_program]") {
  for_each_small_shape([](auto const& generator) {
    auto const all = fold(generator);
    auto const stored = generate(generator);
    REQUIRE(all);
    REQUIRE(all->where == stored.where());
    REQUIRE(all->operations() == std::int64_t(stored.ops().size()));
    for (int rank = 0; rank < stored.ranks(); ++rank) {
      auto const program = stored.program(rank);
      REQUIRE(unfolded(all->programs[std::size_t(rank)]) == std::vector<op>(program.begin(), program.end()));
    }
  });
}

TEST_CASE("Of a folded program the forwards alone can be folded", "[core][folded_program]") {
  for_each_small_shape([](auto const& generator) {
    forward_only const forwards(generator);
    int const rank = generator.ranks / 2;
    REQUIRE(unfolded(fold_program(forwards, rank)) == generate_program(forwards, rank));
  });
}

TEMPLATE_TEST_CASE("A steady state takes no more memory where it repeats more often", "[core][folded_program]", gpipe,
                   one_f_one_b, eager_one_f_one_b, interleaved, zb_h1, zb_h2, interleaved_zb, zb_v, chimera, dual_pipe,
                   dual_pipe_v, one_f_one_b_overlap, interleaved_overlap) {
  for (int const P : {2, 6, 64})
    for (int rank = 0; rank < P; ++rank) {
      auto const few = fold_program(TestType{P, 1920}, rank);
      auto const many = fold_program(TestType{P, 1'000'000'320}, rank);  // a multiple of 64 as well
      REQUIRE(many.ops().size() == few.ops().size());
      REQUIRE(many.runs().size() == few.runs().size());
      REQUIRE(many.rounds().size() == few.rounds().size());
      REQUIRE(few.ops().size() <= std::size_t(40 * P));
    }
}

TEST_CASE("Ops that come one by one are folded where they repeat a short pattern", "[core][folded_program]") {
  std::vector<op> ops;
  for (int i = 0; i < 100; ++i) {
    ops.push_back(forward(stage_id{1}, microbatch_id{2 * i}));
    ops.push_back(forward(stage_id{1}, microbatch_id{2 * i + 1}));
    ops.push_back(backward(stage_id{1}, microbatch_id{99 - i}));
  }
  auto const program = folded(ops);
  CHECK(program.ops().size() == 3);
  CHECK(unfolded(program) == ops);
  CHECK(unfolded(folded({})).empty());
}

TEST_CASE("Whatever comes is unfolded the same", "[core][folded_program]") {
  std::mt19937 random(5);
  auto const upto = [&](int n) { return int(random() % unsigned(n + 1)); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<op> ops;
    while (ops.size() < 60) {
      std::vector<op> pattern;
      for (int i = upto(9); i >= 0; --i)
        pattern.push_back(op(op_kind(upto(3)), stage_id{upto(1)}, microbatch_id{100 + upto(2)}));
      int const advance = upto(2) - 1;
      for (int times = upto(5); times >= 0; --times)
        for (auto& o : pattern) {
          ops.push_back(o);
          o = o.microbatches_later(advance);
        }
    }
    REQUIRE(unfolded(folded(ops)) == ops);
  }
}

TEST_CASE("A repeated body that does not repeat itself is noticed", "[core][folded_program]") {
  program_folder out;
  stage_writer stage(out, 0);
  int times = 0;
  repeat(stage, 5, [&] { times++ % 2 == 0 ? stage.forward() : stage.backward(); });
  CHECK_FALSE(out.faithful());
}

TEST_CASE("A repetition within another is a part of its pattern", "[core][folded_program]") {
  program_folder out;
  stage_writer stage(out, 0);
  repeat(stage, 50, [&] {
    repeat(stage, 3, [&] { stage.forward(); });
    repeat(stage, 3, [&] { stage.backward(); });
  });
  auto const program = out.finish();
  CHECK(program.ops().size() == 6);
  CHECK(program.operations() == 300);
  CHECK(unfolded(program)[299] == backward(stage_id{0}, microbatch_id{149}));
}

TEST_CASE("More ops than can be stored are refused where they come one by one", "[core][folded_program]") {
  program_folder out(max_operations - 1);
  out(forward(stage_id{0}, microbatch_id{0}));
  CHECK_THROWS_AS(out(forward(stage_id{0}, microbatch_id{1})), parameter_error);
  CHECK_THROWS_AS(fold_program(one_f_one_b{2, 4}, 2), parameter_error);
  CHECK_THROWS_AS(fold_program(one_f_one_b{2, 0}, 0), parameter_error);
}
