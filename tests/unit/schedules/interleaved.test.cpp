// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <pipesched/analysis/report.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/schedules/eager_one_f_one_b.hpp>
#include <pipesched/schedules/interleaved.hpp>
#include <pipesched/schedules/interleaved_overlap.hpp>
#include <pipesched/schedules/interleaved_zb.hpp>

#include "support/catch.hpp"
#include "support/recorded_orders.hpp"
#include "support/schedule_faults.hpp"

using namespace pipesched;
using namespace test_support;

static_assert(schedule_generator<interleaved>);
static_assert(schedule_generator<forward_only<interleaved>>);
static_assert(analyze(interleaved{.ranks = 2, .microbatches = 4, .chunks = 2}).bubble_time == 3);
static_assert(!interleaved{.ranks = 4, .microbatches = 8, .chunks = 2}.check());
static_assert(interleaved{.ranks = 4, .microbatches = 8, .chunks = 2, .group = 2}.check());

namespace {

bool runs(schedule const& s) { return execution_order(build_graph(s)).complete(); }

/// The schedule of a generator whose check may fail: the cycle that the check foretells is in it all the same.
template <class G>
schedule unchecked(G const& generator) {
  std::vector<std::vector<op>> programs;
  for (int rank = 0; rank < generator.ranks; ++rank) {
    auto& program = programs.emplace_back();
    auto append = [&](op o) { program.push_back(o); };
    generator.emit(rank, append);
  }
  return schedule(generator.placement(), generator.microbatches, programs);
}

/// Holds `check` against the graph for every group of a grid.
template <class G>
void check_groups() {
  for (int chunks = 1; chunks <= 4; ++chunks)
    for (int ranks = 1; ranks <= 7; ++ranks)
      for (int microbatches = 1; microbatches <= 15; ++microbatches)
        for (int group = 1; group <= microbatches + 1; ++group) {
          G const generator{ranks, microbatches, chunks, group};
          if (generator.check().has_value() == runs(unchecked(generator)))
            FAIL("P=" << ranks << " m=" << microbatches << " v=" << chunks << " N=" << group);
        }
}

/// Holds the group that is chosen against all others.
template <class G>
void check_choice() {
  uniform_cost<> const cost{1, 1, 1, {}, 0};
  for (int chunks = 1; chunks <= 3; ++chunks)
    for (int ranks = 1; ranks <= 6; ++ranks)
      for (int microbatches = 1; microbatches <= 14; ++microbatches) {
        auto const chosen = analyze(G{ranks, microbatches, chunks}, cost).makespan;
        for (int group = 1; group <= microbatches; ++group) {
          G const other{ranks, microbatches, chunks, group};
          if (!other.check() && analyze(other, cost).makespan < chosen)
            FAIL("P=" << ranks << " m=" << microbatches << " v=" << chunks << " N=" << group << " is faster");
        }
      }
}

std::string refusal(interleaved generator) {
  auto const violation = generator.check();
  return violation ? violation->message() : "";
}

}  // namespace

TEST_CASE("Interleaved 1F1B is Megatron-LM's order op for op", "[schedules][interleaved]") {
  for (auto const& recorded : recorded_orders("interleaved-1f1b")) {
    INFO(recorded.file);
    CHECK(first_difference(recorded, generate(interleaved{recorded.ranks, recorded.microbatches, recorded.chunks,
                                                          recorded.group})) == "");
  }
}

TEST_CASE("Interleaved 1F1B chooses torch's group where m is not a multiple of P", "[schedules][interleaved]") {
  for (auto const& recorded : recorded_orders("interleaved-ragged")) {
    INFO(recorded.file);
    CHECK(first_difference(recorded, generate(interleaved{recorded.ranks, recorded.microbatches, recorded.chunks})) ==
          "");
  }
}

TEST_CASE("Interleaved 1F1B on one chunk is eager 1F1B", "[schedules][interleaved]") {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (int microbatches = 1; microbatches <= 15; ++microbatches)
      CHECK(first_difference(rows_of(generate(interleaved{ranks, microbatches, 1})),
                             rows_of(generate(eager_one_f_one_b{ranks, microbatches}))) == "");
}

TEST_CASE("Interleaved 1F1B runs every op once at any shape", "[schedules][interleaved]") {
  for (int chunks = 1; chunks <= 4; ++chunks)
    for (int ranks = 1; ranks <= 7; ++ranks)
      for (int microbatches = 1; microbatches <= 17; ++microbatches) {
        INFO("P=" << ranks << " m=" << microbatches << " v=" << chunks);
        CHECK(first_fault(interleaved{ranks, microbatches, chunks}) == "");
      }
}

TEST_CASE("Interleaved 1F1B refuses a group where, and only where, it makes a cycle", "[schedules][interleaved]") {
  check_groups<interleaved>();
}

TEST_CASE("Interleaved zero bubble refuses a group where, and only where, it makes a cycle",
          "[schedules][interleaved_zb]") {
  check_groups<interleaved_zb>();
}

TEST_CASE("Interleaved 1F1B with overlap refuses a group where, and only where, it makes a cycle",
          "[schedules][interleaved_overlap]") {
  check_groups<interleaved_overlap>();
}

