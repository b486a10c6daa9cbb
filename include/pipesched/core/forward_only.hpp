// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Evaluation and inference: the forwards of any schedule, in its order.

#include <cstdint>
#include <utility>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/folding.hpp>
#include <pipesched/core/op.hpp>

namespace pipesched {
inline namespace v0 {

namespace detail {

/// Lets the forwards through, on their own where they were in a pair, and what repeats as such.
template <op_sink Sink>
struct forwards_of {
  Sink* out;

  constexpr void operator()(op o) const {
    if (o.kind() == op_kind::forward) (*out)(o.alone());
  }

  constexpr void begin_run() const
    requires folding_sink<Sink>
  {
    out->begin_run();
  }
  constexpr void next_iteration() const
    requires folding_sink<Sink>
  {
    out->next_iteration();
  }
  constexpr void end_run(std::int64_t times) const
    requires folding_sink<Sink>
  {
    out->end_run(times);
  }
  constexpr void begin_round() const
    requires folding_sink<Sink>
  {
    out->begin_round();
  }
  constexpr void end_round(std::int64_t times, std::int64_t advance) const
    requires folding_sink<Sink>
  {
    out->end_round(times, advance);
  }
  [[nodiscard]] constexpr bool within_run() const
    requires folding_sink<Sink>
  {
    return out->within_run();
  }
};

}  // namespace detail

/// The forward ops of `training`, in the same order and on the same ranks; a generator itself.
/// It cannot deadlock where `training` does not: it has fewer ops and no new order.
template <schedule_generator Generator>
struct forward_only {
  Generator training;
  std::int64_t microbatches = training.microbatches;

  constexpr explicit forward_only(Generator generator) : training(std::move(generator)) {}

  [[nodiscard]] constexpr check_result check() const { return training.check(); }
  [[nodiscard]] constexpr auto placement() const { return training.placement(); }

  template <op_sink Sink>
  constexpr void emit(int rank, Sink& out) const {
    detail::forwards_of<Sink> forwards{&out};
    training.emit(rank, forwards);
  }

  [[nodiscard]] constexpr bool rows_are_independent() const
    requires emits_together<Generator>
  {
    return training.rows_are_independent();
  }
  template <rank_op_sink Sink>
    requires emits_together<Generator>
  constexpr void emit_all(Sink& out) const {
    auto forwards = [&](int rank, op o) {
      if (o.kind() == op_kind::forward) out(rank, o.alone());
    };
    training.emit_all(forwards);
  }
};

template <schedule_generator Generator>
[[nodiscard]] constexpr std::string_view name_of(forward_only<Generator> const& generator) noexcept {
  return name_of(generator.training);
}

}  // namespace v0
}  // namespace pipesched
