// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>
#include <pipesched/analysis/moe_cost.hpp>
#include <pipesched/analysis/report.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/graph/lower_moe.hpp>
#include <pipesched/io/comparison.hpp>
#include <pipesched/io/report_json.hpp>
#include <pipesched/io/report_text.hpp>
#include <pipesched/schedules/registry.hpp>

#include "support/built_in_schedules.hpp"

using namespace pipesched;

TEST_CASE("A report as JSON, letter for letter", "[io][report_json]") {
  CHECK(report_json(analyze(one_f_one_b{2, 2}), "1f1b") ==
        R"({"schedule": "1f1b", "ranks": 2, "stages": 2, "chunks": 1, "microbatches": 2, "operations": 8,)"
        "\n \"makespan\": 9, \"ideal\": 6, \"bubble_time\": 3, \"bubble_fraction\": 0.3333333333333333, "
        "\"bubble_ratio\": 0.5, \"span_bubble_rate\": 0.3333333333333333,"
        "\n \"utilization\": 0.6666666666666667, \"steady_utilization\": 1.0,"
        "\n \"peak_activations\": 2, \"parameter_copies\": 1,\n \"per_rank\": ["
        "\n  {\"rank\": 0, \"stages\": [0], \"busy\": 6, \"idle\": 3, \"first_start\": 0, \"last_end\": 9, "
        "\"peak_activations\": 2, \"parameter_copies\": 1, \"warmup\": 2},"
        "\n  {\"rank\": 1, \"stages\": [1], \"busy\": 6, \"idle\": 3, \"first_start\": 1, \"last_end\": 7, "
        "\"peak_activations\": 1, \"parameter_copies\": 1, \"warmup\": 0}]}\n");
}

TEST_CASE("Real figures read back equal, whole ones are whole", "[io][report_json]") {
  for (auto const& s : test_support::default_schedules(4, 8)) {
    INFO(s.name());
    auto const report = analyze(s, uniform_cost<double>{11.347, 11.248, 8.132, {}, 0.377});
    auto const read = nlohmann::json::parse(report_json(report, s.name()));
    CHECK(read.at("makespan").get<double>() == report.makespan);
    CHECK(read.at("ideal").get<double>() == report.ideal);
    CHECK(read.at("bubble_fraction").get<double>() == report.bubble_fraction);
    CHECK(read.at("per_rank").size() == 4);
    CHECK(read.at("steady_utilization").is_null() == !report.steady_utilization);
    auto const whole = nlohmann::json::parse(report_json(analyze(s), s.name()));
    CHECK(whole.at("makespan").is_number_integer());
    CHECK(whole.at("per_rank").at(0).at("busy").is_number_integer());
  }
  // A mean that is not whole, of whole times.
  auto const uneven = analyze(one_f_one_b{2, 1}, [](op o, int) { return o.stage() + 1; });
  CHECK(nlohmann::json::parse(report_json(uneven, "x")).at("ideal") == 3);
  auto const odd = analyze(one_f_one_b{2, 1}, [](op o, int) { return o.kind() == op_kind::forward ? o.stage() : 1; });
  CHECK(nlohmann::json::parse(report_json(odd, "x")).at("ideal") == 1.5);
}

TEST_CASE("A schedule's name is quoted", "[io][report_json]") {
  auto const read = nlohmann::json::parse(report_json(analyze(one_f_one_b{1, 1}), "a \"b\"\\\n"));
  CHECK(read.at("schedule") == "a \"b\"\\\n");
}

TEST_CASE("A report as text fits 80 columns and names the figures", "[io][report_text]") {
  auto const text = report_text(analyze(one_f_one_b{4, 8}), "1f1b");
  CHECK(text.find("bubble fraction          27.27 %") != std::string::npos);
  CHECK(text.find("idle, by what was waited for: activation 6, gradient 18, after the last op 12") !=
        std::string::npos);
  std::size_t column = 0;
  for (char const c : text) {
    column = c == '\n' ? 0 : column + 1;
    CHECK(column <= 80);
  }
  CHECK(summary_text(analyze(gpipe{4, 8}), "gpipe") ==
        "gpipe: makespan 33, bubble 9\nidle 27.27 % of all rank time, peak 8 activations, 1 parameter copy\n");
}

TEST_CASE("Times for people are whole where they can be", "[io][report_text]") {
  CHECK(time_text(std::int64_t{3000000000}) == "3000000000");
  CHECK(time_text(3e9) == "3000000000");
  CHECK(time_text(2.5) == "2.5");
  CHECK(time_text(1e18) == "1e+18");
}

TEST_CASE("The critical path is told in one line, its middle left out where it is long", "[io][report_text]") {
  auto const graph = build_graph(one_f_one_b{2, 1});
  uniform_cost<> const cost{};
  auto const path = critical_path(graph, make_timeline(graph, cost), cost);
  CHECK(critical_path_text(graph, path) == "critical path, 4 ops: 0F0 1F0 1B0 0B0\n");
  CHECK(critical_path_text(graph, path, 2) == "critical path, 4 ops: 0F0 ... 0B0\n");

  auto const events = lower_moe(build_graph(forward_only(one_f_one_b{1, 1})), {.layers = 2});
  moe_cost<> const times{};
  auto const text = critical_path_text(events, critical_path(events, make_timeline(events, times), times));
  CHECK(text ==
        "critical path, 8 ops: 0ATTN_F0.0 0DISPATCH_F0.0 0MLP_F0.0 0COMBINE_F0.0 0ATTN_F0.1 0DISPATCH_F0.1 0MLP_F0.1 "
        "0COMBINE_F0.1\n");
  CHECK(report_text(analyze(events, times), "x", "events").find(" 8 events\n") != std::string::npos);
}

TEST_CASE("Schedules stand side by side in one table", "[io][comparison]") {
  comparison_table table;
  auto const add = [&](auto const& generator, int parts) {
    auto const graph = build_graph(generator);
    table.add(name_of(generator), make_comparison(graph, analyze(graph), parts));
  };
  add(one_f_one_b{4, 8}, 4);
  add(dual_pipe_v{4, 8}, 4);
  CHECK(table.text() ==
        "schedule    P  S  makespan  bubble  of time  of span  peak  params  p2p\n"
        "1f1b        4  4        33       9   27.27%   27.27%     4       1    6\n"
        "dualpipe-v  4  8        54       6   11.11%   11.11%   4.5       1   12\n");
}
