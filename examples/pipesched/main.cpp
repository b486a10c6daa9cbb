// SPDX-License-Identifier: MIT
//
// pipesched: schedules of pipeline-parallel training at the command line. Every number it prints comes from the
// library's headers; this folder reads options and files, and says what went wrong.

#include <cstddef>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/version.hpp>

#include "commands.hpp"
#include "schedule_file.hpp"
#include "usage_error.hpp"

namespace {

int fail(outcome status, char const* message) {
  std::fprintf(stderr, "pipesched: %s\n", message);
  return static_cast<int>(status);
}

/// What is wrong with the command line. A word that is no command is named, which the parser does not do.
std::string explain(CLI::App const& program, CLI::ParseError const& error, std::string const& first) {
  std::string known;
  bool is_known = false;
  for (auto const* command : program.get_subcommands({})) {
    known += " " + command->get_name();
    is_known = is_known || command->get_name() == first;
  }
  if (!is_known && !first.empty() && first.front() != '-') return "unknown command '" + first + "'; known are" + known;
  return std::string(error.what()) + "\nRun with --help for more information.";
}

/// The message of what the library refuses, with its parameters called as the options that set them.
std::string with_option_names(pipesched::parameter_violation violation) {
  if (violation.parameter == "layers") violation.parameter = "moe-layers";
  if (violation.parameter == "sm_total") violation.parameter = "sm-total";
  if (violation.parameter == "sm_comm") violation.parameter = "sm-comm";
  if (violation.reason == "sm_total - 1") violation.reason = "sm-total - 1";
  if (violation.parameter == "microseconds_per_unit") violation.parameter = "microseconds";
  if (violation.parameter == "duration") violation.parameter = "the time of an op";
  return violation.message();
}

/// One line each. A text that is no schedule at all is wrong in every line: of many, the first tell enough.
void print(std::vector<pipesched::diagnostic> const& diagnostics) {
  constexpr std::size_t most = 100;
  for (std::size_t i = 0; i < diagnostics.size() && i < most; ++i)
    std::fprintf(stderr, "%s\n", to_string(diagnostics[i]).c_str());
  if (diagnostics.size() > most)
    std::fprintf(stderr, "and %zu more; check --diagnostics json gives all\n", diagnostics.size() - most);
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App program("Schedules of pipeline-parallel training: list, show, analyze, compare, check, export, plan",
                   "pipesched");
  program.set_version_flag("--version", std::to_string(PIPESCHED_VERSION_MAJOR) + "." +
                                            std::to_string(PIPESCHED_VERSION_MINOR) + "." +
                                            std::to_string(PIPESCHED_VERSION_PATCH));
  program.require_subcommand(1);
  program.get_formatter()->column_width(28);
  action run;
  add_list(program, run);
  add_show(program, run);
  add_analyze(program, run);
  add_compare(program, run);
  add_export(program, run);
  add_check(program, run);
  add_plan(program, run);
  try {
    program.parse(argc, argv);
  } catch (CLI::ParseError const& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // help and version
    return fail(outcome::wrong_usage, explain(program, error, argc > 1 ? argv[1] : "").c_str());
  }
  return static_cast<int>(run());
} catch (invalid_file const& error) {
  print(error.diagnostics());
  return static_cast<int>(outcome::invalid);
} catch (pipesched::schedule_error const& error) {
  return fail(outcome::invalid, error.what());
} catch (std::bad_alloc const&) {
  return fail(outcome::wrong_usage, "not enough memory for this shape");
} catch (pipesched::parameter_error const& error) {
  return fail(outcome::wrong_usage, with_option_names(error.violation()).c_str());
} catch (std::exception const& error) {
  return fail(outcome::wrong_usage, error.what());
}
