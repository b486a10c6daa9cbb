// SPDX-License-Identifier: MIT
#include <pipesched/io/check_torch_csv.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "support/lowering.hpp"
#include "support/random_schedules.hpp"

using namespace pipesched;

namespace {

using lines = std::vector<std::string>;

lines complaints(std::string_view text, torch_csv_options const& options = {}) {
  lines found;
  for (auto const& d : check_torch_csv(text, options)) found.push_back(to_string(d));
  return found;
}

std::filesystem::path data() { return PIPESCHED_TEST_DATA; }

std::string content_of(std::filesystem::path const& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string case_file(std::string const& name) { return content_of(data() / "cases" / name); }

bool mentions(lines const& found, std::string_view text) {
  for (auto const& line : found)
    if (line.find(text) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("No recorded order has a fault") {
  int files = 0;
  for (auto const& entry : std::filesystem::recursive_directory_iterator(data() / "orders")) {
    if (entry.path().extension() != ".csv") continue;
    CAPTURE(entry.path().string());
    CHECK(complaints(content_of(entry.path())).empty());
    ++files;
  }
  CHECK(files > 100);
}

TEST_CASE("The small traps of the field have the right answers") {
  CHECK(complaints(case_file("duplicate.csv")) ==
        lines{"rank 0, position 1, 0F0: duplicate: it stands at rank 0, position 0 already; expected it once"});
  CHECK(complaints(case_file("missing_backward.csv")) ==
        lines{"rank 0, position 3, 0I0: microbatch 0 has a full backward on stage 0 too, 0B0 (rank 0, position 2); "
              "expected either B, or I and W",
              "rank 0, 0B1: missing: microbatch 1 has no backward on stage 0"});
  CHECK(complaints(case_file("cycle.csv")) ==
        lines{"deadlock: cycle 0B0 -> 1B0 -> 1F1 -> 0F1 -> 0B0: 0B0 waits for 1B0, 1B0 comes after 1F1 on rank 1, 1F1 "
              "waits for 0F1, 0F1 comes after 0B0 on rank 0",
              "rank 0, position 1, 0B0: blocked: waits for 1B0 (rank 1, position 3)",
              "rank 1, position 0, 1F1: blocked: waits for 0F1 (rank 0, position 2)"});
  CHECK(complaints(case_file("greedy_lowering.csv")).empty());
  CHECK(complaints(case_file("dialect.csv")).empty());
  CHECK(complaints(case_file("deferred_recv.csv")) ==
        lines{"rank 0, 2F1: missing: microbatch 1 has no op on stage 2",
              "rank 1, position 5, 1SEND_F1: nobody receives what it sends; expected 2RECV_F1 on rank 0"});
}

TEST_CASE("Places are those of the file: cells with blanks counted, lines, columns") {
  auto const found = check_torch_csv("0F0,,0F1,0B0,0B1\r\n,1F0, \"1F0\" ,1B0,1F1,1B1\r\n");
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == "duplicate_op");
  CHECK(found[0].rank == 1);
  CHECK(found[0].position == 2);
  CHECK(found[0].line == 2);
  CHECK(found[0].column == 8);
  CHECK(complaints("0F0,(0F1;0B1)OVERLAP_F_B,0B0\n") ==
        lines{"rank 0, position 1, 0B1: waits for 0F1, which is in one pair with it"});
  CHECK(complaints("0UNSHARD,0F0,0B0,0B0,0RESHARD\n") ==
        lines{"rank 0, position 3, 0B0: duplicate: it stands at rank 0, position 2 already; expected it once"});
}

TEST_CASE("A deadlock through overlapped pairs says so") {
  CHECK(complaints("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F1,1B1,1F0,1B0\n") ==
        lines{"deadlock: cycle 0B0 -> 1B0 -> 1F1 -> 0F1 -> 0B0: 0B0 waits for 1B0, 1B0 comes after 1F1 on rank 1, 1F1 "
              "waits for 0F1, 0F1 is in one pair with 0B0 on rank 0",
              "rank 0, position 1, 0B0: blocked: waits for 1B0 (rank 1, position 3)",
              "rank 1, position 0, 1F1: blocked: waits for 0F1 (rank 0, position 1)"});
}

TEST_CASE("What cannot be read and what cannot run are found together") {
  auto const found = complaints("0F0,0F1,oops,0B0,0B1\n1F0,1B0,1F1,1F1,1B1\n");
  REQUIRE(found.size() == 2);
  CHECK(mentions(found, "rank 0, position 2, oops: is no action"));
  CHECK(mentions(found, "rank 1, position 3, 1F1: duplicate"));
}

TEST_CASE("A stage on two ranks is a fault, and no replica") {
  CHECK(
      mentions(complaints("0F0,0F1,0B0,0B1,1F1\n1F0,1B0,1F1,1B1\n"), "rank 0, position 4, 1F1: stage 1 is on rank 1"));
  CHECK(mentions(complaints("0F0,0B0\n0F1,0B1\n"), "rank 1, position 0, 0F1: stage 0 is on rank 0"));
}

TEST_CASE("A microbatch has no W beside a full backward") {
  CHECK(complaints("0F0,0B0,0W0\n") ==
        lines{"rank 0, position 2, 0W0: microbatch 0 has a full backward on stage 0 too, 0B0 (rank 0, position 1); "
              "expected either B, or I and W"});
}

TEST_CASE("Sends and receives that do not fit") {
  std::string const right = "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n";
  CHECK(complaints(right).empty());
  CHECK(complaints("0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n") ==
        lines{"rank 1, position 0, 1RECV_F0: nobody sends what it receives; expected 0SEND_F0 on rank 0"});
  CHECK(complaints("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n") ==
        lines{"rank 0, position 1, 0SEND_F0: nobody receives what it sends; expected 1RECV_F0 on rank 1"});
  CHECK(complaints("0F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n") ==
        lines{"rank 0, position 0, 0F0: rank 1 needs its result, which is not sent; expected 0SEND_F0",
              "rank 1, position 0, 1F0: its input comes from rank 0 and is not received; expected 1RECV_F0"});
  CHECK(complaints("0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n") ==
        lines{"rank 0, position 0, 0SEND_F0: is sent before 0F0 (rank 0, position 1) makes it"});
  CHECK(complaints("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0\n") ==
        lines{"rank 1, position 1, 1RECV_F0: is received after 1F0 (rank 1, position 0), which needs it"});
  CHECK(complaints("0F0,0SEND_F0,0RECV_B0,0B0,0SEND_B0\n1RECV_F0,1F0,1B0,1SEND_B0\n") ==
        lines{"rank 0, position 4, 0SEND_B0: no two ranks exchange this message"});
  CHECK(complaints("0F0,0SEND_F0,1F0,1RECV_F0,1B0,0B0\n") ==
        lines{"rank 0, position 1, 0SEND_F0: no two ranks exchange this message",
              "rank 0, position 3, 1RECV_F0: no two ranks exchange this message"});
  CHECK(complaints("0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n") ==
        lines{"rank 0, position 2, 0SEND_F0: duplicate: it stands at rank 0, position 1 already; expected it once"});
  CHECK(complaints("0WAIT_SEND_F0,0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n") ==
        lines{"rank 0, position 0, 0WAIT_SEND_F0: waits for a send that does not come before it; expected 0SEND_F0"});
  CHECK(mentions(complaints("0F0,0RECV_B0,0B0\n1RECV_F0,0SEND_F0,1F0,1B0,1SEND_B0\n"),
                 "rank 1, position 1, 0SEND_F0: stage 0 is on rank 0"));
  auto const wrongly_paired = complaints("0F0,0SEND_F0,0RECV_B0,0B0\n2RECV_F0,1F0,1B0,1SEND_B0\n");
  CHECK(mentions(wrongly_paired, "0SEND_F0: nobody receives what it sends; expected 1RECV_F0 on rank 1"));
  CHECK(mentions(wrongly_paired, "2RECV_F0: no two ranks exchange this message"));
}

TEST_CASE("Messages overtaking each other on a channel") {
  CHECK(complaints("0F0,0SEND_F0,0F1,0SEND_F1\n1RECV_F1,1RECV_F0,1F0,1F1\n") ==
        lines{"rank 0, position 1, 0SEND_F0: channel order (FIFO) broken: it is sent next, and 1RECV_F1 is received "
              "next (rank 1, position 0); expected messages between two ranks received in the order in which they are "
              "sent"});
}

TEST_CASE("A send that comes too late hangs two ranks") {
  auto const found = complaints("0F0,0RECV_B0,0B0,0SEND_F0\n1RECV_F0,1F0,1B0,1SEND_B0\n");
  CHECK(mentions(found, "deadlock: cycle "));
  CHECK(mentions(found, "rank 1, position 1, 1F0: blocked: waits for 0SEND_F0 (rank 0, position 3)"));
}

TEST_CASE("Programs with communication put in are right, and the chunk ops come back") {
  std::mt19937 random(7);
  for (auto const& where : {placement::linear(3), placement::loop(2, 2), placement::v(3), placement::bidirectional(4)})
    for (int round = 0; round < 5; ++round) {
      auto const s = test_support::random_schedule(where, 4, random);
      auto const text = write_torch_csv(test_support::with_communication(s));
      CAPTURE(text);
      CHECK(complaints(text) == lines{});
      CHECK(write_torch_csv(*read_torch_csv(text).compute) == write_torch_csv(s));
      CHECK(write_torch_csv(read_torch_csv(text).actions) == text);
    }
}
