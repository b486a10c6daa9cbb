// SPDX-License-Identifier: MIT
#include "input.hpp"

#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <pipesched/core/forward_only.hpp>

#include "decimal.hpp"
#include "memory_limit.hpp"
#include "schedule_file.hpp"
#include "usage_error.hpp"

namespace {

/// Refuses what cannot be stored before time is spent on counting it: every rank runs each microbatch at least once.
void require_size(pipesched::shape const& shape) {
  pipesched::require(pipesched::at_most("ranks * microbatches", shape.ranks * shape.microbatches,
                                        pipesched::max_operations, "what a stored schedule can hold"));
}

template <pipesched::schedule_generator G>
pipesched::schedule generate_within_memory(G const& generator) {
  std::int64_t operations = 0;
  for (int rank = 0; rank < generator.placement().ranks(); ++rank) operations += operations_of(generator, rank);
  require_memory_for(operations);
  return generate(generator);
}

}  // namespace

void shape_options::add_to(CLI::App& command, bool required) {
  auto const group = std::string("SHAPE");
  auto const add = [&](std::string const& name, std::optional<std::string>& value, std::string const& help) {
    return command.add_option(name, value, help)->type_name("NUMBER")->group(group);
  };
  add("--ranks", ranks_, "Pipeline ranks P")->required(required);
  add("--microbatches", microbatches_, "Microbatches m of the step")->required(required);
  add("--chunks", chunks_, "Stages v per rank, where the schedule has the choice");
  add("--group", group_, "Microbatches that a chunk runs in a row, where the schedule has the choice");
  add("--pipelines", pipelines_, "Copies of the model, 2f, where the schedule has the choice");
  command.add_flag("--forward-only", forward_only_, "The forwards alone: evaluation")->group(group);
}

bool shape_options::given() const {
  return ranks_ || microbatches_ || chunks_ || group_ || pipelines_ || forward_only_;
}

pipesched::shape shape_options::shape() const {
  if (!ranks_) throw usage_error("--ranks is required");
  if (!microbatches_) throw usage_error("--microbatches is required");
  pipesched::shape shape;
  shape.ranks = parse_count("ranks", *ranks_);
  shape.microbatches = parse_count("microbatches", *microbatches_);
  if (chunks_) shape.chunks = parse_count("chunks", *chunks_);
  if (group_) shape.group = parse_count("group", *group_);
  if (pipelines_) shape.pipelines = parse_count("pipelines", *pipelines_);
  return shape;
}

pipesched::schedule make_schedule(std::string const& name, pipesched::shape const& shape, bool forward_only) {
  std::optional<pipesched::schedule> made;
  bool const known = pipesched::with_schedule(name, shape, [&](auto const& generator) {
    require_size(shape);
    made =
        forward_only ? generate_within_memory(pipesched::forward_only(generator)) : generate_within_memory(generator);
  });
  if (!known) throw usage_error(pipesched::unknown_schedule_message(name));
  return *std::move(made);
}

void input_options::add_to(CLI::App& command) {
  command.add_option("SCHEDULE", name_, "The schedule's name; see 'pipesched list'")->type_name("NAME");
  command.add_option("--file", file_, "A schedule from a file, in place of SCHEDULE SHAPE")->type_name("FILE");
  shape_.add_to(command, false);
}

schedule_file input_options::load(cost_options const& costs) const {
  if (!file_.empty()) {
    if (!name_.empty() || shape_.given()) throw usage_error("--file takes the place of SCHEDULE and SHAPE: give one");
    return read_schedule(file_);
  }
  if (name_.empty()) throw usage_error("SCHEDULE is required: a name from 'pipesched list', or --file FILE");
  return {make_schedule(name_, timed_shape(costs), shape_.forward_only())};
}

std::optional<pipesched::folded_schedule> input_options::fold_large(cost_options const& costs) const {
  if (name_.empty() || !file_.empty()) return {};
  auto const shape = timed_shape(costs);
  if (shape.ranks * shape.microbatches <= (std::int64_t{1} << 24)) return {};
  std::optional<pipesched::folded_schedule> folded;
  pipesched::with_schedule(name_, shape, [&](auto const& generator) {
    folded = shape_.forward_only() ? pipesched::fold(pipesched::forward_only(generator)) : pipesched::fold(generator);
  });
  return folded;
}

pipesched::shape input_options::timed_shape(cost_options const& costs) const {
  // A name that is wrong is what to say first, before numbers that are missing.
  if (!pipesched::with_schedule_type(name_, []<class Generator>() {}))
    throw usage_error(pipesched::unknown_schedule_message(name_));
  auto shape = shape_.shape();
  pipesched::with_schedule_type(
      name_, [&]<class Generator>() { shape.times = costs.pass_times(pipesched::stages_per_rank<Generator>(shape)); });
  return shape;
}
