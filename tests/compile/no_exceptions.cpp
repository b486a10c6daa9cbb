// SPDX-License-Identifier: MIT
// The library without exceptions and RTTI: it works, and a user's mistake ends in the user's own handler.
#include <cstdlib>

[[noreturn]] static void stop(char const* message);
#define PIPESCHED_ON_ERROR(error) stop((error).what())

#include <pipesched/pipesched.hpp>

#include <cstdio>
#include <string_view>

static bool expecting_error = false;

[[noreturn]] static void stop(char const* message) {
  bool const named = std::string_view(message).find("ranks = 0") != std::string_view::npos;
  std::puts(message);
  std::exit(expecting_error && named ? 0 : 1);
}

int main() {
  if (pipesched::analyze(pipesched::gpipe{.ranks = 4, .microbatches = 8}).makespan != 33) return 1;
  expecting_error = true;
  auto const schedule = pipesched::generate(pipesched::gpipe{.ranks = 0, .microbatches = 8});
  return schedule.ranks() == 0 ? 2 : 3;  // not reached
}
