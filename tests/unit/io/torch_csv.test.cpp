// SPDX-License-Identifier: MIT
#include <pipesched/io/torch_csv.hpp>

#include <string>
#include <string_view>

#include <pipesched/schedules/dual_pipe.hpp>
#include <pipesched/schedules/dual_pipe_v.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

#include "support/catch.hpp"
#include "support/recorded_orders.hpp"

using namespace pipesched;
using namespace std::string_literals;

namespace {

/// The diagnostics, one a line.
std::string complaints(torch_csv const& file) {
  std::string text;
  for (auto const& d : file.diagnostics) text += to_string(d) + "\n";
  return text;
}

std::string kinds(torch_csv const& file) {
  std::string text;
  for (auto const& d : file.diagnostics) text += (text.empty() ? "" : " ") + d.kind;
  return text;
}

torch_csv read_clean(std::string_view text, torch_csv_options const& options = {}) {
  auto file = read_torch_csv(text, options);
  INFO(complaints(file));
  REQUIRE(file.diagnostics.empty());
  REQUIRE(file.compute);
  return file;
}

std::string actions_of(torch_csv const& file) { return write_torch_csv(file.actions); }

}  // namespace

TEST_CASE("Every recorded order reads and comes back equal") {
  std::size_t files = 0;
  for (auto const& folder : std::filesystem::directory_iterator(
           std::filesystem::path(__FILE__).parent_path().parent_path().parent_path() / "data" / "orders"))
    for (auto const& order : test_support::recorded_orders(folder.path().filename().string())) {
      std::string text;
      for (auto const& row : order.rows) {
        for (auto const& cell : row) text += (&cell == &row.front() ? "" : ",") + cell;
        text += "\n";
      }
      CAPTURE(folder.path().string(), order.file);
      auto const file = read_clean(text);
      CHECK(write_torch_csv(*file.compute) == text);
      CHECK(file.compute->microbatches() == order.microbatches);
      CHECK(file.compute->ranks() == order.ranks);
      CHECK(file.compute->where().kind() != placement_kind::custom);
      ++files;
    }
  CHECK(files > 100);
}

TEST_CASE("Generated schedules come back with their placement and replicas") {
  auto const check_round_trip = [](schedule const& s) {
    CAPTURE(s.name(), s.ranks(), s.microbatches());
    CHECK(*read_clean(write_torch_csv(s)).compute == s);
  };
  for (int p : {1, 2, 3, 8})
    for (int m : {1, 2, 7}) check_round_trip(generate(one_f_one_b{.ranks = p, .microbatches = m}));
  check_round_trip(generate(dual_pipe{.ranks = 2, .microbatches = 4}));
  check_round_trip(generate(dual_pipe{.ranks = 8, .microbatches = 20}));
  check_round_trip(generate(dual_pipe_v{.ranks = 4, .microbatches = 10}));
}

TEST_CASE("Blanks, quotes, line ends, ragged rows and blank cells do not change what is read") {
  auto const plain = *read_clean("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n").compute;
  for (std::string text : {"0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n"s, "0F0,0F1,0B0,0B1\r1F0,1B0,1F1,1B1"s,
                           " 0F0 ,\t0F1, 0B0,0B1 \n1F0 , 1B0,1F1,1B1"s,
                           "\"0F0\",\"0F1\",\" 0B0\",\"0B1\"\r\n\"1F0\" , \"1B0\",\"1F1\",\"1B1\"\r\n"s,
                           "0F0,0F1,,,0B0,,0B1\n,1F0,1B0,1F1,1B1,,,,\n"s,
                           "\xEF\xBB\xBF"
                           "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"s,
                           "00F0,0F01,0B0,0B1\n1F0,1B0,1F1,1B1"s}) {
    CAPTURE(text);
    CHECK(*read_clean(text).compute == plain);
  }
}

