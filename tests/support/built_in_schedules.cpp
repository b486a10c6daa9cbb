// SPDX-License-Identifier: MIT
#include "support/built_in_schedules.hpp"
#include "support/generator_shapes.hpp"

#include <pipesched/schedules/registry.hpp>

namespace test_support {

std::vector<pipesched::schedule> built_in_schedules(int ranks, int chunks, int microbatches) {
  std::vector<pipesched::schedule> all;
  pipesched::for_each_schedule([&]<class Generator>() {
    with_shape<Generator>(ranks, microbatches, chunks, 0,
                          [&](auto const& generator) { all.push_back(pipesched::generate(generator)); });
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
