// SPDX-License-Identifier: MIT
#include "schedule_file.hpp"

#include <pipesched/io/torch_csv.hpp>

#include "files.hpp"

pipesched::schedule read_schedule(std::string const& path) {
  auto read = pipesched::read_torch_csv(read_file(path));
  if (!read.diagnostics.empty()) throw invalid_file(std::move(read.diagnostics));
  if (!read.compute)
    throw invalid_file({pipesched::diagnostic{.kind = "empty", .message = "the file holds no compute op"}});
  return *std::move(read.compute);
}
