// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <pipesched/io/comparison.hpp>

#include "commands.hpp"
#include "comparison_pictures.hpp"
#include "costs.hpp"
#include "files.hpp"
#include "input.hpp"
#include "usage_error.hpp"

namespace {

constexpr char const* equal_work_note =
    "\nA stage costs the same everywhere: with more stages per rank there is more work.\n"
    "--cost-per rank compares equal work.\n";
constexpr char const* legend = R"(
P ranks, S stages. bubble: idle time of the rank that idles most; of time: idle
share of all rank time; of span: bubble rate of the longest span of a rank.
peak (activations of one microbatch) and params: of the rank that holds most,
in 1/{} of the model. p2p: messages between ranks per microbatch.
)";

struct compare_options {
  shape_options shape;
  cost_options cost;
  std::string schedules;
  std::string format = "text";
  std::string path;
};

/// A schedule that is left out, and why.
struct left_out {
  std::string schedule;
  std::string reason;
};

/// One of the two ways to put schedules side by side, in both formats.
struct side_by_side {
  pipesched::comparison_table table;
  std::vector<std::string> json;
  std::vector<left_out> left;
};

std::vector<std::string> chosen_schedules(std::string const& list) {
  if (list.empty()) return {pipesched::schedule_names.begin(), pipesched::schedule_names.end()};
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= list.size();) {
    auto const comma = std::min(list.find(',', begin), list.size());
    names.push_back(list.substr(begin, comma - begin));
    auto const& known = pipesched::schedule_names;
    if (std::find(known.begin(), known.end(), names.back()) == known.end())
      throw usage_error(pipesched::unknown_schedule_message(names.back()));
    begin = comma + 1;
  }
  return names;
}

/// The shape as far as the schedule has its parameters, with the times that it is made for; on equal stages with the
/// ranks that hold just them.
pipesched::shape suit(std::string const& schedule, compare_options const& options, bool equal_stages,
                      std::optional<std::int64_t> microbatches = {}) {
  auto suited = options.shape.shape();
  if (microbatches) suited.microbatches = *microbatches;
  pipesched::with_schedule_type(schedule, [&]<class Generator>() {
    suited = pipesched::applicable<Generator>(suited);
    auto const per_rank = pipesched::stages_per_rank<Generator>(suited);
    suited.times = options.cost.pass_times(equal_stages ? 1 : per_rank);
    if (!equal_stages) return;
    pipesched::require(pipesched::multiple_of("stages", suited.ranks, per_rank, "stages per rank"));
    suited.ranks /= per_rank;
  });
  return suited;
}

/// Adds one schedule, or why it is left out. On equal stages every stage is a whole part of the model, which costs the
/// given times.
void add(side_by_side& all, compare_options const& options, std::string const& schedule, int parts,
         bool equal_stages) try {
  auto const suited = suit(schedule, options, equal_stages);
  auto const graph = pipesched::build_graph(make_schedule(schedule, suited, options.shape.forward_only()));
  options.cost.with_model(graph.stages(), equal_stages ? graph.stages() : graph.ranks(), [&](auto const& cost) {
    auto const row = pipesched::make_comparison(graph, pipesched::analyze(options.cost.lowered(graph), cost), parts);
    all.table.add(schedule, row);
    all.json.push_back(pipesched::comparison_json(schedule, row));
  });
} catch (pipesched::parameter_error const& error) {
  all.left.push_back({schedule, error.what()});
}

std::string text_of(side_by_side const& all, std::string const& title) {
  auto text = title + "\n\n" + all.table.text();
  if (!all.left.empty()) text += "\nleft out\n";
  for (auto const& [schedule, reason] : all.left) text += fmt::format("  {}: {}\n", schedule, reason);
  return text;
}

std::string json_of(side_by_side const& all) {
  std::string text = "[";
  for (auto const& entry : all.json) text += (text.size() > 1 ? ",\n " : "\n ") + entry;
  return text + "]";
}

std::string json_left(std::vector<left_out> const& left) {
  std::string text = "[";
  for (auto const& [schedule, reason] : left)
    text += fmt::format("{}{{\"schedule\": {}, \"reason\": {}}}", text.size() > 1 ? ",\n " : "\n ",
                        pipesched::detail::json_string(schedule), pipesched::detail::json_string(reason));
  return text + "]";
}

/// Plots, and in HTML the timelines too, on equal ranks.
std::string pictures_of(compare_options const& options) {
  auto const shape = options.shape.shape();
  pipesched::require(pipesched::at_most("ranks * microbatches", shape.ranks * shape.microbatches,
                                        pipesched::max_operations, "what a stored schedule can hold"));
  comparison_pictures const pictures(shape.ranks, shape.microbatches, options.cost, chosen_schedules(options.schedules),
                                     [&](std::string const& schedule, std::int64_t microbatches) {
                                       return make_schedule(schedule, suit(schedule, options, false, microbatches),
                                                            options.shape.forward_only());
                                     });
  return options.format == "svg" ? pictures.svg() : pictures.html();
}

outcome compare(compare_options const& options) {
  auto const shape = options.shape.shape();
  if (options.cost.measured()) throw usage_error("--cost: measured times are of the ops of one schedule: use analyze");
  pipesched::require(pipesched::at_most("ranks", shape.ranks, pipesched::max_stages));
  if (options.format == "svg" || options.format == "html") {
    write_output(options.path, pictures_of(options));
    return outcome::done;
  }
  int const parts = static_cast<int>(shape.ranks);
  side_by_side ranks;
  side_by_side stages;
  for (auto const& schedule : chosen_schedules(options.schedules)) {
    add(ranks, options, schedule, parts, false);
    add(stages, options, schedule, parts, true);
  }
  if (options.format == "json") {
    write_output(
        options.path,
        fmt::format(
            "{{\"ranks\": {}, \"microbatches\": {},\n\"schedules\": {},\n\"left_out\": {},\n\"equal_stages\": {},\n"
            "\"equal_stages_left_out\": {}}}\n",
            shape.ranks, shape.microbatches, json_of(ranks), json_left(ranks.left), json_of(stages),
            json_left(stages.left)));
    return outcome::done;
  }
  write_output(options.path,
               text_of(ranks, fmt::format("On equal ranks, P = {}, {} microbatches", parts, shape.microbatches)) +
                   (options.cost.per_rank() ? "" : equal_work_note) + "\n" +
                   text_of(stages, fmt::format("On equal stages, S = {}, {} microbatches", parts, shape.microbatches)) +
                   fmt::format(legend, parts));
  return outcome::done;
}

}  // namespace

void add_compare(CLI::App& program, action& run) {
  auto* const command = program.add_subcommand("compare", "Schedules side by side, on equal ranks and equal stages");
  auto const options = std::make_shared<compare_options>();
  options->shape.add_to(*command, true);
  options->cost.add_to(*command);
  command->add_option("--schedules", options->schedules, "Which ones: a,b,c (default: all)");
  command->add_option("--format", options->format, "text, json, or plots as svg or html")
      ->check(CLI::IsMember({"text", "json", "svg", "html"}));
  command->add_option("-o,--output", options->path, "The file to write (default: standard output)")->type_name("FILE");
  command->callback([=, &run] { run = [=] { return compare(*options); }; });
}
