// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Reads this library's own JSON format, with nlohmann's parser; the umbrella header leaves it out.

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
#include <pipesched/graph/checker.hpp>
#include <pipesched/io/describe.hpp>
#include <pipesched/io/diagnostic.hpp>
#include <pipesched/io/json.hpp>
#include <pipesched/io/json_reader_document.hpp>
#include <pipesched/io/json_reader_times.hpp>
#include <pipesched/io/torch_action.hpp>

namespace pipesched {
inline namespace v0 {

/// What was read from a file in this library's own format.
struct json_file {
  /// Nothing where the shape or the placement cannot be read. It need not be right: see `check`.
  std::optional<schedule> read = {};
  /// For each op of each program the entry of the file's array that holds it: a pair is one entry.
  std::vector<std::vector<std::uint32_t>> cells = {};
  std::optional<stage_cost<double>> costs = {};
  std::vector<measured_op> measured = {};
  /// What could not be read.
  std::vector<diagnostic> diagnostics = {};
};

namespace detail {

class json_schedule_reader {
 public:
  using json = nlohmann::json;

  explicit json_schedule_reader(json_file& file) : file_(file), members_(file.diagnostics) {}

  void read(json const& document) {
    if (!document.is_object()) return members_.complain("the file", "an object");
    auto const* format = json_members::find(document, "format");
    if (format == nullptr || *format != "pipesched") return members_.complain("format", "\"pipesched\"");
    if (!members_.whole(document, "version", 1, json_format_version)) return;
    auto const microbatches = members_.whole(document, "microbatches", 1, max_microbatches);
    auto const where = read_placement(document);
    auto programs = read_programs(document, where, microbatches);
    if (where)
      if (auto const* costs = json_members::find(document, "costs"))
        file_.costs = read_costs(*costs, where->stages(), file_.diagnostics);
    read_measured(document);
    if (!where || !microbatches || !programs) return;
    auto const* name = json_members::find(document, "name");
    file_.read.emplace(*where, *microbatches, *programs,
                       name != nullptr && name->is_string() ? name->get_ref<std::string const&>() : "custom");
  }

 private:
  [[nodiscard]] std::optional<placement> read_placement(json const& document) {
    auto const ranks = members_.whole(document, "ranks", 1, max_stages);
    auto const stages = members_.whole(document, "stages", 1, max_stages);
    auto const replicas =
        document.contains("replicas") ? members_.whole(document, "replicas", 1, max_replicas) : std::int64_t{1};
    auto const* where = json_members::find(document, "placement");
    auto const* kind = where != nullptr ? json_members::find(*where, "kind") : nullptr;
    if (kind == nullptr || !kind->is_string())
      members_.complain("placement.kind", "linear, loop, v, bidirectional or custom");
    if (!ranks || !stages || !replicas || kind == nullptr || !kind->is_string()) return {};
    auto const p = int(*ranks);
    auto const fits = [&](bool as_it_should, std::string_view expected) {
      if (!as_it_should) members_.complain("stages, replicas", expected);
      return as_it_should;
    };
    auto const& name = kind->get_ref<std::string const&>();
    if (name == "linear") {
      if (fits(*stages == p && *replicas == 1, "a stage for each rank, 1 replica")) return placement::linear(p);
    } else if (name == "loop") {
      if (fits(*stages % p == 0 && *replicas == 1, "a multiple of the ranks, 1 replica"))
        return placement::loop(p, int(*stages) / p);
    } else if (name == "v") {
      if (fits(*stages == 2 * *ranks && *replicas == 1, "2 stages for each rank, 1 replica")) return placement::v(p);
    } else if (name == "bidirectional") {
      if (fits(*stages == p && *replicas % 2 == 0 && p % *replicas == 0,
               "a stage for each rank, and an even number of replicas that divides the ranks"))
        return placement::bidirectional(p, int(*replicas));
    } else if (name == "custom") {
      return read_table(*where, p, int(*stages), int(*replicas));
    } else {
      members_.complain("placement.kind", "linear, loop, v, bidirectional or custom");
    }
    return {};
  }

  [[nodiscard]] std::optional<placement> read_table(json const& where, int ranks, int stages, int replicas) {
    std::vector<int> table;
    auto const* rows = json_members::find(where, "rank_of_stage");
    if (rows != nullptr && rows->is_array() && rows->size() == std::size_t(replicas))
      for (auto const& row : *rows) {
        if (!row.is_array() || row.size() != std::size_t(stages)) break;
        for (auto const& entry : row) {
          auto const rank = json_members::whole_value(entry);
          if (rank && *rank >= 0 && *rank < ranks) table.push_back(int(*rank));
        }
      }
    if (table.size() == std::size_t(stages) * std::size_t(replicas))
      return placement::custom(ranks, stages, replicas, std::move(table));
    members_.complain("placement.rank_of_stage", fmt::format("{} arrays of {} ranks each", replicas, stages));
    return {};
  }

  [[nodiscard]] std::optional<std::vector<std::vector<op>>> read_programs(json const& document,
                                                                          std::optional<placement> const& where,
                                                                          std::optional<std::int64_t> microbatches) {
    auto const* rows = json_members::find(document, "programs");
    if (rows == nullptr || !rows->is_array() || (where && rows->size() != std::size_t(where->ranks()))) {
      members_.complain("programs", "an array of one program per rank");
      return {};
    }
    std::vector<std::vector<op>> programs;
    for (std::size_t rank = 0; rank < rows->size() && rank < std::size_t(max_stages); ++rank) {
      auto& program = programs.emplace_back();
      auto& cells = file_.cells.emplace_back();
      auto const& row = (*rows)[rank];
      if (!row.is_array()) {
        complain(rank, -1, {}, "is no array", "an array of ops");
        continue;
      }
      for (std::size_t i = 0; i < row.size(); ++i) {
        read_cell(row[i], rank, std::int64_t(i), where, microbatches, program);
        cells.resize(program.size(), std::uint32_t(i));
      }
    }
    if (left_out_ > 0)
      file_.diagnostics.push_back(
          {.kind = "too_many", .message = fmt::format("{} more ops cannot be read", left_out_)});
    return programs;
  }

  void read_cell(json const& cell, std::size_t rank, std::int64_t position, std::optional<placement> const& where,
                 std::optional<std::int64_t> microbatches, std::vector<op>& program) {
    if (!cell.is_string()) return complain(rank, position, {}, "is no string", "an op such as 0F3");
    auto const& text = cell.get_ref<std::string const&>();
    auto const pair = split_compound(text);
    auto const first = read_op(pair ? pair->first : std::string_view(text), rank, position, where, microbatches);
    if (!first) return;
    if (!pair) {
      program.push_back(*first);
    } else if (auto const second = read_op(pair->second, rank, position, where, microbatches)) {
      program.push_back(first->overlapping_next());
      program.push_back(*second);
    }
  }

  [[nodiscard]] std::optional<op> read_op(std::string_view text, std::size_t rank, std::int64_t position,
                                          std::optional<placement> const& where,
                                          std::optional<std::int64_t> microbatches) {
    auto const mark = text.find('@');
    auto const action = parse_action(text.substr(0, mark), torch_dialect::current);
    if (!action || !is_chunk_op(action.what.kind())) {
      complain(rank, position, text, action ? "is no chunk op" : action.message, "F, B, I or W: an op such as 0F3");
      return {};
    }
    op const o = action.what;
    if (where && o.stage() >= where->stages()) {
      complain(rank, position, text, "its stage is too large", fmt::format("at most {}", where->stages() - 1));
      return {};
    }
    if (microbatches && o.microbatch() >= *microbatches) {
      complain(rank, position, text, "its microbatch is too large", fmt::format("at most {}", *microbatches - 1));
      return {};
    }
    std::int64_t replica = where ? copy_on(*where, o.stage(), int(rank)) : 0;
    if (mark != std::string_view::npos) {
      auto digits = text.substr(mark + 1);
      auto const number = take_digits(digits);
      replica = value_of(number, max_replicas);
      if (number.empty() || !digits.empty() || (where && replica >= where->replicas())) {
        complain(rank, position, text, "names no replica", "@0 up to the replicas - 1");
        return {};
      }
    }
    return op(o.kind(), stage_id{o.stage()}, microbatch_id{o.microbatch()}, replica_id{replica});
  }

  void read_measured(json const& document) {
    auto const* list = json_members::find(document, "measured");
    if (list == nullptr) return;
    if (!list->is_array()) return members_.complain("measured", "an array");
    measured_times times;
    for (std::size_t i = 0; i < list->size(); ++i) read_measurement((*list)[i], i, times);
    file_.measured = std::move(times.ops);
    for (auto& d : times.diagnostics) file_.diagnostics.push_back(std::move(d));
  }

  void complain(std::size_t rank, std::int64_t position, std::string_view token, std::string_view message,
                std::string_view expected) {
    if (file_.diagnostics.size() >= max_diagnostics) {
      ++left_out_;
      return;
    }
    file_.diagnostics.push_back({.kind = "bad_token",
                                 .rank = int(rank),
                                 .position = position,
                                 .op = printable(token),
                                 .message = std::string(message),
                                 .expected = std::string(expected)});
  }

  static constexpr std::size_t max_diagnostics = 10000;

  json_file& file_;
  json_members members_;
  std::int64_t left_out_ = 0;
};

}  // namespace detail

/// Reads what `write_json` writes. Never throws for what is in `text`; time and memory in proportion to it.
[[nodiscard]] inline json_file read_json(std::string_view text) {
  json_file file;
  if (auto const document = detail::parse_json(text, file.diagnostics))
    detail::json_schedule_reader(file).read(*document);
  return file;
}

/// Everything that is wrong with a file that was read: its own diagnostics and those of `check`. Positions are those of
/// the file's arrays, where a pair is one entry.
[[nodiscard]] inline std::vector<diagnostic> check(json_file const& file, check_options const& options = {}) {
  auto diagnostics = file.diagnostics;
  if (!file.read) return diagnostics;
  auto faults = check(*file.read, options);
  for (auto& f : faults) {
    if (f.kind == fault_kind::deadlock) continue;  // its text names places among the ops of a pair
    for (auto* place : {&f.where, &f.other_where})
      if (place->rank >= 0 && place->position >= 0)
        place->position = file.cells[std::size_t(place->rank)][std::size_t(place->position)];
  }
  for (auto& d : describe(faults)) diagnostics.push_back(std::move(d));
  return diagnostics;
}

/// Measured times in any of the formats that are read: JSON where the text begins with a bracket or brace, else CSV.
[[nodiscard]] inline measured_times read_measured_times(std::string_view text) {
  auto const first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  bool const is_json = first != std::string_view::npos && (text[first] == '{' || text[first] == '[');
  return is_json ? read_measured_json(text) : read_measured_csv(text);
}

}  // namespace v0
}  // namespace pipesched
