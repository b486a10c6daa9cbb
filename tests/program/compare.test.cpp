// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <string>

#include <nlohmann/json.hpp>
#include <pipesched/schedules/registry.hpp>

#include "support/run_program.hpp"

using test_support::contains;
using test_support::run_program;

namespace {

nlohmann::json compare(std::string const& arguments) {
  auto const run = run_program("compare " + arguments + " --format json");
  INFO(run.output);
  REQUIRE(run.status == 0);
  return nlohmann::json::parse(run.output);
}

nlohmann::json entry_of(nlohmann::json const& entries, std::string const& schedule) {
  for (auto const& entry : entries)
    if (entry.at("schedule") == schedule) return entry;
  FAIL("no entry of " << schedule);
  return {};
}

}  // namespace

TEST_CASE("compare has every schedule, with what analyze says of it", "[program]") {
  auto const all = compare("--ranks 4 --microbatches 8");
  CHECK(all.at("schedules").size() == pipesched::schedule_names.size());
  CHECK(all.at("left_out").empty());
  for (auto const& entry : all.at("schedules")) {
    auto const name = entry.at("schedule").get<std::string>();
    INFO(name);
    auto const alone =
        nlohmann::json::parse(run_program("analyze " + name + " --ranks 4 --microbatches 8 --format json").output);
    for (auto const& [key, value] : alone.items())
      if (key != "per_rank") CHECK(entry.at(key) == value);
    CHECK(entry.at("relative_makespan").get<double>() ==
          Approx(alone.at("makespan").get<double>() / alone.at("ideal").get<double>()));
  }
}

TEST_CASE("compare counts in equal parts of the model", "[program]") {
  auto const all =
      compare("--ranks 4 --microbatches 16 --cost-per rank --forward 2 --backward-input 2 --backward-weight 2");
  auto const one = entry_of(all.at("schedules"), "1f1b");
  CHECK(one.at("activation_parts") == 4);
  CHECK(one.at("parameter_parts") == 1);
  CHECK(one.at("messages_per_microbatch") == 6);
  auto const dual = entry_of(all.at("schedules"), "dualpipe");
  CHECK(dual.at("activation_parts") == 5);
  CHECK(dual.at("parameter_parts") == 2);
  auto const folded = entry_of(all.at("schedules"), "dualpipe-v");
  CHECK(folded.at("ideal") == 96);
  CHECK(folded.at("activation_parts") == 4.5);
  CHECK(folded.at("parameter_parts") == 1);
  CHECK(folded.at("messages_per_microbatch") == 12);

  auto const half = entry_of(all.at("equal_stages"), "dualpipe-v");
  CHECK(half.at("ranks") == 2);
  CHECK(half.at("stages") == 4);
  CHECK(half.at("parameter_parts") == 2);
  CHECK(entry_of(all.at("equal_stages"), "1f1b").at("ranks") == 4);
}

TEST_CASE("compare says which schedules it leaves out, and why", "[program]") {
  auto const all = compare("--ranks 5 --microbatches 8 --chunks 2 --group 5");
  CHECK(entry_of(all.at("left_out"), "dualpipe").at("reason") ==
        "ranks = 5, must be a multiple of 2 (two equal halves)");
  CHECK(entry_of(all.at("equal_stages_left_out"), "zb-v").at("reason") ==
        "stages = 5, must be a multiple of 2 (stages per rank)");
  auto const text = run_program("compare --ranks 5 --microbatches 8");
  CHECK(text.status == 0);
  CHECK_THAT(text.output, contains("left out\n"));
  CHECK(compare("--ranks 4 --microbatches 8 --schedules dualpipe,1f1b").at("schedules").size() == 2);
  CHECK(run_program("compare --ranks 0 --microbatches 8").status == 2);
  CHECK(run_program("compare --ranks 1000000 --microbatches 8").status == 2);
  CHECK(run_program("compare --ranks 4 --microbatches 8 --forward nan").status == 2);
}
