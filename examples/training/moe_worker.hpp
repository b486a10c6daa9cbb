// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// One process of a pipeline with expert parallelism, as a handler of events: attention and experts on the compute
/// stream, dispatch and combine as non-blocking all-to-alls, results to other pipeline ranks as messages.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <utility>
#include <vector>

#include <pipesched/pipesched.hpp>
#include <pipesched/runtime/mpi.hpp>

#include "moe_model.hpp"

namespace moe {

using pipesched::event;
using pipesched::op_kind;

/// Where the tokens of one microbatch go in one layer, as one expert-parallel rank sees it. Tokens are exchanged sorted
/// by expert, which is by rank too.
struct routing {
  std::vector<int> sent;              ///< tokens of this rank, sorted by expert
  std::vector<int> received_experts;  ///< the expert of each token that comes here, by source and then expert
  std::vector<int> send_counts, receive_counts;  ///< numbers per rank, in doubles
  std::vector<int> send_offsets, receive_offsets;

  routing(network_shape const& shape, std::int64_t microbatch, int layer_index, int group) {
    auto const owner = [&](int expert) { return expert / shape.experts_per_rank(); };
    send_counts.assign(std::size_t(shape.groups), 0);
    receive_counts = send_counts;
    for (int source = 0; source < shape.groups; ++source)
      for (int expert = 0; expert < shape.experts; ++expert)
        for (int token = 0; token < shape.tokens; ++token) {
          if (expert_of(shape, microbatch, layer_index, source, token) != expert) continue;
          if (source == group) {
            sent.push_back(token);
            send_counts[std::size_t(owner(expert))] += shape.width;
          }
          if (owner(expert) == group) {
            received_experts.push_back(expert);
            receive_counts[std::size_t(source)] += shape.width;
          }
        }
    auto const offsets_of = [](std::vector<int> const& counts) {
      std::vector<int> offsets(1, 0);
      for (int count : counts) offsets.push_back(offsets.back() + count);
      return offsets;
    };
    send_offsets = offsets_of(send_counts);
    receive_offsets = offsets_of(receive_counts);
  }
};

/// An all-to-all under way; MPI reads and writes its memory until it is finished.
struct exchange {
  matrix out, in;
  MPI_Request request = MPI_REQUEST_NULL;
};

/// What a layer keeps of one microbatch.
struct layer_work {
  matrix x, t, a, z, y;                // of the forward: input, tanh, attention's output; experts' inputs and outputs
  matrix output_gradient, dp, dz, dq;  // of the backward: p, q before the tanhs
  std::map<op_kind, exchange> exchanges;
};

class worker {
 public:
  worker(network_shape const& shape, pipesched::op_graph const& graph, MPI_Comm pipeline, MPI_Comm experts,
         pipesched::mpi_watch& watch)
      : shape_(shape), graph_(graph), pipeline_(pipeline), experts_(experts), watch_(watch) {
    MPI_Comm_rank(pipeline, &rank_);
    MPI_Comm_rank(experts, &group_);
    auto const layers = std::size_t(shape.stages * shape.layers);
    for (std::size_t l = 0; l < layers; ++l) {
      parameters_.push_back(layer::initial(shape, int(l)));
      gradients_.push_back(layer::zero(shape));
    }
    work_.resize(layers * std::size_t(graph.microbatches()));
  }

  // ---- What `pipesched::run` calls
  // -------------------------------------------------------------------------------------

  void compute(event const& e) {
    auto const begin = now();
    auto& w = work_of(e);
    auto const& p = parameters_[index_of(e)];
    auto& g = gradients_[index_of(e)];
    switch (e.what.kind()) {
      case op_kind::attention_forward:
        if (index_of(e) == 0) w.x = sample_of(shape_, e.what.microbatch(), group_).input;
        w.t = (p.attention * w.x).array().tanh();
        w.a = w.x + w.t;
        break;
      case op_kind::mlp_forward:
        w.y.resize(w.z.rows(), w.z.cols());
        for_each_received(e, [&](int column, std::size_t expert) {
          w.y.col(column) = (p.experts[expert] * w.z.col(column)).array().tanh();
        });
        break;
      case op_kind::mlp_backward_input: {
        matrix const dy = w.exchanges.at(op_kind::combine_backward).in;
        w.dp = dy.array() * (1 - w.y.array().square());
        w.dz.resize(w.dp.rows(), w.dp.cols());
        for_each_received(e, [&](int column, std::size_t expert) {
          w.dz.col(column) = p.experts[expert].transpose() * w.dp.col(column);
        });
        break;
      }
      case op_kind::mlp_backward_weight:
        for_each_received(e, [&](int column, std::size_t expert) {
          g.experts[expert] += w.dp.col(column) * w.z.col(column).transpose();
        });
        break;
      case op_kind::attention_backward_input: {
        matrix const da = w.output_gradient + to_tokens(e, w.exchanges.at(op_kind::dispatch_backward).in);
        w.dq = da.array() * (1 - w.t.array().square());
        pass_down(e, da + p.attention.transpose() * w.dq);
        break;
      }
      case op_kind::attention_backward_weight: g.attention += w.dq * w.x.transpose(); break;
      default: break;
    }
    auto& [time, count] = compute_times_[e.what.kind()];
    time += now() - begin;
    ++count;
  }

