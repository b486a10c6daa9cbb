// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <pipesched/schedules/registry.hpp>

#include "support/run_program.hpp"

using test_support::contains;
using test_support::run_program;
using whole_numbers = std::vector<std::int64_t>;

namespace {

nlohmann::ordered_json analyze(std::string const& arguments) {
  auto const run = run_program("analyze " + arguments + " --format json");
  INFO(run.output);
  REQUIRE(run.status == 0);
  return nlohmann::ordered_json::parse(run.output);
}

/// The same figure of every rank.
whole_numbers per_rank(nlohmann::ordered_json const& report, char const* figure) {
  whole_numbers values;
  for (auto const& rank : report.at("per_rank")) values.push_back(rank.at(figure).get<std::int64_t>());
  return values;
}

std::vector<std::string> keys_of(nlohmann::ordered_json const& object) {
  std::vector<std::string> keys;
  for (auto const& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

}  // namespace

TEST_CASE("analyze writes the documented JSON, key for key", "[program]") {
  auto const report = analyze("1f1b --ranks 4 --microbatches 8");
  CHECK(keys_of(report) == std::vector<std::string>{"schedule", "ranks", "stages", "chunks", "microbatches",
                                                    "operations", "makespan", "ideal", "bubble_time", "bubble_fraction",
                                                    "bubble_ratio", "span_bubble_rate", "utilization",
                                                    "steady_utilization", "peak_activations", "parameter_copies",
                                                    "per_rank"});
  CHECK(keys_of(report.at("per_rank").at(0)) == std::vector<std::string>{"rank", "stages", "busy", "idle",
                                                                         "first_start", "last_end", "peak_activations",
                                                                         "parameter_copies", "warmup"});
  CHECK(report.at("schedule") == "1f1b");
  CHECK(report.at("operations") == 64);
  CHECK(report.at("makespan") == 33);
  CHECK(report.at("makespan").is_number_integer());
  CHECK(report.at("ideal") == 24);
  CHECK(report.at("ideal").is_number_integer());
  CHECK(report.at("bubble_time") == 9);
  CHECK(report.at("bubble_fraction") == 0.2727272727272727);
  CHECK(report.at("bubble_ratio") == 0.375);
  CHECK(report.at("span_bubble_rate") == 0.2727272727272727);
  CHECK(report.at("utilization") == 0.7272727272727273);
  CHECK(report.at("steady_utilization") == 1.0);
  CHECK(report.at("steady_utilization").is_number_float());
  CHECK(report.at("peak_activations") == 4);
  CHECK(report.at("parameter_copies") == 1);
  auto const& first = report.at("per_rank").at(0);
  CHECK(first.at("stages") == whole_numbers{0});
  CHECK(first.at("busy") == 24);
  CHECK(first.at("last_end") == 33);
  CHECK(first.at("warmup") == 3);
  CHECK(analyze("gpipe --ranks 4 --microbatches 8").at("steady_utilization").is_null());
}

TEST_CASE("analyze takes a billion microbatches", "[program]") {
  auto const report = analyze("1f1b --ranks 64 --microbatches 1000000000");
  CHECK(report.at("operations") == 128'000'000'000);
  CHECK(report.at("makespan") == 3'000'000'189);
  CHECK(report.at("bubble_time") == 189);
  CHECK(analyze("1f1b --ranks 64 --microbatches 1000000000 --forward-only").at("makespan") == 1'000'000'063);
  CHECK(run_program("analyze 1f1b --ranks 64 --microbatches 1000000000 --forward 0.1").status == 2);
  CHECK(run_program("show 1f1b --ranks 64 --microbatches 1000000000").status == 2);
}

TEST_CASE("analyze finds the known figures", "[program]") {
  auto const gpipe = analyze("gpipe --ranks 4 --microbatches 8");
  CHECK(gpipe.at("makespan") == 33);
  CHECK(per_rank(gpipe, "peak_activations") == whole_numbers{8, 8, 8, 8});
  CHECK(per_rank(analyze("1f1b --ranks 4 --microbatches 8"), "peak_activations") == whole_numbers{4, 3, 2, 1});

  auto const interleaved = analyze("interleaved-1f1b --ranks 4 --microbatches 8 --chunks 2");
  CHECK(interleaved.at("makespan") == 57);
  CHECK(per_rank(interleaved, "peak_activations") == whole_numbers{11, 9, 7, 5});
  CHECK(per_rank(interleaved, "warmup") == whole_numbers{10, 8, 6, 4});

  CHECK(analyze("1f1b --ranks 8 --microbatches 1").at("makespan") == 24);
  auto const few = analyze("1f1b --ranks 4 --microbatches 2");
  CHECK(few.at("makespan") == 15);
  CHECK(per_rank(few, "peak_activations") == whole_numbers{2, 2, 2, 1});

  auto const ragged = [](int microbatches) {
    return analyze("interleaved-1f1b --ranks 4 --chunks 2 --microbatches " + std::to_string(microbatches))
        .at("makespan");
  };
  CHECK(ragged(3) == 30);
  CHECK(ragged(5) == 39);
  CHECK(ragged(7) == 51);
  CHECK(ragged(10) == 69);

  std::string const one = "1f1b --ranks 4 --microbatches 8 ";
  CHECK(analyze(one + "--stage-scale 1,1,1,2").at("makespan") == 57);
  CHECK(analyze(one + "--stage-scale 2,1,1,1").at("makespan") == 51);
  CHECK(analyze(one + "--stage-scale 1,2,1,1").at("makespan") == 53);
  CHECK(analyze(one + "--latency 0.5").at("makespan") == 41);

  CHECK(analyze("gpipe --ranks 8 --microbatches 16 --backward-weight 0").at("bubble_fraction") == 7.0 / 23);
  CHECK(analyze("1f1b --ranks 8 --microbatches 32 --backward-weight 0").at("makespan") == 78);
  CHECK(analyze("gpipe --ranks 8 --microbatches 32 --backward-weight 0").at("makespan") == 78);
  CHECK(analyze("dualpipe --ranks 8 --microbatches 20").at("makespan") == 66);
  CHECK(analyze("dualpipe --ranks 8 --microbatches 20 --overlapped 2").at("makespan") == 52);
}

TEST_CASE("Published times give the published bubble", "[program]") {
  auto const report = analyze(
      "1f1b --ranks 16 --microbatches 48 --forward 11.347 --backward-input 11.248 --backward-weight 8.132 "
      "--latency 0.377");
  CHECK(report.at("bubble_fraction").get<double>() == Approx(0.2552).margin(0.00005));
}

TEST_CASE("Whole times stay whole, also divided among the chunks of a rank", "[program]") {
  std::string const shape = "interleaved-1f1b --ranks 4 --microbatches 8 --chunks 2 --cost-per rank ";
  auto const even = analyze(shape + "--forward 2 --backward-input 2 --backward-weight 2");
  CHECK(even.at("makespan") == 57);
  CHECK(even.at("makespan").is_number_integer());
  auto const odd = analyze(shape + "--forward 1 --backward-input 1 --backward-weight 1");
  CHECK(odd.at("makespan") == 28.5);
  CHECK(analyze("1f1b --ranks 2 --microbatches 1 --forward 1.0").at("makespan").is_number_integer());
  CHECK(analyze("1f1b --ranks 1 --microbatches 1 --forward 9007199254740993").at("makespan") == 9007199254740995);
}

TEST_CASE("A cost file gives times per stage and kind", "[program]") {
  auto const path = (std::filesystem::temp_directory_path() / "pipesched_cost_file.json").string();
  auto const with = [&](std::string const& text) {
    std::ofstream(path) << text;
    return run_program("analyze 1f1b --ranks 4 --microbatches 8 --format json --cost " + path);
  };
  auto const makespan = [&](std::string const& text) {
    auto const run = with(text);
    INFO(run.output);
    REQUIRE(run.status == 0);
    return nlohmann::json::parse(run.output).at("makespan");
  };
  CHECK(makespan("{}") == 33);
  CHECK(makespan(R"({"forward": [1, 1, 1, 2], "backward_input": [1, 1, 1, 2], "backward_weight": [1, 1, 1, 2]})") ==
        57);
  CHECK(makespan(R"({"latency": 0.5})") == 41);
  for (auto const* text :
       {"", "[1]", "{\"forward\": [1, 2]}", "{\"forward\": -1}", "{\"forward\": [1, 1, 1, null]}", "{\"Forward\": 1}",
        "{\"latency\": [0]}", "{\"forward\": []}", "{\"forward\": 1e999}", "{\"forward\": 1, \"forward\": 2}"}) {
    auto const run = with(text);
    INFO(text);
    INFO(run.output);
    CHECK(run.status == 2);
    CHECK_THAT(run.output, contains("pipesched:"));
  }
  CHECK_THAT(with(R"({"forward": 1, "forward": 2})").output, contains("forward: given twice"));
  CHECK_THAT(with(R"({"forward": 1e999})").output, contains("1e999"));
  // Who gives a time is not left to a rule: the file or the option.
  std::ofstream(path) << R"({"forward": 2})";
  auto const both = run_program("analyze 1f1b --ranks 4 --microbatches 8 --forward 3 --cost " + path);
  CHECK(both.status == 2);
  CHECK_THAT(both.output, contains("--forward: the file of --cost gives this time too"));
  CHECK(run_program("analyze 1f1b --ranks 4 --microbatches 8 --backward-input 3 --cost " + path).status == 0);
  std::filesystem::remove(path);
}

TEST_CASE("Every schedule is analysed, drawn and exported by its name", "[program]") {
  for (auto const schedule : pipesched::schedule_names) {
    std::string const shape = std::string(schedule) + " --ranks 4 --microbatches 8";
    INFO(shape);
    auto const report = analyze(shape);
    CHECK(report.at("schedule") == schedule);
    CHECK(report.at("bubble_fraction") < 1);
    CHECK(analyze(shape + " --forward-only").at("operations") < report.at("operations"));
    CHECK(run_program("show " + shape).status == 0);
    for (auto const* format : {"torch-csv", "torch-csv-comms", "json", "dot"})
      CHECK(run_program("export " + shape + " --format " + format).status == 0);
  }
}
