// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <string>

#include <pipesched/schedules/registry.hpp>

#include "support/run_program.hpp"

using test_support::contains;
using test_support::run_program;

TEST_CASE("list names every schedule on a line of its own", "[program]") {
  auto const run = run_program("list");
  CHECK(run.status == 0);
  for (auto const name : pipesched::schedule_names) CHECK_THAT(run.output, contains("\n" + std::string(name) + " "));
}

TEST_CASE("A wrong command line names what is wrong, with status 2", "[program]") {
  auto const refused = [](std::string const& arguments, std::string const& message) {
    auto const run = run_program(arguments);
    INFO(arguments);
    CHECK(run.status == 2);
    CHECK_THAT(run.output, contains(message));
  };
  refused("", "subcommand");
  refused("frobnicate", "frobnicate");
  refused("analyze", "SCHEDULE");
  refused("analyze 1f1c --ranks 4 --microbatches 8", "unknown schedule '1f1c'; known are gpipe, 1f1b,");
  refused("show 1f1c", "unknown schedule '1f1c'; known are gpipe, 1f1b,");
  refused("show 1f1b", "--ranks is required");
  refused("show 1f1b --ranks 4 --microbatches 8 --format svg", "pipesched export");
  refused("show 1f1b --ranks 4 --microbatches 8 -o x.svg", "pipesched export");
  refused("export 1f1b --ranks 4 --microbatches 8 -o x.svg", "torch-csv, torch-csv-comms, json, chrome-trace, svg");
  refused("analyze 1f1b --microbatches 8", "ranks");
  refused("analyze 1f1b --ranks 4", "microbatches");
  refused("compare --ranks 4", "microbatches");
  refused("compare --ranks 4 --microbatches 8 --schedules 1f1b,", "unknown schedule ''");
  refused("export 1f1b --ranks 4 --microbatches 8", "format");
  refused("export 1f1b --ranks 4 --microbatches 8 --format pdf", "pdf");
  refused("check", "FILE");
  refused("analyze --file no_such_file.csv", "no_such_file.csv");
  refused("analyze 1f1b --file x.csv", "--file");
  // Options are called what the user wrote, also where the library refuses them.
  std::string const moe = "analyze 1f1b --ranks 4 --microbatches 8 --moe-layers ";
  refused(moe + "2 --sm-total 10 --sm-comm 20", "sm-comm = 20, must be at most 9 (sm-total - 1)");
  refused(moe + "99999999", "moe-layers = 99999999, must be at most 65536");

  auto const shape = [&](std::string const& options, std::string const& message) {
    refused("analyze " + options, message);
  };
  shape("1f1b --ranks 0 --microbatches 8", "ranks = 0, must be at least 1");
  shape("1f1b --ranks 4 --microbatches 0", "microbatches = 0, must be at least 1");
  shape("1f1b --ranks -4 --microbatches 8", "ranks = -4, must be at least 1");
  shape("1f1b --ranks four --microbatches 8", "ranks = four, must be a whole number");
  shape("1f1b --ranks 4.0 --microbatches 8", "ranks = 4.0, must be a whole number");
  shape("1f1b --ranks 1000000 --microbatches 8", "ranks = 1000000, must be at most 65536");
  shape("1f1b --ranks 4 --microbatches 99999999999", "microbatches = 99999999999, must be at most 2147483647");
  shape("1f1b --ranks 4 --microbatches 99999999999999999999", "must be at most 2147483647");
  refused("show 1f1b --ranks 65536 --microbatches 2147483647", "must be at most 268435455");
  shape("1f1b --ranks 4 --microbatches 8 --chunks 2", "chunks = 2, must be 1");
  shape("1f1b --ranks 4 --microbatches 8 --group 4", "group = 4");
  shape("dualpipe --ranks 4 --microbatches 8 --pipelines 4", "pipelines = 4, must be 2");
  shape("dualpipe --ranks 8 --microbatches 8", "microbatches = 8, must be at least 16 (2 * ranks)");
  shape("interleaved-1f1b --ranks 4 --microbatches 8 --chunks 2 --group 2", "group = 2, must be at least");
  shape("interleaved-1f1b --ranks 4 --microbatches 8 --chunks 65536", "65536");

  auto const cost = [&](std::string const& options, std::string const& message) {
    refused("analyze 1f1b --ranks 4 --microbatches 8 " + options, message);
  };
  cost("--forward nan", "forward = nan, must be a number");
  cost("--forward inf", "forward = inf, must be at most");
  cost("--forward 1e999", "forward = 1e999, must be at most");
  cost("--forward=-1", "forward = -1, must be at least 0");
  cost("--forward -1", "forward = -1, must be at least 0");
  cost("--forward 1x", "forward = 1x, must be a number");
  cost("--forward ''", "forward = '', must be a number");
  cost("--forward 9223372036854775807", "9223372036854775807, must be at most");
  cost("--forward 1e308", "must be at most");
  cost("--latency=-0.5", "latency = -0.5, must be at least 0");
  cost("--stage-scale 1,2", "stage-scale (number of factors) = 2, must be 4");
  cost("--stage-scale 1,,1,1", "stage-scale = '', must be a number");
  cost("--stage-scale 1,1,1,-1", "stage-scale = -1, must be at least 0");
  cost("--cost-per chunk", "chunk");
  cost("--cost no_such_file.json", "no_such_file.json");
}

TEST_CASE("A parameter that a schedule does not have may say what is so anyway", "[program]") {
  CHECK(run_program("analyze 1f1b --ranks 4 --microbatches 8 --chunks 1").status == 0);
  CHECK(run_program("analyze dualpipe-v --ranks 4 --microbatches 8 --chunks 2").status == 0);
  CHECK(run_program("analyze dualpipe --ranks 4 --microbatches 8 --pipelines 2").status == 0);
}

TEST_CASE("The help is short: no option lists those that it excludes", "[program]") {
  for (std::string const command : {"show", "analyze", "compare", "export", "check"}) {
    auto const help = run_program(command + " --help");
    CHECK(help.status == 0);
    CHECK(help.output.find("Excludes") == std::string::npos);
    if (command != "check") CHECK_THAT(help.output, contains("--forward NUMBER"));
  }
}
