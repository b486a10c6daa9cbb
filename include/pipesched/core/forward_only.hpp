// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Evaluation and inference: the forwards of any schedule, in its order.

#include <cstdint>
#include <utility>

#include <pipesched/core/concepts.hpp>

namespace pipesched {
inline namespace v0 {

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
    auto forwards = [&](op o) {
      if (o.kind() == op_kind::forward) out(o.alone());
    };
    training.emit(rank, forwards);
  }
};

template <schedule_generator Generator>
[[nodiscard]] constexpr std::string_view name_of(forward_only<Generator> const& generator) noexcept {
  return name_of(generator.training);
}

}  // namespace v0
}  // namespace pipesched
