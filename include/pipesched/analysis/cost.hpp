// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What ops cost: any callable on an op and its rank, and the models that most users need.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <pipesched/core/error.hpp>
#include <pipesched/core/op.hpp>

namespace pipesched {
inline namespace v0 {

/// What a cost model may count in: integers, which stay exact, or floating point.
template <class T>
concept time_value = (std::integral<T> && !std::same_as<T, bool>) || std::floating_point<T>;

/// How long each op takes.
///
/// Expression: `cost(o, rank)` for an `op o` and `int rank`: a `time_value` >= 0, in any unit, the same at each call.
/// Optional:
///  - `cost.pair_time(f, b, rank)`: an overlapped pair of forward `f` and backward `b`; else the sum of the two;
///  - `cost.transfer_time(from_rank, to_rank)`: the latency of an edge between two different ranks; else 0;
///  - `cost.check(stages)`: a `check_result` that says what the model lacks for so many stages; else nothing.
/// Satisfied by: `uniform_cost<>`, `stage_cost<double>`, `[](op o, int rank) { return rank == 3 ? 2 : 1; }`.
/// Not by: a callable on the op alone: a straggler is a rank.
template <class C>
concept cost_model = requires(C const& cost, op o, int rank) {
  { cost(o, rank) } -> time_value;
};

/// The type that a cost model counts in; `int` counts as 64 bit, so that a sum of ops does not overflow.
template <cost_model C>
using time_of = std::conditional_t<std::integral<std::invoke_result_t<C const&, op, int>>, std::int64_t,
                                   std::invoke_result_t<C const&, op, int>>;

/// Whether a cost model says of itself that its times do not depend on the microbatch, with a member
/// `static constexpr bool same_for_all_microbatches = true`. Then a steady state may repeat, and need not be run to its
/// end.
template <cost_model C>
inline constexpr bool same_for_all_microbatches = requires { requires C::same_for_all_microbatches; };

/// The time of one op, pair or transfer under any model. They do not check it: see `duration_limit`.
/// \{
template <cost_model C>
[[nodiscard]] constexpr time_of<C> op_time(C const& cost, op o, int rank) {
  return static_cast<time_of<C>>(cost(o, rank));
}
template <cost_model C>
[[nodiscard]] constexpr time_of<C> pair_time(C const& cost, op f, op b, int rank) {
  if constexpr (requires { cost.pair_time(f, b, rank); })
    return static_cast<time_of<C>>(cost.pair_time(f, b, rank));
  else
    return op_time(cost, f, rank) + op_time(cost, b, rank);
}
template <cost_model C>
[[nodiscard]] constexpr time_of<C> transfer_time(C const& cost, int from_rank, int to_rank) {
  if constexpr (requires { cost.transfer_time(from_rank, to_rank); })
    return static_cast<time_of<C>>(cost.transfer_time(from_rank, to_rank));
  else
    return 0;
}
/// \}

/// What a model, or the one that it decorates, lacks for so many stages.
template <cost_model C>
[[nodiscard]] constexpr check_result check_cost(C const& cost, int stages) {
  if constexpr (requires { check_result{cost.check(stages)}; })
    return cost.check(stages);
  else if constexpr (requires { op_time(cost.inner, op{}, 0); })
    return check_cost(cost.inner, stages);
  else
    return {};
}

/// Refuses durations that are negative, not a number, or so long that a sum of `steps` of them may overflow.
template <time_value T>
class duration_limit {
 public:
  constexpr explicit duration_limit(std::size_t steps)
      : longest_(std::numeric_limits<T>::max() / static_cast<T>(steps + 1)) {}

  [[nodiscard]] constexpr T longest() const noexcept { return longest_; }
  /// Throws `parameter_error` that names `parameter`.
  constexpr void check(std::string_view parameter, T duration) const {
    bool in_bounds = duration >= T{0} && duration <= longest_;
    if constexpr (std::integral<T>)  // one comparison instead of two
      in_bounds = std::make_unsigned_t<T>(duration) <= std::make_unsigned_t<T>(longest_);
    if (!in_bounds) {
      refuse(parameter, duration);
      __builtin_unreachable();  // a loop keeps nothing for after it
    }
  }

 private:
  /// Apart, so that the check itself is two comparisons within the caller's loop.
  constexpr void refuse(std::string_view parameter, T duration) const {
    require(first_violation({at_least(parameter, duration, T{0}),
                             at_most(parameter, duration, longest_, "a sum over all ops must be a number")}));
  }

  T longest_;
};

/// The same times for every stage and rank. A full backward takes `backward_input + backward_weight`.
template <time_value T = std::int64_t>
struct uniform_cost {
  T forward = 1;
  T backward_input = 1;
  T backward_weight = 1;
  std::optional<T> overlapped = {};  ///< an overlapped pair; forward + backward where not given
  T latency = 0;                     ///< between different ranks

  static constexpr bool same_for_all_microbatches = true;

  [[nodiscard]] constexpr T operator()(op o, int /*rank*/) const noexcept {
    switch (o.kind()) {
      case op_kind::forward: return forward;
      case op_kind::backward: return backward_input + backward_weight;
      case op_kind::backward_input: return backward_input;
      case op_kind::backward_weight: return backward_weight;
      default: return 0;
    }
  }
  [[nodiscard]] constexpr T pair_time(op f, op b, int rank) const noexcept {
    return overlapped ? *overlapped : (*this)(f, rank) + (*this)(b, rank);
  }
  [[nodiscard]] constexpr T transfer_time(int, int) const noexcept { return latency; }
};

namespace detail {

/// A model as a loop over all ops asks for it.
template <cost_model C>
class prepared_cost {
 public:
  constexpr explicit prepared_cost(C const& cost) : cost_(cost) {}
  [[nodiscard]] constexpr time_of<C> op_time(op o, int rank) const { return pipesched::op_time(cost_, o, rank); }
  static constexpr bool has_one_latency = false;
  [[nodiscard]] constexpr time_of<C> transfer_time(int from_rank, int to_rank) const {
    return pipesched::transfer_time(cost_, from_rank, to_rank);
  }

 private:
  C const& cost_;
};

/// Of a uniform model, a table: kinds follow one another in no order that a processor foresees, so a branch costs more.
/// All values, not a reference: what the loop stores might overwrite the model for all that the compiler knows.
template <time_value T>
class prepared_cost<uniform_cost<T>> {
 public:
  constexpr explicit prepared_cost(uniform_cost<T> const& cost) : latency_(static_cast<time>(cost.latency)) {
    for (auto kind : {op_kind::forward, op_kind::backward, op_kind::backward_input, op_kind::backward_weight})
      by_kind_[std::size_t(kind)] = pipesched::op_time(cost, op(kind, stage_id{0}, microbatch_id{0}), 0);
  }
  [[nodiscard]] constexpr auto op_time(op o, int /*rank*/) const { return by_kind_[std::size_t(o.kind())]; }
  static constexpr bool has_one_latency = true;
  [[nodiscard]] constexpr auto latency() const { return latency_; }

 private:
  using time = time_of<uniform_cost<T>>;

  std::array<time, 64> by_kind_{};  // as many kinds as an op can name
  time latency_;
};

}  // namespace detail

/// Times per stage and kind; one entry per stage in each vector. A pair takes the sum of its members, or the time in
/// `overlapped[stage of the forward]` where that vector is not empty.
template <time_value T = std::int64_t>
struct stage_cost {
  std::vector<T> forward;
  std::vector<T> backward_input;
  std::vector<T> backward_weight;
  std::vector<T> overlapped = {};
  T latency = 0;

  static constexpr bool same_for_all_microbatches = true;

  /// Every stage the same, times a factor of its own.
  [[nodiscard]] static constexpr stage_cost scaled(uniform_cost<T> const& base, std::vector<T> const& factors) {
    stage_cost result{{}, {}, {}, {}, base.latency};
    for (T factor : factors) {
      result.forward.push_back(base.forward * factor);
      result.backward_input.push_back(base.backward_input * factor);
      result.backward_weight.push_back(base.backward_weight * factor);
      if (base.overlapped) result.overlapped.push_back(*base.overlapped * factor);
    }
    return result;
  }

  /// One entry per stage, in each vector that has to have them.
  [[nodiscard]] constexpr check_result check(int stages) const {
    auto const sized = [&](std::string_view name, std::vector<T> const& times) -> check_result {
      if (times.size() == std::size_t(stages)) return {};
      return parameter_violation{name, times.size(), "must be", stages, "one time per stage"};
    };
    return first_violation({sized("forward (size)", forward), sized("backward_input (size)", backward_input),
                            sized("backward_weight (size)", backward_weight),
                            overlapped.empty() ? check_result{} : sized("overlapped (size)", overlapped)});
  }

  /// Precondition: `check` passed for the schedule's stages, as timelines and analyses see to.
  [[nodiscard]] constexpr T operator()(op o, int /*rank*/) const noexcept {
    auto const s = std::size_t(o.stage());
    switch (o.kind()) {
      case op_kind::forward: return forward[s];
      case op_kind::backward: return backward_input[s] + backward_weight[s];
      case op_kind::backward_input: return backward_input[s];
      case op_kind::backward_weight: return backward_weight[s];
      default: return 0;
    }
  }
  [[nodiscard]] constexpr T pair_time(op f, op b, int rank) const noexcept {
    return overlapped.empty() ? (*this)(f, rank) + (*this)(b, rank) : overlapped[std::size_t(f.stage())];
  }
  [[nodiscard]] constexpr T transfer_time(int, int) const noexcept { return latency; }
};

}  // namespace v0
}  // namespace pipesched
