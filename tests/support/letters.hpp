// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A timeline with unit times as rows of letters, as `tests/data/dualpipe_grid.txt` writes down the published pictures
/// of DualPipe: F forward, BB full backward, B backward for input, W weights, . idle.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <pipesched/analysis/timeline.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/graph/build_graph.hpp>

namespace test_support {

/// The full backwards that the pictures of DualPipe draw at the end of a slot as long as a pair's, although they could
/// start when it begins: those that stand alone where the pairs run out, but for the last of each rank.
inline std::set<std::uint64_t> backwards_in_the_slot_of_a_pair(pipesched::schedule const& schedule) {
  std::set<std::uint64_t> found;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    bool pairs_have_begun = false;
    bool in_pair = false;
    std::uint64_t last = 0;
    for (pipesched::op o : schedule.program(rank)) {
      if (o.kind() == pipesched::op_kind::backward && !in_pair && pairs_have_begun) found.insert(last = o.packed());
      in_pair = o.overlaps_next();
      pairs_have_begun = pairs_have_begun || in_pair;
    }
    found.erase(last);
  }
  return found;
}

/// One row per rank. An op in `delayed` is drawn, and runs, a forward's time later than it could.
inline std::vector<std::string> letters_of(pipesched::schedule const& schedule,
                                           std::set<std::uint64_t> const& delayed = {}) {
  struct unit_times {
    std::set<std::uint64_t> const& delayed;
    std::int64_t operator()(pipesched::op o, int) const {
      return o.kind() != pipesched::op_kind::backward ? 1 : delayed.count(o.packed()) ? 3 : 2;
    }
  };
  auto const graph = pipesched::build_graph(schedule);
  auto const times = pipesched::make_timeline(graph, unit_times{delayed});
  std::vector<std::string> rows;
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    auto& row = rows.emplace_back();
    auto const lane = graph.lane_of(rank, pipesched::stream::compute);
    for (auto n = graph.lane_begin(lane); n < graph.lane_end(lane); ++n) {
      auto const node = pipesched::node_id{n};
      auto const start = std::size_t(times.start(node));
      if (start > row.size()) row.append(start - row.size(), '.');
      switch (graph.node(node).kind()) {
        case pipesched::op_kind::forward: row += 'F'; break;
        case pipesched::op_kind::backward: row += delayed.count(graph.node(node).packed()) ? ".BB" : "BB"; break;
        case pipesched::op_kind::backward_input: row += 'B'; break;
        default: row += 'W';
      }
    }
    row.append(std::size_t(times.makespan()) - row.size(), '.');
  }
  return rows;
}

/// The first half of the ranks of the published DualPipe, which is the published DualPipeV as well.
inline std::vector<std::string> published_dual_pipe_letters() {
  auto const path = std::filesystem::path(__FILE__).parent_path().parent_path() / "data" / "dualpipe_grid.txt";
  std::ifstream file(path);
  std::vector<std::string> rows;
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line.front() != '#') rows.push_back(line.substr(line.find(' ') + 1));
  return rows;
}

inline std::string without_idle(std::string row) {
  std::erase(row, '.');
  return row;
}

}  // namespace test_support
