// SPDX-License-Identifier: MIT
// Whatever is in a JSON file: it is read or refused, and what is read comes back equal when it is written.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <pipesched/io/json_reader.hpp>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace pipesched;
  std::string_view const text(reinterpret_cast<char const*>(data), size);
  auto const file = read_json(text);
  auto const diagnostics = check(file);
  static_cast<void>(to_json(diagnostics));
  static_cast<void>(read_json_costs(text, 2));
  if (!file.read || !file.diagnostics.empty()) return 0;
  auto const again = read_json(write_json(*file.read, {file.costs ? &*file.costs : nullptr, file.measured}));
  if (!again.diagnostics.empty() || !again.read || *again.read != *file.read) std::abort();
  if (again.measured.size() != file.measured.size() || again.costs.has_value() != file.costs.has_value()) std::abort();
  return 0;
}
