// SPDX-License-Identifier: MIT
// With odr_second.cpp: whatever a header defines without `inline` is defined twice, and does not link.
#include <pipesched/pipesched.hpp>

std::int64_t makespan_elsewhere(pipesched::one_f_one_b const& shape);

int main() {
  pipesched::one_f_one_b const shape{.ranks = 4, .microbatches = 8};
  return pipesched::analyze(shape).makespan == makespan_elsewhere(shape) ? 0 : 1;
}
