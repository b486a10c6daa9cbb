// SPDX-License-Identifier: MIT
// Trains a small network over P threads with every built-in schedule: the loss and all gradients of each step must be
// those of the run without a pipeline.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "arguments.hpp"
#include "display.hpp"
#include "residual_mlp.hpp"
#include "stage_worker.hpp"

namespace {

using namespace training;
using namespace std::chrono_literals;

/// Matrices through the memory that the ranks share.
class shared_memory {
 public:
  shared_memory(pipesched::thread_transport<matrix>& mail, int rank) : mail_(mail), rank_(rank) {}

  void send(pipesched::transfer const& t, matrix payload) { mail_.send(t, std::move(payload)); }
  void receive(pipesched::transfer const&) {}
  pipesched::run_status wait(pipesched::transfer const& t, matrix& into) { return mail_.receive(rank_, t, into); }
  pipesched::run_status wait(pipesched::transfer const&) { return pipesched::run_status::completed; }
  void stop(pipesched::run_report const&) { mail_.stop(); }

 private:
  pipesched::thread_transport<matrix>& mail_;
  int rank_;
};

struct pipelined_step {
  step_result result;
  std::vector<std::vector<span>> spans;  // by rank
};

/// One step on threads. Throws where a rank does not complete.
pipelined_step run_step(network_shape const& shape, pipesched::communication_plan const& plan,
                        std::vector<block> const& parameters) {
  auto const& where = plan.where();
  pipesched::buffer_plan const buffers(plan);
  pipesched::thread_transport<matrix> mail(plan, 30s);
  std::vector<shared_memory> transports;
  std::vector<stage_worker<shared_memory>> workers;
  for (int rank = 0; rank < plan.ranks(); ++rank) transports.emplace_back(mail, rank);
  for (int rank = 0; rank < plan.ranks(); ++rank)
    workers.emplace_back(shape, where, plan.microbatches(), rank, parameters, transports[std::size_t(rank)]);

  auto const begin = std::chrono::steady_clock::now();
  for (auto& worker : workers) worker.start_clock(begin);
  auto const reports = pipesched::run_on_threads(plan.ranks(), [&](int rank) {
    return pipesched::run(pipesched::rank_program(plan, buffers, rank), workers[std::size_t(rank)]);
  });
  std::string failures;
  for (auto const& report : reports)
    if (!report) failures += (failures.empty() ? "" : "; ") + to_string(report);
  if (!failures.empty()) throw std::runtime_error(failures);

  pipelined_step step;
  step.result.gradients.assign(std::size_t(shape.stages), block::zero(shape));
  for (int stage = 0; stage < shape.stages; ++stage)
    for (int replica = 0; replica < where.replicas(); ++replica)
      step.result.gradients[std::size_t(stage)].add(
          workers[std::size_t(where.rank_of(stage, replica))].gradients(stage, replica));
  for (auto const& worker : workers) {
    step.result.loss += worker.loss();
    step.spans.push_back(worker.spans());
  }
  return step;
}

/// Trains with one schedule; returns whether every step was that of the plain run.
bool train(pipesched::schedule const& s, int steps, bool show) {
  constexpr double learning_rate = 0.2, tolerance = 1e-12;
  network_shape shape{.stages = s.stages()};
  if (show) {  // large enough for ops to take longer than waking up a thread
    shape.width = 64;
    shape.hidden = 128;
    shape.samples = 32;
  }
  auto const plan = pipesched::plan_communication(s);
  std::vector<block> parameters;
  for (int stage = 0; stage < shape.stages; ++stage) parameters.push_back(block::initial(shape, stage));

  std::vector<double> losses;
  pipelined_step step;
  double apart = 0;
  for (int done = 1; done <= steps; ++done) {
    step = run_step(shape, plan, parameters);
    apart = std::max(apart, difference(step.result, plain_step(shape, parameters, s.microbatches())));
    losses.push_back(step.result.loss);
    for (std::size_t stage = 0; stage < parameters.size(); ++stage)
      parameters[stage].add(step.result.gradients[stage], -learning_rate);
    if (show) show_progress(done, steps, step.result.loss);
  }
  bool const equal = apart <= tolerance;
  fmt::print("{:26} {} ranks, {} stages, {} microbatches: loss {:.6f} -> {:.6f}, {} the plain run (apart by {:.1e})\n",
             s.name(), s.ranks(), s.stages(), s.microbatches(), losses.front(), losses.back(),
             equal ? "equal to" : "NOT EQUAL to", apart);
  if (show) {
    show_curve(losses);
    show_timelines(s, step.spans);
  }
  return equal;
}

}  // namespace

int main(int argc, char** argv) {
  auto const number = [&](int i, char const* name, int otherwise) {
    return argc > i ? number_of(name, argv[i]) : otherwise;
  };
  try {
    for (int i = 1; i < argc; ++i)
      if (std::string_view const word = argv[i]; word == "--help" || word == "-h") {
        fmt::print("train_threads [SCHEDULE|all [RANKS [MICROBATCHES [STEPS]]]]\n");
        return EXIT_SUCCESS;
      }
    if (argc > 1 && is_option(argv[1])) refuse(argv[1]);
    if (argc > 5) refuse(argv[5]);
    int const ranks = number(2, "RANKS", 4), microbatches = number(3, "MICROBATCHES", 16),
              steps = number(4, "STEPS", 20);
    bool const all = argc == 1 || std::string_view(argv[1]) == "all";
    pipesched::shape const shape{.ranks = ranks, .microbatches = microbatches};
    if (steps < 1) throw std::invalid_argument("STEPS must be a number, at least 1");
    bool equal = true;
    if (!all) {
      bool const known = pipesched::with_schedule(
          argv[1], shape, [&](auto const& generator) { equal = train(pipesched::generate(generator), steps, true); });
      if (!known) throw std::invalid_argument(pipesched::unknown_schedule_message(argv[1]));
    } else {
      auto const usual = pipesched::make_generator<pipesched::one_f_one_b>(shape);  // allows what any does
      pipesched::for_each_schedule([&]<class Generator>() {
        if (auto const violation = pipesched::check_shape<Generator>(shape))
          fmt::print("{:26} left out: {}\n", Generator::info.name, violation->message());
        else
          equal &= train(pipesched::generate(pipesched::make_generator<Generator>(shape)), 2, false);
      });
      equal &= train(pipesched::generate(usual), steps, true);
    }
    return equal ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (std::exception const& error) {
    fmt::print(stderr, "train_threads: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
