// SPDX-License-Identifier: MIT
#include <string>

#include <pipesched/planner/layout.hpp>

#include "support/catch.hpp"

using namespace pipesched;

namespace {

pipeline_layout layout_of(std::string_view text) {
  auto const read = read_layout(text);
  INFO(text);
  for (auto const& d : read.diagnostics) UNSCOPED_INFO(to_string(d));
  REQUIRE(read.layout);
  return *read.layout;
}

std::string wrong_with(std::string_view text) {
  auto const read = read_layout(text);
  INFO(text);
  CHECK_FALSE(read.layout);
  REQUIRE(read.diagnostics.size() == 1);
  return to_string(read.diagnostics.front());
}

}  // namespace

TEST_CASE("a layout holds what its text says") {
  auto const layout = layout_of("Et*3|(tt|)*29,m|L");
  REQUIRE(layout.stages.size() == 32);
  CHECK(layout.layers() == 61);
  CHECK(layout.mtp() == 1);
  CHECK(layout.stages[0] == stage_content{.embedding = true, .layers = 3});
  CHECK(layout.stages[29] == stage_content{.layers = 2});
  CHECK(layout.stages[30] == stage_content{.mtp = 1});
  CHECK(layout.stages[31] == stage_content{.loss = true});
}

TEST_CASE("a group may end within the last stage") {
  auto const layout = layout_of("Et|(tt|)*30L");
  CHECK(layout.stages.size() == 32);
  CHECK(layout.layers() == 61);
  CHECK(layout.stages.back() == stage_content{.loss = true});
}

TEST_CASE("a layout whose sums differ from the model's says which, and from which stage on") {
  auto const layout = layout_of("Et|(tt|)*29|L");
  CHECK(layout.stages[30] == stage_content{});
  auto const wrong = check_layout(layout, {.layers = 61, .ranks = 16});
  REQUIRE(wrong.size() == 1);
  CHECK(to_string(wrong[0]) == "the layout holds 59 transformer layers, the last in stage 29 (\"tt\"); expected 61");
  CHECK(to_string(check_layout(layout, {.layers = 30}).at(0)) ==
        "the layout holds 59 transformer layers, too many from stage 15 (\"tt\") on; expected 30");
  CHECK(to_string(check_layout(layout_of("Et|tmmL"), {.layers = 2, .mtp = 1}).at(0)) ==
        "the layout holds 2 layers of multi-token prediction, too many from stage 1 (\"tmmL\") on; expected 1");
  CHECK(to_string(check_layout(layout_of("Et|L"), {.layers = 1, .mtp = 1}).at(0)) ==
        "the layout holds 0 layers of multi-token prediction; expected 1");
  CHECK(check_layout(layout, {.layers = 59, .ranks = 16}).empty());
  CHECK(to_string(check_layout(layout, {.layers = 59, .mtp = 1, .ranks = 5}).at(1)) ==
        "the layout has 32 stages; expected a multiple of 5 ranks");
}

TEST_CASE("stages may be empty, symbols may repeat, and commas mean nothing") {
  CHECK(layout_of("E||t|L").stages.size() == 4);
  CHECK(layout_of("E|*3t*2L").stages.size() == 4);
  CHECK(layout_of("EtL").stages.size() == 1);
  CHECK(layout_of("E,t,t,|,tL") == layout_of("Ett|tL"));
  CHECK(layout_of("E(t)*0|(t*3|)*2L") == layout_of("E|ttt|ttt|L"));
}

TEST_CASE("a layout is read again from what was written") {
  for (std::string_view text : {"Et*3|(tt|)*29,m|L", "Et|(tt|)*29,|L", "EtL", "E|L", "E|(|)*9,ttmL", "Ett|tt|t|mm|L"}) {
    auto const layout = layout_of(text);
    CHECK(layout_of(write_layout(layout)) == layout);
    CHECK(write_layout(layout) == text);
  }
}

TEST_CASE("what is no layout is named with its place") {
  CHECK(wrong_with("") == "line 1, column 1: has no embedding; expected E as the first symbol");
  CHECK(wrong_with("Et|x|L") == "line 1, column 4, x: is no symbol; expected E, t, m, L, '|' or a group (..)*n");
  CHECK(wrong_with("Et|t") == "line 1, column 5: has no loss; expected L as the last symbol");
  CHECK(wrong_with("EtL|t") == "line 1, column 4, |: is in a wrong place; expected nothing behind L");
  CHECK(wrong_with("tEL").find("column 2") != std::string::npos);
  CHECK(wrong_with("E|EL").find("column 3") != std::string::npos);
  CHECK(wrong_with("Em|tL").find("every t before the first m") != std::string::npos);
  CHECK(wrong_with("Et (t)*2L").find("column 3,  : is no symbol") != std::string::npos);
  CHECK(wrong_with("E(t|L").find("does not end") != std::string::npos);
  CHECK(wrong_with("E(t(t)*2)*2L").find("within a group") != std::string::npos);
  CHECK(wrong_with("E(t|)L").find("not repeated") != std::string::npos);
  CHECK(wrong_with("E()*2L").find("empty") != std::string::npos);
  CHECK(wrong_with("Et*L").find("without a count") != std::string::npos);
  CHECK(wrong_with("Et)L").find("closes no group") != std::string::npos);
  CHECK(wrong_with("*3").find("repeats nothing") != std::string::npos);
}

TEST_CASE("counts that no model has are refused before memory is spent on them") {
  CHECK(wrong_with("Et*99999999999999999999999L").find("at most 1000000") != std::string::npos);
  CHECK(wrong_with("E(t|)*99999L").find("too many stages") != std::string::npos);
  CHECK(wrong_with("E(t|t|t)*999999L").find("at most") != std::string::npos);
  CHECK(wrong_with("Et*1000000t*1000000L").find("too many layers") != std::string::npos);
  CHECK(wrong_with("E|*65536L").find("at most 65536") != std::string::npos);
  CHECK(layout_of("E|*65535L").stages.size() == 65536);
}