  void start(event const& e) {
    if (e.peer >= 0) {
      start_send(e);
      return;
    }
    auto& w = work_of(e);
    auto& ex = w.exchanges[e.what.kind()];
    switch (e.what.kind()) {
      case op_kind::dispatch_forward: to_experts(e, from_tokens(e, w.a), ex); return;
      case op_kind::combine_forward: to_owners(e, w.y, ex); return;
      case op_kind::combine_backward:
        if (is_last(e)) take_loss(e);
        to_experts(e, from_tokens(e, w.output_gradient), ex);
        return;
      case op_kind::dispatch_backward: to_owners(e, std::move(w.dz), ex); return;
      default: return;
    }
  }

  pipesched::run_status finish(event const& e) {
    auto const begin = now();
    if (e.peer >= 0) {
      auto const status = watch_.wait(sends_.at(e.message).request);
      if (status == pipesched::run_status::completed) sends_.erase(e.message);
      return status;
    }
    auto& w = work_of(e);
    auto& ex = w.exchanges.at(e.what.kind());
    auto const status = watch_.wait(ex.request);
    if (status != pipesched::run_status::completed) return status;
    exposed_ += now() - begin;
    if (e.what.kind() == op_kind::dispatch_forward) w.z = ex.in;
    if (e.what.kind() == op_kind::combine_forward) pass_up(e, w.a + to_tokens(e, ex.in));
    return status;
  }

  pipesched::run_status receive(event const& e) {
    bool const forward = e.what.kind() == op_kind::send_forward;
    auto const stage = e.what.stage() + (forward ? 1 : -1);
    auto& payload = received_.emplace_back(shape_.width, shape_.tokens);  // MPI's until it is there
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(payload.data(), int(payload.size()), MPI_DOUBLE, e.peer, int(e.message), pipeline_, &request);
    auto const status = watch_.wait(request);
    if (status != pipesched::run_status::completed) return status;
    auto& w = work_of(stage, forward ? 0 : shape_.layers - 1, e.what.microbatch());
    (forward ? w.x : w.output_gradient) = std::move(payload);
    received_.pop_back();
    return status;
  }

  void stop(pipesched::run_report const& report) { watch_.stop(report); }

  // ---- Results
  // -----------------------------------------------------------------------------------------------------------

  [[nodiscard]] double loss() const { return loss_; }
  [[nodiscard]] layer const& gradients(int layer_index) const { return gradients_[std::size_t(layer_index)]; }
  /// Seconds in which this process did nothing but wait for an all-to-all.
  [[nodiscard]] double exposed_communication() const { return exposed_; }
  /// The mean time of a kind of computation; 0 where there was none.
  [[nodiscard]] double mean_time(op_kind kind) const {
    auto const found = compute_times_.find(kind);
    return found == compute_times_.end() ? 0 : found->second.first / found->second.second;
  }

 private:
  [[nodiscard]] std::size_t index_of(event const& e) const {
    return std::size_t(e.what.stage() * shape_.layers + e.layer);
  }
  [[nodiscard]] bool is_last(event const& e) const { return index_of(e) + 1 == parameters_.size(); }
  layer_work& work_of(event const& e) { return work_of(e.what.stage(), e.layer, e.what.microbatch()); }
  layer_work& work_of(int stage, int layer_in_stage, std::int64_t microbatch) {
    return work_[std::size_t(stage * shape_.layers + layer_in_stage) * std::size_t(graph_.microbatches()) +
                 std::size_t(microbatch)];
  }
  [[nodiscard]] routing routing_of(event const& e) const {
    return {shape_, e.what.microbatch(), int(index_of(e)), group_};
  }
  [[nodiscard]] static double now() { return MPI_Wtime(); }

  template <class Visit>
  void for_each_received(event const& e, Visit&& visit) const {
    int column = 0;
    for (int expert : routing_of(e).received_experts) visit(column++, std::size_t(expert));
  }

