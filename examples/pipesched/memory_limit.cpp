// SPDX-License-Identifier: MIT
#include "memory_limit.hpp"

#include <unistd.h>

#include <cstdio>
#include <memory>

#include <fmt/format.h>

#include "usage_error.hpp"

namespace {

/// Bytes that can be had without swapping.
std::int64_t available_memory() {
  struct closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  if (std::unique_ptr<std::FILE, closer> const info{std::fopen("/proc/meminfo", "r")}) {
    char line[256];
    long long kibibytes = 0;
    while (std::fgets(line, sizeof line, info.get()))
      if (std::sscanf(line, "MemAvailable: %lld kB", &kibibytes) == 1) return std::int64_t{kibibytes} * 1024;
  }
  return std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

void require_memory_for(std::int64_t operations) {
  constexpr std::int64_t bytes_per_operation = 96;  // schedule, graph, order and timeline while they are made
  constexpr double gib = 1024.0 * 1024.0 * 1024.0;
  auto const needed = operations * bytes_per_operation;
  auto const available = available_memory();
  if (needed <= available) return;
  throw usage_error(fmt::format("operations = {}, must be at most {} (they need {:.1f} GiB of memory, {:.1f} are free)",
                                operations, available / bytes_per_operation, static_cast<double>(needed) / gib,
                                static_cast<double>(available) / gib));
}
