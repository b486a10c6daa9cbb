// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A look at elements that lie in a row.

#include <cstddef>
#include <string_view>  // brings what is needed of <iterator> and <ranges>, and not the rest, which takes 60 ms
#include <type_traits>

namespace pipesched {
inline namespace v0 {

namespace detail {

template <class Reference, class T>
concept element_of = std::is_same_v<Reference, T&> || std::is_same_v<Reference, T const&>;

}  // namespace detail

/// A look at `size()` elements of somebody else, as a `std::span<T const>` is, and made into one, or from one, or from
/// anything else with `data()` and `size()`, without asking. It is here because it is cheap to compile: for each `T`, a
/// `std::span` takes 8 ms to show that a pointer is a contiguous iterator, and the library looks at twenty types.
/// Valid for as long as what it looks at.
template <class T>
class view {
 public:
  using value_type = T;
  using size_type = std::size_t;
  using element_type = T const;
  using difference_type = std::ptrdiff_t;
  using pointer = T const*;
  using const_pointer = T const*;
  using reference = T const&;
  using const_reference = T const&;
  using iterator = T const*;
  using const_iterator = T const*;
  using reverse_iterator = std::reverse_iterator<T const*>;

  view() = default;
  template <class Pointer>
    requires requires(Pointer data) { *data; }  // the literal 0 of {0, 2} is no pointer here
  constexpr view(Pointer data, std::size_t size) noexcept : data_(data), size_(size) {}
  template <class Range>
    requires requires(Range const& range) {
      { *range.data() } -> detail::element_of<T>;
      range.size();
    }
  constexpr view(Range const& range) noexcept : data_(range.data()), size_(range.size()) {}
  template <std::size_t Size>
  constexpr view(T const (&array)[Size]) noexcept : data_(array), size_(Size) {}

  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  [[nodiscard]] constexpr std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
  [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] constexpr T const* data() const noexcept { return data_; }
  [[nodiscard]] constexpr T const* begin() const noexcept { return data_; }
  [[nodiscard]] constexpr T const* end() const noexcept { return data_ + size_; }
  [[nodiscard]] constexpr T const* cbegin() const noexcept { return data_; }
  [[nodiscard]] constexpr T const* cend() const noexcept { return data_ + size_; }
  [[nodiscard]] constexpr reverse_iterator rbegin() const noexcept { return reverse_iterator(end()); }
  [[nodiscard]] constexpr reverse_iterator rend() const noexcept { return reverse_iterator(begin()); }
  [[nodiscard]] constexpr T const& operator[](std::size_t i) const noexcept { return data_[i]; }
  [[nodiscard]] constexpr T const& front() const noexcept { return data_[0]; }
  [[nodiscard]] constexpr T const& back() const noexcept { return data_[size_ - 1]; }

  /// \name Parts
  /// The caller keeps them within `size()`.
  /// \{
  [[nodiscard]] constexpr view first(std::size_t count) const noexcept { return {data_, count}; }
  [[nodiscard]] constexpr view last(std::size_t count) const noexcept { return {data_ + (size_ - count), count}; }
  [[nodiscard]] constexpr view subspan(std::size_t from) const noexcept { return {data_ + from, size_ - from}; }
  [[nodiscard]] constexpr view subspan(std::size_t from, std::size_t count) const noexcept {
    return {data_ + from, count};
  }
  /// \}

  /// Copies of the elements, in a `std::vector`.
  template <class Vector>
    requires std::is_same_v<typename Vector::allocator_type::value_type, T>
  [[nodiscard]] constexpr operator Vector() const {
    return Vector(begin(), end());
  }

  /// Whether the elements are equal, of whatever they are a range.
  template <class Range>
    requires requires(Range const& range, T const& element) {
      view(range);
      element == element;
    }
  [[nodiscard]] constexpr bool operator==(Range const& range) const {
    view const other(range);
    if (size_ != other.size_) return false;
    for (std::size_t i = 0; i < size_; ++i) {
      if (!(data_[i] == other.data_[i])) return false;
    }
    return true;
  }

 private:
  T const* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace v0
}  // namespace pipesched

/// \cond
template <class T>
inline constexpr bool std::ranges::enable_view<pipesched::view<T>> = true;
template <class T>
inline constexpr bool std::ranges::enable_borrowed_range<pipesched::view<T>> = true;
/// \endcond
