// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Reads the schedule files of torch.distributed.pipelining: one row of actions per rank.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/graph/infer_placement.hpp>
#include <pipesched/io/csv_cells.hpp>
#include <pipesched/io/diagnostic.hpp>
#include <pipesched/io/torch_action.hpp>
#include <pipesched/io/torch_csv_writer.hpp>

namespace pipesched {
inline namespace v0 {

/// What a file's rows may hold.
enum class torch_rows : std::uint8_t {
  detect,         ///< find out: `compute_comms` where there is a send or another action that is no chunk op
  compute_only,   ///< F, I, B, W and pairs; a blank cell is a bubble
  compute_comms,  ///< also sends, receives and the steps of sharded parameters; no blank cells
};

/// How to read a file, where it is not to be found out.
struct torch_csv_options {
  torch_dialect dialect = torch_dialect::detect;
  torch_rows rows = torch_rows::detect;
  /// Which rank holds which stage; found from the rows where it is not given.
  std::optional<placement> where = {};
  /// The most diagnostics that are kept; one more says that there are others.
  std::size_t max_diagnostics = 10000;
};

/// Where an action stands in a file: its cell in the row, from 0, blank cells counted; the byte of the line, from 0.
struct torch_cell {
  std::uint32_t cell;
  std::uint32_t column;
};

/// What was read from a file.
struct torch_csv {
  /// The chunk ops; nothing where there are none, or where the given placement does not fit. It need not be right:
  /// see `check`.
  std::optional<schedule> compute = {};
  /// All actions, one row per rank; the members of a pair are two, as in a program.
  std::vector<std::vector<op>> actions = {};
  /// Where each entry of `actions` stands.
  std::vector<std::vector<torch_cell>> cells = {};
  torch_dialect dialect = torch_dialect::current;  ///< given or found
  torch_rows rows = torch_rows::compute_only;      ///< given or found
  /// What could not be read.
  std::vector<diagnostic> diagnostics = {};
};

namespace detail {

/// What the tokens of a file tell, before any is read.
struct torch_census {
  std::int64_t rows = 0;
  std::int64_t fused = 0;        // BW
  std::int64_t backward = 0;     // B
  std::int64_t input = 0;        // I
  std::int64_t weight = 0;       // W
  std::int64_t underscored = 0;  // F0_s1
  std::int64_t plain = 0;        // 1F0
  std::int64_t not_compute = 0;  // sends and the like

  void count(std::string_view text) {
    if (auto const members = split_compound(text)) {
      count_one(members->first);
      count_one(members->second);
    } else {
      count_one(text);
    }
  }

  [[nodiscard]] torch_dialect dialect() const noexcept {
    if (underscored > plain) return torch_dialect::v2_4;
    // BW tells the dialect in which B is the backward for the input, so that there is a W for each B.
    if (fused > 0 && input == 0 && backward == weight) return torch_dialect::mid_2024;
    return torch_dialect::current;
  }

 private:
  void count_one(std::string_view text) {
    auto const token = split_action(text);
    if (!token) return;
    ++(token->underscored ? underscored : plain);
    auto const kind = torch_kind(token->name);
    if (token->name == fused_backward) ++fused;
    if (!kind) return;
    if (!is_chunk_op(*kind)) ++not_compute;
    if (*kind == op_kind::backward) ++backward;
    if (*kind == op_kind::backward_input) ++input;
    if (*kind == op_kind::backward_weight) ++weight;
  }
};

[[nodiscard]] inline std::string_view without_byte_order_mark(std::string_view text) noexcept {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  return text;
}

/// Reads the rows of one file; `torch_csv::compute` is left to `read_torch_csv`.
class torch_csv_reader {
 public:
  torch_csv_reader(std::string_view text, torch_csv_options const& options)
      : text_(without_byte_order_mark(text)), options_(options) {}

  [[nodiscard]] torch_csv read() {
    auto const census = take_census();
    file_.dialect = options_.dialect == torch_dialect::detect ? census.dialect() : options_.dialect;
    file_.rows = options_.rows != torch_rows::detect ? options_.rows
                 : census.not_compute > 0            ? torch_rows::compute_comms
                                                     : torch_rows::compute_only;
    auto rest = text_;
    for (std::int64_t rank = 0; !rest.empty(); ++rank) {
      if (rank == max_stages) {
        report(rank, -1, 0, {}, {"out_of_range", "too many rows", fmt::format("at most {} ranks", max_stages)});
        break;
      }
      read_row(int(rank), take_line(rest));
    }
    if (file_.actions.empty()) report(-1, -1, 0, {}, {"empty_file", "the file has no rows", "one row for each rank"});
    if (left_out_ > 0)
      file_.diagnostics.push_back(
          {.kind = "too_many", .message = fmt::format("{} more tokens cannot be read", left_out_)});
    return std::move(file_);
  }

 private:
  struct problem {
    std::string_view kind;
    std::string_view message;
    std::string_view expected;
  };

  [[nodiscard]] torch_census take_census() const {
    torch_census census;
    for (auto rest = text_; !rest.empty();)
      for (csv_cells cells(take_line(rest)); cells.more();) census.count(cells.next().text);
    return census;
  }

  void read_row(int rank, std::string_view line) {
    file_.actions.emplace_back();
    file_.cells.emplace_back();
    std::uint32_t cell = 0;
    for (csv_cells cells(line); cells.more(); ++cell) read_cell(rank, cell, cells.next());
  }

  void read_cell(int rank, std::uint32_t index, csv_cell const& cell) {
    auto const complain = [&](problem const& p) { report(rank, index, cell.column, cell.text, p); };
    if (cell.broken) {
      complain({"bad_quotes", "has a quote that does not enclose the whole cell", "quotes around a cell or none"});
    } else if (cell.text.empty()) {
      if (file_.rows == torch_rows::compute_comms)
        complain({"blank_cell", "blank cell in a file with communication", "an action in each cell"});
    } else if (auto const members = split_compound(cell.text)) {
      auto const first = read_member(rank, index, cell, members->first);
      if (!first) return;
      auto const second = read_member(rank, index, cell, members->second);
      if (!second) return;
      keep(rank, index, cell, first->overlapping_next());
      keep(rank, index, cell, *second);
    } else if (auto const action = parse_action(cell.text, file_.dialect)) {
      if (!is_chunk_op(action.what.kind()) && file_.rows == torch_rows::compute_only)
        complain({"wrong_kind", "is no op of a file with compute ops only", "F, I, B, W or a pair"});
      else
        keep(rank, index, cell, action.what);
    } else {
      complain({action.kind, action.message, action.expected});
    }
  }

  /// One member of a pair, or nothing where it is wrong, which has been reported.
  [[nodiscard]] std::optional<op> read_member(int rank, std::uint32_t index, csv_cell const& cell,
                                              std::string_view text) {
    auto const action = parse_action(text, file_.dialect);
    if (!action) {
      report(rank, index, cell.column, cell.text, {action.kind, action.message, action.expected});
      return {};
    }
    if (!is_chunk_op(action.what.kind())) {
      report(rank, index, cell.column, cell.text,
             {"wrong_kind", "holds an action that no pair can", "(<forward>;<backward>)OVERLAP_F_B"});
      return {};
    }
    return action.what;
  }

  void keep(int rank, std::uint32_t index, csv_cell const& cell, op what) {
    file_.actions[std::size_t(rank)].push_back(what);
    file_.cells[std::size_t(rank)].push_back({index, std::uint32_t(cell.column)});
  }

  void report(std::int64_t rank, std::int64_t position, std::size_t column, std::string_view token, problem const& p) {
    if (file_.diagnostics.size() >= options_.max_diagnostics) {
      ++left_out_;
      return;
    }
    std::string message(p.message);
    if (p.kind == "wrong_dialect") message += fmt::format(", which is read as {}", name_of(file_.dialect));
    file_.diagnostics.push_back({std::string(p.kind), int(rank), position, rank + 1, std::int64_t(column) + 1,
                                 printable(token), std::move(message), std::string(p.expected)});
  }

  std::string_view text_;
  torch_csv_options const& options_;
  torch_csv file_;
  std::int64_t left_out_ = 0;
};

}  // namespace detail

/// Reads the rows of torch.distributed.pipelining, `compute_only` or `compute_comms`; a blank line is a rank without
/// ops. Never throws for what is in `text`: tokens that are no actions are diagnostics, and the rest is read. Time and
/// memory in proportion to the text.
[[nodiscard]] inline torch_csv read_torch_csv(std::string_view text, torch_csv_options const& options = {}) {
  auto file = detail::torch_csv_reader(text, options).read();
  std::vector<std::vector<op>> programs;
  std::int64_t operations = 0;
  std::int64_t microbatches = 0;
  int stages = 0;
  for (auto const& row : file.actions) {
    auto& program = programs.emplace_back();
    for (op o : row) {
      if (!is_chunk_op(o.kind())) continue;
      program.push_back(o);
      microbatches = std::max(microbatches, o.microbatch() + 1);
      stages = std::max(stages, o.stage() + 1);
      ++operations;
    }
  }
  auto const give_up = [&](std::string_view kind, std::string message, std::string expected) {
    file.diagnostics.push_back(
        {.kind = std::string(kind), .message = std::move(message), .expected = std::move(expected)});
    return std::move(file);
  };
  if (file.actions.empty()) return file;
  if (operations == 0) return give_up("no_ops", "the file has no compute ops", "at least one");
  if (operations > max_operations)
    return give_up("too_many", fmt::format("the file has {} ops", operations),
                   fmt::format("at most {}", max_operations));
  auto const where = options.where ? *options.where : infer_placement(programs);
  if (where.ranks() != int(programs.size()))
    return give_up("wrong_shape", fmt::format("the file has {} rows", programs.size()),
                   fmt::format("{}, the ranks of the placement", where.ranks()));
  if (where.stages() < stages)
    return give_up("wrong_shape", fmt::format("the file has stage {}", stages - 1),
                   fmt::format("at most {}, the last stage of the placement", where.stages() - 1));
  assign_replicas(programs, where);
  assign_replicas(file.actions, where);
  file.compute.emplace(where, microbatches, programs);
  return file;
}

}  // namespace v0
}  // namespace pipesched
