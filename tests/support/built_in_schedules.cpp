// SPDX-License-Identifier: MIT
#include "support/built_in_schedules.hpp"

#include <pipesched/schedules/registry.hpp>

namespace test_support {

std::vector<pipesched::schedule> built_in_schedules(int ranks, int chunks, int microbatches) {
  std::vector<pipesched::schedule> all;
  pipesched::for_each_schedule([&]<class Generator>() {
    Generator generator{};
    generator.ranks = ranks;
    generator.microbatches = microbatches;
    if constexpr (requires { generator.chunks; })
      generator.chunks = chunks;
    else if (chunks != 1)
      return;
    if (!generator.check()) all.push_back(pipesched::generate(generator));
  });
  return all;
}

std::vector<pipesched::schedule> default_schedules(int ranks, int microbatches) {
  std::vector<pipesched::schedule> all;
  pipesched::for_each_schedule([&]<class Generator>() {
    all.push_back(
        pipesched::generate(pipesched::make_generator<Generator>({.ranks = ranks, .microbatches = microbatches})));
  });
  return all;
}

}  // namespace test_support
