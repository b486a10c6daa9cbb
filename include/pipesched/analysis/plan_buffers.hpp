// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The buffers of a communication plan: how many each rank needs, which one each op uses, and when it is free again.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/communication_plan.hpp>
#include <pipesched/graph/op_index.hpp>

namespace pipesched {
inline namespace v0 {

/// What a buffer holds. The slots of each kind are numbered on their own, on each rank from 0.
enum class buffer_kind : std::uint8_t {
  received_activation,  ///< from its RECV_F until the forward that needs it has ended
  received_gradient,    ///< from its RECV_B until the B or I that needs it has ended; what W needs of it, I keeps
  stashed_activation,   ///< from a forward until its backward, or its W, has ended
  outstanding_send,     ///< from its SEND to its WAIT_SEND, or to the end of the step where there is none
};
inline constexpr std::size_t buffer_kinds = 4;

[[nodiscard]] constexpr std::string_view name_of(buffer_kind kind) noexcept {
  switch (kind) {
    case buffer_kind::received_activation: return "received activation";
    case buffer_kind::received_gradient: return "received gradient";
    case buffer_kind::stashed_activation: return "stashed activation";
    case buffer_kind::outstanding_send: return "outstanding send";
  }
  return "?";
}

/// How long received activations stay where they were received.
enum class received_input : std::uint8_t {
  freed_by_forward,   ///< the forward moves into its stash what its backward needs
  kept_for_backward,  ///< the backward reads it in place: free after the backward, or the W
};

/// The use of a slot by the op that takes it.
struct slot_use {
  std::uint32_t slot;
  std::uint32_t free_after;  ///< the entry of the plan after whose end (a pair's: both members') the slot is free

  friend constexpr bool operator==(slot_use const&, slot_use const&) = default;
};

/// The slots of a plan. Their number is the least that there can be: on each rank and of each kind, as many as are in
/// use at once at the peak.
class buffer_plan {
 public:
  /// Time linear in the entries of the plan.
  constexpr explicit buffer_plan(communication_plan const& plan,
                                 received_input inputs = received_input::freed_by_forward)
      : uses_(plan.entries().size()), counts_(std::size_t(plan.ranks()), std::array<std::int64_t, buffer_kinds>{}) {
    find_ends(plan, inputs);
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      colour(plan, rank);
      row_begin_.push_back(plan.row_begin(rank));
      digests_.push_back(plan.digest(rank));
    }
  }

  /// The number of slots of a kind on a rank.
  [[nodiscard]] constexpr std::int64_t slots(int rank, buffer_kind kind) const noexcept {
    return counts_[std::size_t(rank)][std::size_t(kind)];
  }
  /// The slot that an entry takes: a RECV, a SEND, or a forward for its stash. Precondition: the entry is one of these.
  [[nodiscard]] constexpr slot_use const& use_of(std::uint32_t entry) const noexcept { return uses_[entry]; }

  /// Whether the slots of `rank` are those of this plan: a plan with an equal program there, at the same place, will
  /// do. Time linear in the program. Precondition: `rank` exists in `plan`.
  [[nodiscard]] constexpr bool are_of(communication_plan const& plan, int rank) const {
    auto const r = std::size_t(rank);
    return r < digests_.size() && row_begin_[r] == plan.row_begin(rank) && digests_[r] == plan.digest(rank);
  }

  /// The kind of buffer that an op takes; -1 for one that takes none.
  [[nodiscard]] static constexpr int kind_taken_by(op_kind kind) noexcept {
    switch (kind) {
      case op_kind::recv_forward: return int(buffer_kind::received_activation);
      case op_kind::recv_backward: return int(buffer_kind::received_gradient);
      case op_kind::forward: return int(buffer_kind::stashed_activation);
      case op_kind::send_forward:
      case op_kind::send_backward: return int(buffer_kind::outstanding_send);
      default: return -1;
    }
  }

 private:
  static constexpr std::uint32_t none = 0xFFFFFFFF;

  /// After which entry each use ends.
  constexpr void find_ends(communication_plan const& plan, received_input inputs) {
    auto const entries = plan.entries();
    detail::buffer<op> ops(entries.size());
    for (std::size_t e = 0; e < entries.size(); ++e) ops[e] = entries[e].what;
    detail::op_index const index(ops.view(), plan.where().stages(), plan.microbatches());
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      auto const last_of_row = plan.row_begin(rank + 1) - 1;
      auto const last_use_of_stash = [&](std::uint32_t forward) {
        op const f = ops[forward];
        auto last = index.find(detail::op_role::weight, f.stage(), f.microbatch());
        if (last == detail::op_index::none) last = index.find(detail::op_role::gradient, f.stage(), f.microbatch());
        if (last == detail::op_index::none) return forward;                 // forward-only
        return last > forward && last <= last_of_row ? last : last_of_row;  // a row that was read may not have it
      };
      for (auto e = plan.row_begin(rank); e < plan.row_begin(rank + 1); ++e) {
        auto const& entry = entries[e];
        if (entry.what.kind() == op_kind::forward) {
          uses_[e].free_after = last_use_of_stash(e);
        } else if (is_receive(entry.what.kind())) {
          auto const consumer = plan.message_of(entry).consumer;
          bool const stays = inputs == received_input::kept_for_backward && ops[consumer].kind() == op_kind::forward;
          uses_[e].free_after = stays ? last_use_of_stash(consumer) : consumer;
        } else if (is_send(entry.what.kind())) {
          uses_[e].free_after = last_of_row;
        } else if (entry.is_communication()) {
          uses_[plan.message_of(entry).send].free_after = e;
        }
      }
    }
  }

  /// Colours the intervals of one rank: a slot that is free is taken again, so that there are never more than are in
  /// use at once. In an overlapped pair the forward takes its slot before the backward frees one.
  constexpr void colour(communication_plan const& plan, int rank) {
    auto const begin = plan.row_begin(rank);
    auto const end = plan.row_begin(rank + 1);
    auto const entries = plan.entries();
    std::array<detail::vector<std::uint32_t>, buffer_kinds> free;
    detail::vector<std::uint32_t> last_freed(end - begin, none);  // by entry, a list of uses that end with it
    detail::vector<std::uint32_t> next_freed(end - begin, none);
    auto& counts = counts_[std::size_t(rank)];

    for (auto e = begin; e < end;) {
      bool const pair = !entries[e].is_communication() && entries[e].what.overlaps_next() && e + 1 < end;
      auto const after = e + (pair ? 2 : 1);
      for (auto taking = e; taking < after; ++taking) {
        int const kind = kind_taken_by(entries[taking].what.kind());
        if (kind < 0) continue;
        auto& use = uses_[taking];
        auto& stock = free[std::size_t(kind)];
        if (stock.empty()) {
          use.slot = std::uint32_t(counts[std::size_t(kind)]++);
        } else {
          use.slot = stock.back();
          stock.pop_back();
        }
        next_freed[taking - begin] = last_freed[use.free_after - begin];
        last_freed[use.free_after - begin] = taking;
      }
      for (; e < after; ++e)
        for (auto freed = last_freed[e - begin]; freed != none; freed = next_freed[freed - begin])
          free[std::size_t(kind_taken_by(entries[freed].what.kind()))].push_back(uses_[freed].slot);
    }
  }

  detail::buffer<slot_use> uses_;  // by entry; of those that take a slot
  detail::vector<std::array<std::int64_t, buffer_kinds>> counts_;
  detail::vector<std::uint32_t> row_begin_;  // by rank, as in the plan
  detail::vector<std::uint64_t> digests_;    // of each rank's program
};

}  // namespace v0
}  // namespace pipesched
