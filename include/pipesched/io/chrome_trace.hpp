// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A timeline as a trace that Perfetto and chrome://tracing open.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <pipesched/analysis/streams.hpp>
#include <pipesched/analysis/timeline.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/graph/moe_events.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/io/append.hpp>
#include <pipesched/io/json_text.hpp>
#include <pipesched/io/measured_name.hpp>

namespace pipesched {
inline namespace v0 {

struct chrome_trace_options {
  double microseconds_per_unit = 1;  ///< of the cost model's unit of time
  bool flows = true;                 ///< an arrow per dependency
};

namespace detail {

template <time_value T>
class chrome_trace_writer {
 public:
  chrome_trace_writer(op_graph const& graph, timeline<T> const& times, chrome_trace_options const& options)
      : graph_(graph), times_(times), options_(options) {}

  [[nodiscard]] std::string write() {
    text_ = "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"schedule\":";
    append_json_string(text_, graph_.name());
    text_ += "},\"traceEvents\":[";
    for (int lane = 0; lane < graph_.lanes(); ++lane) write_names(lane);
    for (int lane = 0; lane < graph_.lanes(); ++lane)
      for_each_block(graph_, lane, [&](std::uint32_t first, std::uint32_t after) { write_block(lane, first, after); });
    if (options_.flows)
      for (int lane = 0; lane < graph_.lanes(); ++lane)
        for (auto n = graph_.lane_begin(lane); n < graph_.lane_end(lane); ++n) write_flows(lane, n);
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    text_ += any_ ? ",\n" : "\n";
    any_ = true;
    detail::append(text_, format, std::forward<Args>(args)...);
  }

  [[nodiscard]] int rank_of(int lane) const noexcept { return graph_.rank_of_lane(std::uint32_t(lane)); }
  [[nodiscard]] int stream_of(int lane) const noexcept { return lane % graph_.streams(); }

  [[nodiscard]] double microseconds(T time) const noexcept {
    return static_cast<double>(time) * options_.microseconds_per_unit;
  }

  /// The process of a rank, once, and the thread of a stream that has any ops.
  void write_names(int lane) {
    int const rank = rank_of(lane);
    auto const name = [&](std::string_view what, std::string_view argument) {
      add("{{\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"args\":{{{}}}}}", what, rank, stream_of(lane),
          argument);
    };
    if (stream_of(lane) == 0) {
      name("process_name", fmt::format("\"name\":\"rank {}\"", rank));
      name("process_sort_index", fmt::format("\"sort_index\":{}", rank));
    } else if (graph_.lane_begin(lane) == graph_.lane_end(lane)) {
      return;
    }
    name("thread_name", fmt::format("\"name\":\"{}\"", name_of(stream(stream_of(lane)))));
    name("thread_sort_index", fmt::format("\"sort_index\":{}", stream_of(lane)));
  }

  /// What a GPU computes, what it sends, and what is neither.
  [[nodiscard]] static std::string_view category_of(op_kind kind) noexcept {
    if (kind == op_kind::reshard) return "memory";
    if (kind == op_kind::unshard || kind == op_kind::reduce_grad) return "communication";
    return pipesched::stream_of(kind) == stream::compute ? "computation" : "communication";
  }

  /// An op is one slice, and so is an overlapped pair: its members share one slot, and a slice cannot overlap another.
  void write_block(int lane, std::uint32_t first, std::uint32_t after) {
    op const o = graph_.node(node_id{first});
    measured_op const named{.what = o, .duration = 0, .partner = graph_.node(node_id{after - 1})};
    auto args = fmt::format("\"stage\":{},\"microbatch\":{},\"replica\":{}", o.stage(), o.microbatch(), o.replica());
    if (after - first == 2) {
      op const second = graph_.node(node_id{first + 1});
      detail::append(args, ",\"stage_2\":{},\"microbatch_2\":{},\"replica_2\":{}", second.stage(), second.microbatch(),
                     second.replica());
    } else if (graph_.streams() > 1) {
      detail::append(args, ",\"layer\":{}", graph_.layer(node_id{first}));
    }
    add("{{\"ph\":\"X\",\"name\":\"{}\",\"cat\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"args\":{{{}}}}}",
        measured_name(named), category_of(o.kind()), rank_of(lane), stream_of(lane),
        microseconds(times_.start(node_id{first})), microseconds(times_.duration(node_id{first})), args);
  }

  /// From each producer of a node. A viewer binds an arrow to the slice that its end lies in, and a slice's end is no
  /// longer in it: the arrow leaves a nanosecond, a trace's resolution, before.
  void write_flows(int lane, std::uint32_t node) {
    for (graph_link l : graph_.links_in(node_id{node})) {
      node_id const from{l.node()};
      int const from_lane = graph_.lane_of(from);
      double const start = microseconds(times_.start(from));
      double const leaves = std::max(start, microseconds(times_.end(from)) - 0.001);
      auto const kind = name_of(l.kind());
      add("{{\"ph\":\"s\",\"id\":{},\"name\":\"{}\",\"cat\":\"dependency\",\"pid\":{},\"tid\":{},\"ts\":{}}}", flow_,
          kind, rank_of(from_lane), stream_of(from_lane), leaves);
      add("{{\"ph\":\"f\",\"bp\":\"e\",\"id\":{},\"name\":\"{}\",\"cat\":\"dependency\",\"pid\":{},\"tid\":{},\"ts\":{}"
          "}}",
          flow_, kind, rank_of(lane), stream_of(lane), microseconds(times_.start(node_id{node})));
      ++flow_;
    }
  }

  op_graph const& graph_;
  timeline<T> const& times_;
  chrome_trace_options options_;
  std::string text_;
  bool any_ = false;
  std::int64_t flow_ = 1;
};

}  // namespace detail

/// The timeline in the trace event format: a process per rank, a thread per stream, a slice per op or overlapped pair,
/// named as torch writes it ("3F12", "(0F7;7B3)OVERLAP_F_B"), and a flow per dependency of another kind than the order
/// of a stream. Categories: "computation" (F, B, I, W, pairs, attention, MLP), "communication", "memory"
/// (resharding), "dependency". `times` must be a timeline of `graph`. Throws `parameter_error` for a unit that is
/// negative or makes the makespan infinite.
template <time_value T>
[[nodiscard]] std::string chrome_trace(op_graph const& graph, timeline<T> const& times,
                                       chrome_trace_options const& options = {}) {
  double const longest = std::max(1.0, static_cast<double>(times.makespan()));
  require(first_violation({at_least("microseconds_per_unit", options.microseconds_per_unit, 0.0),
                           at_most("microseconds_per_unit", options.microseconds_per_unit,
                                   std::numeric_limits<double>::max() / longest, "the makespan must be a number")}));
  return detail::chrome_trace_writer<T>(graph, times, options).write();
}

}  // namespace v0
}  // namespace pipesched
