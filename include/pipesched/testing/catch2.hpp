// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Matchers for Catch2, version 2.13 or 3: `CHECK_THAT(my_schedule{.ranks = 4, .microbatches = 8}, IsValid())`.
///
/// Each takes a schedule or a generator. Where one fails it shows what is wrong, and the rows or the timeline with the
/// place marked.

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_approx.hpp>
#include <catch2/catch_tostring.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_templated.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <cmath>
#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/core/concepts.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/testing/checks.hpp>

namespace pipesched {
inline namespace v0 {
namespace testing {

/// What both versions of Catch2 ask of a matcher. Version 3 calls `match` by its name alone, version 2 also through the
/// base, by which its matchers combine.
#if __has_include(<catch2/catch_all.hpp>)
class matcher_base : public Catch::Matchers::MatcherGenericBase {
 public:
  bool match(schedule const& s) const { return matches(s); }
#else
class matcher_base : public Catch::MatcherBase<schedule> {
 public:
  bool match(schedule const& s) const override { return matches(s); }
#endif
  template <schedule_generator G>
  bool match(G const& generator) const {
    return matches(generate(generator));
  }

 private:
  virtual bool matches(schedule const& s) const = 0;
};

/// A matcher of schedules and generators. `Check` is called with a `schedule` and gives a `verdict`.
template <class Check>
class schedule_matcher : public matcher_base {
 public:
  schedule_matcher(std::string claim, Check check) : claim_(std::move(claim)), check_(std::move(check)) {}

  std::string describe() const override { return explanation_.empty() ? claim_ : claim_ + "\n" + explanation_; }

 private:
  bool matches(schedule const& s) const override {
    auto result = check_(s);
    explanation_ = std::move(result.explanation);
    return result.passed;
  }

  std::string claim_;
  Check check_;
  mutable std::string explanation_;  // of the last match: Catch2 asks for the description after it
};

/// Nothing is wrong with the schedule.
[[nodiscard]] inline auto IsValid() { return schedule_matcher("is valid", check_valid); }

/// No rank waits for ever.
[[nodiscard]] inline auto IsDeadlockFree() { return schedule_matcher("is free of deadlock", check_deadlock_free); }

/// The rank that idles most idles for `time`: exactly for a whole number, else a number or `Approx` to compare with.
template <class Time, cost_model Cost = uniform_cost<>>
[[nodiscard]] auto HasBubbleTime(Time time, Cost cost = {}) {
  auto const expected = Catch::Detail::stringify(time);
  return schedule_matcher("has bubble time " + expected, [=](schedule const& s) {
    return check_bubble_time(
        s,
        [&](auto found) {
          if constexpr (std::is_arithmetic_v<Time>)
            return static_cast<double>(found) == static_cast<double>(time);
          else
            return static_cast<double>(found) == time;
        },
        expected, cost);
  });
}

/// The idle share of all ranks' time; `fraction` is a number, which may differ by rounding, or an `Approx`.
template <class Fraction, cost_model Cost = uniform_cost<>>
[[nodiscard]] auto HasBubbleFraction(Fraction fraction, Cost cost = {}) {
  auto const expected = Catch::Detail::stringify(fraction);
  return schedule_matcher("has bubble fraction " + expected, [=](schedule const& s) {
    return check_bubble_fraction(
        s,
        [&](double found) {
          if constexpr (std::is_arithmetic_v<Fraction>)
            return std::abs(found - static_cast<double>(fraction)) <= 1e-12;
          else
            return found == fraction;
        },
        expected, cost);
  });
}

/// No rank holds more than `most` activations, each of one stage and microbatch, at a time.
template <cost_model Cost = uniform_cost<>>
[[nodiscard]] auto PeaksAtMost(std::int64_t most, Cost cost = {}) {
  return schedule_matcher(fmt::format("peaks at most at {} activations", most),
                          [=](schedule const& s) { return check_peak(s, most, cost); });
}

/// Each rank runs the same ops in the same order as in `other`, a schedule or a generator.
template <class Other>
[[nodiscard]] auto HasSameOrderAs(Other const& other) {
  return schedule_matcher(
      "has the same order as the other schedule",
      [reference = schedule(schedule_of(other))](schedule const& s) { return check_same_order(s, reference); });
}

/// Each rank keeps so many copies of the parameters of its share of the model.
[[nodiscard]] inline auto UsesParameterCopies(int copies) {
  return schedule_matcher(fmt::format("uses {}x parameters", copies),
                          [=](schedule const& s) { return check_parameter_copies(s, copies); });
}
[[nodiscard]] inline auto Uses1xParameters() { return UsesParameterCopies(1); }
[[nodiscard]] inline auto Uses2xParameters() { return UsesParameterCopies(2); }

}  // namespace testing
}  // namespace v0
}  // namespace pipesched

namespace Catch {

template <>
struct StringMaker<pipesched::schedule> {
  static std::string convert(pipesched::schedule const& s) {
    return fmt::format("schedule \"{}\" ({} ranks, {} stages, {} microbatches)", s.name(), s.ranks(), s.stages(),
                       s.microbatches());
  }
};

template <pipesched::schedule_generator G>
struct StringMaker<G, void> {
  static std::string convert(G const& generator) {
    return generator.check() ? "a generator with parameters out of bounds"
                             : StringMaker<pipesched::schedule>::convert(pipesched::generate(generator));
  }
};

}  // namespace Catch
