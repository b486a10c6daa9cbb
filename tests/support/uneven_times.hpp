// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Random times for the generators that are made for the times of their passes, and what these generators owe.

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/core/digest.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/schedules/pass_times.hpp>

namespace test_support {

struct uneven_shape {
  int ranks;
  int microbatches;
  pipesched::pass_times times;
};

[[nodiscard]] inline uneven_shape draw_uneven(std::mt19937& random) {
  auto const draw = [&](int most) { return std::int64_t(random() % unsigned(most)) + 1; };
  int const ranks = int(draw(7));
  int const microbatches = int(draw(20));
  return {ranks, microbatches, {draw(20), draw(20), draw(20), draw(6) - 1}};
}

[[nodiscard]] inline std::string described(uneven_shape const& s) {
  auto const word = [](char const* name, std::int64_t value) { return name + std::to_string(value); };
  return word("P=", s.ranks) + word(" m=", s.microbatches) + word(" F=", s.times.forward) +
         word(" I=", s.times.backward_input) + word(" W=", s.times.backward_weight) +
         word(" latency=", s.times.latency);
}

[[nodiscard]] inline pipesched::uniform_cost<> cost_of(pipesched::pass_times const& t) {
  return {t.forward, t.backward_input, t.backward_weight, {}, t.latency};
}

/// Whether each rank's program is the same alone and with the others, and so the digest.
template <pipesched::schedule_generator G>
bool rows_alone_are_the_same(G const& generator) {
  auto const all = generate(generator);
  for (int rank = 0; rank < all.ranks(); ++rank) {
    auto const alone = generate_program(generator, rank);
    auto const row = all.program(rank);
    if (!std::equal(alone.begin(), alone.end(), row.begin(), row.end())) return false;
  }
  return digest_of(generator) == all.digest();
}

}  // namespace test_support
