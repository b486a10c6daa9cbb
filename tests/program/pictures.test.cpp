// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <string>

#include <nlohmann/json.hpp>
#include <pipesched/schedules/registry.hpp>

#include "support/markup.hpp"
#include "support/run_program.hpp"

using test_support::count_of;
using test_support::is_well_formed;
using test_support::run_program;

TEST_CASE("export draws every schedule", "[program][pictures]") {
  for (auto const schedule : pipesched::schedule_names) {
    INFO(schedule);
    auto const study = "export " + std::string(schedule) + " --ranks 4 --microbatches 8";
    auto const svg = run_program(study + " --memory --format svg");
    CHECK(svg.status == 0);
    CHECK(is_well_formed(svg.output));
    CHECK(count_of(svg.output, "makespan") == 1);
    auto const html = run_program(study + " --format html");
    CHECK(html.status == 0);
    CHECK(count_of(html.output, "<!DOCTYPE html>") == 1);
    auto const trace = run_program(study + " --format chrome-trace --microseconds 2.5");
    CHECK(trace.status == 0);
    CHECK(nlohmann::json::parse(trace.output).at("traceEvents").size() > 64);
  }
}

TEST_CASE("Options of one picture are refused with another", "[program][pictures]") {
  std::string const study = "export 1f1b --ranks 2 --microbatches 2 ";
  CHECK(run_program(study + "--format html --memory").status == 2);
  CHECK(run_program(study + "--format svg --microseconds 3").status == 2);
  CHECK(run_program(study + "--format chrome-trace --microseconds x").status == 2);
}

TEST_CASE("compare plots schedules", "[program][pictures]") {
  auto const svg = run_program("compare --ranks 4 --microbatches 8 --format svg");
  CHECK(svg.status == 0);
  CHECK(is_well_formed(svg.output));
  for (auto const* what : {"Bubble against microbatches", "Memory against bubble", "Exposed communication", "dualpipe"})
    CHECK(count_of(svg.output, what) >= 1);
  auto const html = run_program("compare --ranks 4 --microbatches 8 --schedules 1f1b,zb-h1 --format html");
  CHECK(html.status == 0);
  CHECK(count_of(html.output, "<svg") == 3);
  CHECK(count_of(html.output, "\"title\":\"") == 2);
  auto const few = run_program("compare --ranks 4 --microbatches 4 --schedules 1f1b,dualpipe --format html");
  CHECK(count_of(few.output, "<h1>Schedules, P = 4, m = 4, without dualpipe</h1>") == 1);
  CHECK(run_program("compare --ranks 1 --microbatches 1 --format svg").status == 0);
}
