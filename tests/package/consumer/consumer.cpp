// SPDX-License-Identifier: MIT
#include <pipesched/analysis/report.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>
#include <pipesched/version.hpp>

static_assert(pipesched::analyze(pipesched::one_f_one_b{.ranks = 4, .microbatches = 8}).makespan == 33);

int main() { return pipesched::analyze(pipesched::one_f_one_b{.ranks = 4, .microbatches = 2}).makespan == 15 ? 0 : 1; }