TEST_CASE("A blank line is a rank without ops") {
  auto const file = read_clean("0F0,0B0\n\n1F0,1B0\n");
  CHECK(file.compute->ranks() == 3);
  CHECK(file.compute->program(1).empty());
  CHECK(file.compute->where().kind() == placement_kind::custom);
  CHECK(file.compute->where().rank_of(1) == 2);
  CHECK(write_torch_csv(*file.compute) == "0F0,0B0\n\n1F0,1B0\n");
  CHECK(read_torch_csv("\n0F0,0B0\n\n").compute->ranks() == 3);
}

TEST_CASE("A cell that is no whole action is a diagnostic with its place") {
  auto const [token, kind] = GENERATE(table<std::string, std::string>({
      {"1F0xyz", "bad_token"},
      {"0SEND_F", "bad_token"},
      {"x1F0", "bad_token"},
      {"1F", "bad_token"},
      {"F0", "bad_token"},
      {"1f0", "bad_token"},
      {"1F0 1F1", "bad_token"},
      {"1X0", "bad_token"},
      {"1F-1", "bad_token"},
      {"1F+1", "bad_token"},
      {"1F1.0", "bad_token"},
      {"-1F0", "bad_token"},
      {"1F\xD9\xA3", "bad_token"},
      {"\xEF\xBC\x91"
       "F0",
       "bad_token"},
      {"1UNSHARD3", "bad_token"},
      {"2BW0", "wrong_dialect"},
      {"F0_s1", "wrong_dialect"},
      {"1OVERLAP_F_B0", "bad_token"},
      {"(1F1;1B0)", "bad_token"},
      {"(1F1)OVERLAP_F_B", "bad_token"},
      {"(1F1;1B0;1F2)OVERLAP_F_B", "bad_token"},
      {"((1F1;1B0)OVERLAP_F_B;1B0)OVERLAP_F_B", "bad_token"},
      {"(1F1;1SEND_B0)OVERLAP_F_B", "wrong_kind"},
      {"65536F0", "out_of_range"},
      {"0F2147483647", "out_of_range"},
      {"0F18446744073709551616", "out_of_range"},
      {"99999999999999999999999999999999F0", "out_of_range"},
      {"1F0\"", "bad_token"},
      {"\"1F0", "bad_quotes"},
      {"\"1F0\"x", "bad_quotes"},
  }));
  CAPTURE(token);
  auto const file = read_torch_csv("0F0,0B0\n1F0,1B0," + token + "\n");
  REQUIRE(kinds(file) == kind);
  auto const& d = file.diagnostics.front();
  CHECK(d.rank == 1);
  CHECK(d.position == 2);
  CHECK(d.line == 2);
  CHECK(d.column == 9);
  CHECK_FALSE(d.message.empty());
  CHECK(file.compute);
}

TEST_CASE("Each wrong cell has its diagnostic, and the rest is read") {
  auto const file = read_torch_csv("0F0,oops,0B0,0F\n1F0,1B0\nnot a row\n");
  CHECK(complaints(file) ==
        "rank 0, position 1, oops: is no action; expected <stage><F, B, I, W, SEND_F, ...><microbatch>, whole and in "
        "ASCII digits\n"
        "rank 0, position 3, 0F: has no microbatch; expected <stage><F, B, I, W, SEND_F, ...><microbatch>, whole and "
        "in ASCII digits\n"
        "rank 2, position 0, not a row: is no action; expected <stage><F, B, I, W, SEND_F, ...><microbatch>, whole and "
        "in ASCII digits\n");
  CHECK(actions_of(file) == "0F0,0B0\n1F0,1B0\n\n");
}

TEST_CASE("Rows with communication keep every action, and give the compute ops alone") {
  std::string const text =
      "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0WAIT_SEND_F0,0B0,0REDUCE_GRAD,0RESHARD\n"
      "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0,1REDUCE_GRAD,1RESHARD\n";
  auto const file = read_clean(text);
  CHECK(file.rows == torch_rows::compute_comms);
  CHECK(actions_of(file) == text);
  CHECK(write_torch_csv(*file.compute) == "0F0,0B0\n1F0,1B0\n");
  CHECK(kinds(read_torch_csv("0F0,0SEND_F0\n1RECV_F0,1F0\n", {.rows = torch_rows::compute_only})) ==
        "wrong_kind wrong_kind");
  CHECK(kinds(read_torch_csv("0F0,,0SEND_F0\n1RECV_F0,1F0\n")) == "blank_cell");
}

