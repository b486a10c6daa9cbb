// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pipesched/core/schedule_builder.hpp>
#include <pipesched/graph/plan_communication.hpp>
#include <pipesched/graph/read_plan.hpp>
#include <pipesched/schedules/registry.hpp>

#include "support/built_in_schedules.hpp"
#include "support/random_schedules.hpp"

using namespace pipesched;

namespace {

constexpr comm_policy all_policies[] = {comm_policy::eager, comm_policy::just_in_time, comm_policy::parity,
                                        comm_policy::grouped};

std::string row_text(communication_plan const& plan, int rank) {
  std::string text;
  for (auto const& entry : plan.program(rank)) text += (text.empty() ? "" : ",") + to_string(entry.what);
  return text;
}

std::vector<std::vector<op>> rows_of(communication_plan const& plan) {
  std::vector<std::vector<op>> rows;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    auto& row = rows.emplace_back();
    for (auto const& entry : plan.program(rank)) row.push_back(entry.what);
  }
  return rows;
}

/// Everything that any plan of `s` must keep to, whatever its policy. Returns the first thing that is wrong.
std::string fault_of(communication_plan const& plan, schedule const& s) {
  std::set<std::tuple<int, int, bool, std::int64_t>> ids;  // edge, direction, microbatch
  for (std::size_t id = 0; id < plan.messages().size(); ++id) {
    auto const& m = plan.messages()[id];
    auto const& send = plan.entries()[m.send];
    auto const& receive = plan.entries()[m.receive];
    op const producer = plan.producer_of(m);
    op const consumer = plan.consumer_of(m);
    bool const forward = producer.kind() == op_kind::forward;
    if (m.from_rank == m.to_rank) return "a message between stages on one rank";
    if (send.message != id || receive.message != id) return "entries that do not know their message";
    if (send.what != producer.as(forward ? op_kind::send_forward : op_kind::send_backward)) return "wrong SEND";
    if (receive.what != consumer.as(forward ? op_kind::recv_forward : op_kind::recv_backward)) return "wrong RECV";
    if (plan.rank_of(m.producer) != m.from_rank || plan.rank_of(m.send) != m.from_rank) return "sent by the wrong rank";
    if (plan.rank_of(m.receive) != m.to_rank || plan.rank_of(m.consumer) != m.to_rank)
      return "received by the wrong rank";
    if (m.send < m.producer || m.consumer < m.receive)
      return "a send before its producer or a receive after its consumer";
    if (!ids.insert({producer.stage(), consumer.stage(), forward, producer.microbatch()}).second)
      return "two messages of one id";
  }
  std::size_t expected = 0;
  for (op o : s.ops()) {
    if (o.kind() == op_kind::backward_weight) continue;
    int const next = o.stage() + (o.kind() == op_kind::forward ? 1 : -1);
    if (next >= 0 && next < s.stages() &&
        s.where().rank_of(next, o.replica()) != s.where().rank_of(o.stage(), o.replica()))
      ++expected;
  }
  if (plan.messages().size() != expected) return "too many or too few messages";
  for (int rank = 0; rank < s.ranks(); ++rank) {
    std::vector<op> chunk_ops;
    for (auto const& entry : plan.program(rank))
      if (!entry.is_communication()) chunk_ops.push_back(entry.what);
    auto const program = s.program(rank);
    if (!std::equal(chunk_ops.begin(), chunk_ops.end(), program.begin(), program.end())) return "chunk ops have moved";
    for (auto const& entry : plan.program(rank))
      if (entry.grouped_with_next && plan.peer_of(entry) != plan.peer_of(*(&entry + 1))) return "a group of two peers";
  }
  return {};
}

