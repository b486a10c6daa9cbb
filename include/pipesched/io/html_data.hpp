// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A timeline as the data of a page: what the script of `html_page` reads.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <pipesched/analysis/critical_path.hpp>
#include <pipesched/analysis/memory.hpp>
#include <pipesched/analysis/streams.hpp>
#include <pipesched/analysis/timeline.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/io/append.hpp>
#include <pipesched/io/json_text.hpp>
#include <pipesched/io/picture_style.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Writes one timeline as a JSON object. Ops go by the numbers of the graph's nodes.
template <time_value T, cost_model Cost>
class html_data_writer {
 public:
  html_data_writer(op_graph const& graph, timeline<T> const& times, Cost const& cost, memory_model const& memory)
      : graph_(graph), times_(times), cost_(cost), memory_(memory), looks_(graph.where()) {}

  [[nodiscard]] std::string write(std::string_view title) {
    text_ = "{\"title\":";
    append_json_string(text_, title);
    detail::append(text_, ",\"ranks\":{},\"streams\":{},\"replicas\":{},\"makespan\":{}", graph_.ranks(),
                   graph_.streams(), graph_.where().replicas(), time(times_.makespan()));
    write_types();
    write_lanes();
    write_pairs();
    write_dependencies();
    write_memory();
    text_ += "}";
    return std::move(text_);
  }

 private:
  /// Nine digits are more than a screen shows.
  [[nodiscard]] static std::string time(T t) {
    if constexpr (std::integral<T>)
      return fmt::format("{}", t);
    else
      return fmt::format("{:.9g}", t);
  }

  template <class Range, class Text>
  void write_list(std::string_view name, Range const& range, Text&& text) {
    detail::append(text_, "\"{}\":[", name);
    bool first = true;
    for (auto const& element : range) {
      if (!first) text_ += ',';
      first = false;
      text_ += text(element);
    }
    text_ += ']';
  }

  /// What ops have in common but for their microbatch: a type per kind, stage and replica that occur.
  void write_types() {
    for (op o : graph_.nodes()) types_.push_back(without_microbatch(o));
    std::sort(types_.begin(), types_.end());
    types_.erase(std::unique(types_.begin(), types_.end()), types_.end());
    text_ += ',';
    write_list("types", types_, [&](std::uint64_t packed) {
      op const o = op::from_packed(packed);
      auto const look = looks_(o);
      return fmt::format(
          "{{\"name\":\"{}{}\",\"letters\":\"{}\",\"suffix\":\"{}\",\"text\":\"{}\",\"stage\":{},\"replica\":{},"
          "\"color\":\"{}\",\"hatched\":{}}}",
          o.stage(), name_of(o.kind()), looks_.labels().letters(o), looks_.labels().suffix(o), words_for(o.kind()),
          o.stage(), o.replica(), looks_.color(look), look.hatched);
    });
  }
  [[nodiscard]] static std::uint64_t without_microbatch(op o) noexcept {
    return op(o.kind(), stage_id{o.stage()}, microbatch_id{0}, replica_id{o.replica()}).packed();
  }
  [[nodiscard]] std::size_t type_of(op o) const noexcept {
    return std::size_t(std::lower_bound(types_.begin(), types_.end(), without_microbatch(o)) - types_.begin());
  }
  /// "forward", or for an event its name and pass: "MLP_F, forward".
  [[nodiscard]] static std::string words_for(op_kind kind) {
    if (is_chunk_op(kind)) return std::string(legend_of(hue_of(kind)));
    return fmt::format("{}, {}", name_of(kind), legend_of(hue_of(kind)));
  }

