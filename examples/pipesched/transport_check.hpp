// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <pipesched/io/diagnostic.hpp>

#include "schedule_file.hpp"

/// The names that `--transport` takes.
std::vector<std::string> transport_names();

/// Whether the sends and receives of a file can hang under a transport; those of the eager plan where it has none. A
/// file that is not complete can be asked too. `buffered`: K of "bounded". Returns what is wrong.
std::vector<pipesched::diagnostic> check_transport_of(checked_schedule const& file, std::string const& transport,
                                                      std::int64_t buffered = 1);
