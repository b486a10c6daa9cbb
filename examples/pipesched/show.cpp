// SPDX-License-Identifier: MIT
#include <memory>
#include <optional>
#include <string>

#include <pipesched/analysis/report.hpp>
#include <pipesched/io/report_text.hpp>
#include <pipesched/io/text_timeline.hpp>

#include "commands.hpp"
#include "decimal.hpp"
#include "files.hpp"
#include "study.hpp"
#include "terminal.hpp"
#include "usage_error.hpp"

namespace {

struct show_options {
  study_options study;
  bool no_color = false;
  std::optional<std::string> width;
  std::optional<std::string> format;
  std::optional<std::string> path;
};

}  // namespace

void add_show(CLI::App& program, action& run) {
  auto* const command = program.add_subcommand("show", "The timeline as text");
  auto const options = std::make_shared<show_options>();
  options->study.add_to(*command);
  command->add_flag("--no-color", options->no_color, "No colours, also on a terminal");
  command->add_option("--width", options->width, "Columns to fold time at (default: the terminal's, or 80)");
  // Not for show, but what one tries: the answer is the command that has them.
  command->add_option("--format", options->format)->group("");
  command->add_option("-o,--output", options->path)->group("");
  command->callback([=, &run] {
    run = [=] {
      if (options->format || options->path)
        throw usage_error(
            "show draws text alone; files and other formats: pipesched export ... --format FORMAT -o FILE");
      pipesched::text_timeline_options text;
      text.width = options->width ? static_cast<int>(parse_count("width", *options->width, 40)) : terminal_width();
      text.color = wants_color() && !options->no_color;
      options->study.with_timeline([&](auto const& graph, auto const& times, auto const& cost) {
        auto const report = pipesched::make_report(graph, times, cost);
        write_stdout(pipesched::text_timeline(graph, times, text) + pipesched::summary_text(report, graph.name()));
      });
      return outcome::done;
    };
  });
}
