// SPDX-License-Identifier: MIT
#include <pipesched/io/json.hpp>
#include <pipesched/io/json_reader.hpp>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <pipesched/core/schedule_builder.hpp>
#include <pipesched/schedules/dual_pipe.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

#include "support/catch.hpp"
#include "support/random_schedules.hpp"

using namespace pipesched;

namespace {

std::string complaints(json_file const& file) {
  std::string text;
  for (auto const& d : check(file)) text += to_string(d) + "\n";
  return text;
}

json_file read_clean(std::string_view text) {
  auto file = read_json(text);
  INFO(complaints(file));
  REQUIRE(file.diagnostics.empty());
  REQUIRE(file.read);
  return file;
}

/// A right file of one rank and one microbatch, with one part of its text replaced.
std::string with(std::string_view part, std::string_view replacement) {
  std::string text = write_json(schedule_builder(1).rank(0).F(0).B(0).build());
  auto const at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), replacement);
}

bool complains(std::string const& text, std::string_view about) {
  auto const found = complaints(read_json(text));
  INFO(found);
  return found.find(about) != std::string::npos;
}

}  // namespace

TEST_CASE("Schedules come back from JSON as they were") {
  std::mt19937 random(3);
  std::vector<schedule> schedules;
  for (auto const& where : {placement::linear(1), placement::linear(4), placement::loop(2, 3), placement::loop(1, 2),
                            placement::v(1), placement::v(3), placement::bidirectional(4, 2),
                            placement::bidirectional(8, 4), placement::custom(3, 2, 1, {2, 0}),
                            placement::custom(2, 2, 2, {0, 1, 1, 0}), placement::custom(1, 2, 2, {0, 0, 0, 0})})
    for (int m : {1, 4}) schedules.push_back(test_support::random_schedule(where, m, random));
  schedules.push_back(generate(dual_pipe{.ranks = 4, .microbatches = 8}));
  schedules.push_back(schedule_builder(3).rank(1).F(7).build("odd \"name\"\n"));
  for (auto const& s : schedules) {
    auto const text = write_json(s);
    CAPTURE(text);
    auto const file = read_clean(text);
    CHECK(*file.read == s);
    CHECK(file.read->where() == s.where());
    CHECK(file.read->name() == s.name());
    CHECK(write_json(*file.read) == text);
  }
}

TEST_CASE("Costs and measured times come back from JSON as they were") {
  auto const s = generate(one_f_one_b{.ranks = 2, .microbatches = 2});
  stage_cost<double> const costs{{1, 2}, {0.1, 11.347}, {3, 1e-9}, {4, 5}, 0.377};
  auto pair = *parse_measured_name("(0F1;1B0)OVERLAP_F_B");
  pair.duration = 2.5;
  std::vector<measured_op> const measured{{forward(stage_id{0}, microbatch_id{0}), 11.347, 100.25, 0}, pair};
  auto const text = write_json(s, {&costs, measured});
  auto const file = read_clean(text);
  REQUIRE(file.costs);
  CHECK(file.costs->backward_input == costs.backward_input);
  CHECK(file.costs->backward_weight == costs.backward_weight);
  CHECK(file.costs->overlapped == costs.overlapped);
  CHECK(file.costs->latency == costs.latency);
  REQUIRE(file.measured.size() == 2);
  CHECK(file.measured[0].start == 100.25);
  CHECK(file.measured[0].rank == 0);
  CHECK(measured_name(file.measured[1]) == "(0F1;1B0)OVERLAP_F_B");
  CHECK_FALSE(file.measured[1].has_start());
  CHECK(write_json(*file.read, {&*file.costs, file.measured}) == text);
}

