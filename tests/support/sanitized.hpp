// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Whether the address or the thread sanitizer watches. They make large grids ten times slower, and find what they can
/// in a part of them.

namespace test_support {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace test_support
