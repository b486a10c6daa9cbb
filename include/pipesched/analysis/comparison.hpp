// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Figures that let schedules be compared, however each of them cuts the model.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <pipesched/analysis/report.hpp>
#include <pipesched/graph/op_graph.hpp>

namespace pipesched {
inline namespace v0 {

/// How many messages leave a rank for another in one step: one for each activation or gradient that is needed on a
/// different rank. Each is of one microbatch at one boundary of stages, so that they are of equal size.
struct message_count {
  std::int64_t total = 0;
  std::int64_t busiest = 0;  ///< of the rank that sends most
};

[[nodiscard]] constexpr message_count count_messages(op_graph const& graph) {
  message_count count;
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    std::int64_t sent = 0;
    for (int s = 0; s < graph.streams(); ++s) {
      auto const lane = graph.lane_of(rank, stream(s));
      for (auto n = graph.lane_begin(lane); n < graph.lane_end(lane); ++n)
        for (graph_link l : graph.links_out(node_id{n}))
          if (l.remote() && (l.kind() == edge_kind::activation || l.kind() == edge_kind::gradient)) ++sent;
    }
    count.total += sent;
    count.busiest = std::max(count.busiest, sent);
  }
  return count;
}

/// A report, and beside it the same figures in units that do not depend on the number of stages.
template <time_value T>
struct comparison {
  report<T> figures;
  message_count messages;
  int stages_held;  ///< copies of stages on the rank that holds most

  double relative_makespan;  ///< makespan / ideal: 1 where no rank ever idles
  /// The peak of activations, in those of one `part`th of the model for one microbatch.
  double activation_parts;
  /// The parameters on the rank that holds most, in `parts`ths of the model.
  double parameter_parts;
  /// Messages per microbatch: how often an activation or gradient crosses from rank to rank.
  double messages_per_microbatch;
};

/// The comparable figures of a report, in units of one of `parts` equal parts of the model. Schedules on equal ranks
/// are compared in parts of one rank, P; on equal stages in parts of one stage, S. Precondition: `parts` > 0.
template <time_value T>
[[nodiscard]] constexpr comparison<T> make_comparison(op_graph const& graph, report<T> figures, int parts) {
  comparison<T> result{std::move(figures), count_messages(graph), 0, 0, 0, 0, 0};
  auto const& all = result.figures;
  for (auto const& r : all.per_rank) result.stages_held = std::max(result.stages_held, int(r.stages.size()));
  double const part = double(parts) / all.stages;
  result.relative_makespan = all.ideal > 0 ? static_cast<double>(all.makespan) / all.ideal : 1.0;
  result.activation_parts = static_cast<double>(all.peak_activations) * part;
  result.parameter_parts = result.stages_held * part;
  result.messages_per_microbatch = static_cast<double>(result.messages.total) / static_cast<double>(all.microbatches);
  return result;
}

}  // namespace v0
}  // namespace pipesched
