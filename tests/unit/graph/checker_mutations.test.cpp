// SPDX-License-Identifier: MIT
#include <pipesched/graph/checker.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <pipesched/io/check_torch_csv.hpp>
#include <pipesched/io/describe.hpp>
#include <pipesched/schedules/dual_pipe.hpp>
#include <pipesched/schedules/dual_pipe_v.hpp>
#include <pipesched/schedules/gpipe.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>

#include "support/catch.hpp"
#include "support/lowering.hpp"
#include "support/random_schedules.hpp"
#include "support/recorded_orders.hpp"
#include "support/reference_simulator.hpp"

using namespace pipesched;

namespace {

using programs = std::vector<std::vector<op>>;

programs programs_of(schedule const& s) {
  programs result;
  for (int rank = 0; rank < s.ranks(); ++rank) result.emplace_back(s.program(rank).begin(), s.program(rank).end());
  return result;
}

std::string text_of(std::vector<fault> const& faults) {
  std::string text;
  for (auto const& d : describe(faults)) text += to_string(d) + "\n";
  return text;
}

/// Whether there is a fault of this kind about this op, at this place where `position` is not -1.
bool names(std::vector<fault> const& faults, fault_kind kind, op what, int rank, std::int64_t position = -1) {
  return std::any_of(faults.begin(), faults.end(), [&](fault const& f) {
    bool const in_run = f.what.stage() == what.stage() && f.what.kind() == what.kind() &&
                        f.what.microbatch() <= what.microbatch() &&
                        what.microbatch() < f.what.microbatch() + std::max<std::int64_t>(f.count, 1);
    return f.kind == kind && (in_run || kind == fault_kind::wrong_rank) && f.where.rank == rank &&
           (position < 0 || f.where.position == position);
  });
}

/// Valid schedules of many shapes: generated, recorded and random ones.
std::vector<schedule> valid_schedules() {
  std::vector<schedule> all;
  all.push_back(generate(gpipe{.ranks = 1, .microbatches = 2}));
  all.push_back(generate(gpipe{.ranks = 4, .microbatches = 5}));
  all.push_back(generate(one_f_one_b{.ranks = 4, .microbatches = 7}));
  all.push_back(generate(dual_pipe{.ranks = 4, .microbatches = 10}));
  all.push_back(generate(dual_pipe_v{.ranks = 3, .microbatches = 7}));
  for (auto const* folder : {"zb-h1", "zb-v", "interleaved-zb", "interleaved-1f1b", "chimera", "v-min"})
    for (auto const& order : test_support::recorded_orders(folder)) {
      if (order.ranks * order.microbatches * order.chunks > 64) continue;
      std::string text;
      for (auto const& row : order.rows) {
        for (auto const& cell : row) text += cell + ",";
        text += "\n";
      }
      all.push_back(*read_torch_csv(text).compute);
    }
  std::mt19937 random(11);
  for (auto const& where : {placement::linear(2), placement::loop(3, 2), placement::v(2), placement::bidirectional(4)})
    for (int m : {1, 2, 5}) all.push_back(test_support::random_schedule(where, m, random));
  return all;
}

class mutator {
 public:
  mutator(schedule const& s, std::mt19937& random) : s_(s), random_(random) {}

  std::size_t pick(std::size_t n) { return std::size_t(random_() % n); }

  /// A random op of a rank that has some.
  std::pair<std::size_t, std::size_t> any_op(programs const& p) {
    std::size_t rank = pick(p.size());
    while (p[rank].empty()) rank = pick(p.size());
    return {rank, pick(p[rank].size())};
  }

  /// Takes an op out, and its partner out of the pair.
  static op take_out(std::vector<op>& program, std::size_t i) {
    op const o = program[i];
    if (i > 0) program[i - 1] = program[i - 1].alone();
    program.erase(program.begin() + std::ptrdiff_t(i));
    return o.alone();
  }

  std::vector<fault> check_programs(programs const& p) const {
    return check(schedule(s_.where(), s_.microbatches(), p));
  }

