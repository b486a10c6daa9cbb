// SPDX-License-Identifier: MIT
// Trains a small mixture-of-experts network over MPI: pipeline ranks times expert-parallel ranks, with dispatch and
// combine as MPI_Ialltoallv beside the other direction's computation. The loss and all gradients must be those of the
// run without either parallelism.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "moe_worker.hpp"
#include "mpi_run.hpp"

namespace {

using namespace moe;

using training::sum_on_first;

/// A worker that fails where it is asked to, at its last attention.
struct faulty_worker : worker {
  using worker::worker;
  std::function<void()> at_last_attention;
  std::int64_t last_microbatch = 0;

  void compute(event const& e) {
    if (e.what.kind() == op_kind::attention_forward && e.what.microbatch() == last_microbatch) at_last_attention();
    worker::compute(e);
  }
};

/// The mean time of an all-to-all of one microbatch's tokens with nothing beside it.
double time_of_exchange(network_shape const& shape, MPI_Comm experts) {
  constexpr int rounds = 50;
  int const each = shape.width * shape.tokens / shape.groups;
  std::vector<double> out(std::size_t(each * shape.groups)), in(out.size());
  MPI_Barrier(MPI_COMM_WORLD);
  auto const begin = MPI_Wtime();
  for (int round = 0; round < rounds; ++round)
    MPI_Alltoall(out.data(), each, MPI_DOUBLE, in.data(), each, MPI_DOUBLE, experts);
  return (MPI_Wtime() - begin) / rounds;
}

/// Exposed communication per pipeline rank: as measured, and as the means of all events predict.
void show_communication(network_shape const& shape, pipesched::op_graph const& graph, worker const& measured,
                        MPI_Comm experts, int rank, int group) {
  auto const exchange_time = time_of_exchange(shape, experts);
  auto const mean = [&](op_kind k) { return measured.mean_time(k); };
  pipesched::moe_cost<double> cost{.attention = mean(op_kind::attention_forward),
                                   .dispatch = exchange_time,
                                   .mlp = mean(op_kind::mlp_forward),
                                   .combine = exchange_time};
  cost.attention_backward_input = mean(op_kind::attention_backward_input);
  cost.attention_backward_weight = mean(op_kind::attention_backward_weight);
  cost.mlp_backward_input = mean(op_kind::mlp_backward_input);
  cost.mlp_backward_weight = mean(op_kind::mlp_backward_weight);
  auto const predicted = analyze_streams(graph, cost);
  int const ranks = graph.ranks();
  std::vector<double> exposed(std::size_t(ranks) * 2, 0);
  if (group == 0) {
    exposed[std::size_t(rank)] = measured.exposed_communication();
    exposed[std::size_t(ranks + rank)] = predicted.per_rank[std::size_t(rank)].exposed_communication();
  }
  exposed = sum_on_first(std::move(exposed));
  if (rank != 0 || group != 0) return;
  for (int r = 0; r < ranks; ++r)
    fmt::print("  rank {}: exposed communication {:.3f} ms measured, {:.3f} ms predicted\n", r,
               exposed[std::size_t(r)] * 1e3, exposed[std::size_t(ranks + r)] * 1e3);
}

/// One step of a schedule in this process; whether it was that of the plain run. Does not return where one fails.
bool train(pipesched::schedule const& s, MPI_Comm pipeline, MPI_Comm experts, training::command_line const& options) {
  int process = 0, rank = 0, group = 0, groups = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &process);
  MPI_Comm_rank(pipeline, &rank);
  MPI_Comm_rank(experts, &group);
  MPI_Comm_size(experts, &groups);
  network_shape const shape{.stages = s.stages(), .groups = groups};

