// SPDX-License-Identifier: MIT
// Plans with sends and receives at random places, of which many hang, against a run by the definitions alone.
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <pipesched/analysis/transport.hpp>
#include <pipesched/graph/plan_communication.hpp>
#include <pipesched/graph/read_plan.hpp>

#include "support/built_in_schedules.hpp"

using namespace pipesched;

namespace {

/// Tries every entry again and again until nothing passes any more.
class plain_run {
 public:
  plain_run(communication_plan const& plan, transport_model model)
      : plan_(plan), model_(model), passed_(plan.entries().size(), false) {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (std::uint32_t e = 0; e < passed_.size(); ++e)
        if (!passed_[e] && can_pass(e)) has_moved = passed_[e] = true;
    }
  }

  [[nodiscard]] bool has_passed(std::uint32_t e) const { return passed_[e]; }
  [[nodiscard]] bool complete() const {
    for (std::uint32_t e = 0; e < passed_.size(); ++e)
      if (queue_of(e) == program && !passed_[e]) return false;
    return true;
  }
  [[nodiscard]] bool share_lane(std::uint32_t a, std::uint32_t b) const {
    return plan_.rank_of(a) == plan_.rank_of(b) && queue_of(a) == queue_of(b);
  }

 private:
  static constexpr int program = -1;

  [[nodiscard]] op_kind kind(std::uint32_t e) const { return plan_.entries()[e].what.kind(); }
  [[nodiscard]] bool is_transfer(std::uint32_t e) const { return is_send(kind(e)) || is_receive(kind(e)); }
  [[nodiscard]] int queue_of(std::uint32_t e) const {
    if (!is_transfer(e)) return program;
    switch (model_.kind) {
      case transport_kind::rank_queue: return 0;
      case transport_kind::pair_queue: return plan_.peer_of(plan_.entries()[e]);
      case transport_kind::direction_queue: return 2 * plan_.peer_of(plan_.entries()[e]) + is_receive(kind(e));
      default: return program;
    }
  }
  /// Whether all has passed that must before `e` is looked at.
  [[nodiscard]] bool is_reached(std::uint32_t e) const {
    for (auto before = plan_.row_begin(plan_.rank_of(e)); before < e; ++before)
      if (!passed_[before] && (queue_of(before) == program || share_lane(before, e))) return false;
    return true;
  }
  [[nodiscard]] bool has_arrived(message const& m) const {
    bool const is_sent = model_.kind != transport_kind::async || passed_[m.send];
    return is_sent && passed_[m.receive];
  }
  [[nodiscard]] bool has_inputs(std::uint32_t e) const {
    return std::all_of(plan_.messages().begin(), plan_.messages().end(),
                       [&](message const& m) { return m.consumer != e || has_arrived(m); });
  }
  [[nodiscard]] bool has_buffer(message const& sent) const {
    std::int64_t buffered = 0;
    for (auto const& m : plan_.messages())
      if (m.from_rank == sent.from_rank && m.to_rank == sent.to_rank) buffered += passed_[m.send] - passed_[m.receive];
    return buffered < model_.buffered;
  }
  [[nodiscard]] bool can_pass(std::uint32_t e) const {
    if (!is_reached(e)) return false;
    auto const& entry = plan_.entries()[e];
    if (!entry.is_communication()) return has_inputs(e) && (!entry.what.overlaps_next() || has_inputs(e + 1));
    auto const& m = plan_.message_of(entry);
    switch (model_.kind) {
      case transport_kind::async: return true;
      case transport_kind::bounded: return e == m.send ? has_buffer(m) : bool(passed_[m.send]);
      default: return is_reached(m.send) && is_reached(m.receive);
    }
  }

  communication_plan const& plan_;
  transport_model model_;
  std::vector<bool> passed_;
};