TEST_CASE("No group is faster than the one that interleaved schedules choose", "[schedules][interleaved]") {
  check_choice<interleaved>();
  check_choice<interleaved_zb>();
  check_choice<interleaved_overlap>();
}

TEST_CASE("Interleaved 1F1B names the bound that a group breaks", "[schedules][interleaved]") {
  CHECK(refusal({4, 8, 2, 2}) == "group = 2, must be at least 4 (the next one without a dependency cycle)");
  CHECK(refusal({4, 9, 2, 3}) == "");
  CHECK(refusal({4, 8, 2, 100}) == "");
  CHECK(refusal({4, 8, 2, -1}) == "group = -1, must be at least 0 (0 chooses)");
  CHECK(refusal({4, 8, 0}) == "chunks = 0, must be at least 1");
  CHECK(refusal({1024, 8, 65}) == "chunks = 65, must be at most 64 (65536 stages)");
  CHECK(refusal({0, 8, 2}).substr(0, 9) == "ranks = 0");
  CHECK(refusal({4, 0, 2}).substr(0, 16) == "microbatches = 0");
}

TEST_CASE("Interleaved 1F1B checks the largest shapes without overflow", "[schedules][interleaved]") {
  int const most = std::numeric_limits<int>::max();
  CHECK(refusal({most, most, most, most}).substr(0, 5) == "ranks");
  CHECK(refusal({-most, -most, -most, -most}).substr(0, 5) == "ranks");
  CHECK(refusal({32768, most, 2, most}) == "");
  CHECK(refusal({32768, most, 2, most - 1}) == "");
  CHECK(refusal({32768, most, 2}) == "");
  CHECK(refusal({65536, most, 1, 1}) == "");
  CHECK(refusal({32768, most, 2, 3}).substr(0, 9) == "group = 3");
  CHECK(refusal({2, most, most, 1}).substr(0, 6) == "chunks");
}

TEST_CASE("Interleaved 1F1B with 4 ranks, 8 microbatches, 2 chunks has the figures of Megatron-LM",
          "[schedules][interleaved]") {
  auto const all = analyze(interleaved{4, 8, 2});
  CHECK(all.makespan == 57);
  CHECK(all.bubble_ratio == Approx(3.0 / (2 * 8)));
  std::vector<std::int64_t> peaks, warmups;
  for (auto const& rank : all.per_rank) {
    peaks.push_back(rank.peak_activations);
    warmups.push_back(rank.warmup);
  }
  CHECK(peaks == std::vector<std::int64_t>{11, 9, 7, 5});
  CHECK(warmups == std::vector<std::int64_t>{10, 8, 6, 4});
}

TEST_CASE("Interleaved 1F1B takes any number of microbatches", "[schedules][interleaved]") {
  CHECK(analyze(interleaved{4, 3, 2}).makespan == 30);
  CHECK(analyze(interleaved{4, 5, 2}).makespan == 39);
  CHECK(analyze(interleaved{4, 7, 2}).makespan == 51);
  CHECK(analyze(interleaved{4, 10, 2}).makespan == 69);
}

TEST_CASE("Interleaved 1F1B has the bubble and the peaks of its closed forms", "[schedules][interleaved]") {
  uniform_cost<> const costs[] = {{1, 1, 1, {}, 0}, {3, 2, 2, {}, 0}, {2, 5, 1, {}, 0}, {5, 1, 2, {}, 0}};
  for (int chunks = 1; chunks <= 4; ++chunks)
    for (int ranks = 1; ranks <= 6; ++ranks)
      for (int microbatches = 1; microbatches <= 17; ++microbatches)
        for (auto const& cost : costs) {
          auto const f_b = cost.forward + cost.backward_input + cost.backward_weight;
          auto const all = analyze(interleaved{ranks, microbatches, chunks}, cost);
          INFO("P=" << ranks << " m=" << microbatches << " v=" << chunks << " F=" << cost.forward);
          // The default group keeps to P or more in every group, or to all of them.
          int group = std::min(ranks, microbatches);
          while (microbatches % group != 0 && microbatches % group < ranks) ++group;
          if (microbatches < ranks)
            CHECK(all.bubble_time == (chunks * (ranks - microbatches) + microbatches - 1) * f_b);
          else
            CHECK(all.bubble_time == (ranks - 1) * f_b);
          for (auto const& rank : all.per_rank)
            CHECK(rank.peak_activations ==
                  std::min(std::int64_t{microbatches} * chunks,
                           std::int64_t{(chunks - 1) * group + 2 * (ranks - 1 - rank.rank) + 1}));
        }
}

TEST_CASE("Interleaved 1F1B runs forward only", "[schedules][interleaved]") {
  for (int microbatches : {1, 3, 4, 7, 8}) {
    auto const all = analyze(forward_only(interleaved{4, microbatches, 2}));
    CHECK(all.operations == 4 * microbatches * 2);
    if (microbatches >= 4) CHECK(all.makespan == 2 * microbatches + 3);
  }
}

TEST_CASE("Interleaved 1F1B makes single ranks of 1024 with 8192 microbatches", "[schedules][interleaved]") {
  interleaved const generator{1024, 8192, 2};
  for (int rank : {0, 511, 1023})
    CHECK(std::int64_t(generate_program(generator, rank).size()) == generator.operations(rank));
}
