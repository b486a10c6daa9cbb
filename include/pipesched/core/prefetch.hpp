// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Asking for memory before it is needed.

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Asks for `array[index]`, which will be written or read soon; the index may be beyond the end. For loops that go
/// forward in many places by turns, more than the processor follows by itself. Inlined in any case, as g++ takes the
/// call of a function that does nothing else for one that does nothing.
template <class T>
[[gnu::always_inline]] constexpr void prefetch(T const* array, std::size_t index) noexcept {
#if defined(__GNUC__)
  if (!std::is_constant_evaluated())
    __builtin_prefetch(reinterpret_cast<void const*>(reinterpret_cast<std::uintptr_t>(array) + index * sizeof(T)), 1);
#else
  static_cast<void>(array), static_cast<void>(index);
#endif
}

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