/// The rows of a plan as its policy is defined: turn after turn, every rank is asked whether it can run its next block.
std::vector<std::vector<op>> rows_by_turns(schedule const& s, comm_policy policy) {
  auto const graph = build_graph(s);
  struct letter {
    node_id producer;
    node_id consumer;
    int from;
    int to;
  };
  std::vector<std::vector<op>> rows(std::size_t(s.ranks()));
  std::vector<std::uint32_t> next;
  std::vector<char> has_run(graph.size(), 0);
  for (int rank = 0; rank < s.ranks(); ++rank) next.push_back(graph.lane_begin(rank));
  auto const is_forward = [&](letter const& l) { return graph.node(l.producer).kind() == op_kind::forward; };
  auto const write = [&](letter const& l) {
    auto const send = is_forward(l) ? op_kind::send_forward : op_kind::send_backward;
    rows[std::size_t(l.from)].push_back(graph.node(l.producer).as(send));
    auto const receive = is_forward(l) ? op_kind::recv_forward : op_kind::recv_backward;
    if (policy != comm_policy::just_in_time) rows[std::size_t(l.to)].push_back(graph.node(l.consumer).as(receive));
  };
  for (bool more = true; more;) {
    more = false;
    std::vector<letter> sent;
    std::vector<node_id> ran;
    for (int rank = 0; rank < s.ranks(); ++rank) {
      auto& n = next[std::size_t(rank)];
      auto const end = graph.lane_end(rank);
      if (n == end) continue;
      auto const after = n + (graph.opens_pair(n, end) ? 2 : 1);
      bool can_run = true;
      for (auto node = n; node < after; ++node)
        for (auto const& l : graph.links_in(node_id{node}))
          if (l.node() < n || l.node() >= after) can_run = can_run && has_run[l.node()];
      if (!can_run) continue;
      more = true;
      if (policy == comm_policy::just_in_time)
        for (auto node = n; node < after; ++node)
          for (auto const& l : graph.links_in(node_id{node}))
            if (l.remote())
              rows[std::size_t(rank)].push_back(
                  graph.node(node_id{node})
                      .as(l.kind() == edge_kind::activation ? op_kind::recv_forward : op_kind::recv_backward));
      for (auto node = n; node < after; ++node) rows[std::size_t(rank)].push_back(graph.node(node_id{node}));
      for (auto node = n; node < after; ++node) {
        ran.push_back(node_id{node});
        for (auto const& l : graph.links_out(node_id{node}))
          if (l.remote()) sent.push_back({node_id{node}, node_id{l.node()}, rank, graph.rank_of(node_id{l.node()})});
      }
      n = after;
      if (policy != comm_policy::eager && policy != comm_policy::just_in_time) continue;
      for (auto const& l : sent) write(l);
      for (auto node : ran) has_run[node.value] = 1;
      sent.clear();
      ran.clear();
    }
    auto const low = [](letter const& l) { return std::min(l.from, l.to); };
    if (policy == comm_policy::parity)
      std::stable_sort(sent.begin(), sent.end(), [](auto const& a, auto const& b) { return a.from % 2 < b.from % 2; });
    if (policy == comm_policy::grouped)
      std::stable_sort(sent.begin(), sent.end(), [&](auto const& a, auto const& b) {
        return std::tuple(low(a) % 2, low(a), std::max(a.from, a.to)) <
               std::tuple(low(b) % 2, low(b), std::max(b.from, b.to));
      });
    for (auto const& l : sent) write(l);
    for (auto node : ran) has_run[node.value] = 1;
  }
  return rows;
}