TEST_CASE("The dialects of the years are found out") {
  auto const current = *read_clean("0F0,0F1,0B0,0I1,0W1\n").compute;
  auto const mid_2024 = read_clean("0F0,0F1,0BW0,0B1,0W1\n");
  CHECK(mid_2024.dialect == torch_dialect::mid_2024);
  CHECK(*mid_2024.compute == current);
  CHECK(*read_clean("0F0,0BW0\n").compute == *read_clean("0F0,0B0\n").compute);
  auto const old = read_clean("F0_s0,F1_s0,B0_s0,B1_s0\nF0_s1,B0_s1,F1_s1,B1_s1\n");
  CHECK(old.dialect == torch_dialect::v2_4);
  CHECK(write_torch_csv(*old.compute) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
}

TEST_CASE("A dialect that is given is kept to") {
  auto const split = read_clean("0F0,0B0,0W0\n", {.dialect = torch_dialect::mid_2024});
  CHECK(write_torch_csv(*split.compute) == "0F0,0I0,0W0\n");
  CHECK(write_torch_csv(*read_clean("0F0,0B0,0W0\n", {.dialect = torch_dialect::v2_5}).compute) == "0F0,0B0,0W0\n");
  CHECK(kinds(read_torch_csv("0F0,0I0,0W0\n", {.dialect = torch_dialect::v2_5})) == "wrong_dialect");
  CHECK(kinds(read_torch_csv("0F0,0BW0\n", {.dialect = torch_dialect::current})) == "wrong_dialect");
  CHECK(kinds(read_torch_csv("0F0,0B0\n", {.dialect = torch_dialect::v2_4})) == "wrong_dialect wrong_dialect no_ops");
}

TEST_CASE("A placement that is given is kept to, and must fit") {
  auto const where = placement::v(1);
  CHECK(read_clean("0F0,1F0,1B0,0B0\n", {.where = where}).compute->where().kind() == placement_kind::v);
  CHECK(kinds(read_torch_csv("0F0,0B0\n1F0,1B0\n", {.where = where})) == "wrong_shape");
  CHECK(kinds(read_torch_csv("0F0,0B0,2F0\n", {.where = where})) == "wrong_shape");
}

TEST_CASE("Hostile bytes are diagnostics in memory and time of the text") {
  CHECK(kinds(read_torch_csv("")) == "empty_file");
  CHECK(kinds(read_torch_csv("\n")) == "no_ops");
  CHECK(kinds(read_torch_csv("0F0,0B0\0,0F1\n"s)) == "bad_token");
  CHECK(read_torch_csv("\0\xFF\xFE"s).diagnostics.front().op == "\\x00\\xff\\xfe");
  CHECK(kinds(read_torch_csv("0F0,0B0,\"0F1,0F2\"\n")) == "bad_token");
  CHECK(kinds(read_torch_csv(std::string(1000000, '('))) == "bad_token no_ops");
  CHECK(kinds(read_torch_csv(std::string(1000000, '"'))) == "bad_token no_ops");
  CHECK(kinds(read_torch_csv(std::string(1000000, ','))) == "no_ops");
  CHECK(kinds(read_torch_csv(std::string(1000000, '9') + "F0")) == "out_of_range no_ops");
  auto const rows = read_torch_csv("0F0,0B0" + std::string(100000, '\n'));
  CHECK(kinds(rows) == "out_of_range");
  std::string many;
  for (int i = 0; i < 20000; ++i) many += "x,";
  CHECK(read_torch_csv(many, {.max_diagnostics = 10}).diagnostics.size() == 12);
  CHECK(read_clean("0F1000000000\n").compute->microbatches() == 1000000001);
}
