// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <nlohmann/json.hpp>
#include <pipesched/analysis/moe_cost.hpp>
#include <pipesched/analysis/report.hpp>
#include <pipesched/graph/lower_moe.hpp>
#include <pipesched/io/report_json.hpp>
#include <pipesched/io/streams_text.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>
#include <pipesched/schedules/one_f_one_b_overlap.hpp>

using namespace pipesched;
using test_support::contains;

TEST_CASE("The text says what is exposed and hidden, and what a pair takes", "[io][moe]") {
  auto const streams = analyze_streams(lower_moe(one_f_one_b_overlap{1, 2}), moe_cost<>{});
  CHECK(streams_text(streams) ==
        "all-to-all: 4 exposed, 4 hidden beside computation, over all ranks\n"
        "overlapped pairs: mean time 6, busy 100.00 % of it\n"
        "\n"
        "rank  compute  all-to-all  exposed  hidden  p2p  pairs  mean  busy in pairs\n"
        "   0       12           8        4       4    0      1     6       100.00 %\n"
        "\n"
        "     event  count  busy  exposed  hidden\n"
        "    ATTN_F      2     2                 \n"
        "    ATTN_I      2     2                 \n"
        "    ATTN_W      2     2                 \n"
        "     MLP_F      2     2                 \n"
        "     MLP_I      2     2                 \n"
        "     MLP_W      2     2                 \n"
        "DISPATCH_F      2     2        1       1\n"
        "DISPATCH_B      2     2        1       1\n"
        " COMBINE_F      2     2        1       1\n"
        " COMBINE_B      2     2        1       1\n");
  auto const alone = streams_text(analyze_streams(lower_moe(one_f_one_b{2, 2}), moe_cost<double>{.dispatch = 0.5}));
  CHECK_THAT(alone, contains("all-to-all: 12 exposed, 0 hidden"));
  CHECK_THAT(alone, contains("mean time none, busy none of it"));
}

TEST_CASE("The JSON of events adds the communication to the report", "[io][moe]") {
  auto const graph = lower_moe(one_f_one_b_overlap{2, 3}, {.layers = 2});
  auto const streams = analyze_streams(graph, moe_cost<>{.send = 1});
  auto const report = analyze(graph, moe_cost<>{.send = 1});
  auto const json = nlohmann::json::parse(report_json(report, streams, "a \"name\""));
  CHECK(json.at("schedule") == "a \"name\"");
  CHECK(json.at("makespan") == report.makespan);
  CHECK(json.at("exposed_communication") == streams.exposed_communication);
  CHECK(json.at("hidden_communication") == streams.hidden_communication);
  CHECK(json.at("mean_pair") == 12.0);
  CHECK(json.at("pair_utilization") == 1.0);
  REQUIRE(json.at("per_rank").size() == 2);
  for (std::size_t r = 0; r < 2; ++r) {
    auto const& of_json = json.at("per_rank")[r];
    auto const& of_report = streams.per_rank[r];
    CHECK(of_json.at("busy") == report.per_rank[r].busy);
    CHECK(of_json.at("exposed_communication") == of_report.exposed_communication());
    CHECK(of_json.at("hidden_communication") == of_report.hidden_communication());
    auto const& all_to_all = of_json.at("streams").at("all-to-all");
    CHECK(all_to_all.at("busy") == of_report.all_to_all.busy);
    CHECK(all_to_all.at("kinds").at("COMBINE_B").at("count") == 6);
    CHECK(of_json.at("streams").at("p2p").at("busy") == 3);
    CHECK(of_json.at("streams").at("compute").at("kinds").at("ATTN_W").at("busy") == 6);
  }
  // The same report without streams has none of it.
  CHECK(!nlohmann::json::parse(report_json(report, "x")).contains("exposed_communication"));
}
