// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Whether a schedule has each op that it needs, once, and where the placement says.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/fault.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/core/sort.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/graph/fault_list.hpp>
#include <pipesched/graph/op_groups.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Kinds, pairs and ranks: what each op shows on its own.
constexpr void check_each_op(schedule const& s, fault_list& faults) {
  struct stray {
    std::int64_t position = 0;
    std::int64_t count = 0;
  };
  vector<stray> strays(std::size_t(s.stages()), stray{});  // of one rank, by stage
  for (int rank = 0; rank < s.ranks(); ++rank) {
    auto const program = s.program(rank);
    vector<int> stray_stages;
    for (std::size_t i = 0; i < program.size(); ++i) {
      op const o = program[i];
      program_place const here{rank, std::int64_t(i)};
      if (!is_chunk_op(o.kind())) {
        faults.add({fault_kind::wrong_kind, o, here});
        continue;
      }
      if (o.overlaps_next()) {
        bool const pair = i + 1 < program.size() && o.kind() == op_kind::forward &&
                          carries_gradient(program[i + 1].kind()) && !program[i + 1].overlaps_next();
        if (!pair) faults.add({fault_kind::broken_pair, o, here});
      }
      if (s.where().rank_of(o.stage(), o.replica()) == rank) continue;
      auto& found = strays[std::size_t(o.stage())];
      if (found.count++ > 0) continue;
      found.position = std::int64_t(i);
      stray_stages.push_back(o.stage());
    }
    for (int stage : stray_stages) {
      auto& found = strays[std::size_t(stage)];
      op const first = program[std::size_t(found.position)];
      faults.add({fault_kind::wrong_rank,
                  first,
                  {rank, found.position},
                  first,
                  {s.where().rank_of(stage, first.replica()), -1},
                  found.count});
      found = stray{};
    }
  }
}

/// The microbatches that have an op on some stage, in order.
[[nodiscard]] constexpr vector<std::int64_t> mentioned_microbatches(schedule const& s) {
  vector<std::int64_t> mentioned;
  if (s.microbatches() <= 4 * std::int64_t(s.ops().size()) + 4096) {
    buffer<bool> seen(std::size_t(s.microbatches()), false);
    for (op o : s.ops())
      if (is_chunk_op(o.kind())) seen[std::size_t(o.microbatch())] = true;
    for (std::size_t id = 0; id < seen.size(); ++id)
      if (seen[id]) mentioned.push_back(std::int64_t(id));
  } else {
    for (op o : s.ops())
      if (is_chunk_op(o.kind())) mentioned.push_back(o.microbatch());
    detail::sort(mentioned);
    mentioned.erase(std::unique(mentioned.begin(), mentioned.end()), mentioned.end());
  }
  return mentioned;
}

/// Whether each microbatch has on each stage a forward, and a backward in one piece or in two; and each op once.
class completeness_check {
 public:
  constexpr completeness_check(schedule const& s, fault_list& faults)
      : s_(s), faults_(faults), mentioned_(mentioned_microbatches(s)) {
    for (op o : s.ops()) trains_ = trains_ || (is_chunk_op(o.kind()) && o.kind() != op_kind::forward);
  }

  /// Also marks the duplicates: `redundant[i]` for entries of `schedule::ops()`.
  constexpr void run(buffer<bool>& redundant) {
    count_votes();
    report_gaps();
    op_groups(s_.ops(), s_.stages(), s_.microbatches()).for_each([&](view<std::uint32_t> group) {
      check_group(group, redundant);
    });
    end_stage(s_.stages());
  }

 private:
  static constexpr std::uint32_t none = 0xFFFFFFFF;

  [[nodiscard]] static constexpr op make(op_kind kind, int stage, std::int64_t microbatch, int replica = 0) {
    return {kind, stage_id{stage}, microbatch_id{microbatch}, replica_id{replica}};
  }

  constexpr void report_gaps() {
    std::int64_t next = 0;
    auto const report_until = [&](std::int64_t id) {
      if (id > next)
        faults_.add({.kind = fault_kind::missing_microbatch,
                     .what = make(op_kind::forward, 0, next),
                     .where = {},
                     .count = id - next});
      next = id + 1;
    };
    for (auto id : mentioned_) report_until(id);
    report_until(s_.microbatches());
  }

  /// Reports the mentioned microbatches [next_, index) as absent on the stage at hand.
  constexpr void report_absent_until(std::size_t index) {
    if (index > next_) {
      auto const first = mentioned_[next_];
      faults_.add({.kind = fault_kind::missing_ops,
                   .what = make(op_kind::forward, stage_, first),
                   .where = {s_.where().rank_of(stage_), -1},
                   .count = mentioned_[index - 1] - first + 1});
    }
    next_ = index + 1;
  }

  /// Leaves the stage at hand for `stage`; those between have no ops.
  constexpr void end_stage(int stage) {
    if (stage_ >= 0) report_absent_until(mentioned_.size());
    if (stage > stage_ + 1)
      faults_.add({.kind = fault_kind::missing_stage,
                   .what = make(op_kind::forward, stage_ + 1, 0),
                   .where = {},
                   .count = stage - stage_ - 1});
    stage_ = stage;
    next_ = 0;
  }

