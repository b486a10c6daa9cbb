// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A user's mistake: which parameter, its value, and the bound it broke.
///
/// Everything that can be refused has a `check()` that returns the violation as data. The functions that throw do so
/// through `PIPESCHED_FAIL`; without exceptions it calls `PIPESCHED_ON_ERROR(violation)`, which a user may define
/// before the first include and which must not return; by default the program prints the message and aborts.

#include <charconv>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace pipesched {
inline namespace v0 {

/// A number as the user gave it, whole or real, so that a message can repeat it.
class number {
 public:
  template <std::integral Whole>
  constexpr number(Whole whole) noexcept : whole_(static_cast<std::int64_t>(whole)) {}  // NOLINT(*-explicit-*)
  template <std::floating_point Real>
  constexpr number(Real real) noexcept : real_(static_cast<double>(real)), is_real_(true) {}  // NOLINT(*-explicit-*)

  [[nodiscard]] constexpr bool is_real() const noexcept { return is_real_; }
  [[nodiscard]] constexpr std::int64_t whole() const noexcept { return whole_; }
  [[nodiscard]] constexpr double real() const noexcept { return is_real_ ? real_ : static_cast<double>(whole_); }

  [[nodiscard]] std::string text() const {
    char digits[32];
    auto const end = is_real_ ? std::to_chars(digits, digits + sizeof digits, real_).ptr
                              : std::to_chars(digits, digits + sizeof digits, whole_).ptr;
    return {digits, end};
  }

  friend constexpr bool operator==(number const&, number const&) = default;

 private:
  std::int64_t whole_ = 0;
  double real_ = 0;
  bool is_real_ = false;
};

/// One parameter outside its bound. The texts are literals: they live as long as the program.
struct parameter_violation {
  std::string_view parameter;    ///< the parameter's name, as the user writes it
  number value;                  ///< what was given
  std::string_view requirement;  ///< "must be at least", "must be a multiple of", ...
  number bound;                  ///< what `requirement` refers to
  std::string_view reason = {};  ///< where the bound comes from, e.g. "2 * ranks"; may be empty

  /// "microbatches = 3, must be at least 16 (2 * ranks)"
  [[nodiscard]] std::string message() const {
    std::string text{parameter};
    text.append(" = ").append(value.text()).append(", ").append(requirement).append(" ").append(bound.text());
    if (!reason.empty()) text.append(" (").append(reason).append(")");
    return text;
  }
};

/// What `check()` returns: nothing, or the first violation.
using check_result = std::optional<parameter_violation>;

/// The one error that wrong parameters raise.
class parameter_error : public std::invalid_argument {
 public:
  explicit parameter_error(parameter_violation const& violation)
      : std::invalid_argument(violation.message()), violation_(violation) {}
  /// The violation as data.
  [[nodiscard]] parameter_violation const& violation() const noexcept { return violation_; }

 private:
  parameter_violation violation_;
};

/// A schedule that cannot be run, where running it was asked for: a deadlock, or an op whose producer is missing.
/// The text names the ops.
class schedule_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

[[noreturn]] inline void print_and_abort(char const* message) {
  std::fprintf(stderr, "pipesched: %s\n", message);
  std::abort();
}

}  // namespace detail

#if defined(__cpp_exceptions)
#define PIPESCHED_FAIL(error) throw error
#elif defined(PIPESCHED_ON_ERROR)
#define PIPESCHED_FAIL(error) PIPESCHED_ON_ERROR(error)
#else
#define PIPESCHED_FAIL(error) ::pipesched::detail::print_and_abort((error).what())
#endif

/// \name Bounds, as the `check()` of a generator lists them
/// \{
constexpr check_result at_least(std::string_view parameter, number value, number bound, std::string_view reason = {}) {
  bool const holds = value.is_real() || bound.is_real() ? value.real() >= bound.real() : value.whole() >= bound.whole();
  if (holds) return {};
  return parameter_violation{parameter, value, "must be at least", bound, reason};
}

constexpr check_result at_most(std::string_view parameter, number value, number bound, std::string_view reason = {}) {
  bool const holds = value.is_real() || bound.is_real() ? value.real() <= bound.real() : value.whole() <= bound.whole();
  if (holds) return {};
  return parameter_violation{parameter, value, "must be at most", bound, reason};
}

/// A real `value` that must be larger than `bound`; NaN is not.
constexpr check_result above(std::string_view parameter, double value, double bound, std::string_view reason = {}) {
  if (value > bound) return {};
  return parameter_violation{parameter, value, "must be greater than", bound, reason};
}

constexpr check_result multiple_of(std::string_view parameter, std::int64_t value, std::int64_t divisor,
                                   std::string_view reason = {}) {
  if (divisor != 0 && value % divisor == 0) return {};
  return parameter_violation{parameter, value, "must be a multiple of", divisor, reason};
}

/// The first of several checks that fails. A check that relies on an earlier one (a division, say) is still evaluated,
/// so it must be safe for any value.
constexpr check_result first_violation(std::initializer_list<check_result> checks) {
  for (auto const& check : checks)
    if (check) return check;
  return {};
}
/// \}

/// Throws `parameter_error` where `result` holds a violation.
constexpr void require(check_result const& result) {
  if (result) PIPESCHED_FAIL(parameter_error(*result));
}

}  // namespace v0
}  // namespace pipesched
