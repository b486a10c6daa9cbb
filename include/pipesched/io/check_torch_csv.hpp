// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Checks a file of torch.distributed.pipelining: what cannot be read, and what cannot run.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <pipesched/core/fault.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/check_communication.hpp>
#include <pipesched/graph/checker.hpp>
#include <pipesched/io/describe.hpp>
#include <pipesched/io/diagnostic.hpp>
#include <pipesched/io/torch_csv.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Turns positions among the chunk ops of a row into positions among all its actions.
class compute_positions {
 public:
  explicit compute_positions(torch_csv const& file) : file_(file), actions_(file.actions.size()) {}

  void place(program_place& p) {
    if (p.rank < 0 || p.position < 0) return;
    auto const& row = file_.actions[std::size_t(p.rank)];
    auto& actions = actions_[std::size_t(p.rank)];
    if (actions.empty())
      for (std::size_t i = 0; i < row.size(); ++i)
        if (is_chunk_op(row[i].kind())) actions.push_back(std::uint32_t(i));
    p.position = actions[std::size_t(p.position)];
  }

 private:
  torch_csv const& file_;
  vector<vector<std::uint32_t>> actions_;  // per row, made when it is first asked for
};

/// Faults by position among all actions of a row, as diagnostics by the cell of the file.
[[nodiscard]] inline std::vector<diagnostic> describe_in_file(torch_csv const& file, vector<fault> faults) {
  auto const cell_of = [&](program_place p) { return file.cells[std::size_t(p.rank)][std::size_t(p.position)]; };
  auto const to_cell = [&](program_place& p) {
    if (p.rank >= 0 && p.position >= 0) p.position = cell_of(p).cell;
  };
  vector<std::int64_t> columns;
  for (std::size_t i = 0; i < faults.size(); ++i) {
    auto& f = faults[i];
    bool const steps_on = f.kind == fault_kind::deadlock && i > 0 && faults[i - 1].kind == fault_kind::deadlock;
    if (!steps_on) columns.push_back(f.where.position >= 0 ? cell_of(f.where).column + 1 : 0);
    if (f.kind == fault_kind::deadlock) continue;  // its text compares positions within pairs, which share a cell
    to_cell(f.where);
    to_cell(f.other_where);
  }
  auto diagnostics = describe(faults);
  for (std::size_t i = 0; i < diagnostics.size(); ++i) {
    auto& d = diagnostics[i];
    if (d.rank < 0) continue;
    d.line = d.rank + 1;
    d.column = std::max<std::int64_t>(columns[i], 1);
  }
  return diagnostics;
}

}  // namespace detail

/// Everything that is wrong with a file that was read: its own diagnostics, those of `check` and, where it has sends
/// and receives, of `check_communication`; each with its rank, cell, line and column.
[[nodiscard]] inline std::vector<diagnostic> check(torch_csv const& file, check_options const& options = {}) {
  auto diagnostics = file.diagnostics;
  if (!file.compute) return diagnostics;
  auto faults = check(*file.compute, options);
  detail::compute_positions positions(file);
  bool hangs = false;
  bool has_messages = false;
  for (auto& f : faults) {
    hangs = hangs || f.kind == fault_kind::deadlock || f.kind == fault_kind::order_on_rank;
    positions.place(f.where);
    positions.place(f.other_where);
  }
  for (auto const& row : file.actions)
    has_messages = has_messages || std::any_of(row.begin(), row.end(), [](op o) { return is_communication(o.kind()); });
  if (has_messages)
    for (auto const& f : check_communication(file.compute->where(), file.actions, {!hangs, options.max_faults}))
      faults.push_back(f);
  for (auto& d : detail::describe_in_file(file, std::move(faults))) diagnostics.push_back(std::move(d));
  return diagnostics;
}

/// Reads and checks a file: empty where it is right.
[[nodiscard]] inline std::vector<diagnostic> check_torch_csv(std::string_view text,
                                                             torch_csv_options const& options = {}) {
  return check(read_torch_csv(text, options));
}

}  // namespace v0
}  // namespace pipesched
