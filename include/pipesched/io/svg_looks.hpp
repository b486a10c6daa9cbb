// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The looks of ops as classes of an SVG: those that occur, their style, and their legend.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/io/append.hpp>
#include <pipesched/io/picture_style.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

class svg_looks {
 public:
  explicit svg_looks(placement const& where) : looks_(where), used_(looks_.count(), false) {}

  [[nodiscard]] op_labels const& labels() const noexcept { return looks_.labels(); }
  [[nodiscard]] std::size_t count() const noexcept { return looks_.count(); }
  [[nodiscard]] std::size_t number(op o) const noexcept { return looks_.number(looks_(o)); }

  /// Says that a look occurs: that of class "l<number>".
  void use(std::size_t number) { used_[number] = true; }

  /// A sample and what it means, for each kind and mark that occurs.
  struct legend_entry {
    std::string attributes;  // of the sample
    std::string words;
  };
  [[nodiscard]] vector<legend_entry> legend(bool pairs) {
    std::vector<bool> hues(std::size_t(op_hues), false);
    for (std::size_t n = 0; n < used_.size(); ++n)
      if (used_[n]) hues[std::size_t(look_of(n).hue)] = true;
    vector<legend_entry> entries;
    for (int hue = 0; hue < op_hues; ++hue)
      if (hues[std::size_t(hue)]) {
        auto const plain = looks_.number(op_look{op_hue(hue), 0, false});
        use(plain);
        entries.push_back({fmt::format("class=\"l{}\"", plain), std::string(legend_of(op_hue(hue)))});
      }
    if (pairs) entries.push_back({"class=\"pair\"", "overlapped pair"});
    if (auto variants = variants_legend(looks_); !variants.empty())
      entries.push_back(
          {looks_.directions() ? "fill=\"url(#up)\" stroke=\"#777\"" : "fill=\"#999\"", std::move(variants)});
    return entries;
  }

  /// The style rules of the looks that occur.
  [[nodiscard]] std::string rules() const {
    std::string text;
    for (std::size_t n = 0; n < used_.size(); ++n)
      if (used_[n])
        detail::append(text, ".l{0}{{fill:{1}}}.l{0} .run{{stroke:{1}}}\n", n,
                       look_of(n).hatched ? fmt::format("url(#h{})", n) : looks_.color(look_of(n)));
    return text;
  }

  /// The hatchings that the rules and the legend refer to.
  [[nodiscard]] std::string patterns() const {
    std::string text;
    auto const add = [&](std::string const& id, std::string_view color) {
      detail::append(text,
                     "<pattern id=\"{}\" patternUnits=\"userSpaceOnUse\" width=\"5\" height=\"5\">"
                     "<path fill=\"{}\" d=\"M0 0h5v5H0z\"/>"
                     "<path stroke=\"#000\" stroke-opacity=\".2\" d=\"M-1 1l2-2M0 5l5-5M4 6l2-2\"/></pattern>\n",
                     id, color);
    };
    for (std::size_t n = 0; n < used_.size(); ++n)
      if (used_[n] && look_of(n).hatched) add(fmt::format("h{}", n), looks_.color(look_of(n)));
    if (looks_.directions()) add("up", "#fff");
    return text;
  }

 private:
  /// The inverse of `op_looks::number`.
  [[nodiscard]] op_look look_of(std::size_t number) const noexcept {
    auto const shades = std::size_t(looks_.shades());
    return {op_hue(number / 2 / shades), int(number % shades), number / shades % 2 == 1};
  }

  op_looks looks_;
  std::vector<bool> used_;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