/// The greedy lowering of torch as its description has it: sweeps over the ranks, each of which runs its next op or
/// pair if what that needs is there, and sends the results at once; a receive goes to where its rank's row ends by
/// then.
std::vector<std::string> greedy_lowering(schedule const& s) {
  std::vector<std::string> rows(std::size_t(s.ranks()));
  std::vector<std::size_t> next(rows.size(), 0);
  std::set<std::tuple<bool, int, std::int64_t>> there;  // direction, consumer's stage, microbatch
  auto const append = [&](int rank, op o) {
    auto& row = rows[std::size_t(rank)];
    row += (row.empty() ? "" : ",") + to_string(o);
  };
  auto const is_ready = [&](op o) {
    bool const forward = o.kind() == op_kind::forward;
    return o.kind() == op_kind::backward_weight || o.stage() == (forward ? 0 : s.stages() - 1) ||
           there.count({forward, o.stage(), o.microbatch()}) != 0;
  };
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (int rank = 0; rank < s.ranks(); ++rank) {
      auto& at = next[std::size_t(rank)];
      if (at == s.program(rank).size()) continue;
      auto const block = s.program(rank).subspan(at, s.program(rank)[at].overlaps_next() ? 2 : 1);
      if (!std::all_of(block.begin(), block.end(), is_ready)) continue;
      has_moved = true;
      at += block.size();
      for (op o : block) append(rank, o);
      for (op o : block) {
        bool const forward = o.kind() == op_kind::forward;
        int const stage = o.stage() + (forward ? 1 : -1);
        if (o.kind() == op_kind::backward_weight || stage < 0 || stage == s.stages()) continue;
        there.insert({forward, stage, o.microbatch()});
        int const to = s.where().rank_of(stage, o.replica());
        if (to == rank) continue;
        append(rank, o.as(forward ? op_kind::send_forward : op_kind::send_backward));
        append(to, op(forward ? op_kind::recv_forward : op_kind::recv_backward, stage_id{stage},
                      microbatch_id{o.microbatch()}, replica_id{o.replica()}));
      }
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("the eager plan of every schedule is the greedy lowering, row for row") {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (int chunks = 1; chunks <= 3; ++chunks)
      for (int microbatches : {1, 2, 5, 12})
        test_support::for_each_built_in(ranks, chunks, microbatches, [&](schedule const& s) {
          auto const plan = plan_communication(s);
          auto const rows = greedy_lowering(s);
          for (int rank = 0; rank < ranks; ++rank)
            if (row_text(plan, rank) != rows[std::size_t(rank)])
              FAIL(s.name() << " " << ranks << " " << chunks << " " << microbatches << ", rank " << rank);
        });
}

TEST_CASE("the eager plan is the greedy lowering of torch, row for row") {
  std::ifstream file(PIPESCHED_TEST_DATA "/cases/greedy_lowering.csv");
  auto const plan = plan_communication(interleaved{.ranks = 2, .microbatches = 2, .chunks = 2});
  for (int rank = 0; rank < 2; ++rank) {
    std::string line;
    REQUIRE(std::getline(file, line));
    if (!line.empty() && line.back() == '\r') line.pop_back();
    CHECK(row_text(plan, rank) == line);
  }
}

TEST_CASE("every plan of every schedule keeps its chunk ops and pairs each message") {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (int chunks = 1; chunks <= 3; ++chunks)
      for (int microbatches : {1, 2, 5, 12})
        test_support::for_each_built_in(ranks, chunks, microbatches, [&](schedule const& s) {
          for (auto policy : all_policies) {
            auto const fault = fault_of(plan_communication(s, policy), s);
            if (!fault.empty()) FAIL(s.name() << " " << ranks << " " << chunks << " " << microbatches << ": " << fault);
          }
        });
}

TEST_CASE("plans are those of ranks that take turns one by one") {
  std::mt19937 random(2026);
  for (int ranks : {1, 2, 3, 5, 8})
    for (int microbatches : {1, 4, 9})
      for (int round = 0; round < 4; ++round) {
        std::vector<int> rank_of;
        for (int stage = 0; stage < ranks + round; ++stage) rank_of.push_back(stage % ranks);
        std::shuffle(rank_of.begin(), rank_of.end(), random);
        auto const where = placement::custom(ranks, ranks + round, 1, rank_of);
        auto const s = test_support::random_schedule(where, microbatches, random);
        for (auto policy : all_policies) CHECK(rows_of(plan_communication(s, policy)) == rows_by_turns(s, policy));
      }
  // More ranks than bits in a word, and than words of bits.
  for (int ranks : {64, 65, 200, 4100}) {
    auto const s = generate(one_f_one_b{ranks, 3});
    CHECK(rows_of(plan_communication(s)) == rows_by_turns(s, comm_policy::eager));
  }
}

TEST_CASE("a plan in the memory of another is the same as a new one") {
  auto plan = plan_communication(interleaved{.ranks = 4, .microbatches = 16});
  for (auto policy : all_policies)
    for (auto const& graph : {build_graph(gpipe{2, 3}), build_graph(dual_pipe{.ranks = 4, .microbatches = 20})}) {
      auto const fresh = plan_communication(graph, policy);
      plan = plan_communication(graph, std::move(plan), policy);
      CHECK(plan.policy() == policy);
      CHECK(plan.where() == fresh.where());
      CHECK(plan.microbatches() == fresh.microbatches());
      CHECK(rows_of(plan) == rows_of(fresh));
      CHECK(plan.digest() == fresh.digest());
    }
}

TEST_CASE("a just-in-time receive stands directly before its consumer and other receives of it") {
  auto const plan = plan_communication(interleaved{.ranks = 4, .microbatches = 8}, comm_policy::just_in_time);
  for (auto const& m : plan.messages()) CHECK(m.consumer == m.receive + 1);
}

TEST_CASE("grouped plans exchange a forward and a backward between two ranks at once") {
  auto const plan = plan_communication(one_f_one_b{4, 8}, comm_policy::grouped);
  CHECK(row_text(plan, 2).find("2F2,2SEND_F2,2RECV_B1") != std::string::npos);
  int groups = 0;
  for (auto const& entry : plan.entries())
    if (entry.grouped_with_next) {
      ++groups;
      CHECK(entry.is_communication());
      CHECK((&entry + 1)->is_communication());
    }
  CHECK(groups > 0);
}

TEST_CASE("channels are the pairs of ranks that exchange messages") {
  auto const line = plan_communication(one_f_one_b{3, 5});
  CHECK(line.channels() == std::vector<channel>{{0, 1, 5}, {1, 0, 5}, {1, 2, 5}, {2, 1, 5}});
  CHECK(plan_communication(one_f_one_b{1, 5}).channels().empty());
  // With two ranks in a loop, the previous and the next rank are the same: three edges share each channel.
  auto const loop = plan_communication(interleaved{.ranks = 2, .microbatches = 4, .chunks = 2});
  CHECK(loop.channels() == std::vector<channel>{{0, 1, 12}, {1, 0, 12}});
}

TEST_CASE("skip connections and edges of the user's own between two ranks are messages") {
  graph_options options;
  options.skip_connections.push_back({0, 2});
  options.edges.push_back({backward(stage_id{0}, microbatch_id{0}), forward(stage_id{2}, microbatch_id{3})});
  auto const plan = plan_communication(generate(gpipe{3, 4}), comm_policy::just_in_time, {options.skip_connections});
  CHECK(plan.messages().size() == 4 * 2 * 3);
  CHECK(row_text(plan, 0).find("0F0,0SEND_F0,0SEND_F0,0F1") != std::string::npos);
  CHECK(row_text(plan, 2).find("2RECV_F0,2RECV_F0,2F0") != std::string::npos);

  auto const own = plan_communication(
      schedule_builder(2).rank(0).F(0).B(0).rank(1).F(0).B(0).F(1).build(), comm_policy::eager,
      {.edges = {{forward(stage_id{0}, microbatch_id{0}), forward(stage_id{1}, microbatch_id{1})}}, .chain = false});
  REQUIRE(own.messages().size() == 1);
  CHECK(own.messages()[0].kind == edge_kind::custom);
}

TEST_CASE("each communication op says why it stands where it stands") {
  auto const plan = plan_communication(one_f_one_b{2, 1});
  CHECK(reason_of(plan, plan.program(0)[1]) == "0SEND_F0 to rank 1: the output of 0F0, for 1F0");
  CHECK(reason_of(plan, plan.program(0)[2]) == "0RECV_B0 from rank 1: the gradient of 1B0, for 0B0");
}

TEST_CASE("a schedule that cannot run has no plan") {
  auto const cycle = schedule_builder(2).rank(0).F(0).B(0).F(1).B(1).rank(1).F(1).B(1).F(0).B(0).build();
  for (auto policy : all_policies) CHECK_THROWS_AS(plan_communication(cycle, policy), schedule_error);
  auto const missing = schedule_builder(2).rank(0).F(0).rank(1).F(0).F(1).build();
  for (auto policy : all_policies) CHECK_THROWS_AS(plan_communication(missing, policy), schedule_error);
  CHECK_THROWS_AS(plan_communication(gpipe{2, 2}, comm_policy::custom), parameter_error);
}

TEST_CASE("the end of a pair that is marked like a beginning begins no other pair") {
  auto const F = [](int s, int b) { return forward(stage_id{s}, microbatch_id{b}); };
  auto const B = [](int s, int b) { return backward(stage_id{s}, microbatch_id{b}); };
  auto const made = [&](op end) {
    return schedule(placement::linear(2), 2,
                    {{F(0, 0), F(0, 1), B(0, 0), B(0, 1)}, {F(1, 0), B(1, 0).overlapping_next(), end, B(1, 1)}});
  };
  for (auto const policy : all_policies) {
    auto const plan = plan_communication(made(F(1, 1).overlapping_next()), policy);
    auto const plain = plan_communication(made(F(1, 1)), policy);
    CHECK(rows_of(plan)[0] == rows_of(plain)[0]);
    CHECK(row_text(plan, 1) == row_text(plain, 1));
    CHECK(fault_of(plan, made(F(1, 1).overlapping_next())) == "");
  }
}

TEST_CASE("a plan that is read equals the plan that was written") {
  for (auto policy : {comm_policy::eager, comm_policy::just_in_time, comm_policy::parity}) {
    auto const plan = plan_communication(interleaved{.ranks = 3, .microbatches = 5, .chunks = 2}, policy);
    auto const read = read_plan(plan.where(), 5, rows_of(plan));
    REQUIRE(read);
    CHECK(read->messages().size() == plan.messages().size());
    CHECK(read->channels() == plan.channels());
    for (std::size_t e = 0; e < plan.entries().size(); ++e) {
      auto const& mine = read->entries()[e];
      REQUIRE(mine.what == plan.entries()[e].what);
      REQUIRE(mine.is_communication() == plan.entries()[e].is_communication());
      if (mine.is_communication())
        REQUIRE(read->message_of(mine).producer == plan.message_of(plan.entries()[e]).producer);
    }
  }
}

TEST_CASE("programs with a message that is not whole are no plan") {
  auto const plan = plan_communication(one_f_one_b{2, 2});
  auto const rows = rows_of(plan);
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    for (std::size_t i = 0; i < rows[rank].size(); ++i) {
      auto const kind = rows[rank][i].kind();
      if (!is_communication(kind)) continue;
      auto changed = rows;
      changed[rank].push_back(rows[rank][i]);
      CHECK_FALSE(read_plan(plan.where(), 2, changed));
      changed = rows;
      changed[rank].erase(changed[rank].begin() + std::ptrdiff_t(i));
      CHECK_FALSE(read_plan(plan.where(), 2, changed));
      changed = rows;
      changed[rank][i] = op(kind, stage_id{rows[rank][i].stage()}, microbatch_id{2});  // the step has 0 and 1
      CHECK_FALSE(read_plan(plan.where(), 2, changed));
    }
}

TEST_CASE("programs in which an op needs another rank's result are no plan without its message") {
  CHECK_FALSE(read_plan(placement::linear(2), 1,
                        {{forward(stage_id{0}, microbatch_id{0})}, {forward(stage_id{1}, microbatch_id{0})}}));
  CHECK(read_plan(placement::linear(1), 1, {{forward(stage_id{0}, microbatch_id{0})}}));
}

TEST_CASE("plans differ in their digest by policy, and equal plans agree") {
  std::set<std::uint64_t> digests;
  for (auto policy : all_policies) {
    auto const digest = plan_communication(interleaved{.ranks = 4, .microbatches = 8}, policy).digest();
    CHECK(digest == plan_communication(interleaved{.ranks = 4, .microbatches = 8}, policy).digest());
    digests.insert(digest);
  }
  CHECK(digests.size() == 4);
}

static_assert(plan_communication(gpipe{2, 2}).messages().size() == 4);
