// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Catch2, version 2.13 or 3, under one name: `Approx`, and `contains(text)` as a matcher of strings. Else use only
/// what both versions have (no SKIP, no ranges matchers).

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <string>

#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
using Catch::Approx;
#endif

namespace test_support {

[[nodiscard]] inline auto contains(std::string const& text) {
#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
  return Catch::Matchers::ContainsSubstring(text);
#else
  return Catch::Matchers::Contains(text);
#endif
}

}  // namespace test_support
