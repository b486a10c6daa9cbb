// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <pipesched/planner/json_reader.hpp>
#include <pipesched/planner/plan_json.hpp>
#include <pipesched/planner/plan_text.hpp>
#include <pipesched/planner/planner.hpp>

#include "commands.hpp"
#include "decimal.hpp"
#include "files.hpp"
#include "schedule_file.hpp"

namespace {

struct plan_command {
  std::string cluster;
  std::string model;
  std::string format = "text";
  std::optional<std::string> top;
  bool progress = false;
};

/// Says in which file it was.
void require_none(std::string const& path, std::vector<pipesched::diagnostic> diagnostics) {
  if (diagnostics.empty()) return;
  for (auto& d : diagnostics) d.op = d.op.empty() ? path : path + ": " + d.op;
  throw invalid_file(std::move(diagnostics));
}

/// How far the search is: on a terminal's last line, elsewhere in lines of their own where it is asked for.
class progress_line {
 public:
  explicit progress_line(bool asked) : asked_(asked) {}

  void operator()(std::int64_t done, std::int64_t all) {
    if (!terminal_ && !asked_) return;
    auto const percent = all == 0 ? 100 : 100 * done / all;
    if (percent / step() == percent_ / step()) return;
    percent_ = percent;
    std::fprintf(stderr, terminal_ ? "\r%3d %% searched" : "%d %% searched\n", int(percent));
    if (terminal_ && done == all) std::fputs("\r\033[K", stderr);
    std::fflush(stderr);
  }

 private:
  [[nodiscard]] std::int64_t step() const { return terminal_ ? 1 : 10; }

  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  bool asked_;
  std::int64_t percent_ = -100;
};

outcome make_plan(plan_command const& command) {
  auto model = pipesched::read_model(read_file(command.model));
  require_none(command.model, std::move(model.diagnostics));
  auto cluster = pipesched::read_cluster(read_file(command.cluster));
  require_none(command.cluster, std::move(cluster.diagnostics));
  auto const listed = command.top ? parse_count("top", *command.top) : 10;
  pipesched::plan_request const request{model.model, cluster.cluster, model.choices, listed};
  auto wrong = pipesched::check_request(request);
  for (auto& d : wrong) d.op = (d.op.starts_with("cluster") ? command.cluster : command.model) + ": " + d.op;
  if (!wrong.empty()) throw invalid_file(std::move(wrong));

  auto const result = pipesched::plan(request, progress_line(command.progress));
  if (command.format == "json")
    write_stdout(pipesched::plan_json(result, request));
  else if (result.failure)
    std::fputs(pipesched::failure_text(*result.failure).c_str(), stderr);
  else
    write_stdout(pipesched::plan_text(result, request));
  return result.failure ? outcome::invalid : outcome::done;
}

}  // namespace

void add_plan(CLI::App& program, action& run) {
  auto* const command = program.add_subcommand("plan", "Which schedule, shape and sizes for a model on a cluster");
  auto const options = std::make_shared<plan_command>();
  command->add_option("--cluster", options->cluster, "The cluster, a JSON file")->required();
  command->add_option("--model", options->model, "The model and its training, a JSON file")->required();
  command->add_option("--format", options->format, "text or json")->check(CLI::IsMember({"text", "json"}));
  command->add_option("--top", options->top, "How many plans to list (default: 10)");
  command->add_flag("--progress", options->progress, "Say how far the search is, also where no terminal shows it");
  command->callback([=, &run] { run = [=] { return make_plan(*options); }; });
}
