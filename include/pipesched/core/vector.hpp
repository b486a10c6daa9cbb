// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A growing array that is cheap to compile.

#include <concepts>
#include <cstddef>
#include <initializer_list>

#include <pipesched/core/view.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// What the library needs of `std::vector`, with the same meaning, for the many small structs that it keeps lists of.
/// An include of the library compiles all its functions, and for a struct of its own a `std::vector` takes 8 ms of that
/// time, this one half a millisecond; docs/performance.md has the sums. Where users meet one, it may come
/// from a `std::vector`, and may turn into one, without asking.
///
/// `T` has a default value, and what lies between size and capacity has it, or an older one: an element is destroyed
/// with the array, not when it is removed. Iterators are pointers.
template <class T>
class vector {
 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using pointer = T*;
  using const_pointer = T const*;
  using reference = T&;
  using const_reference = T const&;
  using iterator = T*;
  using const_iterator = T const*;

  // All others begin with an empty vector, which gives its memory back where an element throws.
  vector() = default;
  constexpr explicit vector(std::size_t size) : vector() { resize(size); }
  constexpr vector(std::size_t size, T const& value) : vector() { resize(size, value); }
  template <class Iterator>
    requires requires(Iterator i) { *i, i - i; }
  constexpr vector(Iterator first, Iterator last) : vector() {
    append(first, last);
  }
  template <class Range>
    requires requires(Range const& range) { view<T>(range); }
  constexpr vector(Range const& range) : vector(view<T>(range).begin(), view<T>(range).end()) {}
  constexpr vector(std::initializer_list<T> values) : vector() { append(values.begin(), values.end()); }
  constexpr vector(vector const& other) : vector() { append(other.begin(), other.end()); }
  constexpr vector(vector&& other) noexcept { take(other); }
  constexpr vector& operator=(vector const& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  constexpr vector& operator=(vector&& other) noexcept {
    if (this == &other) return *this;
    delete[] data_;
    take(other);
    return *this;
  }
  constexpr ~vector() { delete[] data_; }

  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] constexpr T* data() noexcept { return data_; }
  [[nodiscard]] constexpr T const* data() const noexcept { return data_; }
  [[nodiscard]] constexpr T& operator[](std::size_t i) noexcept { return data_[i]; }
  [[nodiscard]] constexpr T const& operator[](std::size_t i) const noexcept { return data_[i]; }
  [[nodiscard]] constexpr T& front() noexcept { return data_[0]; }
  [[nodiscard]] constexpr T const& front() const noexcept { return data_[0]; }
  [[nodiscard]] constexpr T& back() noexcept { return data_[size_ - 1]; }
  [[nodiscard]] constexpr T const& back() const noexcept { return data_[size_ - 1]; }
  [[nodiscard]] constexpr T* begin() noexcept { return data_; }
  [[nodiscard]] constexpr T* end() noexcept { return data_ + size_; }
  [[nodiscard]] constexpr T const* begin() const noexcept { return data_; }
  [[nodiscard]] constexpr T const* end() const noexcept { return data_ + size_; }
  [[nodiscard]] constexpr T const* cbegin() const noexcept { return data_; }
  [[nodiscard]] constexpr T const* cend() const noexcept { return data_ + size_; }
  [[nodiscard]] constexpr auto rbegin() const noexcept { return view<T>(*this).rbegin(); }
  [[nodiscard]] constexpr auto rend() const noexcept { return view<T>(*this).rend(); }

  constexpr void reserve(std::size_t capacity) {
    if (capacity <= capacity_) return;
    auto const size = size_;  // read before the call, which might change it for all that g++ knows, and warns of
    auto* const larger = new T[capacity];
    for (std::size_t i = 0; i < size; ++i) larger[i] = static_cast<T&&>(data_[i]);
    delete[] data_;
    data_ = larger;
    capacity_ = capacity;
  }
  constexpr void push_back(T value) {
    if (size_ == capacity_) reserve(size_ < 4 ? 4 : 2 * size_);
    data_[size_++] = static_cast<T&&>(value);
  }
  template <class... Arguments>
  constexpr T& emplace_back(Arguments&&... arguments) {
    push_back(T(static_cast<Arguments&&>(arguments)...));
    return back();
  }
  constexpr void pop_back() noexcept { --size_; }
  constexpr void clear() noexcept { size_ = 0; }
  constexpr void resize(std::size_t size) { resize(size, T{}); }
  constexpr void resize(std::size_t size, T value) {
    make_room(size);
    for (auto i = size_; i < size; ++i) data_[i] = value;
    size_ = size;
  }
  constexpr void assign(std::size_t size, T value) {
    clear();
    resize(size, static_cast<T&&>(value));
  }
  template <class Iterator>
    requires requires(Iterator i) { *i, i - i; }
  constexpr void assign(Iterator first, Iterator last) {
    clear();
    append(first, last);
  }
  constexpr T* insert(T const* at, T value) { return insert(at, &value, &value + 1); }
  template <class Iterator>
  constexpr T* insert(T const* at, Iterator first, Iterator last) {
    auto const offset = at - data_;
    auto place = std::size_t(offset);
    auto const added = std::size_t(last - first);
    make_room(size_ + added);
    for (auto i = size_; i > place; --i) data_[i - 1 + added] = static_cast<T&&>(data_[i - 1]);
    for (; first != last; ++first) data_[place++] = *first;
    size_ += added;
    return data_ + offset;
  }
  constexpr void erase(T const* at) { erase(at, at + 1); }
  constexpr void erase(T const* first, T const* last) {
    auto place = std::size_t(first - data_);
    for (auto i = std::size_t(last - data_); i < size_; ++i) data_[place++] = static_cast<T&&>(data_[i]);
    size_ = place;
  }

  template <class Vector>
    requires std::same_as<typename Vector::allocator_type::value_type, T>
  [[nodiscard]] constexpr operator Vector() const {
    return Vector(begin(), end());
  }

  template <class Range>
    requires requires(Range const& range) { view<T>(range); }
  [[nodiscard]] constexpr bool operator==(Range const& other) const {
    return view<T>(*this) == other;
  }

 private:
  /// For `size` elements, and for as many again as there were, so that a list that grows is not copied each time.
  constexpr void make_room(std::size_t size) {
    if (size > capacity_) reserve(size > 2 * capacity_ ? size : 2 * capacity_);
  }
  template <class Iterator>
  constexpr void append(Iterator first, Iterator last) {
    make_room(size_ + std::size_t(last - first));
    for (; first != last; ++first) data_[size_++] = *first;
  }
  constexpr void take(vector& other) noexcept {
    data_ = other.data_;
    size_ = other.size_;
    capacity_ = other.capacity_;
    other.data_ = nullptr;
    other.size_ = other.capacity_ = 0;
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
