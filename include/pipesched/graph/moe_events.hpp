// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The events of a mixture-of-experts chunk: which stream each runs on, which event it needs, and their order where
/// nothing overlaps.

#include <cstddef>
#include <cstdint>

#include <pipesched/core/op.hpp>
#include <pipesched/graph/op_graph.hpp>

namespace pipesched {
inline namespace v0 {

/// The stream that an op or event runs on.
[[nodiscard]] constexpr stream stream_of(op_kind kind) noexcept {
  switch (kind) {
    case op_kind::dispatch_forward:
    case op_kind::dispatch_backward:
    case op_kind::combine_forward:
    case op_kind::combine_backward: return stream::all_to_all;
    case op_kind::send_forward:
    case op_kind::send_backward:
    case op_kind::recv_forward:
    case op_kind::recv_backward:
    case op_kind::wait_send_forward:
    case op_kind::wait_send_backward: return stream::p2p;
    default: return stream::compute;
  }
}

/// Whether `kind` is attention or MLP: the events that a GPU computes.
[[nodiscard]] constexpr bool is_compute_event(op_kind kind) noexcept {
  return kind >= op_kind::attention_forward && kind <= op_kind::mlp_backward_weight;
}

namespace detail {

/// One event of a chunk: its kind, and its layer within the chunk.
struct moe_event {
  op_kind kind;
  int layer;
  friend constexpr bool operator==(moe_event, moe_event) noexcept = default;
};

/// The event of the same layer whose result `kind` needs; `kind` itself for the first of a layer.
[[nodiscard]] constexpr op_kind needed_in_layer(op_kind kind) noexcept {
  switch (kind) {
    case op_kind::dispatch_forward: return op_kind::attention_forward;
    case op_kind::mlp_forward: return op_kind::dispatch_forward;
    case op_kind::combine_forward: return op_kind::mlp_forward;
    case op_kind::mlp_backward_input: return op_kind::combine_backward;
    case op_kind::mlp_backward_weight: return op_kind::mlp_backward_input;
    case op_kind::dispatch_backward: return op_kind::mlp_backward_input;
    case op_kind::attention_backward_input: return op_kind::dispatch_backward;
    case op_kind::attention_backward_weight: return op_kind::attention_backward_input;
    default: return kind;
  }
}

/// The event whose result `e` needs, in a chunk of `layers` layers; `e` itself for the first of a chunk. Forward goes
/// up the layers, backward comes down.
[[nodiscard]] constexpr moe_event needed_in_chunk(moe_event e, int layers) noexcept {
  if (e.kind == op_kind::attention_forward && e.layer > 0) return {op_kind::combine_forward, e.layer - 1};
  if (e.kind == op_kind::combine_backward && e.layer + 1 < layers)
    return {op_kind::attention_backward_input, e.layer + 1};
  return {needed_in_layer(e.kind), e.layer};
}

/// Calls `visit(event)` for the events of a chunk op on its own, in order.
template <class Visit>
constexpr void for_each_event(op_kind chunk, int layers, Visit&& visit) {
  if (chunk == op_kind::forward) {
    for (int layer = 0; layer < layers; ++layer)
      for (auto kind :
           {op_kind::attention_forward, op_kind::dispatch_forward, op_kind::mlp_forward, op_kind::combine_forward})
        visit(moe_event{kind, layer});
    return;
  }
  bool const input = chunk != op_kind::backward_weight;
  bool const weight = chunk != op_kind::backward_input;
  for (int layer = layers - 1; layer >= 0; --layer) {
    if (input) visit(moe_event{op_kind::combine_backward, layer});
    if (input) visit(moe_event{op_kind::mlp_backward_input, layer});
    if (weight) visit(moe_event{op_kind::mlp_backward_weight, layer});
    if (input) visit(moe_event{op_kind::dispatch_backward, layer});
    if (input) visit(moe_event{op_kind::attention_backward_input, layer});
    if (weight) visit(moe_event{op_kind::attention_backward_weight, layer});
  }
}

/// How many events a layer of a chunk op has.
[[nodiscard]] constexpr int events_per_layer(op_kind chunk) noexcept {
  switch (chunk) {
    case op_kind::forward:
    case op_kind::backward_input: return 4;
    case op_kind::backward: return 6;
    case op_kind::backward_weight: return 2;
    default: return 0;
  }
}

/// Kinds of events of a layer's pair, numbered without gaps.
inline constexpr int pair_event_kinds = 10;

[[nodiscard]] constexpr int number_of(op_kind event) noexcept {
  switch (event) {
    case op_kind::attention_forward: return 0;
    case op_kind::attention_backward_input: return 1;
    case op_kind::attention_backward_weight: return 2;
    case op_kind::mlp_forward: return 3;
    case op_kind::mlp_backward_input: return 4;
    case op_kind::mlp_backward_weight: return 5;
    case op_kind::dispatch_forward: return 6;
    case op_kind::dispatch_backward: return 7;
    case op_kind::combine_forward: return 8;
    case op_kind::combine_backward: return 9;
    default: return -1;
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
