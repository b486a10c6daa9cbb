// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include <pipesched/core/op.hpp>
#include <pipesched/core/writer.hpp>

#include "support/catch.hpp"

using namespace pipesched;

namespace {

/// A sink that keeps what it gets.
struct keep {
  std::vector<op> ops;
  void operator()(op o) { ops.push_back(o); }

  [[nodiscard]] std::string text() const {
    std::string all;
    for (op o : ops) all += (all.empty() ? "" : " ") + to_string(o) + (o.overlaps_next() ? "&" : "");
    return all;
  }
};

}  // namespace

TEST_CASE("A writer hands out the next microbatch of each kind", "[core][writer]") {
  keep out;
  stage_writer stage(out, 3);
  stage.forward().forward().backward().forward().backward();
  CHECK(out.text() == "3F0 3F1 3B0 3F2 3B1");
}

TEST_CASE("B and I are one sequence, and W follows I alone", "[core][writer]") {
  keep out;
  stage_writer stage(out, 0);
  stage.backward().backward_input().backward_input().backward_weight().backward_weight();
  stage.backward().backward_input().backward_weight();
  CHECK(out.text() == "0B0 0I1 0I2 0W1 0W2 0B3 0I4 0W4");
}

TEST_CASE("A writer of a replica begins at its first microbatch", "[core][writer]") {
  keep out;
  stage_writer stage(out, 2, 1, 10);
  stage.forward().backward_input().backward_weight();
  CHECK(out.text() == "2F10 2I10 2W10");
  for (op o : out.ops) CHECK(o.replica() == 1);
}

TEST_CASE("Two writers of one sink overlap a forward with a backward", "[core][writer]") {
  keep out;
  stage_writer down(out, 0);
  stage_writer up(out, 7);
  up.forward();
  overlap(down, up);
  overlap(up, down);
  CHECK(out.text() == "7F0 0F0& 7B0 7F1& 0B0");
}

TEST_CASE("Repeat runs its bodies in turn, and not at all for a negative number of times", "[core][writer]") {
  keep out;
  stage_writer stage(out, 0);
  auto const f = [&] { stage.forward(); };
  auto const b = [&] { stage.backward(); };
  repeat(2, f, b);
  repeat(-1, f, b);
  CHECK(out.text() == "0F0 0B0 0F1 0B1");
}
