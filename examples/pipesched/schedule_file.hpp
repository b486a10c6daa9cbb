// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/measured_cost.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/graph/communication_plan.hpp>
#include <pipesched/io/diagnostic.hpp>

/// A file that is not what it should be. The program prints the diagnostics and exits with 1.
class invalid_file : public std::runtime_error {
 public:
  explicit invalid_file(std::vector<pipesched::diagnostic> diagnostics)
      : std::runtime_error("invalid file"), diagnostics_(std::move(diagnostics)) {}
  [[nodiscard]] std::vector<pipesched::diagnostic> const& diagnostics() const noexcept { return diagnostics_; }

 private:
  std::vector<pipesched::diagnostic> diagnostics_;
};

enum class file_format { torch_csv, json };

/// The format of that name; where there is none, the one that `text` looks like.
file_format format_named(std::string_view name, std::string_view text);

/// A schedule, and the times that stand beside it in its file.
struct schedule_file {
  pipesched::schedule schedule;
  std::optional<pipesched::stage_cost<double>> costs = {};
  std::vector<pipesched::measured_op> measured = {};
};

/// The schedule in a file, so that it can be drawn and analysed. Throws `invalid_file` where `check_schedule` finds
/// anything wrong, since figures of such a schedule would mislead; `usage_error` where the file cannot be read at all.
schedule_file read_schedule(std::string const& path);

/// A file's schedule, where it could be read, and all that is wrong with it.
struct checked_schedule {
  std::optional<pipesched::schedule> schedule;
  /// Rows with sends and receives, where the file has them.
  std::vector<std::vector<pipesched::op>> communication;
  std::vector<pipesched::diagnostic> diagnostics;
  /// The times in the file, where it has any.
  std::optional<pipesched::stage_cost<double>> costs = {};
  std::vector<pipesched::measured_op> measured = {};
};
checked_schedule check_schedule(std::string_view text, file_format format);
