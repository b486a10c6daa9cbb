// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Lowering of chunk ops to the events of mixture-of-experts layers, on three streams per rank.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/graph/edge.hpp>
#include <pipesched/graph/graph_builder.hpp>
#include <pipesched/graph/moe_events.hpp>
#include <pipesched/graph/moe_pair_order.hpp>
#include <pipesched/graph/op_graph.hpp>

namespace pipesched {
inline namespace v0 {

/// How chunks become events.
struct moe_options {
  /// Layers of every stage, 1..65536.
  int layers = 1;
  /// Layers of each stage, where they differ; else empty.
  detail::vector<int> layers_by_stage = {};
  /// The order of an overlapped pair's events; by default that of DeepSeek-V3, figure 4.
  moe_pair_order pair_order = {};
  /// Whether the communication that ends a chunk (the combine of its last forward layer) runs into the rank's next op.
  /// By default it blocks: the next op starts when the chunk has ended, as where a framework calls the collective on
  /// the compute stream.
  bool asynchronous_last_communication = false;

  [[nodiscard]] constexpr int layers_of(int stage) const noexcept {
    return layers_by_stage.empty() ? layers : layers_by_stage[std::size_t(stage)];
  }
  [[nodiscard]] constexpr check_result check(int stages) const {
    if (!layers_by_stage.empty() && layers_by_stage.size() != std::size_t(stages))
      return parameter_violation{"layers_by_stage (size)", layers_by_stage.size(), "must be", stages, "stages"};
    auto const bounds = [](int count) {
      return first_violation({at_least("layers", count, 1), at_most("layers", count, 65536)});
    };
    for (int count : layers_by_stage)
      if (auto wrong = bounds(count)) return wrong;
    return first_violation({layers_by_stage.empty() ? bounds(layers) : check_result{}, pair_order.check()});
  }
};

namespace detail {

class moe_lowering {
 public:
  constexpr moe_lowering(op_graph const& graph, moe_options const& options)
      : graph_(graph),
        options_(options),
        pair_order_(options.pair_order.rotated()),
        out_(graph.where(), graph.microbatches(), graph.name(), 3),
        chunks_(graph.size(), chunk{}),
        sends_(graph.places_out(), handle{0}) {}

  constexpr op_graph run() {
    for (int rank = 0; rank < graph_.ranks(); ++rank) lower_rank(rank);
    for (std::uint32_t node = 0; node < graph_.size(); ++node) connect_consumers(node);
    for (auto const& m : graph_.missing()) out_.add_missing(chunks_[m.node.value].begin.at[0].node, m.expected);
    return out_.build();
  }

 private:
  using handle = graph_builder::handle;

  struct placed_event {
    handle node{0};
    stream on = stream::compute;
  };
  /// The events that a chunk or pair begins or ends with: at most one on each of two streams.
  struct ports {
    std::array<placed_event, 2> at{};
    std::size_t count = 0;
    constexpr void add(placed_event e) { at[count++] = e; }
    [[nodiscard]] constexpr auto begin() const { return at.begin(); }
    [[nodiscard]] constexpr auto end() const { return at.begin() + std::ptrdiff_t(count); }
  };
  /// What the rest of the graph sees of a lowered chunk.
  struct chunk {
    ports begin;   ///< wait for what the chunk needs
    ports output;  ///< what needs the chunk waits for these
  };
  /// A chunk alone or an overlapped pair, as the next op of its rank sees it.
  struct block {
    ports begin;
    ports end;
  };

  constexpr void lower_rank(int rank) {
    auto const end = graph_.lane_end(rank);
    block before;  // of the first: none
    for (auto node = graph_.lane_begin(rank); node < end;) {
      bool const pair = graph_.opens_pair(node, end);
      auto const lowered = pair ? lower_pair(node, rank) : lower_alone(node, rank);
      make_wait(before, lowered);
      // Of a pair the backward's result is sent first: without blocking it may be there first.
      if (pair) {
        bool const forward_first = graph_.node(node_id{node}).kind() == op_kind::forward;
        send_results(node + forward_first, rank);
        send_results(node + !forward_first, rank);
      } else {
        send_results(node, rank);
      }
      before = lowered;
      node += pair ? 2 : 1;
    }
  }

  /// The next op starts when `before` has ended, or, asynchronously, when its computation has. On one stream that
  /// follows from the order of the nodes.
  constexpr void make_wait(block const& before, block const& next) {
    for (auto const& last : before.end)
      for (auto const& first : next.begin) {
        bool const waits = last.on == stream::compute || !options_.asynchronous_last_communication;
        if (last.on != first.on && waits) out_.add_edge(last.node, first.node, edge_kind::chunk);
      }
  }

  /// A chunk outside a pair: its events follow one another. An op that is no chunk stays as it is.
  constexpr block lower_alone(std::uint32_t node, int rank) {
    op const o = graph_.node(node_id{node});
    block result;
    placed_event last;
    auto const append = [&](placed_event e) {
      if (result.begin.count == 0)
        result.begin.add(e);
      else
        out_.add_edge(last.node, e.node, edge_kind::chunk);
      last = e;
    };
    if (is_chunk_op(o.kind()))
      for_each_event(o.kind(), options_.layers_of(o.stage()),
                     [&](moe_event e) { append(add(o.as(e.kind), rank, e.layer)); });
    else
      append(placed_event{out_.add(o.alone(), rank), stream::compute});
    result.end.add(last);
    chunks_[node] = chunk{result.begin, result.end};
    return result;
  }

  /// An overlapped pair: one block of two interleaved chunks, its order repeated for each layer; where one chunk has
  /// more layers, they come last.
  constexpr block lower_pair(std::uint32_t node, int rank) {
    op const first = graph_.node(node_id{node});
    op const second = graph_.node(node_id{node + 1});
    bool const forward_first = first.kind() == op_kind::forward;
    op const f = forward_first ? first : second;
    op const b = forward_first ? second : first;
    if (f.kind() != op_kind::forward || !carries_gradient(b.kind()))
      PIPESCHED_FAIL(schedule_error(std::string("the pair (")
                                        .append(to_string(first))
                                        .append(";")
                                        .append(to_string(second))
                                        .append(") on rank ")
                                        .append(std::to_string(rank))
                                        .append(" cannot be lowered: it is not one forward and one backward")));
    int const f_layers = options_.layers_of(f.stage());
    int const b_layers = options_.layers_of(b.stage());
    int const layers = std::max(f_layers, b_layers);
    pair_events_.assign(std::size_t(pair_event_kinds) * std::size_t(layers), handle{0});
    auto const event = [&](moe_event e) -> handle& {
      return pair_events_[std::size_t(e.layer) * pair_event_kinds + std::size_t(number_of(e.kind))];
    };

    block result;
    chunk forward_chunk;
    chunk backward_chunk;
    auto const for_each_pair_event = [&](auto const& order, auto&& visit) {
      for (int round = 0; round < layers; ++round)
        for (op_kind kind : order) {
          bool const is_forward = pass_of(kind) == pass::forward;
          if (pass_of(kind) == pass::backward_weight && b.kind() == op_kind::backward_input) continue;
          if (round < (is_forward ? f_layers : b_layers))
            visit(moe_event{kind, is_forward ? round : b_layers - 1 - round}, is_forward);
        }
    };
    auto const fill_stream = [&](auto const& order) {
      placed_event last;
      placed_event last_forward;
      placed_event last_backward;
      bool empty = true;
      for_each_pair_event(order, [&](moe_event e, bool is_forward) {
        last = add((is_forward ? f : b).as(e.kind).put_in_pair(), rank, e.layer);
        event(e) = last.node;
        (is_forward ? last_forward : last_backward) = last;
        if (std::exchange(empty, false)) result.begin.add(last);
      });
      result.end.add(last);
      // A forward ends with a combine, a backward with the computation of its first layer's attention.
      if (last.on == stream::compute)
        backward_chunk.output.add(last_backward);
      else
        forward_chunk.output.add(last_forward);
    };
    fill_stream(pair_order_.compute);
    fill_stream(pair_order_.all_to_all);

    auto const add_data_edge = [&](moe_event e, bool is_forward) {
      if (auto const needed = needed_in_chunk(e, is_forward ? f_layers : b_layers); needed != e)
        out_.add_edge(event(needed), event(e), edge_kind::chunk);
    };
    for_each_pair_event(pair_order_.compute, add_data_edge);
    for_each_pair_event(pair_order_.all_to_all, add_data_edge);

    // One block: it begins when both chunks can, and both results appear at its end.
    forward_chunk.begin = backward_chunk.begin = result.begin;
    if (!options_.asynchronous_last_communication) forward_chunk.output = backward_chunk.output = result.end;
    chunks_[forward_first ? node : node + 1] = forward_chunk;
    chunks_[forward_first ? node + 1 : node] = backward_chunk;
    return result;
  }

  /// One transfer on the p2p stream for each result that another rank needs.
  constexpr void send_results(std::uint32_t node, int rank) {
    op const o = graph_.node(node_id{node});
    for (graph_link const& l : graph_.links_out(node_id{node})) {
      if (!is_transfer(l)) continue;
      auto const kind = l.kind() == edge_kind::activation ? op_kind::send_forward : op_kind::send_backward;
      auto const send = add(o.as(kind), rank, 0).node;
      for (auto const& e : chunks_[node].output) out_.add_edge(e.node, send, edge_kind::chunk);
      sends_[graph_.place_of(l)] = send;
    }
  }

  /// The edges between chunks keep their type.
  constexpr void connect_consumers(std::uint32_t node) {
    for (graph_link const& l : graph_.links_out(node_id{node}))
      for (auto const& to : chunks_[l.node()].begin) {
        if (is_transfer(l))
          out_.add_edge(sends_[graph_.place_of(l)], to.node, l.kind());
        else
          for (auto const& from : chunks_[node].output) out_.add_edge(from.node, to.node, l.kind());
      }
  }

  constexpr placed_event add(op event, int rank, int layer) {
    auto const on = stream_of(event.kind());
    return {out_.add(event, rank, on, layer), on};
  }
  [[nodiscard]] static constexpr bool is_transfer(graph_link l) noexcept {
    return l.remote() && (l.kind() == edge_kind::activation || l.kind() == edge_kind::gradient);
  }

  op_graph const& graph_;
  moe_options const& options_;
  moe_pair_order pair_order_;
  graph_builder out_;
  vector<chunk> chunks_;
  vector<handle> sends_;        // by place of the link, of those that are transfers
  vector<handle> pair_events_;  // of the pair that is being lowered, by layer and kind
};

/// The most nodes that lowering can make.
constexpr std::int64_t most_moe_nodes(op_graph const& graph, moe_options const& options) {
  auto count = std::int64_t(graph.link_count());
  for (op o : graph.nodes())
    count += is_chunk_op(o.kind()) ? std::int64_t{events_per_layer(o.kind())} * options.layers_of(o.stage()) : 1;
  return count;
}

}  // namespace detail

/// \name A graph of chunk ops as a graph of mixture-of-experts events
///
/// Each chunk op becomes attention, dispatch, MLP and combine of each of its layers: a forward up the layers, a
/// backward for the input down them, and the weights' events of attention and MLP in W, or in B right after those for
/// the input. Attention and MLP run on the compute stream, dispatch and combine on the all-to-all stream; a result
/// that another rank needs is a send on the p2p stream, which the consumer's first event waits for.
///
/// Outside a pair, the events of a chunk follow one another, and the rank's next op starts when the chunk has ended.
/// An overlapped pair is one block: it begins when both its chunks can, runs `pair_order` for each layer, and both
/// results appear at its end. The compute events of a pair are marked `op::in_pair()`, so that a cost model can slow
/// down what runs beside communication. With `asynchronous_last_communication` a chunk's last combine runs beside the
/// next op, and each result of a pair appears when its own last event ends.
///
/// All waiting is by edges and by the order on each stream, never by times: every rank of one expert-parallel group
/// runs the program of the same pipeline rank, and so issues its collectives in the same order,
/// `lowered.program(rank, stream::all_to_all)`, whatever a straggler does; see `collective_digest`.
///
/// The result's memory, bubble and steady phase are those of the chunk graph, under event times.
/// Throws `parameter_error` for options out of bounds, a graph that is lowered already, or too many events;
/// `schedule_error` for a pair that is not one forward and one backward.
/// \{
[[nodiscard]] constexpr op_graph lower_moe(op_graph const& graph, moe_options const& options = {}) {
  require(first_violation(
      {at_most("streams", graph.streams(), 1, "a graph is lowered once"), options.check(graph.stages())}));
  require(at_most("events", detail::most_moe_nodes(graph, options), max_nodes));
  return detail::moe_lowering(graph, options).run();
}
[[nodiscard]] constexpr op_graph lower_moe(schedule const& s, moe_options const& options = {}) {
  return lower_moe(build_graph(s), options);
}
template <schedule_generator G>
[[nodiscard]] constexpr op_graph lower_moe(G const& generator, moe_options const& options = {}) {
  return lower_moe(build_graph(generator), options);
}
/// \}

/// A digest of the order in which a rank issues its all-to-alls: the members of an expert-parallel group compare it
/// before the step, and none of them hangs in another's collective. The same on every compiler.
[[nodiscard]] constexpr std::uint64_t collective_digest(op_graph const& lowered, int rank) {
  digest result;
  auto const lane = lowered.lane_of(rank, stream::all_to_all);
  for (auto n = lowered.lane_begin(lane); n < lowered.lane_end(lane); ++n) {
    result.add(lowered.node(node_id{n}).packed());
    result.add(std::uint64_t(lowered.layer(node_id{n})));
  }
  return result.value();
}

}  // namespace v0
}  // namespace pipesched
