// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The stages of a rank in one line.

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <pipesched/core/placement.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/io/append.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// The numbers in ascending order, of whatever copy they are.
[[nodiscard]] inline std::string stages_text(view<stage_copy> held, std::string_view separator) {
  vector<int> stages;
  for (auto copy : held) stages.push_back(copy.stage);
  std::sort(stages.begin(), stages.end());
  std::string text;
  for (int const stage : stages) detail::append(text, "{}{}", text.empty() ? std::string_view{} : separator, stage);
  return text;
}

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
