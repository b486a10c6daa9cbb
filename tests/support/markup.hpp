// SPDX-License-Identifier: MIT
#pragma once

#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace test_support {

inline std::size_t count_of(std::string_view text, std::string_view what) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != std::string_view::npos; at = text.find(what, at + what.size())) ++count;
  return count;
}

/// Whether XML without declarations and comments is well-formed: elements nest, attributes are quoted and differ,
/// ampersands begin references, and one element holds all.
inline bool is_well_formed(std::string_view text) {
  std::vector<std::string_view> open;
  std::size_t roots = 0;
  for (std::size_t at = 0; at < text.size();) {
    char const c = text[at];
    if (c == '&') {
      auto const end = text.find(';', at);
      if (end == std::string_view::npos || end - at > 8) return false;
      at = end;
    } else if (c == '<' && text.substr(at, 2) == "</") {
      auto const end = text.find('>', at);
      if (end == std::string_view::npos || open.empty() || open.back() != text.substr(at + 2, end - at - 2))
        return false;
      open.pop_back();
      at = end;
    } else if (c == '<') {
      auto name_end = at + 1;
      while (name_end < text.size() && std::isalnum(static_cast<unsigned char>(text[name_end]))) ++name_end;
      if (name_end == at + 1) return false;
      auto const name = text.substr(at + 1, name_end - at - 1);
      std::vector<std::string_view> attributes;
      auto next = name_end;
      while (next < text.size() && text[next] == ' ') {
        auto const equal = text.find("=\"", next);
        if (equal == std::string_view::npos) return false;
        auto const attribute = text.substr(next + 1, equal - next - 1);
        for (auto const other : attributes)
          if (other == attribute) return false;
        if (attribute.find_first_of("<>\"' ") != std::string_view::npos) return false;
        attributes.push_back(attribute);
        auto const end = text.find('"', equal + 2);
        if (end == std::string_view::npos) return false;
        if (text.substr(equal + 2, end - equal - 2).find('<') != std::string_view::npos) return false;
        next = end + 1;
      }
      bool const empty = text.substr(next, 2) == "/>";
      if (!empty && text.substr(next, 1) != ">") return false;
      if (open.empty() && ++roots > 1) return false;
      if (!empty) open.push_back(name);
      at = next + empty;
    } else if (open.empty() && !std::isspace(static_cast<unsigned char>(c))) {
      return false;
    }
    ++at;
  }
  return open.empty() && roots == 1;
}

}  // namespace test_support
