// SPDX-License-Identifier: MIT
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <pipesched/io/diagnostic.hpp>

#include "commands.hpp"
#include "decimal.hpp"
#include "files.hpp"
#include "schedule_file.hpp"
#include "transport_check.hpp"
#include "usage_error.hpp"

namespace {

struct check_command {
  std::string path;
  std::string format;
  std::string transport;
  std::optional<std::string> buffered;
  std::string diagnostics = "text";
};

/// `valid`: nothing is wrong at all; else what is missing, or out of order, hinders no transport of this kind.
std::string summary(pipesched::schedule const& s, std::string const& transport, bool valid) {
  return fmt::format("{}: {} ranks, {} stages, {} microbatches, {} operations{}\n",
                     valid ? "valid" : "not valid, but runs", s.ranks(), s.stages(), s.microbatches(), s.ops().size(),
                     transport.empty() ? "" : ", no deadlock under " + transport);
}

/// The messages that a bounded transport buffers from one rank to another, without a default: no number is the usual
/// one.
std::int64_t buffered_messages(check_command const& command) {
  bool const bounded = command.transport == "bounded";
  if (!bounded && command.buffered) throw usage_error("--buffered is for --transport bounded");
  if (bounded && !command.buffered)
    throw usage_error("--buffered is required: messages that --transport bounded holds");
  return bounded ? parse_count("buffered", *command.buffered) : 1;
}

outcome check_file(check_command const& command) {
  auto const buffered = buffered_messages(command);
  auto const text = read_file(command.path);
  auto const checked = check_schedule(text, format_named(command.format, text));
  auto const diagnostics =
      command.transport.empty() ? checked.diagnostics : check_transport_of(checked, command.transport, buffered);
  if (command.diagnostics == "json") write_stdout(pipesched::to_json(diagnostics));
  if (!diagnostics.empty()) {
    if (command.diagnostics == "text") throw invalid_file(diagnostics);
    return outcome::invalid;
  }
  if (command.diagnostics == "text" && checked.schedule)
    write_stdout(summary(*checked.schedule, command.transport, checked.diagnostics.empty()));
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
      ->add_option(
          "--transport", options->transport,
          "Whether sends and receives can hang under: async, dir-queue, pair-queue, rank-queue, blocking or bounded")
      ->check(CLI::IsMember(transport_names()));
  command
      ->add_option("--buffered", options->buffered,
                   "K of --transport bounded: a send passes while fewer messages to that rank await their receive")
      ->type_name("NUMBER");
  command
      ->add_option("--diagnostics", options->diagnostics,
                   "How to say it: text, a line each on standard error, or json, on standard output")
      ->check(CLI::IsMember({"text", "json"}));
  command->callback([=, &run] { run = [=] { return check_file(*options); }; });
}
