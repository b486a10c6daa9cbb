// SPDX-License-Identifier: MIT
#include <string>

#include <fmt/format.h>
#include <pipesched/io/text_table.hpp>
#include <pipesched/schedules/registry.hpp>

#include "commands.hpp"
#include "files.hpp"
#include "terminal.hpp"

namespace {

/// One line per schedule.
pipesched::text_table as_table() {
  pipesched::text_table table({"name", "parameters", "limits", "source"}, 4);
  pipesched::for_each_schedule([&]<class Generator>() {
    auto const& info = Generator::info;
    table.add(
        {std::string(info.name), std::string(info.parameters), std::string(info.limits), std::string(info.source)});
  });
  return table;
}

/// A few short lines per schedule, for a terminal that is too narrow for a table.
std::string as_paragraphs() {
  std::string text;
  pipesched::for_each_schedule([&]<class Generator>() {
    auto const& info = Generator::info;
    text += fmt::format("{}\n  parameters  {}\n  limits      {}\n  source      {}\n", info.name, info.parameters,
                        info.limits, info.source);
  });
  return text;
}

}  // namespace

void add_list(CLI::App& program, action& run) {
  auto* const command = program.add_subcommand("list", "Every schedule: name, parameters, limits, source");
  command->callback([&run] {
    run = [] {
      auto const table = as_table();
      bool const fits = !is_terminal() || static_cast<int>(table.width()) <= terminal_width();
      write_stdout(fits ? table.text() : as_paragraphs());
      return outcome::done;
    };
  });
}