 private:
  schedule const& s_;
  std::mt19937& random_;
};

constexpr int rounds = 12;

}  // namespace

TEST_CASE("The checker never complains about a valid schedule") {
  for (auto const& s : valid_schedules()) {
    CAPTURE(s.name(), s.ranks(), s.stages(), s.microbatches());
    CHECK(text_of(check(s)).empty());
  }
}

TEST_CASE("A lost op is named") {
  std::mt19937 random(1);
  for (auto const& s : valid_schedules())
    for (int round = 0; round < rounds; ++round) {
      mutator m(s, random);
      auto p = programs_of(s);
      auto const [rank, i] = m.any_op(p);
      op const lost = m.take_out(p[rank], i);
      auto const faults = m.check_programs(p);
      CAPTURE(to_string(lost), rank, text_of(faults));
      bool const named = [&] {
        switch (lost.kind()) {
          case op_kind::forward: return names(faults, fault_kind::missing_forward, lost, int(rank));
          case op_kind::backward: return names(faults, fault_kind::missing_backward, lost, int(rank));
          case op_kind::backward_input: return names(faults, fault_kind::missing_input, lost, int(rank));
          default: return names(faults, fault_kind::missing_weight, lost, int(rank));
        }
      }();
      CHECK(named);
    }
}

TEST_CASE("A doubled op is named, with its place") {
  std::mt19937 random(2);
  for (auto const& s : valid_schedules())
    for (int round = 0; round < rounds; ++round) {
      mutator m(s, random);
      auto p = programs_of(s);
      auto const [rank, i] = m.any_op(p);
      op const doubled = p[rank][i].alone();
      p[rank].push_back(doubled);
      auto const faults = m.check_programs(p);
      CAPTURE(to_string(doubled), rank, text_of(faults));
      CHECK(names(faults, fault_kind::duplicate_op, doubled, int(rank), std::int64_t(p[rank].size()) - 1));
      CHECK(faults.size() == 1);
    }
}

TEST_CASE("An op on a wrong rank is named, with its place") {
  std::mt19937 random(3);
  for (auto const& s : valid_schedules()) {
    if (s.ranks() == 1) continue;
    for (int round = 0; round < rounds; ++round) {
      mutator m(s, random);
      auto p = programs_of(s);
      auto const [rank, i] = m.any_op(p);
      op const moved = m.take_out(p[rank], i);
      auto const to = (rank + 1 + m.pick(p.size() - 1)) % p.size();
      auto const position = m.pick(p[to].size() + 1);
      if (position > 0) p[to][position - 1] = p[to][position - 1].alone();
      p[to].insert(p[to].begin() + std::ptrdiff_t(position), moved);
      auto const faults = m.check_programs(p);
      CAPTURE(to_string(moved), rank, to, position, text_of(faults));
      CHECK(names(faults, fault_kind::wrong_rank, moved, int(to), std::int64_t(position)));
    }
  }
}

TEST_CASE("An op of a microbatch that leaves a gap is named") {
  std::mt19937 random(4);
  for (auto const& s : valid_schedules()) {
    mutator m(s, random);
    auto p = programs_of(s);
    auto const gone = std::int64_t(m.pick(std::size_t(s.microbatches())));
    for (auto& program : p)
      for (auto& o : program)
        if (o.microbatch() == gone) {
          op const beyond(o.kind(), stage_id{o.stage()}, microbatch_id{s.microbatches()}, replica_id{o.replica()});
          o = o.overlaps_next() ? beyond.overlapping_next() : beyond;
        }
    auto const faults = check(schedule(s.where(), s.microbatches() + 1, p));
    CAPTURE(gone, text_of(faults));
    REQUIRE(faults.size() == 1);
    CHECK(faults[0].kind == fault_kind::missing_microbatch);
    CHECK(faults[0].what.microbatch() == gone);
  }
}