TEST_CASE("Costs are read alone too, one time for all stages or one for each") {
  auto const read = read_json_costs(R"({"forward": 1, "backward_input": [1, 2], "backward_weight": 0.5})", 2);
  REQUIRE(read.costs);
  CHECK(read.costs->forward == std::vector<double>{1, 1});
  CHECK(read.costs->backward_input == std::vector<double>{1, 2});
  CHECK(read.costs->latency == 0);
  for (auto const* wrong : {"[]", "{}", R"({"forward": 1, "backward_input": [1], "backward_weight": 1})",
                            R"({"forward": -1, "backward_input": 1, "backward_weight": 1})",
                            R"({"forward": "1", "backward_input": 1, "backward_weight": 1})",
                            R"({"forward": 1, "backward_input": 1, "backward_weight": 1, "latency": -1})"}) {
    CAPTURE(wrong);
    auto const refused = read_json_costs(wrong, 2);
    CHECK_FALSE(refused.costs);
    CHECK_FALSE(refused.diagnostics.empty());
  }
}

TEST_CASE("A wrong member is named") {
  CHECK(complains(with("\"version\": 1", "\"version\": 2"), "version"));
  CHECK(complains(with("\"pipesched\"", "\"other\""), "format"));
  CHECK(complains(with("\"ranks\": 1", "\"ranks\": 0"), "ranks"));
  CHECK(complains(with("\"ranks\": 1", "\"ranks\": 1.0"), "ranks"));
  CHECK(complains(with("\"ranks\": 1", "\"ranks\": 2"), "stages, replicas"));
  CHECK(complains(with("\"stages\": 1", "\"stages\": 18446744073709551615"), "stages"));
  CHECK(complains(with("\"microbatches\": 1", "\"microbatches\": -1"), "microbatches"));
  CHECK(complains(with("\"microbatches\": 1", "\"microbatches\": 99999999999999999999"), "microbatches"));
  CHECK(complains(with("\"linear\"", "\"spiral\""), "placement.kind"));
  CHECK(complains(with("\"kind\": \"linear\"", "\"kind\": \"custom\", \"rank_of_stage\": [[7]]"), "rank_of_stage"));
  CHECK(complains(with("\"kind\": \"linear\"", "\"kind\": \"bidirectional\""), "stages, replicas"));
  CHECK(complains(with("[\"0F0\", \"0B0\"]", "7"), "rank 0: is no array"));
  CHECK(complains(with("\"0F0\"", "7"), "rank 0, position 0: is no string"));
  CHECK(complains(with("0F0", "0FF"), "rank 0, position 0, 0FF: is of no kind"));
  CHECK(complains(with("0F0", "0SEND_F0"), "0SEND_F0: is no chunk op"));
  CHECK(complains(with("0B0", "1B0"), "rank 0, position 1, 1B0: its stage is too large"));
  CHECK(complains(with("0B0", "0B1"), "its microbatch is too large"));
  CHECK(complains(with("0B0", "0B0@1"), "names no replica"));
  CHECK(complains(with("0B0", "0B0@"), "names no replica"));
  CHECK(complains(with("0B0", "0F0"), "duplicate"));
  CHECK(complains(with("\"0F0\", \"0B0\"", "\"(0F0;0B0)OVERLAP_F_B\", 7, \"0F0\""),
                  "rank 0, position 2, 0F0: duplicate: it stands at rank 0, position 0"));
}

TEST_CASE("Text that is no JSON is a diagnostic with its line and column") {
  auto const file = read_json("{\n  \"format\": pipesched}");
  REQUIRE(file.diagnostics.size() == 1);
  CHECK(file.diagnostics[0].line == 2);
  CHECK(file.diagnostics[0].column == 13);
  for (std::string text :
       {std::string(), std::string("{"), std::string("{\"a\": \"\0\"}", 10), std::string("\xFF\xFE"),
        std::string("{\"format\": \"\xC3\x28\"}"), std::string("nan"), std::string("{} {}"), std::string("[1e999]"),
        std::string(1000000, '['), std::string(1000000, '{'), "\"" + std::string(1000000, 'a')}) {
    auto const refused = read_json(text);
    REQUIRE(refused.diagnostics.size() == 1);
    CHECK(refused.diagnostics[0].kind == "bad_json");
    CHECK(to_string(refused.diagnostics[0]).size() < 1000);
  }
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "{\"a\":[";
  CHECK(complains(deep, "nested too deep"));
  CHECK(complains("[]", "the file"));
  CHECK(complains("null", "the file"));
}
