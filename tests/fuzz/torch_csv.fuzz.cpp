// SPDX-License-Identifier: MIT
// Whatever is in a CSV file: it is read or refused, and what is read comes back equal when it is written.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <pipesched/io/check_torch_csv.hpp>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace pipesched;
  std::string_view const text(reinterpret_cast<char const*>(data), size);
  for (auto dialect : {torch_dialect::detect, torch_dialect::mid_2024, torch_dialect::v2_4}) {
    auto const file = read_torch_csv(text, {.dialect = dialect});
    for (auto const& d : check(file)) {
      if (to_string(d).empty() || to_string(d).size() > 2000) std::abort();
    }
    if (!file.diagnostics.empty()) continue;
    auto const again = read_torch_csv(write_torch_csv(file.actions), {.dialect = torch_dialect::current});
    if (again.actions != file.actions || !again.compute || *again.compute != *file.compute) std::abort();
  }
  return 0;
}
