// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <pipesched/core/folded_program.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/schedules/registry.hpp>

#include "costs.hpp"
#include "schedule_file.hpp"

/// The SHAPE part of a command line.
class shape_options {
 public:
  /// Options of a command; `required`: ranks and microbatches must be given.
  void add_to(CLI::App& command, bool required);

  [[nodiscard]] bool given() const;
  [[nodiscard]] bool forward_only() const { return forward_only_; }
  /// Throws `usage_error` where a number is missing, not whole, or out of range.
  [[nodiscard]] pipesched::shape shape() const;

 private:
  std::optional<std::string> ranks_;
  std::optional<std::string> microbatches_;
  std::optional<std::string> chunks_;
  std::optional<std::string> group_;
  std::optional<std::string> pipelines_;
  bool forward_only_ = false;
};

/// The built-in schedule of a name and shape. Throws `usage_error` or `pipesched::parameter_error`.
pipesched::schedule make_schedule(std::string const& name, pipesched::shape const& shape, bool forward_only);

/// SCHEDULE SHAPE, or --file FILE in their place.
class input_options {
 public:
  void add_to(CLI::App& command);
  /// `costs`: for schedules whose order depends on times.
  [[nodiscard]] schedule_file load(cost_options const& costs) const;
  /// A schedule by name that is large for being stored, folded; nothing where it is not, or comes from a file.
  [[nodiscard]] std::optional<pipesched::folded_schedule> fold_large(cost_options const& costs) const;
  [[nodiscard]] std::string const& name() const { return name_; }

 private:
  /// The shape, with the times for a schedule that depends on them.
  [[nodiscard]] pipesched::shape timed_shape(cost_options const& costs) const;

  std::string name_;
  std::string file_;
  shape_options shape_;
};
