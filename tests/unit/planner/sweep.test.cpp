// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/report.hpp>
#include <pipesched/planner/sweep.hpp>

#include "support/catch.hpp"

using namespace pipesched;

namespace {

using work_of_vector = shape_sweep<std::vector<named_shape>, uniform_cost<>>;
static_assert(std::input_iterator<work_of_vector::iterator>);
static_assert(shape_sequence<std::vector<named_shape>> && shape_sequence<shape_grid>);
static_assert(!shape_sequence<std::vector<int>>);

/// The same figures, by a loop over the shapes that shares nothing with the sweep.
std::optional<report<std::int64_t>> one_by_one(named_shape const& what, uniform_cost<> const& cost) {
  std::optional<report<std::int64_t>> figures;
  with_schedule_type(what.schedule, [&]<class Generator>() {
    if (!check_shape<Generator>(what.shape)) figures = analyze(make_generator<Generator>(what.shape), cost);
  });
  return figures;
}

bool same(report<std::int64_t> const& a, report<std::int64_t> const& b) {
  auto const ranks_agree = [](rank_report<std::int64_t> const& x, rank_report<std::int64_t> const& y) {
    return x.rank == y.rank && x.stages.size() == y.stages.size() && x.operations == y.operations && x.busy == y.busy &&
           x.idle == y.idle && x.first_start == y.first_start && x.last_end == y.last_end && x.warmup == y.warmup &&
           x.idle_cause.waiting == y.idle_cause.waiting && x.steady_utilization == y.steady_utilization &&
           x.peak_activations == y.peak_activations && x.peak_time == y.peak_time;
  };
  return a.operations == b.operations && a.makespan == b.makespan && a.bubble_time == b.bubble_time &&
         a.bubble_fraction == b.bubble_fraction && a.peak_activations == b.peak_activations &&
         std::equal(a.per_rank.begin(), a.per_rank.end(), b.per_rank.begin(), b.per_rank.end(), ranks_agree);
}

/// What a sweep over `shapes` says of each: one line, so that runs can be compared.
template <class Sweep>
std::vector<std::string> lines_of(Sweep&& results) {
  std::vector<std::string> lines;
  for (auto const& r : results) {
    std::string line = std::to_string(r.position).append(" ").append(r.what.schedule).append(" ");
    if (r.violation) line += r.violation->message();
    if (r.figures)
      line += std::to_string(r.figures->makespan) + " " + std::to_string(r.figures->idle_total) + " " +
              std::to_string(r.figures->peak_activations);
    lines.push_back(line);
  }
  return lines;
}

shape_grid small_grid() { return shape_grid({.ranks = 6, .microbatches_per_rank = 3, .chunks = {1, 2, 3}}); }

}  // namespace

TEST_CASE("A sweep finds of each shape what analyze finds of it alone, in the order of the shapes", "[sweep]") {
  auto const shapes = small_grid();
  uniform_cost<> const cost{.forward = 2, .backward_input = 3, .backward_weight = 1, .latency = 1};
  std::size_t position = 0;
  std::size_t refused = 0;
  for (auto const& r : sweep(shapes, cost)) {
    auto const expected = shapes[position];
    REQUIRE(r.position == position++);
    REQUIRE(r.what.schedule == expected.schedule);
    REQUIRE(r.what.shape.ranks == expected.shape.ranks);
    REQUIRE(r.what.shape.microbatches == expected.shape.microbatches);
    REQUIRE(r.what.shape.chunks == expected.shape.chunks);
    auto const alone = one_by_one(expected, cost);
    REQUIRE(r.figures.has_value() == alone.has_value());
    REQUIRE(r.violation.has_value() != alone.has_value());
    if (alone) REQUIRE(same(*r.figures, *alone));
    refused += r.violation.has_value();
  }
  CHECK(position == shapes.size());
  CHECK(refused > 0);
}

TEST_CASE("A sweep says the same for any number of threads", "[sweep]") {
  auto const alone = lines_of(sweep(small_grid(), uniform_cost{}, {.threads = 1}));
  REQUIRE(alone.size() == small_grid().size());
  for (int threads : {0, 2, 3, 8}) CHECK(lines_of(sweep(small_grid(), uniform_cost{}, {.threads = threads})) == alone);
}

TEST_CASE("A sweep over no shape is empty, and one over a single shape has one result", "[sweep]") {
  for (int threads : {0, 1, 4}) {
    CHECK(lines_of(sweep(std::vector<named_shape>{}, uniform_cost{}, {.threads = threads})).empty());
    CHECK(lines_of(sweep(std::vector<named_shape>{{"1f1b", {}}}, uniform_cost{}, {.threads = threads})) ==
          std::vector<std::string>{"0 1f1b 3 0 1"});
  }
}

