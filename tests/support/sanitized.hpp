// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Whether the address sanitizer watches. It makes large grids ten times slower, and finds what it can in a part of
/// them.

namespace test_support {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace test_support
