// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Runs the program `pipesched`, whose path is PIPESCHED_PROGRAM.

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace test_support {

struct program_result {
  int status;
  std::string output;  ///< standard output and standard error
};

/// `arguments` as a shell reads them.
inline program_result run_program(std::string const& arguments) {
  auto* const pipe = ::popen((std::string(PIPESCHED_PROGRAM) + " " + arguments + " 2>&1 </dev/null").c_str(), "r");
  if (!pipe) throw std::runtime_error("cannot run the program");
  program_result result{};
  std::array<char, 4096> block{};
  for (std::size_t read = 0; (read = std::fread(block.data(), 1, block.size(), pipe)) > 0;)
    result.output.append(block.data(), read);
  int const status = ::pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

}  // namespace test_support