  constexpr void check_group(view<std::uint32_t> group, buffer<bool>& redundant) {
    op const first = s_.ops()[group.front()];
    if (first.stage() != stage_) end_stage(first.stage());
    // Most often it is the next one; else it is looked for.
    if (next_ >= mentioned_.size() || mentioned_[next_] != first.microbatch()) {
      auto const at = std::lower_bound(mentioned_.begin(), mentioned_.end(), first.microbatch());
      report_absent_until(std::size_t(at - mentioned_.begin()));
    } else {
      ++next_;
    }

    std::uint32_t found[4] = {none, none, none, none};  // by kind
    for (auto index : group) {
      op const o = s_.ops()[index];
      auto& seen = found[std::size_t(o.kind())];
      if (seen == none) {
        seen = index;
        continue;
      }
      redundant[index] = true;
      faults_.add({fault_kind::duplicate_op, o, place_of(s_, index), s_.ops()[seen], place_of(s_, seen)});
    }
    auto const at = [&](op_kind kind) { return found[std::size_t(kind)]; };
    auto const has = [&](op_kind kind) { return at(kind) != none; };
    auto const missing = [&](fault_kind kind, op_kind expected) {
      int const rank = s_.where().rank_of(first.stage(), first.replica());
      faults_.add_run({kind, make(expected, first.stage(), first.microbatch(), first.replica()), {rank, -1}});
    };
    bool const split = has(op_kind::backward_input) || has(op_kind::backward_weight);
    if (!has(op_kind::forward)) missing(fault_kind::missing_forward, op_kind::forward);
    if (has(op_kind::backward) && split) {
      auto const part = at(has(op_kind::backward_input) ? op_kind::backward_input : op_kind::backward_weight);
      auto const whole = at(op_kind::backward);
      faults_.add(
          {fault_kind::two_backwards, s_.ops()[part], place_of(s_, part), s_.ops()[whole], place_of(s_, whole)});
    } else if (split && !has(op_kind::backward_input)) {
      missing(fault_kind::missing_input, op_kind::backward_input);
    } else if (split && !has(op_kind::backward_weight)) {
      missing(fault_kind::missing_weight, op_kind::backward_weight);
    } else if (trains_ && !split && !has(op_kind::backward)) {
      missing(fault_kind::missing_backward, op_kind::backward);
    }
    if (s_.where().replicas() > 1) check_copies(group);
  }

  /// Counts on which copy each microbatch has its ops; not where the ids are so wide that the table would be large.
  constexpr void count_votes() {
    auto const cells = s_.microbatches() * s_.where().replicas();
    if (s_.where().replicas() == 1 || cells > 4 * std::int64_t(s_.ops().size()) + 4096) return;
    votes_ = buffer<std::uint32_t>(std::size_t(cells), 0);
    for (op o : s_.ops())
      if (is_chunk_op(o.kind())) ++votes_[vote_of(o)];
  }
  [[nodiscard]] constexpr std::size_t vote_of(op o) const noexcept {
    return std::size_t(o.microbatch()) * std::size_t(s_.where().replicas()) + std::size_t(o.replica());
  }

  /// A microbatch's ops of one stage are all on one copy, since the activations are there: on the one with most of
  /// them, or, where there are as many on another, the one that the microbatch uses most on all stages.
  constexpr void check_copies(view<std::uint32_t> group) {
    auto const in_group = [&](int replica) {
      return std::count_if(group.begin(), group.end(), [&](auto i) { return s_.ops()[i].replica() == replica; });
    };
    auto owner = *std::min_element(group.begin(), group.end(), [&](auto a, auto b) {
      return s_.ops()[a].kind() < s_.ops()[b].kind();  // in doubt the forward
    });
    for (auto index : group) {
      op const here = s_.ops()[index];
      op const best = s_.ops()[owner];
      if (here.replica() == best.replica()) continue;
      auto const difference = in_group(here.replica()) - in_group(best.replica());
      bool const more_elsewhere = votes_.size() > 0 && votes_[vote_of(here)] > votes_[vote_of(best)];
      if (difference > 0 || (difference == 0 && more_elsewhere)) owner = index;
    }
    for (auto index : group)
      if (s_.ops()[index].replica() != s_.ops()[owner].replica())
        faults_.add(
            {fault_kind::two_copies, s_.ops()[index], place_of(s_, index), s_.ops()[owner], place_of(s_, owner)});
  }

  schedule const& s_;
  fault_list& faults_;
  vector<std::int64_t> mentioned_;
  buffer<std::uint32_t> votes_;  // by microbatch and copy
  bool trains_ = false;          // a schedule without any backward is forward-only, and right
  int stage_ = -1;               // at hand
  std::size_t next_ = 0;         // the entry of `mentioned_` that the stage at hand has next
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
