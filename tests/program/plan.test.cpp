// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "support/run_program.hpp"

using test_support::contains;
using test_support::run_program;

namespace {

std::string file_with(std::string const& name, std::string const& text) {
  auto const path =
      (std::filesystem::temp_directory_path() / ("pipesched_plan_" + std::to_string(::getpid()) + name)).string();
  std::ofstream(path) << text;
  return path;
}

std::string arguments(std::string const& cluster, std::string const& model) {
  return "plan --cluster " + file_with("cluster.json", cluster) + " --model " + file_with("model.json", model);
}

std::string const eight = R"({"gpu": "H100", "gpus": 8})";
std::string const tiny =
    R"({"layers": 8, "hidden": 1024, "heads": 8, "sequence": 1024, "vocabulary": 32000, "batch": 32})";

}  // namespace

TEST_CASE("plan ranks shapes, says why, and writes the same as JSON", "[program]") {
  auto const text = run_program(arguments(eight, tiny));
  CHECK(text.status == 0);
  for (auto const* part : {"tokens/s", "why it is first", "what would change the choice"})
    CHECK_THAT(text.output, contains(part));
  auto const run = run_program(arguments(eight, tiny) + " --format json --top 3");
  CHECK(run.status == 0);
  auto const json = nlohmann::json::parse(run.output);
  REQUIRE(json["plans"].size() == 3);
  CHECK(json["plans"][0]["step_time"] <= json["plans"][1]["step_time"]);
}

TEST_CASE("plan says how far the search is where that is asked for, and nothing else beside its answer", "[program]") {
  auto const quiet = run_program(arguments(eight, tiny));
  CHECK_THAT(quiet.output, !contains("searched"));
  auto const told = run_program(arguments(eight, tiny) + " --progress");
  CHECK(told.status == 0);
  CHECK_THAT(told.output, contains("100 % searched\n"));
}

TEST_CASE("plan without an answer names the constraint, with status 1", "[program]") {
  auto const odd = tiny.substr(0, tiny.size() - 1) + R"(, "choices": {"pipeline": 3}})";
  auto const run = run_program(arguments(eight, odd));
  CHECK(run.status == 1);
  CHECK_THAT(run.output, contains("no plan: gpus"));
  CHECK_THAT(run.output, contains("nearest that fits"));
}

TEST_CASE("plan names what is wrong in a file, with status 1, or on the command line, with status 2", "[program]") {
  auto const wrong = run_program(arguments(R"({"gpus": "many"})", tiny));
  CHECK(wrong.status == 1);
  CHECK_THAT(wrong.output, contains("cluster.gpus: is \"many\"; expected a whole number"));
  CHECK(run_program(arguments("[[[", tiny)).status == 1);
  CHECK(run_program(arguments(R"({"gpus": 0})", tiny)).status == 1);
  CHECK(run_program("plan --cluster no_such_file.json --model no_such_file.json").status == 2);
  CHECK(run_program("plan").status == 2);
}
