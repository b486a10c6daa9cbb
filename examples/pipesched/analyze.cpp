// SPDX-License-Identifier: MIT
#include <memory>
#include <string>

#include <pipesched/analysis/critical_path.hpp>
#include <pipesched/analysis/report.hpp>
#include <pipesched/analysis/streams.hpp>
#include <pipesched/io/report_json.hpp>
#include <pipesched/io/report_text.hpp>
#include <pipesched/io/streams_text.hpp>

#include "commands.hpp"
#include "files.hpp"
#include "study.hpp"

void add_analyze(CLI::App& program, action& run) {
  auto* const command = program.add_subcommand("analyze", "Bubble, utilization, memory and critical path");
  auto const study = std::make_shared<study_options>();
  auto const format = std::make_shared<std::string>("text");
  study->add_to(*command);
  command->add_option("--format", *format, "text or json")->check(CLI::IsMember({"text", "json"}));
  command->callback([=, &run] {
    run = [=] {
      bool const json = *format == "json";
      bool const is_large = study->with_large_report([&](auto const& report, auto const& name) {
        write_stdout(json ? pipesched::report_json(report, name)
                          : pipesched::report_text(report, name) + "critical path: not kept for so many ops\n");
      });
      if (is_large) return outcome::done;
      study->with_timeline([&](auto const& graph, auto const& times, auto const& cost) {
        auto const report = pipesched::make_report(graph, times, cost);
        if (study->lowers()) {
          auto const streams = pipesched::analyze_streams(graph, times);
          if (json) return write_stdout(pipesched::report_json(report, streams, graph.name()));
          write_stdout(pipesched::report_text(report, graph.name(), "events") + "\n" +
                       pipesched::streams_text(streams) + "\n");
        } else {
          if (json) return write_stdout(pipesched::report_json(report, graph.name()));
          write_stdout(pipesched::report_text(report, graph.name()));
        }
        write_stdout(pipesched::critical_path_text(graph, pipesched::critical_path(graph, times, cost)));
      });
      return outcome::done;
    };
  });
}
