// SPDX-License-Identifier: MIT
#include <memory>
#include <string>

#include <fmt/format.h>
#include <pipesched/io/dot.hpp>
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

std::string text_of(export_options const& options) {
  if (options.format == "torch-csv") return pipesched::write_torch_csv(options.study.load());
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