/// The same messages with each send up to three places behind its producer, and each receive as many before its
/// consumer.
communication_plan shuffled(communication_plan const& plan, std::mt19937& random) {
  struct placed {
    std::uint32_t where;
    op what;
  };
  std::vector<std::vector<op>> rows;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    std::vector<std::uint32_t> ops;
    for (auto e = plan.row_begin(rank); e < plan.row_begin(rank + 1); ++e)
      if (!plan.entries()[e].is_communication()) ops.push_back(e);
    auto const index_of = [&](std::uint32_t e) {
      return std::uint32_t(std::lower_bound(ops.begin(), ops.end(), e) - ops.begin());
    };
    auto const opens_pair = [&](std::uint32_t at) { return plan.entries()[ops[at]].what.overlaps_next(); };
    std::vector<placed> moved;  // before the op of this index
    for (auto const& m : plan.messages()) {
      auto const away = std::uint32_t(random() % 4);
      if (m.from_rank == rank) {
        auto at = std::min(index_of(m.producer) + 1 + away, std::uint32_t(ops.size()));
        moved.push_back({at + (at < ops.size() && opens_pair(at - 1)), plan.entries()[m.send].what});
      }
      if (m.to_rank == rank) {
        auto at = index_of(m.consumer) - std::min(index_of(m.consumer), away);
        moved.push_back({at - (at > 0 && opens_pair(at - 1)), plan.entries()[m.receive].what});
      }
    }
    std::shuffle(moved.begin(), moved.end(), random);
    auto& row = rows.emplace_back();
    for (std::uint32_t at = 0; at <= ops.size(); ++at) {
      for (auto const& p : moved)
        if (p.where == at) row.push_back(p.what);
      if (at < ops.size()) row.push_back(plan.entries()[ops[at]].what);
    }
  }
  auto read = read_plan(plan.where(), plan.microbatches(), rows);
  REQUIRE(read);
  return *read;
}

/// What a report says beyond the truth; nothing where all is as it should be.
std::string fault_of(communication_plan const& plan, transport_model model, transport_report const& report) {
  plain_run const truth(plan, model);
  if (report.deadlock_free() != truth.complete()) return "another verdict";
  if (report.deadlock_free()) return report.cycle.empty() ? "" : "a cycle without a deadlock";
  if (report.cycle.empty()) return "a deadlock without its cycle";
  for (std::size_t i = 0; i < report.cycle.size(); ++i) {
    auto const& wait = report.cycle[i];
    auto const& next = report.cycle[(i + 1) % report.cycle.size()];
    if (truth.has_passed(wait.entry) || truth.has_passed(wait.awaited)) return "in the cycle, what has passed";
    if (!truth.share_lane(wait.awaited, next.entry) || next.entry > wait.awaited) return "no cycle";
  }
  for (auto const& wait : report.blocked)
    if (truth.has_passed(wait.entry)) return "blocked, what has passed";
  return {};
}

}  // namespace

TEST_CASE("of plans with sends and receives at random places, the check finds which hang, and where") {
  std::mt19937 random(6);
  int hanging = 0, running = 0;
  for (int ranks = 1; ranks <= 4; ++ranks)
    for (int chunks = 1; chunks <= 2; ++chunks)
      for (int microbatches : {1, 3, 4})
        test_support::for_each_built_in(ranks, chunks, microbatches, [&](schedule const& s) {
          auto const plan = shuffled(plan_communication(s), random);
          for (auto kind : all_transports)
            for (std::int64_t buffered : {1, 2}) {
              if (buffered > 1 && kind != transport_kind::bounded) continue;
              transport_model const model{kind, buffered};
              auto const report = check_transport(plan, model);
              ++(report.deadlock_free() ? running : hanging);
              auto const fault = fault_of(plan, model, report);
              if (!fault.empty())
                FAIL(s.name() << ", " << ranks << " ranks, " << microbatches << " microbatches, " << name_of(kind)
                              << ": " << fault);
            }
        });
  CHECK(hanging > 50);
  CHECK(running > 50);
}
