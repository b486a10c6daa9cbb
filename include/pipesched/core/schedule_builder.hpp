// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Schedules written by hand, op by op.

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include <pipesched/core/error.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/core/vector.hpp>

namespace pipesched {
inline namespace v0 {

/// Collects programs that are written by hand, and makes a schedule of them:
///
///     auto const s = schedule_builder(placement::linear(2))
///                        .rank(0).F(0).F(1).B(0).B(1)
///                        .rank(1).F(0).B(0).F(1).B(1)
///                        .build();
///
/// `rank`, `stage` and `replica` say where the ops after them go. A rank that holds one stage needs no `stage`; a copy
/// that its rank and stage tell apart needs no `replica`. Whether the programs can run is the checker's question: the
/// builder also takes wrong ones, as long as their ranks, stages and microbatches exist.
class schedule_builder {
 public:
  /// Stage s on rank s.
  constexpr explicit schedule_builder(int ranks) : schedule_builder(placement::linear(ranks)) {}
  /// Throws `parameter_error` for a placement that is too large.
  constexpr explicit schedule_builder(placement where) : where_(std::move(where)) {
    require(placement::check_size(where_.ranks(), where_.stages(), where_.replicas()));
    programs_.resize(std::size_t(where_.ranks()));
  }

  /// The ops that follow are of this rank, after those that it has already. Throws where it does not exist.
  constexpr schedule_builder& rank(int rank) {
    require(first_violation({at_least("rank", rank, 0), at_most("rank", rank, where_.ranks() - 1, "ranks - 1")}));
    rank_ = rank;
    held_ = where_.held_by(rank);
    replica_ = none;
    stage_ = none;
    bool const one_stage = !held_.empty() && held_.front().stage == held_.back().stage;
    return one_stage ? stage(held_.front().stage) : *this;
  }

  /// The ops that follow are of this stage, and of its copy on this rank. Throws where the stage does not exist.
  constexpr schedule_builder& stage(int stage) {
    require(first_violation({at_least("stage", stage, 0), at_most("stage", stage, where_.stages() - 1, "stages - 1")}));
    stage_ = stage;
    auto const copy = std::find_if(held_.begin(), held_.end(), [&](stage_copy c) { return c.stage == stage; });
    replica_ = copy != held_.end() ? copy->replica : 0;
    return *this;
  }

  /// The ops that follow are of this copy of the stage; for placements that put two copies on one rank.
  constexpr schedule_builder& replica(int replica) {
    require(first_violation(
        {at_least("replica", replica, 0), at_most("replica", replica, where_.replicas() - 1, "replicas - 1")}));
    replica_ = replica;
    return *this;
  }

  /// \name One op each. They throw where the rank is not given, or holds several stages and none of them is given.
  /// \{
  constexpr schedule_builder& F(std::int64_t microbatch) { return add(op_kind::forward, microbatch); }
  /// The full backward.
  constexpr schedule_builder& B(std::int64_t microbatch) { return add(op_kind::backward, microbatch); }
  /// The backward for the input alone.
  constexpr schedule_builder& I(std::int64_t microbatch) { return add(op_kind::backward_input, microbatch); }
  /// The backward for the weights alone.
  constexpr schedule_builder& W(std::int64_t microbatch) { return add(op_kind::backward_weight, microbatch); }
  /// Any op, taken as it is.
  constexpr schedule_builder& add(op o) {
    require(at_least("rank", rank_, 0, "name the rank before its ops"));
    programs_[std::size_t(rank_)].push_back(o);
    microbatches_ = std::max(microbatches_, o.microbatch() + 1);
    return *this;
  }
  /// \}

  /// Makes the op before and the one after it an overlapped pair: `.F(7).overlapping().stage(7).B(3)`.
  constexpr schedule_builder& overlapping() {
    require(at_least("rank", rank_, 0, "name the rank before its ops"));
    auto& program = programs_[std::size_t(rank_)];
    require(at_least("ops before overlapping()", std::int64_t(program.size()), 1, "a pair begins with its forward"));
    program.back() = program.back().overlapping_next();
    return *this;
  }

  /// The schedule, with as many microbatches as the highest number among the ops asks for.
  [[nodiscard]] constexpr schedule build(std::string_view name = "custom") const {
    return {where_, std::max<std::int64_t>(microbatches_, 1), programs_, name};
  }

 private:
  static constexpr int none = -1;

  constexpr schedule_builder& add(op_kind kind, std::int64_t microbatch) {
    require(first_violation({at_least("rank", rank_, 0, "name the rank before its ops"),
                             at_least("stage", stage_, 0, "name the stage: the rank does not hold exactly one"),
                             at_least("microbatch", microbatch, 0),
                             at_most("microbatch", microbatch, max_microbatches - 1, "2^31 - 2")}));
    return add(op(kind, stage_id{stage_}, microbatch_id{microbatch}, replica_id{std::max(replica_, 0)}));
  }

  placement where_;
  detail::vector<detail::vector<op>> programs_;
  detail::vector<stage_copy> held_;  // by the rank
  int rank_ = none;
  int stage_ = none;
  int replica_ = none;
  std::int64_t microbatches_ = 0;
};

}  // namespace v0
}  // namespace pipesched
