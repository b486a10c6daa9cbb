// SPDX-License-Identifier: MIT
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <pipesched/analysis/report.hpp>
#include <pipesched/graph/plan_communication.hpp>
#include <pipesched/io/chrome_trace.hpp>
#include <pipesched/io/dot.hpp>
#include <pipesched/io/html.hpp>
#include <pipesched/io/json.hpp>
#include <pipesched/io/report_text.hpp>
#include <pipesched/io/svg.hpp>
#include <pipesched/io/torch_csv_writer.hpp>

#include "commands.hpp"
#include "decimal.hpp"
#include "files.hpp"
#include "study.hpp"
#include "usage_error.hpp"

namespace {

struct export_options {
  study_options study;
  std::string format;
  std::string path;
  bool memory = false;
  std::optional<std::string> microseconds;
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

/// With the times, where any are given. Those of mixture-of-experts events have no place in the format.
std::string json_of(study_options::loaded const& loaded) {
  auto const& [schedule, cost] = loaded;
  pipesched::stage_cost<double> costs;
  pipesched::json_extras extras;
  extras.measured = cost.known_run();
  if (cost.measured()) {
    static_cast<void>(cost.for_ops_of(schedule));  // refuses what does not suit the schedule
  } else if (cost.given() && !cost.lowers()) {
    costs = cost.real_times(schedule.stages(), schedule.ranks());
    extras.costs = &costs;
  }
  return pipesched::write_json(schedule, extras);
}

std::string picture_of(export_options const& options) {
  std::string text;
  options.study.with_timeline([&](auto const& graph, auto const& times, auto const& cost) {
    if (options.format == "chrome-trace") {
      pipesched::chrome_trace_options trace;
      if (options.microseconds) trace.microseconds_per_unit = parse_time("microseconds", *options.microseconds).real;
      text = pipesched::chrome_trace(graph, times, trace);
      return;
    }
    auto const figures = pipesched::figures_text(pipesched::make_report(graph, times, cost));
    if (options.format == "svg") {
      pipesched::svg_options svg;
      svg.memory = options.memory;
      svg.caption = figures;
      text = pipesched::svg(graph, times, svg);
    } else {
      text = pipesched::html(graph, times, cost, figures);
    }
  });
  return text;
}

std::string text_of(export_options const& options) {
  if (options.format.empty())
    throw usage_error("--format is required: torch-csv, torch-csv-comms, json, chrome-trace, svg, html or dot");
  if (options.memory && options.format != "svg") throw usage_error("--memory is for --format svg");
  if (options.microseconds && options.format != "chrome-trace")
    throw usage_error("--microseconds is for --format chrome-trace");
  if (options.format == "torch-csv") return pipesched::write_torch_csv(options.study.load().schedule);
  if (options.format == "torch-csv-comms") return communication_rows(options.study.load().schedule);
  if (options.format == "json") return json_of(options.study.load());
  if (options.format == "dot") return pipesched::dot(options.study.load().graph());
  return picture_of(options);
}

}  // namespace

void add_export(CLI::App& program, action& run) {
  auto* const command = program.add_subcommand("export", "Write the schedule or its timeline to a file");
  auto const options = std::make_shared<export_options>();
  options->study.add_to(*command);
  command
      ->add_option("--format", options->format,
                   "torch-csv, torch-csv-comms, json, chrome-trace, svg, html or dot (required)")
      ->check(CLI::IsMember({"torch-csv", "torch-csv-comms", "json", "chrome-trace", "svg", "html", "dot"}));
  command->add_option("-o,--output", options->path, "The file to write (default: standard output)")->type_name("FILE");
  command->add_flag("--memory", options->memory, "With the activations held over time, in svg");
  command->add_option("--microseconds", options->microseconds, "What a unit of time is in chrome-trace (default: 1)");
  command->callback([=, &run] {
    run = [=] {
      write_output(options->path, text_of(*options));
      return outcome::done;
    };
  });
}
