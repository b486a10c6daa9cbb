// SPDX-License-Identifier: MIT
// Trains a small network over MPI, one process a rank, with every built-in schedule: the loss and all gradients must be
// those of the run without a pipeline.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <pipesched/runtime/mpi.hpp>

#include "mpi_run.hpp"
#include "residual_mlp.hpp"
#include "stage_worker.hpp"

namespace {

using namespace training;

/// Matrices through the slots of an `mpi_transport`.
class mpi_matrices {
 public:
  mpi_matrices(pipesched::mpi_transport& transport, network_shape const& shape)
      : transport_(transport), shape_(shape) {}

  pipesched::run_status send(pipesched::transfer const& t, matrix const& payload) {
    std::memcpy(transport_.slot(t).data(), payload.data(), transport_.slot(t).size());
    return transport_.send(t);
  }
  pipesched::run_status receive(pipesched::transfer const& t) { return transport_.receive(t); }
  pipesched::run_status wait(pipesched::transfer const& t, matrix& into) {
    auto const status = transport_.wait(t);
    if (status != pipesched::run_status::completed) return status;
    into.resize(shape_.width, shape_.samples);
    std::memcpy(into.data(), transport_.slot(t).data(), transport_.slot(t).size());
    return status;
  }
  pipesched::run_status wait(pipesched::transfer const& t) { return transport_.wait(t); }
  void stop(pipesched::run_report const& report) { transport_.stop(report); }

 private:
  pipesched::mpi_transport& transport_;
  network_shape shape_;
};

/// A worker that fails where it is asked to, at its last forward.
struct faulty_worker : stage_worker<mpi_matrices> {
  using stage_worker::stage_worker;
  std::function<void()> at_last_forward;
  std::int64_t last_microbatch = 0;

  void forward(pipesched::op o) {
    if (o.microbatch() == last_microbatch) at_last_forward();
    stage_worker::forward(o);
  }
};

/// One step of a schedule on this rank; whether it was that of the plain run. Does not return where a rank fails.
bool train(pipesched::schedule const& s, int rank, command_line const& options) {
  auto const different = pipesched::ranks_that_differ(MPI_COMM_WORLD, s.digest());
  if (!different.empty()) {
    bool const named = std::find(different.begin(), different.end(), rank) != different.end();
    if (named) fmt::print(stderr, "rank {}: its schedule is not that of rank 0 (digest {:016x})\n", rank, s.digest());
    return false;
  }

  constexpr std::int64_t send_budget = 4;
  network_shape const shape{.stages = s.stages()};
  auto const plan = *pipesched::with_send_budget(pipesched::plan_communication(s), send_budget).plan;
  pipesched::buffer_plan const buffers(plan);
  pipesched::rank_program const program(plan, buffers, rank);
  pipesched::mpi_transport transport(MPI_COMM_WORLD, program, buffers,
                                     sizeof(double) * std::size_t(shape.width * shape.samples),
                                     std::chrono::seconds(options.time_out));
  mpi_matrices matrices(transport, shape);
  std::vector<block> parameters;
  for (int stage = 0; stage < shape.stages; ++stage) parameters.push_back(block::initial(shape, stage));
  faulty_worker worker(shape, s.where(), s.microbatches(), rank, parameters, matrices);
  worker.last_microbatch = s.microbatches() - 1;
  worker.at_last_forward = [&] { fail_on_request(rank, options); };

  interrupted_by_sigterm const guard(transport.watch());
  auto const report = pipesched::run(program, worker);
  if (!report) give_up(report, options.time_out);

  step_result result{sum_on_first({worker.loss()}).front(), {}};
  for (int stage = 0; stage < shape.stages; ++stage) {
    auto gradient = block::zero(shape);
    for (int replica = 0; replica < s.where().replicas(); ++replica)
      if (s.where().rank_of(stage, replica) == rank) gradient.add(worker.gradients(stage, replica));
    gradient.assign(sum_on_first(gradient.flat()));
    result.gradients.push_back(std::move(gradient));
  }
  int equal = 1;
  if (rank == 0) {
    auto const apart = difference(result, plain_step(shape, parameters, s.microbatches()));
    equal = apart <= 1e-12 ? 1 : 0;
    fmt::print("{:26} {} ranks, {} microbatches: loss {:.6f}, {} the plain run (apart by {:.1e})\n", s.name(),
               s.ranks(), s.microbatches(), result.loss, equal != 0 ? "equal to" : "NOT EQUAL to", apart);
  }
  MPI_Bcast(&equal, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return equal != 0;
}

constexpr auto usage = R"(mpirun -n RANKS train_mpi [SCHEDULE|all [MICROBATCHES]] [options]

  --time-out SECONDS  the longest that a rank waits for a message, 30 by default
  --differ R          rank R takes another schedule
  --throw R           rank R throws in the middle of the step
  --silent R          rank R stops answering
  --die R             rank R dies
)";

}  // namespace

int main(int argc, char** argv) {
  return run_over_mpi(argc, argv, "train_mpi", usage, [](command_line const& options) {
    int ranks = 0, rank = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pipesched::shape const shape{.ranks = ranks, .microbatches = options.microbatches};
    bool equal = true;
    for_each_asked(options, shape, rank, pipesched::schedule_names, [&]<class Generator>() {
      auto const generator = pipesched::make_generator<Generator>(options.shape_of(rank, shape));
      equal = equal && train(pipesched::generate(generator), rank, options);
    });
    return equal;
  });
}
