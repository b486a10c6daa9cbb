// SPDX-License-Identifier: MIT
#include "schedule_file.hpp"

#include <pipesched/io/check_torch_csv.hpp>
#include <pipesched/io/json_reader.hpp>
#include <pipesched/io/torch_csv.hpp>

#include "files.hpp"

file_format format_named(std::string_view name, std::string_view text) {
  if (name == "torch-csv") return file_format::torch_csv;
  if (name == "json") return file_format::json;
  auto const first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{' ? file_format::json : file_format::torch_csv;
}

schedule_file read_schedule(std::string const& path) {
  auto const text = read_file(path);
  auto checked = check_schedule(text, format_named({}, text));
  if (checked.diagnostics.empty() && !checked.schedule)
    checked.diagnostics.push_back({.kind = "empty", .message = "the file holds no op"});
  if (!checked.diagnostics.empty()) throw invalid_file(std::move(checked.diagnostics));
  return {*std::move(checked.schedule), std::move(checked.costs), std::move(checked.measured)};
}

checked_schedule check_schedule(std::string_view text, file_format format) {
  if (format == file_format::json) {
    auto read = pipesched::read_json(text);
    auto diagnostics = pipesched::check(read);
    return {std::move(read.read), {}, std::move(diagnostics), std::move(read.costs), std::move(read.measured)};
  }
  auto read = pipesched::read_torch_csv(text);
  auto diagnostics = pipesched::check(read);
  if (read.rows != pipesched::torch_rows::compute_comms) read.actions.clear();
  return {std::move(read.compute), std::move(read.actions), std::move(diagnostics)};
}