  auto const graph = pipesched::lower_moe(s, {.layers = shape.layers});
  auto const different = pipesched::ranks_that_differ(MPI_COMM_WORLD, s.digest());
  if (!different.empty()) {
    if (std::find(different.begin(), different.end(), process) != different.end())
      fmt::print(stderr, "process {}: its schedule is not that of process 0 (digest {:016x})\n", process, s.digest());
    return false;
  }
  if (!pipesched::ranks_that_differ(experts, pipesched::collective_digest(graph, rank)).empty())
    throw std::runtime_error("the expert ranks do not run one order of collectives");

  // Equal times on every process make one order of all events.
  pipesched::execution_order const order(graph);
  auto const times = pipesched::make_timeline(graph, order, pipesched::moe_cost<>{});
  pipesched::event_program const program(graph, order, times, rank);
  pipesched::mpi_watch watch(MPI_COMM_WORLD, std::chrono::seconds(options.time_out));
  faulty_worker handler(shape, graph, pipeline, experts, watch);
  handler.last_microbatch = s.microbatches() - 1;
  handler.at_last_attention = [&] { training::fail_on_request(process, options); };
  training::interrupted_by_sigterm const guard(watch);
  auto const report = pipesched::run(program, handler);
  if (!report) training::give_up(report, options.time_out, fmt::format("expert rank {}, ", group));

  auto const loss = sum_on_first({handler.loss()}).front();
  bool const first = rank == 0 && group == 0;
  auto const plain = first ? plain_step(shape, s.microbatches()) : step_result{};
  double apart = first ? std::abs(loss - plain.loss) / plain.loss : 0;
  for (int l = 0; l < shape.stages * shape.layers; ++l) {
    auto const sum = sum_on_first(handler.gradients(l).flat());
    if (!first) continue;
    auto const expected = plain.gradients[std::size_t(l)].flat();
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      difference += (sum[i] - expected[i]) * (sum[i] - expected[i]);
      norm += expected[i] * expected[i];
    }
    apart = std::max(apart, std::sqrt(difference / norm));
  }
  int equal = apart <= 1e-12 ? 1 : 0;
  if (first)
    fmt::print("{:26} {} pipeline ranks, {} expert ranks, {} stages: loss {:.6f}, {} the plain run (apart by {:.1e})\n",
               s.name(), s.ranks(), groups, s.stages(), loss, equal != 0 ? "equal to" : "NOT EQUAL to", apart);
  show_communication(shape, graph, handler, experts, rank, group);
  MPI_Bcast(&equal, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return equal != 0;
}

constexpr auto usage = R"(mpirun -n PROCESSES train_moe [SCHEDULE|all [MICROBATCHES]] [options]

Four processes are two pipeline ranks times two expert-parallel ranks.

  --time-out SECONDS  the longest that a process waits for a message, 30 by default
  --differ R          process R takes another schedule
  --throw R           process R throws in the middle of the step
  --silent R          process R stops answering
  --die R             process R dies
)";

}  // namespace

int main(int argc, char** argv) {
  return training::run_over_mpi(argc, argv, "train_moe", usage, [](training::command_line const& options) {
    constexpr int expert_ranks = 2;
    int size = 0, world_rank = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    if (size % expert_ranks != 0) throw std::invalid_argument("the number of processes must be even");
    MPI_Comm pipeline = MPI_COMM_NULL, experts = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % expert_ranks, world_rank, &pipeline);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank / expert_ranks, world_rank, &experts);
    pipesched::shape const shape{.ranks = size / expert_ranks, .microbatches = options.microbatches};
    constexpr std::string_view of_all[] = {"dualpipe", "dualpipe-v", "1f1b", "zb-h1", "interleaved-1f1b-overlap"};
    bool equal = true;
    training::for_each_asked(options, shape, world_rank, of_all, [&]<class Generator>() {
      auto const generator = pipesched::make_generator<Generator>(options.shape_of(world_rank, shape));
      equal = equal && train(pipesched::generate(generator), pipeline, experts, options);
    });
    MPI_Comm_free(&pipeline);
    MPI_Comm_free(&experts);
    return equal;
  });
}
