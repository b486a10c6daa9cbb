// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>
#include <pipesched/schedules/registry.hpp>

#include "support/run_program.hpp"

using test_support::contains;
using test_support::run_program;

namespace {

nlohmann::json analyze(std::string const& arguments) {
  auto const run = run_program("analyze " + arguments + " --format json");
  INFO(run.output);
  REQUIRE(run.status == 0);
  return nlohmann::json::parse(run.output);
}

/// A shape that every schedule takes.
std::string shape_of(std::string_view schedule) { return std::string(schedule) + " --ranks 4 --microbatches 8"; }

}  // namespace

TEST_CASE("analyze takes the MoE options for every schedule", "[program][moe]") {
  for (auto const schedule : pipesched::schedule_names) {
    INFO(schedule);
    auto const report = analyze(shape_of(schedule) + " --moe-layers 2");
    std::int64_t exposed = 0;
    std::int64_t hidden = 0;
    for (auto const& rank : report.at("per_rank")) {
      exposed += rank.at("exposed_communication").get<std::int64_t>();
      hidden += rank.at("hidden_communication").get<std::int64_t>();
      auto const& streams = rank.at("streams");
      CHECK(streams.at("compute").at("busy") == rank.at("busy"));
      CHECK(streams.at("all-to-all").at("busy") ==
            rank.at("exposed_communication").get<std::int64_t>() + rank.at("hidden_communication").get<std::int64_t>());
    }
    CHECK(report.at("exposed_communication") == exposed);
    CHECK(report.at("hidden_communication") == hidden);
    CHECK((hidden > 0) == !report.at("mean_pair").is_null());
    if (hidden > 0) CHECK(report.at("mean_pair") == 12);

    // Without communication the makespan is that of the chunks.
    auto const silent = analyze(shape_of(schedule) + " --moe-layers 2 --dispatch 0 --combine 0");
    auto const chunks = analyze(shape_of(schedule) + " --forward 4 --backward-input 4 --backward-weight 4");
    for (auto const* figure : {"makespan", "bubble_time", "peak_activations", "steady_utilization"})
      CHECK(silent.at(figure) == chunks.at(figure));
    CHECK(silent.at("exposed_communication") == 0);
  }
}

TEST_CASE("Times of events reach the figures", "[program][moe]") {
  std::string const one = "1f1b --ranks 1 --microbatches 1 ";
  CHECK(analyze(one + "--attention 2 --dispatch 3 --mlp 5 --combine 7").at("makespan") == 17 + 17 + 7);
  CHECK(analyze(one + "--mlp-backward-weight 4 --attention-backward-input 3").at("makespan") == 4 + 6 + 5);
  CHECK(analyze(one + "--dispatch-backward 10 --combine-backward 20").at("makespan") == 4 + 4 + 30);
  CHECK(analyze(one + "--mlp-backward-input 0 --attention-backward-weight 0").at("makespan") == 8);
  CHECK(analyze(one + "--dispatch 0.5").at("makespan") == 9);
  CHECK(analyze("1f1b --ranks 2 --microbatches 1 --moe-layers 1 --latency 3").at("makespan") == 20 + 6);
  CHECK(analyze("1f1b --ranks 2 --microbatches 1 --moe-layers 1 --stage-scale 1,3").at("makespan") == 10 + 30);

  std::string const gpipe = "gpipe --ranks 1 --microbatches 2 --moe-layers 1 ";
  CHECK(analyze(gpipe).at("makespan") == 20);
  CHECK(analyze(gpipe + "--moe-asynchronous").at("makespan") == 19);

  std::string const pair = "1f1b-overlap --ranks 1 --microbatches 2 --moe-layers 1 ";
  CHECK(analyze(pair).at("makespan") == 4 + 6 + 6);
  CHECK(analyze(pair + "--sm-total 132 --sm-comm 33").at("mean_pair") == 8);
  CHECK(analyze(pair + "--sm-comm 33").at("mean_pair") == 8);
  CHECK(analyze(pair + "--sm-total 132").at("mean_pair").get<double>() == Approx(6 * 132.0 / 112));
}

TEST_CASE("show draws both streams of a rank, one above the other", "[program][moe]") {
  auto const run = run_program("show 1f1b-overlap --ranks 1 --microbatches 2 --moe-layers 1");
  CHECK(run.status == 0);
  CHECK_THAT(run.output, contains("rank 0 compute     AF0...MF0...AF1MI0MW0MF1AI0AW0...MI1MW1...AI1AW1\n"
                                  "       all-to-all  ...DF0...CF0CB0DF1DB0...CF1...CB1......DB1......\n"));
  for (auto const schedule : pipesched::schedule_names) {
    INFO(schedule);
    auto const every = run_program("show " + shape_of(schedule) + " --moe-layers 1");
    CHECK(every.status == 0);
    CHECK_THAT(every.output, contains("all-to-all"));
  }
}

TEST_CASE("export writes the events of every schedule", "[program][moe]") {
  for (auto const schedule : pipesched::schedule_names) {
    INFO(schedule);
    auto const run = run_program("export " + shape_of(schedule) + " --moe-layers 1 --format dot");
    CHECK(run.status == 0);
    CHECK_THAT(run.output, contains("rank 0, all-to-all"));
  }
}

TEST_CASE("compare takes the MoE options too", "[program][moe]") {
  auto const run =
      run_program("compare --ranks 4 --microbatches 8 --schedules 1f1b,dualpipe --moe-layers 1 --format json");
  INFO(run.output);
  REQUIRE(run.status == 0);
  auto const compared = nlohmann::json::parse(run.output);
  for (auto const& entry : compared.at("schedules"))
    CHECK(entry.at("makespan") ==
          analyze(shape_of(entry.at("schedule").get<std::string>()) + " --moe-layers 1").at("makespan"));
}

TEST_CASE("Wrong MoE options are named, with status 2", "[program][moe]") {
  auto const refused = [](std::string const& options, std::string const& message) {
    auto const run = run_program("analyze 1f1b --ranks 2 --microbatches 2 " + options);
    INFO(options);
    CHECK(run.status == 2);
    CHECK_THAT(run.output, contains(message));
  };
  refused("--moe-layers 0", "moe-layers = 0, must be at least 1");
  refused("--moe-layers -2", "moe-layers = -2, must be at least 1");
  refused("--moe-layers x", "moe-layers = x, must be a whole number");
  refused("--moe-layers 65537", "layers = 65537, must be at most 65536");
  refused("--moe-layers 1 --sm-comm 133", "sm-comm = 133, must be at most 131");
  refused("--moe-layers 1 --sm-total 10 --sm-comm 10", "sm-comm = 10, must be at most 9");
  refused("--moe-layers 1 --sm-comm=-1", "sm-comm = -1, must be at least 0");
  refused("--attention=-1", "attention = -1, must be at least 0");
  refused("--mlp-backward-input nan", "mlp-backward-input = nan, must be a number");
  refused("--combine inf", "combine = inf");
  refused("--moe-layers 1 --forward 2", "--forward");
}

TEST_CASE("A pair that cannot be lowered is named, with status 1", "[program][moe]") {
  auto const path = std::filesystem::temp_directory_path() / "pipesched_pair_of_f_and_w.csv";
  std::ofstream(path) << "0F0,0F1,0I0,(0F2;0W0)OVERLAP_F_B,0B1,0B2\n";
  auto const run = run_program("analyze --file " + path.string() + " --moe-layers 1");
  std::filesystem::remove(path);
  CHECK(run.status == 1);
  CHECK_THAT(run.output, contains("0F2: opens no overlapped pair"));
}
