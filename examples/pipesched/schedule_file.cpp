// SPDX-License-Identifier: MIT
#include "schedule_file.hpp"

#include <pipesched/io/check_torch_csv.hpp>
#include <pipesched/io/torch_csv.hpp>

#include "files.hpp"
#include "usage_error.hpp"

file_format format_named(std::string_view name, std::string_view text) {
  if (name == "torch-csv") return file_format::torch_csv;
  if (name == "json") return file_format::json;
  auto const first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{' ? file_format::json : file_format::torch_csv;
}

pipesched::schedule read_schedule(std::string const& path) {
  auto const text = read_file(path);
  if (format_named({}, text) == file_format::json) throw usage_error(path + ": this build reads no JSON");
  auto read = pipesched::read_torch_csv(text);
  if (!read.diagnostics.empty()) throw invalid_file(std::move(read.diagnostics));
  if (!read.compute)
    throw invalid_file({pipesched::diagnostic{.kind = "empty", .message = "the file holds no compute op"}});
  return *std::move(read.compute);
}

checked_schedule check_schedule(std::string_view text, file_format format) {
  if (format == file_format::json) throw usage_error("format = json, which this build does not read");
  auto read = pipesched::read_torch_csv(text);
  auto diagnostics = pipesched::check(read);
  return {std::move(read.compute), std::move(diagnostics)};
}
