// SPDX-License-Identifier: MIT
// Whatever is in a file of measured times: it is read or refused, and what is read is a cost model.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <pipesched/analysis/measured_cost.hpp>
#include <pipesched/io/json_reader.hpp>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace pipesched;
  auto const times = read_measured_times(std::string_view(reinterpret_cast<char const*>(data), size));
  measured_cost const cost(times.ops);
  for (auto const& m : times.ops)
    if (!cost.knows(m.what) || !(cost(m.what, 0) >= 0)) std::abort();
  if (read_measured_csv(write_measured_csv(times.ops)).ops.size() != times.ops.size()) std::abort();
  return 0;
}
