// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The lanes that a transport puts a plan's entries into, and what they wait for.

#include <cstddef>
#include <cstdint>

#include <pipesched/analysis/transport_model.hpp>
#include <pipesched/core/buffer.hpp>
#include <pipesched/core/sort.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/communication_plan.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// What is known of a plan under a transport before it runs.
class transport_layout {
 public:
  static constexpr std::uint32_t none = message::nobody;
  static constexpr std::uint32_t never = none - 1;  // a buffer that is not freed any more

  /// Entries that pass one after another.
  struct lane {
    int rank;
    vector<std::uint32_t> entries = {};
  };

  constexpr transport_layout(communication_plan const& plan, transport_model model) : plan_(&plan), model_(model) {
    fill_lanes();
    list_arrivals();
    if (model.kind == transport_kind::bounded) list_freeing();
  }

  /// The programs by rank, then the queues by rank.
  [[nodiscard]] constexpr vector<lane> const& lanes() const noexcept { return lanes_; }
  [[nodiscard]] constexpr std::uint32_t lane_of(std::uint32_t entry) const noexcept { return lane_of_[entry]; }

  /// Whether sends and receives stand in queues of their own, beside the program.
  [[nodiscard]] constexpr bool has_queues() const noexcept {
    return model_.kind == transport_kind::direction_queue || model_.kind == transport_kind::pair_queue ||
           model_.kind == transport_kind::rank_queue;
  }
  [[nodiscard]] constexpr bool is_transfer(std::uint32_t entry) const noexcept {
    auto const kind = plan_->entries()[entry].what.kind();
    return is_send(kind) || is_receive(kind);
  }

  /// Calls `visit(receive)` for the receive of each message that a chunk op needs, until one of them returns false.
  template <class Visit>
  [[nodiscard]] constexpr bool for_each_arrival(std::uint32_t entry, Visit&& visit) const {
    for (auto id = first_arrival_[entry]; id != none; id = next_arrival_[id])
      if (!visit(plan_->messages()[id].receive)) return false;
    return true;
  }

  /// The receive that frees the buffer of a send, where buffers are bounded; `none` where one is free anyway.
  [[nodiscard]] constexpr std::uint32_t freed_by(std::uint32_t send) const noexcept {
    return freed_by_[plan_->entries()[send].message];
  }

 private:
  constexpr void fill_lanes() {
    int const ranks = plan_->ranks();
    lane_of_ = buffer<std::uint32_t>(plan_->entries().size());
    for (int rank = 0; rank < ranks; ++rank) lanes_.push_back(lane{rank});
    vector<std::uint32_t> queue_of(std::size_t(ranks) * 2, none);  // by peer and direction
    for (int rank = 0; rank < ranks; ++rank) {
      auto const first_queue = lanes_.size();
      for (auto e = plan_->row_begin(rank); e < plan_->row_begin(rank + 1); ++e) {
        auto at = std::uint32_t(rank);
        if (has_queues() && is_transfer(e)) {
          auto& queue = queue_of[queue_key(plan_->entries()[e])];
          if (queue == none) {
            queue = std::uint32_t(lanes_.size());
            lanes_.push_back(lane{rank});
          }
          at = queue;
        }
        lane_of_[e] = at;
        lanes_[at].entries.push_back(e);
      }
      for (auto q = first_queue; q < lanes_.size(); ++q)
        queue_of[queue_key(plan_->entries()[lanes_[q].entries.front()])] = none;
    }
  }

  [[nodiscard]] constexpr std::size_t queue_key(plan_entry const& entry) const noexcept {
    if (model_.kind == transport_kind::rank_queue) return 0;
    auto const pair = std::size_t(plan_->peer_of(entry)) * 2;
    return model_.kind == transport_kind::pair_queue ? pair : pair + is_receive(entry.what.kind());
  }

  /// The messages that each chunk op waits for, as linked lists.
  constexpr void list_arrivals() {
    auto const messages = plan_->messages();
    first_arrival_ = buffer<std::uint32_t>(plan_->entries().size(), none);
    next_arrival_ = buffer<std::uint32_t>(messages.size(), none);
    for (std::uint32_t id = 0; id < messages.size(); ++id) {
      auto const consumer = messages[id].consumer;
      if (consumer == message::nobody) continue;
      next_arrival_[id] = first_arrival_[consumer];
      first_arrival_[consumer] = id;
    }
  }

  /// With K buffers from one rank to another, the n-th send of the first needs the (n-K)-th receive of the second.
  constexpr void list_freeing() {
    freed_by_ = buffer<std::uint32_t>(plan_->messages().size(), none);
    vector<vector<std::uint32_t>> sent(std::size_t(plan_->ranks()));  // from one rank, by receiver
    for (int rank = 0; rank < plan_->ranks(); ++rank) {
      vector<std::size_t> peers;
      for (auto const& entry : plan_->program(rank)) {
        if (!is_send(entry.what.kind())) continue;
        auto const peer = std::size_t(plan_->peer_of(entry));
        if (sent[peer].empty()) peers.push_back(peer);
        sent[peer].push_back(entry.message);
      }
      for (auto peer : peers) {
        vector<std::uint32_t> received;
        for (auto id : sent[peer]) received.push_back(plan_->messages()[id].receive);
        detail::sort(received);
        for (auto n = std::size_t(model_.buffered); n < received.size(); ++n) {
          auto const freeing = received[n - std::size_t(model_.buffered)];
          freed_by_[sent[peer][n]] = freeing == message::nobody ? never : freeing;
        }
        sent[peer].clear();
      }
    }
  }

  communication_plan const* plan_;
  transport_model model_;
  vector<lane> lanes_;
  buffer<std::uint32_t> lane_of_;        // by entry
  buffer<std::uint32_t> first_arrival_;  // by entry
  buffer<std::uint32_t> next_arrival_;   // by message
  buffer<std::uint32_t> freed_by_;       // by message, where buffers are bounded
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
