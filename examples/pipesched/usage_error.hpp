// SPDX-License-Identifier: MIT
#pragma once

#include <stdexcept>

/// The command line is wrong: what, and what was expected. The program prints it and exits with 2.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