TEST_CASE("An op of a wrong kind is named") {
  std::mt19937 random(5);
  for (auto const& s : valid_schedules())
    for (int round = 0; round < rounds; ++round) {
      mutator m(s, random);
      auto p = programs_of(s);
      auto const [rank, i] = m.any_op(p);
      if (p[rank][i].overlaps_next()) continue;
      op const was = p[rank][i];
      p[rank][i] = was.as(was.kind() == op_kind::backward ? op_kind::backward_input : op_kind::backward);
      auto const faults = m.check_programs(p);
      CAPTURE(to_string(was), rank, i, text_of(faults));
      CHECK_FALSE(faults.empty());
      p[rank][i] = was.as(op_kind::send_forward);
      CHECK(names(m.check_programs(p), fault_kind::wrong_kind, p[rank][i], int(rank), std::int64_t(i)));
    }
}

TEST_CASE("A backward before its forward, and a W before its I, are named with their place") {
  std::mt19937 random(6);
  for (auto const& s : valid_schedules())
    for (int round = 0; round < rounds; ++round) {
      mutator m(s, random);
      auto p = programs_of(s);
      auto const [rank, i] = m.any_op(p);
      if (p[rank][i].kind() == op_kind::forward) continue;
      op const early = m.take_out(p[rank], i);
      p[rank].insert(p[rank].begin(), early);
      auto const faults = m.check_programs(p);
      CAPTURE(to_string(early), rank, text_of(faults));
      CHECK(names(faults, fault_kind::order_on_rank, early, int(rank), 0));
    }
}

TEST_CASE("What the checker says of shuffled rows is what a plain simulation does") {
  std::mt19937 random(8);
  int hanging = 0;
  int running = 0;
  for (auto const& s : valid_schedules())
    for (int round = 0; round < 4 * rounds; ++round) {
      mutator m(s, random);
      auto p = programs_of(s);
      // One op moves elsewhere on its rank, or two ranks' worth of them do.
      for (std::size_t step = 0; step <= m.pick(3); ++step) {
        auto const [rank, i] = m.any_op(p);
        op const moved = m.take_out(p[rank], i);
        auto const position = m.pick(p[rank].size() + 1);
        if (position > 0) p[rank][position - 1] = p[rank][position - 1].alone();
        p[rank].insert(p[rank].begin() + std::ptrdiff_t(position), moved);
      }
      schedule const shuffled(s.where(), s.microbatches(), p);
      auto const unit = [](op, op const*, int) { return 1; };
      bool const runs = test_support::simulate<int>(shuffled, unit, 0).has_value();
      auto const faults = check(shuffled);
      CAPTURE(write_torch_csv(shuffled), text_of(faults));
      CHECK(faults.empty() == runs);
      ++(runs ? running : hanging);
    }
  CHECK(hanging > 100);
  CHECK(running > 100);
}

TEST_CASE("A lost or misplaced message is named") {
  std::mt19937 random(9);
  for (auto const& s : valid_schedules()) {
    if (s.ranks() == 1) continue;
    auto const whole = test_support::with_communication(s);
    CHECK(check_communication(s.where(), whole).empty());
    mutator m(s, random);
    for (int round = 0; round < rounds; ++round) {
      auto p = whole;
      auto const [rank, i] = m.any_op(p);
      op const lost = p[rank][i];
      if (!is_communication(lost.kind())) continue;
      p[rank].erase(p[rank].begin() + std::ptrdiff_t(i));
      bool const send = lost.kind() == op_kind::send_forward || lost.kind() == op_kind::send_backward;
      auto const faults = check_communication(s.where(), p);
      CAPTURE(to_string(lost), rank, i, text_of(faults));
      REQUIRE(faults.size() == 1);
      CHECK(faults[0].kind == (send ? fault_kind::unpaired_receive : fault_kind::unpaired_send));
      CHECK(faults[0].other.alone().kind() == lost.kind());
      CHECK(faults[0].other.stage() == lost.stage());
      p[rank].insert(p[rank].begin() + std::ptrdiff_t(send ? 0 : p[rank].size()), lost);
      auto const misplaced = check_communication(s.where(), p);
      CAPTURE(text_of(misplaced));
      bool const was_there = (send && i == 0) || (!send && i + 1 == p[rank].size());
      if (!was_there) CHECK_FALSE(misplaced.empty());
    }
  }
}
