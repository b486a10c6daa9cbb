// SPDX-License-Identifier: MIT
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <pipesched/core/schedule.hpp>
#include <pipesched/io/diagnostic.hpp>

/// A file that is not what it should be. The program prints the diagnostics and exits with 1.
class invalid_file : public std::runtime_error {
 public:
  explicit invalid_file(std::vector<pipesched::diagnostic> diagnostics)
      : std::runtime_error("invalid file"), diagnostics_(std::move(diagnostics)) {}
  [[nodiscard]] std::vector<pipesched::diagnostic> const& diagnostics() const noexcept { return diagnostics_; }

 private:
  std::vector<pipesched::diagnostic> diagnostics_;
};

/// The schedule in a file. Throws `invalid_file`, and `usage_error` where the file cannot be read at all.
pipesched::schedule read_schedule(std::string const& path);