  /// Columns in the order in which they are exchanged, and back.
  [[nodiscard]] matrix from_tokens(event const& e, matrix const& tokens) const {
    matrix sorted(tokens.rows(), tokens.cols());
    int column = 0;
    for (int token : routing_of(e).sent) sorted.col(column++) = tokens.col(token);
    return sorted;
  }
  [[nodiscard]] matrix to_tokens(event const& e, matrix const& sorted) const {
    matrix tokens(sorted.rows(), sorted.cols());
    int column = 0;
    for (int token : routing_of(e).sent) tokens.col(token) = sorted.col(column++);
    return tokens;
  }

  void to_experts(event const& e, matrix columns, exchange& ex) {
    auto const r = routing_of(e);
    begin_exchange(std::move(columns), ex, r.send_counts, r.send_offsets, r.receive_counts, r.receive_offsets);
  }
  void to_owners(event const& e, matrix columns, exchange& ex) {
    auto const r = routing_of(e);
    begin_exchange(std::move(columns), ex, r.receive_counts, r.receive_offsets, r.send_counts, r.send_offsets);
  }
  void begin_exchange(matrix columns, exchange& ex, std::vector<int> const& out_counts,
                      std::vector<int> const& out_offsets, std::vector<int> const& in_counts,
                      std::vector<int> const& in_offsets) {
    // MPI may read the counts until the exchange is finished: they stay for the step.
    auto const& counts = counts_.emplace_back(std::vector{out_counts, out_offsets, in_counts, in_offsets});
    ex.out = std::move(columns);
    ex.in.resize(shape_.width, in_offsets.back() / shape_.width);
    MPI_Ialltoallv(ex.out.data(), counts[0].data(), counts[1].data(), MPI_DOUBLE, ex.in.data(), counts[2].data(),
                   counts[3].data(), MPI_DOUBLE, experts_, &ex.request);
  }

  /// A layer's output is the next layer's input: here, or for a message.
  void pass_up(event const& e, matrix output) {
    if (is_last(e)) {
      work_of(e).output_gradient = std::move(output);  // until the loss is taken
    } else if (e.layer + 1 < shape_.layers) {
      work_of(e.what.stage(), e.layer + 1, e.what.microbatch()).x = std::move(output);
    } else {
      outputs_[{e.what.stage(), e.what.microbatch(), true}] = output;
      work_of(e.what.stage() + 1, 0, e.what.microbatch()).x = std::move(output);
    }
  }
  void pass_down(event const& e, matrix gradient) {
    if (e.layer > 0) {
      work_of(e.what.stage(), e.layer - 1, e.what.microbatch()).output_gradient = std::move(gradient);
    } else if (e.what.stage() > 0) {
      outputs_[{e.what.stage(), e.what.microbatch(), false}] = gradient;
      work_of(e.what.stage() - 1, shape_.layers - 1, e.what.microbatch()).output_gradient = std::move(gradient);
    }
  }

  void take_loss(event const& e) {
    auto& output = work_of(e).output_gradient;
    auto const target = sample_of(shape_, e.what.microbatch(), group_).target;
    auto const samples = samples_of(shape_, graph_.microbatches());
    loss_ += loss_of(output, target, samples);
    output = (output - target) / samples;
  }

  void start_send(event const& e) {
    bool const forward = e.what.kind() == op_kind::send_forward;
    auto& sending = sends_[e.message];
    sending.out = outputs_.at({e.what.stage(), e.what.microbatch(), forward});
    MPI_Isend(sending.out.data(), int(sending.out.size()), MPI_DOUBLE, e.peer, int(e.message), pipeline_,
              &sending.request);
  }

  struct output_key {
    int stage;
    std::int64_t microbatch;
    bool forward;
    auto operator<=>(output_key const&) const = default;
  };

  network_shape shape_;
  pipesched::op_graph const& graph_;
  MPI_Comm pipeline_, experts_;
  pipesched::mpi_watch& watch_;
  int rank_ = 0, group_ = 0;
  std::vector<layer> parameters_, gradients_;  // of all layers; those of other ranks stay as they are
  std::vector<layer_work> work_;               // by layer and microbatch
  std::map<output_key, matrix> outputs_;       // of stages, for messages
  std::map<std::uint32_t, exchange> sends_;    // by message
  std::list<matrix> received_;                 // what is being received
  std::list<std::vector<std::vector<int>>> counts_;
  std::map<op_kind, std::pair<double, int>> compute_times_;  // sum and number
  double loss_ = 0;
  double exposed_ = 0;
};

}  // namespace moe
