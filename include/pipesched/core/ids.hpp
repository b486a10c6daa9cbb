// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Ids that do not mix: a stage cannot be passed where a microbatch is meant.

#include <compare>
#include <cstdint>

namespace pipesched {
inline namespace v0 {

/// A whole number that names one thing. Ids of different things do not convert into each other.
template <class Tag, class Rep>
struct strong_id {
  Rep value;

  strong_id() = default;
  /// The id `number`, which the caller knows to fit `Rep`.
  template <class Int>
  explicit constexpr strong_id(Int number) noexcept : value(static_cast<Rep>(number)) {}

  friend constexpr auto operator<=>(strong_id, strong_id) noexcept = default;
};

/// One piece of the model, 0..S-1 in forward order.
using stage_id = strong_id<struct stage_tag, std::uint16_t>;
/// One microbatch, unique over the whole step.
using microbatch_id = strong_id<struct microbatch_tag, std::uint32_t>;
/// One copy of the model's stages; 0 where a schedule holds each stage once.
using replica_id = strong_id<struct replica_tag, std::uint8_t>;
/// One node of an op graph: its index in the graph's node array.
using node_id = strong_id<struct node_tag, std::uint32_t>;

}  // namespace v0
}  // namespace pipesched