TEST_CASE("Shapes that a schedule refuses come with the violation", "[sweep]") {
  std::vector<named_shape> const shapes = {
      {"dualpipe", {.ranks = 3, .microbatches = 8}},
      {"gpipe", {.ranks = 0}},
      {"1f1b", {.ranks = 2, .microbatches = 2, .chunks = 2}},
      {"gpipe", {.ranks = 2, .microbatches = 2}},
  };
  std::vector<std::string_view> wrong;
  for (auto const& r : sweep(shapes)) wrong.push_back(r.violation ? r.violation->parameter : "");
  CHECK(wrong == std::vector<std::string_view>{"ranks", "ranks", "chunks", ""});
}

TEST_CASE("What a cost model throws comes out of the loop at its shape, and ends the sweep", "[sweep]") {
  auto const cost = [](op o, int) -> std::int64_t {
    if (o.stage() == 3) throw std::domain_error("stage 3 has no time");
    return 1;
  };
  auto const shapes = shape_grid({.ranks = 5, .schedules = {"gpipe", "1f1b"}});
  for (int threads : {1, 2, 5}) {
    std::size_t seen = 0;
    auto results = sweep(shapes, cost, {.threads = threads});
    auto const go_through = [&] {
      for (auto const& r : results) {
        REQUIRE(r.what.shape.ranks < 4);
        ++seen;
      }
    };
    CHECK_THROWS_AS(go_through(), std::domain_error);
    CHECK(seen == 2 * (4 + 8 + 12));
    CHECK(results.begin() == results.end());
  }
}

TEST_CASE("A negative time and an unknown schedule are refused as everywhere", "[sweep]") {
  CHECK_THROWS_AS(lines_of(sweep(small_grid(), uniform_cost<>{.forward = -1})), parameter_error);
  CHECK_THROWS_AS(lines_of(sweep(std::vector<named_shape>{{"2f2b", {}}})), schedule_error);
  CHECK_THROWS_AS(shape_grid({.schedules = {"2f2b"}}), schedule_error);
  CHECK_THROWS_AS(shape_grid({.ranks = 0}), parameter_error);
}

TEST_CASE("A cost model can be made for each placement", "[sweep]") {
  // Each rank's share takes 12, however many stages it is cut into.
  auto const per_rank = [](placement const& where) {
    return uniform_cost<>{12 * where.ranks() / where.stages(), 12 * where.ranks() / where.stages(),
                          12 * where.ranks() / where.stages()};
  };
  for (auto const& r : sweep(small_grid(), per_rank))
    if (r.figures && r.figures->parameter_copies == r.figures->chunks)
      REQUIRE(r.figures->busy_total == 36 * r.figures->ranks * r.figures->microbatches);
}

TEST_CASE("The peaks of a sweep are in the unit of its memory model", "[sweep]") {
  std::vector<named_shape> const shapes = {{"gpipe", {.ranks = 2, .microbatches = 5}}};
  for (auto const& r : sweep(shapes, uniform_cost{}, {.memory = activation_size{10, 10}}))
    CHECK(r.figures->peak_activations == 50);
}

TEST_CASE("A sweep that is left early, or not gone through at all, ends", "[sweep]") {
  for (int threads : {1, 2, 8}) {
    std::atomic<int> asked = 0;
    auto const counting = [&](op, int) {
      ++asked;
      return 1;
    };
    {
      auto const untouched = sweep(shape_grid({.ranks = 1024}), counting, {.threads = threads});
      CHECK(untouched.size() > 0);
    }
    std::size_t seen = 0;
    for (auto const& r : sweep(shape_grid({.ranks = 1024}), counting, {.threads = threads})) {
      if (++seen == 100) break;
      REQUIRE(r.position == seen - 1);
    }
    CHECK(asked > 0);
  }
}

TEST_CASE("A stop token ends a sweep after the result at hand", "[sweep]") {
  for (int threads : {1, 3}) {
    std::stop_source source;
    std::size_t seen = 0;
    for ([[maybe_unused]] auto const& r :
         sweep(shape_grid({.ranks = 1024}), uniform_cost{}, {.threads = threads, .stop = source.get_token()}))
      if (++seen == 10) source.request_stop();
    CHECK(seen == 10);
  }
}

TEST_CASE("A grid has every schedule of each P and m, the schedules side by side", "[sweep]") {
  shape_grid const grid(
      {.ranks = 3, .microbatches_per_rank = 2, .schedules = {"interleaved-1f1b", "zb-v"}, .chunks = {2, 4}});
  std::vector<std::string> all;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    auto const what = grid[i];
    all.push_back(std::string(what.schedule) + " " + std::to_string(what.shape.ranks) + " " +
                  std::to_string(what.shape.microbatches) + " " + std::to_string(what.shape.chunks.value_or(0)));
  }
  REQUIRE(all.size() == 3 * (2 + 4 + 6));
  CHECK(all[0] == "interleaved-1f1b 1 1 2");
  CHECK(all[1] == "interleaved-1f1b 1 1 4");
  CHECK(all[2] == "zb-v 1 1 0");
  CHECK(all[5] == "zb-v 1 2 0");
  CHECK(all[6] == "interleaved-1f1b 2 1 2");
  CHECK(all.back() == "zb-v 3 6 0");
}
