// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// In which order an overlapped pair of mixture-of-experts chunks runs its events on the two streams.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include <pipesched/core/error.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/graph/moe_events.hpp>

namespace pipesched {
inline namespace v0 {

/// The order of one forward layer and one backward layer on the compute and the all-to-all stream, repeated for each
/// layer of the pair.
///
/// The orders are cyclic: figure 4 of DeepSeek-V3 begins in the middle of a layer, with the attention of the *next*
/// layer last. `rotated()` gives the same order from where a pair can begin.
struct moe_pair_order {
  /// Default: DeepSeek-V3 (arXiv 2412.19437), figure 4, upper row.
  std::array<op_kind, 6> compute = {
      op_kind::mlp_backward_input,       op_kind::mlp_backward_weight,       op_kind::mlp_forward,
      op_kind::attention_backward_input, op_kind::attention_backward_weight, op_kind::attention_forward};
  /// Default: the same figure, lower row. The transfers between ranks, [p2p], come after the last layer's combine.
  std::array<op_kind, 4> all_to_all = {op_kind::dispatch_forward, op_kind::dispatch_backward, op_kind::combine_forward,
                                       op_kind::combine_backward};

  /// Each event once, on its own stream, and in an order that some rotation can run.
  [[nodiscard]] constexpr check_result check() const {
    for (int kind = 0; kind < 64; ++kind) {
      auto const event = op_kind(kind);
      if (detail::number_of(event) < 0) continue;
      bool const computes = stream_of(event) == stream::compute;
      auto const wanted = [&](auto const& order, bool here, std::string_view reason) -> check_result {
        auto const times = std::count(order.begin(), order.end(), event);
        if (times == int(here)) return {};
        return parameter_violation{name_of(event), times, "must be", int(here), reason};
      };
      auto const wrong =
          first_violation({wanted(compute, computes, "times in the pair order's compute stream"),
                           wanted(all_to_all, !computes, "times in the pair order's all-to-all stream")});
      if (wrong) return wrong;
    }
    if (!rotated().can_run())
      return parameter_violation{"pair order (rotations that can run)", 0, "must be at least", 1,
                                 "each event comes after the one whose result it needs"};
    return {};
  }

  /// The order from where a pair can begin: as given where that runs, else the first rotation of both streams that
  /// does, if any. Figure 4 becomes ATTN(F) beside COMBINE(B), MLP(B) MLP(W) beside DISPATCH(F), MLP(F) beside
  /// DISPATCH(B), ATTN(B) ATTN(W) beside COMBINE(F).
  [[nodiscard]] constexpr moe_pair_order rotated() const {
    auto order = *this;
    for (std::size_t c = 0; c < compute.size(); ++c) {
      for (std::size_t a = 0; a < all_to_all.size(); ++a) {
        if (order.can_run()) return order;
        std::rotate(order.all_to_all.begin(), order.all_to_all.begin() + 1, order.all_to_all.end());
      }
      std::rotate(order.compute.begin(), order.compute.begin() + 1, order.compute.end());
    }
    return order;
  }

  /// Whether the streams, begun as they stand, run to their ends with nothing of the layer done before.
  [[nodiscard]] constexpr bool can_run() const {
    std::array<bool, 64> done{};
    auto const ready = [&](op_kind event) {
      auto const needed = detail::needed_in_layer(event);
      return needed == event || done[std::size_t(needed)];
    };
    std::size_t c = 0;
    std::size_t a = 0;
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (; c < compute.size() && ready(compute[c]); goes_on = true) done[std::size_t(compute[c++])] = true;
      for (; a < all_to_all.size() && ready(all_to_all[a]); goes_on = true) done[std::size_t(all_to_all[a++])] = true;
    }
    return c == compute.size() && a == all_to_all.size();
  }

  friend constexpr bool operator==(moe_pair_order const&, moe_pair_order const&) = default;
};

}  // namespace v0
}  // namespace pipesched
