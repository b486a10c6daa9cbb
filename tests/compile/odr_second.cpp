// SPDX-License-Identifier: MIT
#include <pipesched/pipesched.hpp>

std::int64_t makespan_elsewhere(pipesched::one_f_one_b const& shape);

std::int64_t makespan_elsewhere(pipesched::one_f_one_b const& shape) { return pipesched::analyze(shape).makespan; }
