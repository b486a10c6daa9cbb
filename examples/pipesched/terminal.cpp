// SPDX-License-Identifier: MIT
#include "terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

bool is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }

int terminal_width() {
  winsize size{};
  if (is_terminal() && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

bool wants_color() {
  auto const variable = [](char const* name) {
    auto const* const value = std::getenv(name);
    return std::string_view(value ? value : "");
  };
  return is_terminal() && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
}
