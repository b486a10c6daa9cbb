// SPDX-License-Identifier: MIT
#include <pipesched/io/diagnostic.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace pipesched;

TEST_CASE("A diagnostic is one line that begins with its place") {
  CHECK(to_string(diagnostic{.kind = "k", .rank = 1, .position = 4, .op = "3B0", .message = "waits for 3F0"}) ==
        "rank 1, position 4, 3B0: waits for 3F0");
  CHECK(to_string(diagnostic{.kind = "k", .rank = 1, .line = 2, .column = 1, .op = "3B0", .message = "is missing"}) ==
        "rank 1, 3B0: is missing");
  CHECK(to_string(diagnostic{.kind = "k", .line = 2, .column = 7, .message = "is wrong", .expected = "right"}) ==
        "line 2, column 7: is wrong; expected right");
  CHECK(to_string(diagnostic{.kind = "k", .message = "deadlock: cycle"}) == "deadlock: cycle");
}

TEST_CASE("Diagnostics as JSON leave out what is not set") {
  CHECK(to_json({}) == "[]\n");
  std::vector<diagnostic> const two{
      {.kind = "duplicate_op", .rank = 0, .position = 1, .line = 1, .column = 5, .op = "0F0", .message = "m"},
      {.kind = "empty_file", .message = "a \"quote\", a \\ and a\nline", .expected = "x"}};
  CHECK(to_json(two) ==
        "[{\"kind\": \"duplicate_op\", \"rank\": 0, \"position\": 1, \"line\": 1, \"column\": 5, \"op\": \"0F0\", "
        "\"message\": \"m\"},\n"
        " {\"kind\": \"empty_file\", \"message\": \"a \\\"quote\\\", a \\\\ and a\\nline\", \"expected\": \"x\"}]\n");
}

TEST_CASE("JSON strings are UTF-8 whatever the bytes are") {
  auto const json = [](std::string const& text) {
    std::string out;
    detail::append_json_string(out, text);
    return out;
  };
  CHECK(json("\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80") == "\"\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80\"");
  for (auto const* wrong :
       {"\xFF", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xC3", "\xE2\x82"}) {
    CAPTURE(wrong);
    CHECK(json(wrong).substr(0, 8) == "\"\\ufffd" + std::string(json(wrong).size() > 8 ? "\\" : "\""));
  }
  CHECK(json(std::string("\0\x1F\t\x7F", 4)) == "\"\\u0000\\u001f\\t\\u007f\"");
}

TEST_CASE("Text from outside is shown short and printable") {
  CHECK(detail::printable("0F0\n\xFF") == "0F0\\x0a\\xff");
  CHECK(detail::printable(std::string(100, 'x')) == std::string(40, 'x') + "...");
}
