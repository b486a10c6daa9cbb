// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// An array that is allocated once and written once.

#include <cstddef>
#include <type_traits>

#include <pipesched/core/view.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// A fixed-size array of trivial values, *not* initialised: `std::vector` would write every element twice, which at 25
/// million ops costs as much as generating them. Usable in constant expressions, where reading an unwritten element is
/// an error.
template <class T>
  requires std::is_trivially_copyable_v<T> && std::is_trivially_default_constructible_v<T>
class buffer {
 public:
  buffer() = default;
  explicit constexpr buffer(std::size_t size) : data_(size ? new T[size] : nullptr), size_(size), capacity_(size) {}
  constexpr buffer(std::size_t size, T value) : buffer(size) {
    for (auto& element : *this) element = value;
  }
  constexpr buffer(buffer const& other) : buffer(other.size_) {
    for (std::size_t i = 0; i < size_; ++i) data_[i] = other.data_[i];
  }
  constexpr buffer(buffer&& other) noexcept : data_(other.data_), size_(other.size_), capacity_(other.capacity_) {
    other.data_ = nullptr;
    other.size_ = other.capacity_ = 0;
  }
  constexpr buffer& operator=(buffer other) noexcept {
    auto* const old = data_;
    data_ = other.data_;
    other.data_ = old;
    size_ = other.size_;
    capacity_ = other.capacity_;
    return *this;
  }
  constexpr ~buffer() { delete[] data_; }

  /// `size` elements with no particular values; allocates only where the memory at hand is too small.
  constexpr void resize_uninitialised(std::size_t size) {
    if (size > capacity_) *this = buffer(size);
    size_ = size;
  }

  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  [[nodiscard]] constexpr T* data() noexcept { return data_; }
  [[nodiscard]] constexpr T const* data() const noexcept { return data_; }
  [[nodiscard]] constexpr T& operator[](std::size_t i) noexcept { return data_[i]; }
  [[nodiscard]] constexpr T const& operator[](std::size_t i) const noexcept { return data_[i]; }
  [[nodiscard]] constexpr T* begin() noexcept { return data_; }
  [[nodiscard]] constexpr T* end() noexcept { return data_ + size_; }
  [[nodiscard]] constexpr T const* begin() const noexcept { return data_; }
  [[nodiscard]] constexpr T const* end() const noexcept { return data_ + size_; }
  [[nodiscard]] constexpr pipesched::view<T> view() const noexcept { return {data_, size_}; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
