// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Which rank holds which stage.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <pipesched/core/error.hpp>
#include <pipesched/core/ids.hpp>
#include <pipesched/core/vector.hpp>

namespace pipesched {
inline namespace v0 {

/// The widest placement that an op can name: its stage has 16 bits, its replica 8.
inline constexpr int max_stages = 65536;
inline constexpr int max_replicas = 256;

/// One copy of a stage.
struct stage_copy {
  int stage;
  int replica;
  friend constexpr bool operator==(stage_copy, stage_copy) = default;
};

enum class placement_kind : std::uint8_t { linear, loop, v, bidirectional, custom };

[[nodiscard]] constexpr std::string_view name_of(placement_kind kind) noexcept {
  switch (kind) {
    case placement_kind::linear: return "linear";
    case placement_kind::loop: return "loop";
    case placement_kind::v: return "v";
    case placement_kind::bidirectional: return "bidirectional";
    case placement_kind::custom: return "custom";
  }
  return "?";
}

/// The map (stage, replica) -> rank. A value; only a custom one holds memory.
class placement {
 public:
  /// Stage s on rank s.
  [[nodiscard]] static constexpr placement linear(int ranks) { return {placement_kind::linear, ranks, ranks, 1}; }
  /// Stage s on rank s mod ranks: each rank holds `chunks` stages.
  [[nodiscard]] static constexpr placement loop(int ranks, int chunks) {
    return {placement_kind::loop, ranks, ranks * chunks, 1};
  }
  /// Two stages a rank, down and up again: stage s on rank s or 2 * ranks - 1 - s.
  [[nodiscard]] static constexpr placement v(int ranks) { return {placement_kind::v, ranks, 2 * ranks, 1}; }
  /// `pipelines` = 2f copies of the model. Replicas 0..f-1 run down: replica i starts at rank i * ranks / f and goes
  /// round; replicas f..2f-1 run up, replica f + i in the reverse order of replica i (Chimera, section 3.6). With two
  /// pipelines: stage s on rank s, and on rank ranks - 1 - s.
  [[nodiscard]] static constexpr placement bidirectional(int ranks, int pipelines = 2) {
    return {placement_kind::bidirectional, ranks, ranks, pipelines};
  }
  /// Any map: `rank_of_stage[replica * stages + stage]`. Throws `parameter_error` where the table's size is not
  /// stages * replicas or a stage is on no rank of 0..ranks-1.
  [[nodiscard]] static constexpr placement custom(int ranks, int stages, int replicas,
                                                  detail::vector<int> rank_of_stage) {
    require(check_custom(ranks, stages, replicas, rank_of_stage));
    placement result{placement_kind::custom, ranks, stages, replicas};
    result.table_ = std::move(rank_of_stage);
    return result;
  }
  /// What `custom` would refuse.
  [[nodiscard]] static constexpr check_result check_custom(int ranks, int stages, int replicas,
                                                           detail::vector<int> const& rank_of_stage) {
    if (auto shape = check_size(ranks, stages, replicas)) return shape;
    auto const cells = std::int64_t{stages} * replicas;
    if (std::int64_t(rank_of_stage.size()) != cells)
      return parameter_violation{"rank_of_stage (size)", std::int64_t(rank_of_stage.size()), "must be", cells,
                                 "stages * replicas"};
    for (int rank : rank_of_stage)
      if (rank < 0 || rank >= ranks)
        return parameter_violation{"rank_of_stage", rank, rank < 0 ? "must be at least" : "must be at most",
                                   rank < 0 ? 0 : ranks - 1, "ranks - 1: each stage is on a rank"};
    return {};
  }
  /// The sizes that any placement must keep to.
  [[nodiscard]] static constexpr check_result check_size(std::int64_t ranks, std::int64_t stages,
                                                         std::int64_t replicas = 1) {
    return first_violation({at_least("ranks", ranks, 1), at_most("ranks", ranks, max_stages),
                            at_least("stages", stages, 1), at_most("stages", stages, max_stages),
                            at_least("replicas", replicas, 1), at_most("replicas", replicas, max_replicas)});
  }

  [[nodiscard]] constexpr placement_kind kind() const noexcept { return kind_; }
  [[nodiscard]] constexpr int ranks() const noexcept { return ranks_; }
  /// Stages of the model, S.
  [[nodiscard]] constexpr int stages() const noexcept { return stages_; }
  /// Copies of each stage.
  [[nodiscard]] constexpr int replicas() const noexcept { return replicas_; }

  /// The rank of a stage's copy. Precondition: both exist.
  [[nodiscard]] constexpr int rank_of(int stage, int replica = 0) const noexcept {
    switch (kind_) {
      case placement_kind::linear: return stage;
      case placement_kind::loop: return stage % ranks_;
      case placement_kind::v: return stage < ranks_ ? stage : 2 * ranks_ - 1 - stage;
      case placement_kind::bidirectional: {
        int const f = replicas_ / 2;
        bool const down = replica < f;
        int const turned = (stage + (down ? replica : replica - f) * (ranks_ / f)) % ranks_;
        return down ? turned : ranks_ - 1 - turned;
      }
      case placement_kind::custom: return table_[std::size_t(replica) * std::size_t(stages_) + std::size_t(stage)];
    }
    return 0;
  }

  /// The stages on a rank, by stage and then replica. Time in proportion to stages * replicas.
  [[nodiscard]] constexpr detail::vector<stage_copy> held_by(int rank) const {
    detail::vector<stage_copy> held;
    for (int stage = 0; stage < stages_; ++stage)
      for (int replica = 0; replica < replicas_; ++replica)
        if (rank_of(stage, replica) == rank) held.push_back(stage_copy{stage, replica});
    return held;
  }

  /// How many copies of the model a rank has a share of: the number of replicas among its stages.
  [[nodiscard]] constexpr int parameter_copies(int rank) const {
    int copies = 0;
    for (int replica = 0; replica < replicas_; ++replica)
      for (int stage = 0; stage < stages_; ++stage)
        if (rank_of(stage, replica) == rank) {
          ++copies;
          break;
        }
    return copies;
  }

  friend constexpr bool operator==(placement const&, placement const&) = default;

 private:
  constexpr placement(placement_kind kind, int ranks, int stages, int replicas)
      : kind_(kind), ranks_(ranks), stages_(stages), replicas_(replicas) {}

  placement_kind kind_;
  int ranks_;
  int stages_;
  int replicas_;
  detail::vector<int> table_;
};

}  // namespace v0
}  // namespace pipesched
