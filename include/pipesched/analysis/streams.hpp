// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What each stream of a rank does, and how much of its communication computation hides.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/idle.hpp>
#include <pipesched/analysis/timeline.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/graph/op_graph.hpp>

namespace pipesched {
inline namespace v0 {

/// The events of one kind on one stream of a rank. For communication exposed + hidden = busy: `hidden` is the time
/// during which the rank also computes, `exposed` that during which its compute stream idles. For computation both are
/// 0.
template <time_value T>
struct kind_report {
  op_kind kind;
  std::int64_t count = 0;
  T busy = 0;
  T exposed = 0;
  T hidden = 0;
};

/// One stream of a rank: the sums over its kinds.
template <time_value T>
struct stream_report {
  T busy = 0;
  T idle = 0;  ///< makespan - busy
  T exposed = 0;
  T hidden = 0;
  std::vector<kind_report<T>> kinds = {};  ///< those that occur, by value of the kind
};

/// An overlapped pair as it ran.
template <time_value T>
struct pair_report {
  op forward;
  op backward;  ///< B, or I where the pair has no weights
  T start = 0;
  T end = 0;
  T computing = 0;  ///< busy time of the compute stream in between

  /// The effective F&B.
  [[nodiscard]] constexpr T duration() const noexcept { return end - start; }
};

/// The streams of one rank.
template <time_value T>
struct rank_streams_report {
  int rank = 0;
  stream_report<T> compute = {};
  stream_report<T> all_to_all = {};
  stream_report<T> p2p = {};
  std::vector<pair_report<T>> pairs = {};
  std::optional<double> mean_pair = {};           ///< mean effective F&B: none without pairs
  double utilization = 0;                         ///< busy share of the compute stream
  std::optional<double> steady_utilization = {};  ///< the same in the steady phase, where there is one
  std::optional<double> pair_utilization = {};    ///< the same within overlapped pairs, where there are any

  [[nodiscard]] constexpr stream_report<T> const& of(stream s) const noexcept {
    return s == stream::compute ? compute : s == stream::all_to_all ? all_to_all : p2p;
  }
  /// Time of the all-to-alls while nothing is computed.
  [[nodiscard]] constexpr T exposed_communication() const noexcept { return all_to_all.exposed; }
  /// Time of the all-to-alls beside computation.
  [[nodiscard]] constexpr T hidden_communication() const noexcept { return all_to_all.hidden; }
};

/// The streams of all ranks.
template <time_value T>
struct streams_report {
  T makespan = 0;
  T exposed_communication = 0;                    ///< of the all-to-alls, over all ranks
  T hidden_communication = 0;                     ///< of the all-to-alls, over all ranks
  std::optional<double> mean_pair = {};           ///< over the pairs of all ranks
  double utilization = 0;                         ///< mean over ranks
  std::optional<double> steady_utilization = {};  ///< mean over the ranks that have a steady phase
  std::optional<double> pair_utilization = {};    ///< over the pairs of all ranks
  std::vector<rank_streams_report<T>> per_rank = {};
};

namespace detail {

/// Calls `visit(first, after)` for each block of a lane, a lone node or a pair of chunk ops, in order.
template <class Visit>
constexpr void for_each_block(op_graph const& graph, int lane, Visit&& visit) {
  auto const end = graph.lane_end(lane);
  for (auto node = graph.lane_begin(lane); node < end;) {
    auto const after = node + (graph.opens_pair(node, end) ? 2 : 1);
    visit(node, after);
    node = after;
  }
}

/// The events of the overlapped pairs of a lane, pair after pair: `visit(first, after)` with node numbers. A lowered
/// pair's events stand side by side, and the next pair has another forward and another backward.
template <class Visit>
constexpr void for_each_pair_of_lane(op_graph const& graph, int lane, Visit&& visit) {
  auto const end = graph.lane_end(lane);
  for (auto node = graph.lane_begin(lane); node < end;) {
    if (graph.opens_pair(node, end)) {
      visit(node, node + 2);
      node += 2;
      continue;
    }
    auto const first = node++;
    if (!graph.node(node_id{first}).in_pair()) continue;
    std::array<op, 2> members{};  // forward and backward
    std::array<bool, 2> met{};
    auto const belongs = [&](op o) {
      if (!o.in_pair()) return false;
      std::size_t const which = pass_of(o.kind()) == pass::forward ? 0 : 1;
      auto const chunk = o.as(op_kind::forward);  // the same for all events of one chunk
      if (!met[which]) members[which] = chunk;
      met[which] = true;
      return members[which] == chunk;
    };
    (void)belongs(graph.node(node_id{first}));
    while (node < end && belongs(graph.node(node_id{node}))) ++node;
    visit(first, node);
  }
}

/// The overlapped pairs of a rank. The k-th on the compute stream is the k-th on the all-to-all stream.
template <time_value T>
constexpr std::vector<pair_report<T>> pairs_of(op_graph const& graph, timeline<T> const& times, int rank) {
  std::vector<pair_report<T>> pairs;
  for_each_pair_of_lane(graph, graph.lane_of(rank, stream::compute), [&](std::uint32_t first, std::uint32_t after) {
    pair_report<T> pair{};
    pair.start = times.start(node_id{first});
    pair.end = times.end(node_id{after - 1});
    auto backward = op_kind::backward_input;
    for (auto n = first; n < after; ++n) {
      op const o = graph.node(node_id{n});
      pair.computing += times.duration(node_id{n});
      if (o.kind() == op_kind::backward || pass_of(o.kind()) == pass::backward_weight) backward = op_kind::backward;
      (pass_of(o.kind()) == pass::forward ? pair.forward : pair.backward) = o;
    }
    if (is_chunk_op(pair.forward.kind())) pair.computing = pair.end - pair.start;  // both members span the block
    pair.forward = pair.forward.as(op_kind::forward);
    pair.backward = pair.backward.as(backward);
    pairs.push_back(pair);
  });
  if (graph.streams() == 1) return pairs;
  std::size_t k = 0;
  for_each_pair_of_lane(graph, graph.lane_of(rank, stream::all_to_all), [&](std::uint32_t first, std::uint32_t after) {
    auto& pair = pairs[k++];
    pair.start = std::min(pair.start, times.start(node_id{first}));
    pair.end = std::max(pair.end, times.end(node_id{after - 1}));
  });
  return pairs;
}

/// The nodes of a lane by kind. `hidden(from, to)` says how much of a time span is hidden; spans come in order.
template <time_value T, class Hidden>
constexpr stream_report<T> report_stream(op_graph const& graph, timeline<T> const& times, int lane, bool communicates,
                                         Hidden&& hidden) {
  stream_report<T> report;
  std::array<kind_report<T>, 64> kinds{};
  for_each_block(graph, lane, [&](std::uint32_t first, std::uint32_t after) {
    auto const start = times.start(node_id{first});
    auto const end = times.end(node_id{first});
    auto const covered = communicates ? hidden(start, end) : T{0};
    auto const exposed = communicates ? end - start - covered : T{0};
    report.busy += end - start;
    report.hidden += covered;
    report.exposed += exposed;
    for (auto n = first; n < after; ++n) {  // a pair of chunk ops counts for both its kinds
      auto const kind = graph.node(node_id{n}).kind();
      auto& of_kind = kinds[std::size_t(kind)];
      of_kind.kind = kind;
      ++of_kind.count;
      of_kind.busy += end - start;
      of_kind.hidden += covered;
      of_kind.exposed += exposed;
    }
  });
  report.idle = times.makespan() - report.busy;
  for (auto const& of_kind : kinds)
    if (of_kind.count > 0) report.kinds.push_back(of_kind);
  return report;
}

/// How much of a time span a lane is busy; spans must come in order. Time linear over all spans.
template <time_value T>
class busy_cursor {
 public:
  constexpr busy_cursor(op_graph const& graph, timeline<T> const& times, int lane)
      : times_(times), next_(graph.lane_begin(lane)), end_(graph.lane_end(lane)) {}

  constexpr T operator()(T from, T to) {
    while (next_ < end_ && times_.end(node_id{next_}) <= from) ++next_;
    T covered = 0;
    for (auto n = next_; n < end_ && times_.start(node_id{n}) < to; ++n)
      covered += std::max(T{0}, std::min(to, times_.end(node_id{n})) - std::max(from, times_.start(node_id{n})));
    return covered;
  }

 private:
  timeline<T> const& times_;
  std::uint32_t next_;
  std::uint32_t end_;
};

/// The busy share of a compute lane's steady phase, where there is one.
template <time_value T>
constexpr std::optional<double> steady_utilization_of(op_graph const& graph, timeline<T> const& times, int lane) {
  phase_tracker<T> phases;
  T clock = 0;
  for_each_block(graph, lane, [&](std::uint32_t first, std::uint32_t after) {
    bool forward = false;
    bool backward = false;
    for (auto n = first; n < after; ++n) {
      op const o = graph.node(node_id{n});
      forward |= pass_of(o.kind()) == pass::forward || o.in_pair();
      backward |= pass_of(o.kind()) != pass::forward || o.in_pair();
    }
    phases.gap(times.start(node_id{first}) - clock);
    clock = times.end(node_id{first});
    phases.op(forward, backward, times.start(node_id{first}), clock);
  });
  return phases.steady_utilization();
}

template <time_value T>
constexpr rank_streams_report<T> report_streams_of(op_graph const& graph, timeline<T> const& times, int rank) {
  rank_streams_report<T> r;
  r.rank = rank;
  auto const compute = graph.lane_of(rank, stream::compute);
  auto const report_one = [&](stream s) {
    if (int(s) >= graph.streams()) return stream_report<T>{.idle = times.makespan()};
    return report_stream(graph, times, graph.lane_of(rank, s), s != stream::compute,
                         busy_cursor<T>(graph, times, compute));
  };
  r.compute = report_one(stream::compute);
  r.all_to_all = report_one(stream::all_to_all);
  r.p2p = report_one(stream::p2p);

  auto const as_real = [](T time) { return static_cast<double>(time); };
  auto const share = [&](T part, T whole) { return whole > T{0} ? as_real(part) / as_real(whole) : 0.0; };
  r.utilization = share(r.compute.busy, times.makespan());
  r.steady_utilization = steady_utilization_of(graph, times, compute);
  r.pairs = pairs_of(graph, times, rank);
  T in_pairs = 0;
  T computing = 0;
  for (auto const& pair : r.pairs) {
    in_pairs += pair.duration();
    computing += pair.computing;
  }
  if (!r.pairs.empty()) {
    r.mean_pair = as_real(in_pairs) / static_cast<double>(r.pairs.size());
    r.pair_utilization = share(computing, in_pairs);
  }
  return r;
}

}  // namespace detail

/// Busy, idle, exposed and hidden time of every stream, and the overlapped pairs as they ran. Of a graph of chunk ops
/// there is the compute stream alone. `times` must be a timeline of `graph`.
template <time_value T>
[[nodiscard]] constexpr streams_report<T> analyze_streams(op_graph const& graph, timeline<T> const& times) {
  streams_report<T> all;
  all.makespan = times.makespan();
  T in_pairs = 0;
  T computing = 0;
  std::size_t pairs = 0;
  double steady_sum = 0;
  int steady_ranks = 0;
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    auto r = detail::report_streams_of(graph, times, rank);
    all.exposed_communication += r.exposed_communication();
    all.hidden_communication += r.hidden_communication();
    all.utilization += r.utilization / graph.ranks();
    if (r.steady_utilization) {
      steady_sum += *r.steady_utilization;
      ++steady_ranks;
    }
    for (auto const& pair : r.pairs) {
      in_pairs += pair.duration();
      computing += pair.computing;
    }
    pairs += r.pairs.size();
    all.per_rank.push_back(std::move(r));
  }
  if (steady_ranks > 0) all.steady_utilization = steady_sum / steady_ranks;
  if (pairs > 0) {
    all.mean_pair = static_cast<double>(in_pairs) / static_cast<double>(pairs);
    all.pair_utilization = in_pairs > T{0} ? static_cast<double>(computing) / static_cast<double>(in_pairs) : 0.0;
  }
  return all;
}

/// The same under a cost model. Throws as `make_timeline` does.
template <cost_model Cost>
[[nodiscard]] constexpr streams_report<time_of<Cost>> analyze_streams(op_graph const& graph, Cost const& cost) {
  return analyze_streams(graph, make_timeline(graph, cost));
}

}  // namespace v0
}  // namespace pipesched
