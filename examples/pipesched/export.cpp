// SPDX-License-Identifier: MIT
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <pipesched/graph/plan_communication.hpp>
#include <pipesched/io/dot.hpp>
#include <pipesched/io/json.hpp>
#include <pipesched/io/torch_csv_writer.hpp>

#include "commands.hpp"
#include "files.hpp"
#include "study.hpp"
#include "usage_error.hpp"

namespace {

struct export_options {
  study_options study;
  std::string format;
  std::string path;
};

/// The rows of the eager plan: torch's own lowering.
std::string communication_rows(pipesched::schedule const& schedule) {
  auto const plan = pipesched::plan_communication(schedule);
  std::vector<std::vector<pipesched::op>> rows;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    rows.emplace_back();
    for (auto const& entry : plan.program(rank)) rows.back().push_back(entry.what);
  }
  return pipesched::write_torch_csv(rows);
}

std::string text_of(export_options const& options) {
  if (options.format == "torch-csv") return pipesched::write_torch_csv(options.study.load());
  if (options.format == "torch-csv-comms") return communication_rows(options.study.load());
  if (options.format == "json") return pipesched::write_json(options.study.load());
  if (options.format == "dot") return pipesched::dot(options.study.graph());
  throw usage_error(fmt::format("format = {}, which this build does not write", options.format));
}

}  // namespace

void add_export(CLI::App& program, action& run) {
  auto* const command = program.add_subcommand("export", "Write the schedule or its timeline to a file");
  auto const options = std::make_shared<export_options>();
  options->study.add_to(*command);
  command->add_option("--format", options->format, "torch-csv, torch-csv-comms, json, chrome-trace, svg, html or dot")
      ->required()
      ->check(CLI::IsMember({"torch-csv", "torch-csv-comms", "json", "chrome-trace", "svg", "html", "dot"}));
  command->add_option("-o,--output", options->path, "The file to write (default: standard output)");
  command->callback([=, &run] {
    run = [=] {
      write_output(options->path, text_of(*options));
      return outcome::done;
    };
  });
}
