// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

/// The bytes of a file. Throws `usage_error` where it cannot be read or is larger than 1 GiB.
std::string read_file(std::string const& path);

/// Writes to standard output and makes sure that it has arrived. A reader that has closed the pipe is no error.
void write_stdout(std::string_view text);

/// Writes a whole file or none: to a neighbour that then takes its name. "-" and "" are standard output. Throws
/// `usage_error` where it cannot be written.
void write_output(std::string const& path, std::string_view text);
