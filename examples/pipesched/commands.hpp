// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

/// The exit status of the program.
enum class outcome : int { done = 0, invalid = 1, wrong_usage = 2 };

/// Each adds one command to the program; `run` is what to do once the command line is read.
/// \{
using action = std::function<outcome()>;
void add_list(CLI::App& program, action& run);
void add_show(CLI::App& program, action& run);
void add_analyze(CLI::App& program, action& run);
void add_compare(CLI::App& program, action& run);
void add_export(CLI::App& program, action& run);
void add_check(CLI::App& program, action& run);
void add_plan(CLI::App& program, action& run);
/// \}
