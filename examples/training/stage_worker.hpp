// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// One rank's stages as a handler for `pipesched::run`: the compute of every op. How messages move is the transport's.

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include <pipesched/pipesched.hpp>

#include "residual_mlp.hpp"

namespace training {

/// What an op took, in seconds since the worker was made.
struct span {
  pipesched::op what;
  double begin;
  double end;
};

/// Holds the copies of stages that the placement gives to a rank, and runs their ops. `Transport` moves matrices:
/// `send(transfer, matrix)`, `receive(transfer)`, `wait(transfer, matrix&)` for a receive, `wait(transfer)` for a send,
/// and `stop(report)`.
template <class Transport>
class stage_worker {
 public:
  stage_worker(network_shape const& shape, pipesched::placement const& where, std::int64_t microbatches, int rank,
               std::vector<block> const& parameters, Transport& transport)
      : shape_(shape),
        microbatches_(microbatches),
        transport_(transport),
        copies_(std::size_t(shape.stages * where.replicas())),
        work_(std::size_t(shape.stages) * std::size_t(microbatches)) {
    for (auto [stage, replica] : where.held_by(rank))
      copies_[index(stage, replica)] = {parameters[std::size_t(stage)], block::zero(shape)};
  }

  // ---- Compute: what `pipesched::run` calls for each op
  // --------------------------------------------------------------

  void forward(pipesched::op o) {
    auto& w = work_of(o);
    auto input = o.stage() == 0 ? sample_of(shape_, o.microbatch()).input : std::move(w.input);
    w.output = training::forward(copy_of(o).parameters, std::move(input), w.kept);
    if (o.stage() + 1 < shape_.stages) return pass_on_locally(o, o.stage() + 1);
    auto const target = sample_of(shape_, o.microbatch()).target;
    loss_ += loss_of(w.output, target, microbatches_);
    w.output_gradient = loss_gradient(w.output, target, microbatches_);
  }
  void backward_input(pipesched::op o) {
    auto& w = work_of(o);
    w.input_gradient = training::backward_input(copy_of(o).parameters, std::move(w.output_gradient), w.kept);
    if (o.stage() > 0) pass_on_locally(o, o.stage() - 1);
  }
  void backward_weight(pipesched::op o) { training::backward_weight(work_of(o).kept, copy_of(o).gradients); }
  void backward(pipesched::op o) {
    backward_input(o);
    backward_weight(o);
  }

  // ---- Messages
  // -------------------------------------------------------------------------------------------------------

  auto send(pipesched::transfer const& t) {
    auto& w = work_of(t.producer);
    return transport_.send(t,
                           std::move(pass_of(t.what.kind()) == pipesched::pass::forward ? w.output : w.input_gradient));
  }
  auto receive(pipesched::transfer const& t) { return transport_.receive(t); }
  pipesched::run_status wait(pipesched::transfer const& t) {
    if (!pipesched::is_receive(t.what.kind())) return transport_.wait(t);
    auto& w = work_of(t.consumer);
    return transport_.wait(t, pass_of(t.what.kind()) == pipesched::pass::forward ? w.input : w.output_gradient);
  }
  void stop(pipesched::run_report const& report) { transport_.stop(report); }

  // ---- Profile
  // ---------------------------------------------------------------------------------------------------------

  void before(pipesched::op o) {
    if (is_chunk_op(o.kind())) spans_.push_back({o, now(), 0});
  }
  void after(pipesched::op o) {
    for (auto s = spans_.rbegin(); s != spans_.rend(); ++s)
      if (s->what == o) {
        s->end = now();
        return;
      }
  }
  void start_clock(std::chrono::steady_clock::time_point begin) { begin_ = begin; }
  [[nodiscard]] std::vector<span> const& spans() const { return spans_; }

  /// The sum of the losses of the microbatches whose last stage is here.
  [[nodiscard]] double loss() const { return loss_; }
  [[nodiscard]] block const& gradients(int stage, int replica) const {
    return copies_[index(stage, replica)].gradients;
  }

 private:
  struct stage_copy {
    block parameters, gradients;
  };
  /// One stage's matrices of one microbatch, as far as they are alive.
  struct stage_work {
    matrix input, output, output_gradient, input_gradient;
    stash kept;
  };

  [[nodiscard]] std::size_t index(int stage, int replica) const { return std::size_t(replica * shape_.stages + stage); }
  stage_copy& copy_of(pipesched::op o) { return copies_[index(o.stage(), o.replica())]; }
  stage_work& work_of(pipesched::op o) { return work_of(o.stage(), o.microbatch()); }
  stage_work& work_of(int stage, std::int64_t microbatch) {
    return work_[std::size_t(stage) * std::size_t(microbatches_) + std::size_t(microbatch)];
  }

  /// A neighbouring stage on the same rank gets its matrix without a message.
  void pass_on_locally(pipesched::op o, int to) {
    if (copies_[index(to, o.replica())].parameters.w1.size() == 0) return;
    auto& from = work_of(o);
    auto& next = work_of(to, o.microbatch());
    if (to > o.stage())
      next.input = std::move(from.output);
    else
      next.output_gradient = std::move(from.input_gradient);
  }

  [[nodiscard]] double now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  network_shape shape_;
  std::int64_t microbatches_;
  Transport& transport_;
  std::vector<stage_copy> copies_;  // by replica and stage; empty where they are on another rank
  std::vector<stage_work> work_;    // by stage and microbatch
  double loss_ = 0;
  std::vector<span> spans_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace training