  void write_lanes() {
    auto const drawn = drawn_streams(graph_, times_);
    text_ += ",\"lanes\":[";
    for (int lane = 0; lane < graph_.lanes(); ++lane) {
      auto const s = stream(lane % graph_.streams());
      bool const has_row = std::find(drawn.begin(), drawn.end(), s) != drawn.end();
      detail::append(text_, "{}{{\"rank\":{},\"stream\":\"{}\",\"drawn\":{},", lane > 0 ? ",\n" : "\n",
                     graph_.rank_of_lane(std::uint32_t(lane)), name_of(s), has_row);
      vector<node_id> nodes;
      for (auto n = graph_.lane_begin(lane); n < graph_.lane_end(lane); ++n) nodes.push_back(node_id{n});
      write_list("type", nodes, [&](node_id n) { return fmt::format("{}", type_of(graph_.node(n))); });
      text_ += ',';
      write_list("microbatch", nodes, [&](node_id n) { return fmt::format("{}", graph_.node(n).microbatch()); });
      text_ += ',';
      write_list("start", nodes, [&](node_id n) { return time(times_.start(n)); });
      text_ += ',';
      write_list("duration", nodes, [&](node_id n) { return time(times_.duration(n)); });
      text_ += '}';
    }
    text_ += ']';
  }

  /// The first members of pairs that share a slot, and per rank the spans of pairs that became events.
  void write_pairs() {
    vector<std::uint32_t> pairs;
    for (int lane = 0; lane < graph_.lanes(); ++lane)
      for_each_block(graph_, lane, [&](std::uint32_t first, std::uint32_t after) {
        if (after - first == 2) pairs.push_back(first);
      });
    text_ += ",\n";
    write_list("pairs", pairs, [](std::uint32_t n) { return fmt::format("{}", n); });
    text_ += ",\"frames\":[";
    for (int rank = 0; rank < graph_.ranks(); ++rank) {
      text_ += rank > 0 ? ",[" : "[";
      if (graph_.streams() > 1) {
        bool first = true;
        for (auto const& pair : pairs_of(graph_, times_, rank)) {
          detail::append(text_, "{}[{},{}]", first ? "" : ",", time(pair.start), time(pair.end));
          first = false;
        }
      }
      text_ += ']';
    }
    text_ += ']';
  }

  /// Per op what it needs, as pairs of an op and an edge kind; what made it start when it did, -1 where it starts at 0;
  /// and the critical path.
  void write_dependencies() {
    text_ += ",\n\"links\":[";
    for (std::uint32_t n = 0; n < graph_.size(); ++n) {
      text_ += n > 0 ? ",[" : "[";
      bool first = true;
      for (graph_link l : graph_.links_in(node_id{n})) {
        detail::append(text_, "{}{},{}", first ? "" : ",", l.node(), int(l.kind()));
        first = false;
      }
      text_ += ']';
    }
    text_ += "],\n\"causes\":[";
    for (std::uint32_t n = 0; n < graph_.size(); ++n) {
      if (n > 0) text_ += ',';
      if (auto const cause = cause_of_start(graph_, times_, cost_, node_id{n}))
        detail::append(text_, "{},{}", cause->from.value, int(cause->kind));
      else
        text_ += "-1,0";
    }
    text_ += "],\n";
    write_list("critical", critical_path(graph_, times_, cost_),
               [](critical_step const& s) { return fmt::format("{}", s.node.value); });
  }

  void write_memory() {
    std::int64_t most = 0;
    vector<std::int64_t> peaks;
    text_ += ",\n\"memory\":[";
    for (int rank = 0; rank < graph_.ranks(); ++rank) {
      auto const curve = memory_curve(graph_, times_, rank, memory_);
      text_ += rank > 0 ? ",{" : "{";
      write_list("time", curve, [](auto const& point) { return time(point.time); });
      text_ += ',';
      write_list("held", curve, [](auto const& point) { return fmt::format("{}", point.held); });
      text_ += '}';
      peaks.push_back(peak_activations(graph_, rank, memory_).held);
      most = std::max(most, peaks.back());
    }
    text_ += "],";
    write_list("peaks", peaks, [](std::int64_t peak) { return fmt::format("{}", peak); });
    detail::append(text_, ",\"mostHeld\":{}", most);
  }

  op_graph const& graph_;
  timeline<T> const& times_;
  Cost const& cost_;
  memory_model const& memory_;
  op_looks looks_;
  vector<std::uint64_t> types_;  // sorted: the number of a type is its index
  std::string text_;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
