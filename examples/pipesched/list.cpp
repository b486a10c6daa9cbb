// SPDX-License-Identifier: MIT
#include <string>

#include <pipesched/io/text_table.hpp>
#include <pipesched/schedules/registry.hpp>

#include "commands.hpp"
#include "files.hpp"

void add_list(CLI::App& program, action& run) {
  auto* const command = program.add_subcommand("list", "Every schedule: name, parameters, limits, source");
  command->callback([&run] {
    run = [] {
      pipesched::text_table table({"name", "parameters", "limits", "source"}, 4);
      pipesched::for_each_schedule([&]<class Generator>() {
        auto const& info = Generator::info;
        table.add(
            {std::string(info.name), std::string(info.parameters), std::string(info.limits), std::string(info.source)});
      });
      write_stdout(table.text());
      return outcome::done;
    };
  });
}
