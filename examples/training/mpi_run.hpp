// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What both training programs over MPI do beside training: sums on the first rank, and the end when a rank fails.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/core.h>
#include <pipesched/core/error.hpp>
#include <pipesched/runtime/mpi.hpp>
#include <pipesched/schedules/registry.hpp>

#include "arguments.hpp"

namespace training {

/// Schedule, microbatches, and the options with which a process is made to fail; -1 where none is.
struct command_line {
  std::string schedule = "all";
  int microbatches = 8;
  int time_out = 30;  // seconds
  int differing = -1, throwing = -1, silent = -1, dying = -1;
  bool help = false;

  /// Throws `invalid_argument` for what is no argument, and for a number that is none.
  command_line(int argc, char** argv) {
    int positional = 0;
    for (int i = 1; i < argc; ++i) {
      std::string_view const word = argv[i];
      int* const option = word == "--time-out" ? &time_out
                          : word == "--differ" ? &differing
                          : word == "--throw"  ? &throwing
                          : word == "--silent" ? &silent
                          : word == "--die"    ? &dying
                                               : nullptr;
      if (word == "--help" || word == "-h") {
        help = true;
      } else if (option != nullptr) {
        *option = number_of(word, i + 1 < argc ? argv[i + 1] : "nothing");
        ++i;
      } else if (is_option(word) || positional == 2) {
        refuse(word);
      } else if (positional++ == 0) {
        schedule = word;
      } else {
        microbatches = number_of("MICROBATCHES", word);
      }
    }
  }

  /// What is out of its bounds in a job of `processes`.
  [[nodiscard]] pipesched::check_result check(int processes) const {
    auto const is_process = [&](std::string_view option, int process) {
      return pipesched::at_most(option, process, processes - 1, "processes - 1");
    };
    return pipesched::first_violation({pipesched::at_least("--time-out", time_out, 1),
                                       is_process("--differ", differing), is_process("--throw", throwing),
                                       is_process("--silent", silent), is_process("--die", dying)});
  }

  /// The shape of this process: another one where it is to differ.
  [[nodiscard]] pipesched::shape shape_of(int process, pipesched::shape common) const {
    if (process == differing) common.microbatches += 2;
    return common;
  }
};

/// Runs the `body` of a program over MPI between MPI_Init and MPI_Finalize, and returns its exit status.
/// `body(options)` says whether all went well. What is wrong with the arguments all processes find, and the first one
/// says.
template <class Body>
int run_over_mpi(int argc, char** argv, std::string_view program, std::string_view usage, Body&& body) {
  MPI_Init(&argc, &argv);
  int process = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &process);
  int processes = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  bool well = false;
  try {
    command_line const options(argc, argv);
    pipesched::require(options.check(processes));
    if (!options.help)
      well = body(options);
    else if (process == 0)
      fmt::print("{}", usage);
    well |= options.help;
  } catch (std::invalid_argument const& error) {
    if (process == 0) fmt::print(stderr, "{}: {}\n", program, error.what());
  } catch (std::exception const& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  }
  MPI_Finalize();
  return well ? EXIT_SUCCESS : EXIT_FAILURE;
}

/// Calls `step.template operator()<Generator>()` for the schedule that was asked for, or for all of them (`of_all`: of
/// these names) that the shape suits; of the others the first process says what they do not allow. Throws
/// `invalid_argument` for a schedule that is unknown, or does not allow the shape.
template <class Step>
void for_each_asked(command_line const& options, pipesched::shape const& shape, int process,
                    std::span<std::string_view const> of_all, Step&& step) {
  bool known = options.schedule == "all";
  if (known) pipesched::require(pipesched::check_shape<pipesched::one_f_one_b>(shape));  // it allows what any does
  pipesched::for_each_schedule([&]<class Generator>() {
    constexpr auto name = Generator::info.name;
    auto const violation = pipesched::check_shape<Generator>(shape);
    if (options.schedule == name) {
      known = true;
      pipesched::require(violation);
    } else if (options.schedule != "all" || std::find(of_all.begin(), of_all.end(), name) == of_all.end()) {
      return;
    } else if (violation) {
      if (process == 0) fmt::print("{:26} left out: {}\n", name, violation->message());
      return;
    }
    step.template operator()<Generator>();
  });
  if (!known) throw std::invalid_argument(pipesched::unknown_schedule_message(options.schedule));
}

/// Fails in the way that was asked for, if any was asked of this process.
inline void fail_on_request(int process, command_line const& options) {
  if (process == options.throwing) throw std::runtime_error("made to fail");
  if (process == options.dying) std::raise(SIGKILL);
  if (process == options.silent) std::this_thread::sleep_for(std::chrono::hours(1));
}

/// The sum over all processes, on the first.
inline std::vector<double> sum_on_first(std::vector<double> values) {
  std::vector<double> sum(values.size());
  MPI_Reduce(values.data(), sum.data(), int(values.size()), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  return sum;
}

/// While it lives, SIGTERM ends the waits of a rank, so that it says where it stands. mpirun sends that signal to the
/// ranks that are left when one dies.
class interrupted_by_sigterm {
 public:
  explicit interrupted_by_sigterm(pipesched::mpi_watch& watch) {
    current() = &watch;
    before_ = std::signal(SIGTERM, [](int) {
      if (auto* watched = current().load()) watched->interrupt();
    });
  }
  interrupted_by_sigterm(interrupted_by_sigterm const&) = delete;
  interrupted_by_sigterm& operator=(interrupted_by_sigterm const&) = delete;
  ~interrupted_by_sigterm() {
    std::signal(SIGTERM, before_);
    current() = nullptr;
  }

 private:
  static std::atomic<pipesched::mpi_watch*>& current() {
    static std::atomic<pipesched::mpi_watch*> watch = nullptr;
    return watch;
  }
  void (*before_)(int);
};

/// Says how this rank's run ended, and ends all of them. `who`: what tells this process from others of its rank.
[[noreturn]] inline void give_up(pipesched::run_report const& report, int time_out, std::string const& who = {}) {
  fmt::print(stderr, "{}{}\n", who, to_string(report));
  std::fflush(stderr);
  // The others report too before the first MPI_Abort ends all of them.
  std::this_thread::sleep_for(std::chrono::seconds(std::min(time_out, 2)));
  MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  std::abort();
}

}  // namespace training
