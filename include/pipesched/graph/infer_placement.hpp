// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The placement of programs that come without one.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/sort.hpp>
#include <pipesched/core/vector.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// A rank on which ops of a stage stand, and how many.
struct stage_home {
  int stage;
  int rank;
  std::int64_t ops;
};

/// By stage and rank. Time and memory in proportion to the ops and the highest stage.
[[nodiscard]] constexpr vector<stage_home> homes_of(std::vector<std::vector<op>> const& programs, int stages) {
  vector<stage_home> homes;
  vector<std::int64_t> counts(std::size_t(stages), 0);
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    auto const first = homes.size();
    for (op o : programs[rank])
      if (is_chunk_op(o.kind()) && counts[std::size_t(o.stage())]++ == 0)
        homes.push_back(stage_home{o.stage(), int(rank), 0});
    for (auto i = first; i < homes.size(); ++i) homes[i].ops = std::exchange(counts[std::size_t(homes[i].stage)], 0);
  }
  detail::sort(homes, [](stage_home const& a, stage_home const& b) {
    return a.stage != b.stage ? a.stage < b.stage : a.rank < b.rank;
  });
  return homes;
}

[[nodiscard]] constexpr bool holds(placement const& where, stage_home const& home) noexcept {
  for (int replica = 0; replica < where.replicas(); ++replica)
    if (where.rank_of(home.stage, replica) == home.rank) return true;
  return false;
}

/// How many pipelines the bidirectional placement has that most ops keep to: more than half of the stages stand on
/// several ranks. 0 where none is kept to.
[[nodiscard]] constexpr int bidirectional_pipelines(vector<stage_home> const& homes, int ranks, int stages) {
  if (stages != ranks || ranks % 2 != 0) return 0;
  vector<int> copies(std::size_t(stages), 0);
  for (auto const& home : homes) ++copies[std::size_t(home.stage)];
  vector<int> stages_with(std::size_t(ranks) + 1, 0);  // by the number of copies
  for (int c : copies) ++stages_with[std::size_t(c)];
  int pipelines = 0;
  for (int c = 2; c <= std::min(ranks, max_replicas); c += 2)
    if (2 * stages_with[std::size_t(c)] > stages && ranks % c == 0) pipelines = c;
  if (pipelines == 0) return 0;
  auto const where = placement::bidirectional(ranks, pipelines);
  std::int64_t inside = 0;
  std::int64_t total = 0;
  for (auto const& home : homes) {
    total += home.ops;
    if (holds(where, home)) inside += home.ops;
  }
  return 2 * inside > total ? pipelines : 0;
}

}  // namespace detail

/// The placement that the ops of `programs` follow: linear, loop, v or bidirectional where all stages stand as these
/// say, a custom one else. Where a stage stands on several ranks and the placement is not bidirectional, the one with
/// most of its ops counts. A stage without ops is put where the pattern of the others says, or on rank 0. One rank that
/// holds several stages is a loop. Preconditions: there is a program and a chunk op in one.
[[nodiscard]] constexpr placement infer_placement(std::vector<std::vector<op>> const& programs) {
  int const ranks = int(programs.size());
  int stages = 1;
  for (auto const& program : programs)
    for (op o : program)
      if (is_chunk_op(o.kind())) stages = std::max(stages, o.stage() + 1);
  auto const homes = detail::homes_of(programs, stages);
  if (int const pipelines = detail::bidirectional_pipelines(homes, ranks, stages))
    return placement::bidirectional(ranks, pipelines);

  detail::vector<int> rank_of_stage(std::size_t(stages), 0);
  detail::vector<std::int64_t> most(std::size_t(stages), 0);
  detail::vector<std::int64_t> all(std::size_t(stages), 0);
  for (auto const& home : homes) {
    auto const stage = std::size_t(home.stage);
    all[stage] += home.ops;
    if (home.ops <= most[stage]) continue;
    most[stage] = home.ops;
    rank_of_stage[stage] = home.rank;
  }
  // At least half of each stage's ops stand where the pattern says: a tie goes to the pattern.
  auto const follows = [&](placement const& where) {
    auto elsewhere = all;
    for (auto const& home : homes)
      if (where.rank_of(home.stage) == home.rank) elsewhere[std::size_t(home.stage)] -= home.ops;
    for (std::size_t stage = 0; stage < all.size(); ++stage)
      if (2 * elsewhere[stage] > all[stage]) return false;
    return true;
  };
  if (stages == ranks && follows(placement::linear(ranks))) return placement::linear(ranks);
  if (stages % ranks == 0 && follows(placement::loop(ranks, stages / ranks)))
    return placement::loop(ranks, stages / ranks);
  if (stages == 2 * ranks && follows(placement::v(ranks))) return placement::v(ranks);
  return placement::custom(ranks, stages, 1, std::move(rank_of_stage));
}

/// Gives each op the copy of its stage that stands on its rank; copy 0 where none does.
constexpr void assign_replicas(std::vector<std::vector<op>>& programs, placement const& where) {
  if (where.replicas() == 1) return;
  for (std::size_t rank = 0; rank < programs.size(); ++rank)
    for (op& o : programs[rank]) {
      if (o.stage() >= where.stages()) continue;
      int replica = 0;
      while (replica < where.replicas() && where.rank_of(o.stage(), replica) != int(rank)) ++replica;
      if (replica == where.replicas()) continue;
      op const copy(o.kind(), stage_id{o.stage()}, microbatch_id{o.microbatch()}, replica_id{replica});
      o = o.overlaps_next() ? copy.overlapping_next() : copy;
    }
}

}  // namespace v0
}  // namespace pipesched
