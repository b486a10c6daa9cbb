// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What a training run shows: its progress, its loss, and what it measured.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <unistd.h>

#include "stage_worker.hpp"

namespace training {

/// "[=====     ] 12/24 loss 0.1234", in place on a terminal; in a file, the last one alone.
inline void show_progress(int done, int steps, double loss) {
  if (done < steps && isatty(fileno(stdout)) == 0) return;
  constexpr int width = 30;
  auto const filled = std::size_t(width * done / steps);
  std::string bar(filled, '=');
  bar.resize(width, ' ');
  fmt::print("\r[{}] {}/{} loss {:.6f}{}", bar, done, steps, loss, done == steps ? "\n" : "");
  std::fflush(stdout);
}

/// The losses as a curve of text, highest on top. One alone is no curve.
inline void show_curve(std::vector<double> const& losses) {
  if (losses.size() < 2) return;
  constexpr int rows = 8;
  auto const [low, high] = std::minmax_element(losses.begin(), losses.end());
  auto const range = std::max(*high - *low, 1e-300);
  for (int row = rows - 1; row >= 0; --row) {
    std::string line;
    for (double loss : losses) line += std::lround((loss - *low) / range * (rows - 1)) == row ? '*' : ' ';
    fmt::print("{:9.5f} |{}\n", *low + range * row / (rows - 1), line);
  }
}

/// One rank's ops over time, a letter for the op that begins in or fills a column.
inline std::string timeline_row(std::vector<span> const& spans, double makespan, std::size_t columns) {
  std::string row(columns, '.');
  auto const column = [&](double time) {
    return std::min(columns - 1, std::size_t(time / makespan * double(columns)));
  };
  for (auto const& s : spans)
    for (auto c = column(s.begin); c <= column(std::max(s.begin, s.end - makespan / double(columns))); ++c)
      row[c] = name_of(s.what.kind())[0];
  return row;
}

/// The mean time of each kind of op, as a cost model for the prediction.
inline pipesched::uniform_cost<double> mean_times(std::vector<std::vector<span>> const& ranks) {
  double sum[4] = {}, count[4] = {};
  for (auto const& spans : ranks)
    for (auto const& s : spans) {
      sum[std::size_t(s.what.kind())] += s.end - s.begin;
      ++count[std::size_t(s.what.kind())];
    }
  auto const mean = [&](pipesched::op_kind k) {
    auto const i = std::size_t(k);
    return count[i] > 0 ? sum[i] / count[i] : 0.0;
  };
  using pipesched::op_kind;
  bool const split = count[std::size_t(op_kind::backward_input)] > 0;
  // Where all backwards are full, half of one stands for each of its parts.
  return {.forward = mean(op_kind::forward),
          .backward_input = split ? mean(op_kind::backward_input) : mean(op_kind::backward) / 2,
          .backward_weight = split ? mean(op_kind::backward_weight) : mean(op_kind::backward) / 2};
}

/// The measured timeline beside the one that the mean op times predict.
inline void show_timelines(pipesched::schedule const& s, std::vector<std::vector<span>> const& measured) {
  constexpr std::size_t columns = 70;
  auto const graph = pipesched::build_graph(s);
  auto const predicted = pipesched::make_timeline(graph, mean_times(measured));
  double makespan = 0;
  for (auto const& spans : measured)
    for (auto const& op_span : spans) makespan = std::max(makespan, op_span.end);
  auto const longest = std::max(makespan, predicted.makespan());
  fmt::print("predicted from the mean time of each kind of op: {:.3f} ms\n", predicted.makespan() * 1e3);
  for (int rank = 0; rank < s.ranks(); ++rank) {
    std::vector<span> spans;
    auto const lane = graph.lane_of(rank, pipesched::stream::compute);
    for (auto n = graph.lane_begin(lane); n < graph.lane_end(lane); ++n)
      spans.push_back({graph.node(pipesched::node_id{n}), predicted.start(pipesched::node_id{n}),
                       predicted.end(pipesched::node_id{n})});
    fmt::print("  rank {} {}\n", rank, timeline_row(spans, longest, columns));
  }
  fmt::print("measured: {:.3f} ms\n", makespan * 1e3);
  for (int rank = 0; rank < s.ranks(); ++rank)
    fmt::print("  rank {} {}\n", rank, timeline_row(measured[std::size_t(rank)], longest, columns));
}

}  // namespace training
