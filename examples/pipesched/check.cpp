// SPDX-License-Identifier: MIT
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <pipesched/io/check_torch_csv.hpp>
#include <pipesched/io/diagnostic.hpp>

#include "commands.hpp"
#include "files.hpp"
#include "schedule_file.hpp"
#include "usage_error.hpp"

namespace {

struct check_command {
  std::string path;
  std::string format;
  std::string transport;
  std::string diagnostics = "text";
};

/// "valid: 4 ranks, 8 stages, ..." and, where sends and receives are in the file, that they are too.
std::string summary(pipesched::schedule const& s) {
  return fmt::format("valid: {} ranks, {} stages, {} microbatches, {} operations\n", s.ranks(), s.stages(),
                     s.microbatches(), s.ops().size());
}

outcome check_file(check_command const& command) {
  if (!command.transport.empty())
    throw usage_error(fmt::format("transport = {}, which this build does not check", command.transport));
  auto const text = read_file(command.path);
  auto const checked = check_schedule(text, format_named(command.format, text));
  if (command.diagnostics == "json") write_stdout(pipesched::to_json(checked.diagnostics));
  if (!checked.diagnostics.empty()) {
    if (command.diagnostics == "text") throw invalid_file(checked.diagnostics);
    return outcome::invalid;
  }
  if (command.diagnostics == "text" && checked.schedule) write_stdout(summary(*checked.schedule));
  return outcome::done;
}

}  // namespace

void add_check(CLI::App& program, action& run) {
  auto* const command = program.add_subcommand("check", "What is wrong with a schedule in a file");
  auto const options = std::make_shared<check_command>();
  command->add_option("FILE", options->path, "The file")->required();
  command->add_option("--format", options->format, "The file's format: torch-csv or json (default: found out)")
      ->check(CLI::IsMember({"torch-csv", "json"}));
  command
      ->add_option("--transport", options->transport,
                   "Also whether sends and receives can hang: async, dir-queue, pair-queue, rank-queue or blocking")
      ->check(CLI::IsMember({"async", "dir-queue", "pair-queue", "rank-queue", "blocking"}));
  command
      ->add_option("--diagnostics", options->diagnostics,
                   "How to say it: text, a line each on standard error, or json, on standard output")
      ->check(CLI::IsMember({"text", "json"}));
  command->callback([=, &run] { run = [=] { return check_file(*options); }; });
}
