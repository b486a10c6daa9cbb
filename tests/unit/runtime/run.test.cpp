// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <pipesched/analysis/send_budget.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/graph/plan_communication.hpp>
#include <pipesched/graph/read_plan.hpp>
#include <pipesched/runtime/deadline.hpp>
#include <pipesched/runtime/run.hpp>
#include <pipesched/runtime/threads.hpp>
#include <pipesched/schedules/registry.hpp>

#include "support/built_in_schedules.hpp"

using namespace pipesched;
using namespace std::chrono_literals;

namespace {

/// Writes down what it is asked to do.
struct scribe {
  std::vector<std::string> log = {};

  void note(op o) { log.push_back(to_string(o)); }
  void forward(op o) { note(o); }
  void backward(op o) { note(o); }
  void backward_input(op o) { note(o); }
  void backward_weight(op o) { note(o); }
  void send(transfer const& t) { note(t.what); }
  void receive(transfer const& t) { note(t.what); }
  void wait(transfer const& t) { log.push_back("wait " + to_string(t.what)); }
};

/// Passes numbers through the pipeline: a forward adds its stage, a backward subtracts it, and at the end each
/// microbatch must be what it was.
struct worker {
  int rank;
  int stages;
  thread_transport<std::int64_t>& transport;
  std::vector<std::int64_t> forwards = {}, backwards = {};  // by stage * microbatches + microbatch
  std::vector<std::int64_t> activation_slots = {}, gradient_slots = {};
  std::int64_t microbatches = 0;
  int failing_at = -1;  // fails at this forward
  int forwards_run = 0;

  std::int64_t& at(std::vector<std::int64_t>& table, int stage, std::int64_t b) {
    return table[std::size_t(stage * microbatches + b)];
  }
  void forward(op o) {
    if (forwards_run++ == failing_at) throw std::runtime_error("out of memory");
    auto const input = o.stage() == 0 ? o.microbatch() : at(forwards, o.stage() - 1, o.microbatch());
    at(forwards, o.stage(), o.microbatch()) = input + o.stage();
  }
  void backward(op o) {
    auto const gradient = o.stage() + 1 == stages ? at(forwards, o.stage(), o.microbatch())
                                                  : at(backwards, o.stage() + 1, o.microbatch());
    at(backwards, o.stage(), o.microbatch()) = gradient - o.stage();
  }
  void backward_input(op o) { backward(o); }
  void backward_weight(op) {}
  void send(transfer const& t) {
    auto& table = t.what.kind() == op_kind::send_forward ? forwards : backwards;
    transport.send(t, at(table, t.producer.stage(), t.producer.microbatch()));
  }
  void receive(transfer const&) {}
  run_status wait(transfer const& t) {
    if (!is_receive(t.what.kind())) return run_status::completed;
    auto& table = t.what.kind() == op_kind::recv_forward ? forwards : backwards;
    return transport.receive(rank, t, at(table, t.producer.stage(), t.producer.microbatch()));
  }
  void stop(run_report const&) { transport.stop(); }
};

worker make_worker(communication_plan const& plan, thread_transport<std::int64_t>& transport, int rank) {
  worker w{rank, plan.where().stages(), transport};
  w.microbatches = plan.microbatches();
  w.forwards.resize(std::size_t(w.stages) * std::size_t(w.microbatches));
  w.backwards = w.forwards;
  return w;
}

}  // namespace

TEST_CASE("a rank's program runs in order, with a wait before each consumer") {
  auto const plan = plan_communication(one_f_one_b{2, 2});
  buffer_plan const buffers(plan);
  scribe handler;
  auto const report = run(rank_program(plan, buffers, 1), handler);
  CHECK(report);
  CHECK(handler.log == std::vector<std::string>{"1RECV_F0", "wait 1RECV_F0", "1F0", "1RECV_F1", "1B0", "1SEND_B0",
                                                "wait 1RECV_F1", "1F1", "1B1", "1SEND_B1", "wait 1SEND_B0",
                                                "wait 1SEND_B1"});
}

TEST_CASE("a rank that the plan does not have, and the buffers of another plan, are refused") {
  auto const plan = plan_communication(one_f_one_b{4, 8});
  buffer_plan const buffers(plan);
  auto const complaint = [&](communication_plan const& p, buffer_plan const& b, int rank) -> std::string {
    try {
      rank_program const program(p, b, rank);
      return "";
    } catch (parameter_error const& error) {
      return error.what();
    }
  };
  CHECK(complaint(plan, buffers, 3) == "");
  CHECK(complaint(plan, buffers, 4) == "rank = 4, must be at most 3 (ranks - 1)");
  CHECK(complaint(plan, buffers, -1) == "rank = -1, must be at least 0");
  auto const copy = plan;
  CHECK(complaint(copy, buffers, 2) == "");
  auto const refusal = "buffers (of this plan) = 0, must be 1 (made by buffer_plan(plan))";
  for (auto const& other :
       {plan_communication(one_f_one_b{2, 8}), plan_communication(one_f_one_b{8, 8}),
        plan_communication(one_f_one_b{4, 7}), plan_communication(one_f_one_b{4, 8}, comm_policy::just_in_time)})
    CHECK(complaint(plan, buffer_plan(other), 2) == refusal);
}

TEST_CASE("a program with a send that nobody receives is not run") {
  auto const b0 = microbatch_id{0};
  op const lonely(op_kind::send_forward, stage_id{0}, b0);
  auto const plan = read_plan(placement::linear(2), 1, {{forward(stage_id{0}, b0), lonely}, {}});
  REQUIRE(plan);
  CHECK_THROWS_AS(rank_program(*plan, buffer_plan(*plan), 0), parameter_error);
  CHECK_NOTHROW(rank_program(*plan, buffer_plan(*plan), 1));
}

TEST_CASE("a budget's waits come where the plan has them, and only the other sends are awaited at the end") {
  auto const plan = *with_send_budget(plan_communication(one_f_one_b{2, 2}), 1).plan;
  buffer_plan const buffers(plan);
  scribe handler;
  CHECK(run(rank_program(plan, buffers, 0), handler));
  CHECK(handler.log == std::vector<std::string>{"0F0", "0SEND_F0", "0F1", "wait 0WAIT_SEND_F0", "0SEND_F1", "0RECV_B0",
                                                "wait 0RECV_B0", "0B0", "0RECV_B1", "wait 0RECV_B1", "0B1",
                                                "wait 0WAIT_SEND_F1"});
}

TEST_CASE("a program of chunk ops runs without messages, pairs by default one after the other") {
  auto const s = generate(dual_pipe{.ranks = 2, .microbatches = 4});
  scribe handler;
  CHECK(run(s.program(0), handler, 0));
  std::vector<std::string> expected;
  for (op o : s.program(0)) expected.push_back(to_string(o));
  CHECK(handler.log == expected);

  struct pairing : scribe {
    int pairs = 0;
    void overlapped(op f, op b) {
      ++pairs;
      note(f);
      note(b);
    }
  };
  pairing aware;
  CHECK(run(s.program(0), aware, 0));
  CHECK(aware.pairs > 0);
  CHECK(aware.log == expected);
}

TEST_CASE("hooks surround every op, and groups are opened and closed") {
  struct profiler : scribe {
    int depth = 0, opened = 0, group = 0, groups = 0;
    void before(op) { ++depth, ++opened; }
    void after(op) { --depth; }
    void begin_group() { ++group, ++groups; }
    void end_group() { --group; }
  };
  auto const plan = plan_communication(one_f_one_b{4, 8}, comm_policy::grouped);
  buffer_plan const buffers(plan);
  profiler handler;
  CHECK(run(rank_program(plan, buffers, 1), handler));
  CHECK(handler.opened == int(plan.program(1).size()));
  CHECK(handler.depth == 0);
  CHECK(handler.group == 0);
  CHECK(handler.groups > 0);
}

TEST_CASE("hooks surround each member of a pair that runs one after the other, and both where they run side by side") {
  struct profiler : scribe {
    void before(op o) { log.push_back("<" + to_string(o)); }
    void after(op o) { log.push_back(">" + to_string(o)); }
  };
  struct parallel : profiler {
    void overlapped(op f, op b) { log.push_back(to_string(f) + "+" + to_string(b)); }
  };
  auto const s = generate(dual_pipe{.ranks = 2, .microbatches = 4});
  auto const log_from = [&](auto handler, std::string const& first) {
    CHECK(run(s.program(0), handler, 0));
    auto const begin = std::find(handler.log.begin(), handler.log.end(), first);
    return std::vector<std::string>(begin, begin + std::min<std::ptrdiff_t>(6, handler.log.end() - begin));
  };
  CHECK(log_from(profiler{}, "<1F3") == std::vector<std::string>{"<1F3", "1F3", ">1F3", "<0B0", "0B0", ">0B0"});
  CHECK(log_from(parallel{}, "<1F3") == std::vector<std::string>{"<1F3", "<0B0", "1F3+0B0", ">0B0", ">1F3", "<1B3"});
}

TEST_CASE("a hook, and a group's begin and end, can fail as all else") {
  auto const plan = plan_communication(one_f_one_b{4, 8}, comm_policy::grouped);
  buffer_plan const buffers(plan);
  rank_program const program(plan, buffers, 1);
  std::size_t group = 0;
  while (!program.entries()[group].grouped_with_next) ++group;
  auto group_end = group;
  while (program.entries()[group_end].grouped_with_next) ++group_end;
  auto const check_failure = [&](auto handler, std::size_t position) {
    auto const report = run(program, handler);
    CHECK(report.status == run_status::failed);
    CHECK(report.position == position);
    CHECK(report.at == program.entries()[position].what);
  };
  struct unopened : scribe {
    bool begin_group() { return false; }
  };
  check_failure(unopened{}, group);
  struct throwing : scribe {
    void begin_group() { throw 42; }
  };
  check_failure(throwing{}, group);
  struct unended : scribe {
    run_status end_group() { return run_status::failed; }
  };
  check_failure(unended{}, group_end);
  struct wary : scribe {
    bool before(op o) { return o.kind() != op_kind::send_forward; }
  };
  struct late : scribe {
    bool after(op o) { return !carries_gradient(o.kind()); }
  };
  auto const first = [&](auto&& is) {
    std::size_t position = 0;
    while (!is(program.entries()[position].what.kind())) ++position;
    return position;
  };
  check_failure(wary{}, first([](op_kind k) { return k == op_kind::send_forward; }));
  check_failure(late{}, first([](op_kind k) { return carries_gradient(k); }));
}

TEST_CASE("a handler knows the ops of a pair by those that a message names") {
  struct recorder : scribe {
    std::vector<op> done = {};
    int unknown = 0;
    void forward(op o) { done.push_back(o); }
    void backward(op o) { done.push_back(o); }
    void backward_input(op o) { done.push_back(o); }
    void send(transfer const& t) { unknown += std::find(done.begin(), done.end(), t.producer) == done.end(); }
  };
  struct parallel : recorder {
    void overlapped(op f, op b) {
      done.push_back(f);
      done.push_back(b);
    }
  };
  auto const plan = plan_communication(one_f_one_b_overlap{3, 6});
  buffer_plan const buffers(plan);
  rank_program const program(plan, buffers, 1);
  auto const check_known = [&](auto handler) {
    CHECK(run(program, handler));
    CHECK(handler.unknown == 0);
    for (op o : handler.done) CHECK(o == o.alone());
  };
  check_known(recorder{});
  check_known(parallel{});
}

TEST_CASE("of a pair that runs one after the other, the member that failed is named") {
  struct refusing : scribe {
    bool backward(op) { return false; }
    bool backward_input(op) { return false; }
  };
  auto const s = generate(dual_pipe{.ranks = 2, .microbatches = 4});
  std::size_t pair = 0;
  while (!s.program(0)[pair].overlaps_next()) ++pair;
  refusing handler;
  auto const pair_alone = run(s.program(0).subspan(pair), handler, 0);
  CHECK(pair_alone.position == 1);
  CHECK(pair_alone.at == s.program(0)[pair + 1]);

  auto const plan = plan_communication(one_f_one_b_overlap{2, 4});
  buffer_plan const buffers(plan);
  auto const report = run(rank_program(plan, buffers, 1), handler);
  CHECK(report.status == run_status::failed);
  CHECK(report.position > 0);
  CHECK(plan.program(1)[report.position - 1].what.overlaps_next());
  CHECK(carries_gradient(report.at.kind()));
}

TEST_CASE("a handler says by its answer or by an exception that it failed, and where is reported") {
  struct refusing : scribe {
    bool backward(op o) { return o.microbatch() < 2; }
  };
  refusing handler;
  auto const s = generate(one_f_one_b{2, 4});
  auto const report = run(s.program(1), handler, 1);
  CHECK(report.status == run_status::failed);
  CHECK(to_string(report) == "rank 1 failed at position 5, 1B2");

  struct throwing : scribe {
    void forward(op o) {
      if (o.microbatch() == 1) throw std::runtime_error("out of memory");
    }
  };
  throwing thrower;
  CHECK(to_string(run(s.program(0), thrower, 0)) == "rank 0 failed at position 1, 0F1: out of memory");
}

TEST_CASE("every schedule carries every microbatch through all stages and back, on threads") {
  for (int ranks : {1, 2, 4})
    for (int chunks : {1, 2})
      for (int microbatches : {1, 4, 9})
        test_support::for_each_built_in(ranks, chunks, microbatches, [&](schedule const& s) {
          for (auto policy : {comm_policy::eager, comm_policy::just_in_time, comm_policy::grouped}) {
            auto const plan = plan_communication(s, policy);
            buffer_plan const buffers(plan);
            thread_transport<std::int64_t> transport(plan, 20s);
            std::vector<std::int64_t> results(std::size_t(s.microbatches()), -1);
            auto const reports = run_on_threads(ranks, [&](int rank) {
              auto w = make_worker(plan, transport, rank);
              auto report = run(rank_program(plan, buffers, rank), w);
              for (op o : s.program(rank))
                if (o.stage() == 0 && carries_gradient(o.kind()))
                  results[std::size_t(o.microbatch())] = w.at(w.backwards, 0, o.microbatch());
              return report;
            });
            for (auto const& report : reports)
              if (!report) FAIL(s.name() << ": " << to_string(report));
            for (std::int64_t b = 0; b < s.microbatches(); ++b) REQUIRE(results[std::size_t(b)] == b);
          }
        });
}

TEST_CASE(
    "several steps over one plan and one transport keep each step's messages apart, however far a rank is ahead") {
  struct forward_only_worker : worker {
    explicit forward_only_worker(worker w) : worker(std::move(w)) {}
    std::int64_t step = 0;
    void forward(op o) {
      if (rank == 3 && o.microbatch() == 0 && step == 0) std::this_thread::sleep_for(20ms);  // the others go ahead
      auto const input = o.stage() == 0 ? step : at(forwards, o.stage() - 1, o.microbatch());
      at(forwards, o.stage(), o.microbatch()) = input;
    }
  };
  auto const plan = plan_communication(forward_only{one_f_one_b{4, 3}});
  buffer_plan const buffers(plan);
  thread_transport<std::int64_t> transport(plan, 20s);
  constexpr std::int64_t steps = 20;
  std::vector<std::int64_t> arrived;
  auto const reports = run_on_threads(4, [&](int rank) {
    forward_only_worker w(make_worker(plan, transport, rank));
    rank_program const program(plan, buffers, rank);
    run_report report;
    for (; w.step < steps && report; ++w.step) {
      report = run(program, w);
      for (std::int64_t b = 0; rank == 3 && b < 3; ++b) arrived.push_back(w.at(w.forwards, 3, b));
    }
    return report;
  });
  for (auto const& report : reports) CHECK(report);
  REQUIRE(arrived.size() == steps * 3);
  for (std::size_t i = 0; i < arrived.size(); ++i) CHECK(arrived[i] == std::int64_t(i / 3));
}

TEST_CASE("a transport that was stopped stays so until it is reset") {
  auto const plan = plan_communication(one_f_one_b{2, 4});
  buffer_plan const buffers(plan);
  thread_transport<std::int64_t> transport(plan, 20s);
  auto const step = [&](int failing_at) {
    return run_on_threads(2, [&](int rank) {
      auto w = make_worker(plan, transport, rank);
      if (rank == 1) w.failing_at = failing_at;
      return run(rank_program(plan, buffers, rank), w);
    });
  };
  CHECK(step(2)[0].status == run_status::stopped);
  CHECK(step(-1)[0].status == run_status::stopped);
  transport.reset();
  for (auto const& report : step(-1)) CHECK(report);
}

TEST_CASE("a handler that throws stops all ranks, and each says where it stood") {
  auto const plan = plan_communication(one_f_one_b{4, 8});
  buffer_plan const buffers(plan);
  for (int failing = 0; failing < 4; ++failing) {
    thread_transport<std::int64_t> transport(plan, 20s);
    auto const begin = std::chrono::steady_clock::now();
    auto const reports = run_on_threads(4, [&](int rank) {
      auto w = make_worker(plan, transport, rank);
      if (rank == failing) w.failing_at = 3;
      return run(rank_program(plan, buffers, rank), w);
    });
    CHECK(std::chrono::steady_clock::now() - begin < 10s);
    for (auto const& report : reports) {
      CHECK(report.status == (report.rank == failing ? run_status::failed : run_status::stopped));
      CHECK(plan.program(report.rank)[report.position].what == report.at);
    }
    CHECK(to_string(reports[std::size_t(failing)]).find(std::to_string(failing) + "F3: out of memory") !=
          std::string::npos);
  }
}

TEST_CASE("a message that never comes, or a rank that is gone, stops every rank within the time-out") {
  auto const plan = plan_communication(one_f_one_b{4, 8});
  buffer_plan const buffers(plan);
  struct forgetful : worker {
    explicit forgetful(worker w) : worker(std::move(w)) {}
    void send(transfer const& t) {
      if (t.what.kind() == op_kind::send_forward && t.producer.microbatch() == 2 && rank == 1) return;
      worker::send(t);
    }
  };
  for (bool gone : {false, true}) {
    thread_transport<std::int64_t> transport(plan, 100ms);
    auto const begin = std::chrono::steady_clock::now();
    auto const reports = run_on_threads(4, [&](int rank) {
      if (gone && rank == 1) return run_report{run_status::completed, rank};  // leaves without a word
      forgetful w(make_worker(plan, transport, rank));
      return run(rank_program(plan, buffers, rank), w);
    });
    CHECK(std::chrono::steady_clock::now() - begin < 5s);
    int timed_out = 0;
    for (auto const& report : reports) {
      if (gone && report.rank == 1) continue;
      CHECK_FALSE(report);
      timed_out += report.status == run_status::timed_out;
    }
    CHECK(timed_out >= 1);
    if (!gone) CHECK(to_string(reports[2]).find("2RECV_F2") != std::string::npos);
  }
}

TEST_CASE("a time-out names the rank that was waited for") {
  struct patient : scribe {
    op_kind endless = op_kind::recv_forward;
    run_status wait(transfer const& t) {
      return t.what.kind() == endless ? run_status::timed_out : run_status::completed;
    }
  };
  auto const plan = plan_communication(one_f_one_b{4, 8});
  buffer_plan const buffers(plan);
  patient handler;
  CHECK(to_string(run(rank_program(plan, buffers, 2), handler)) ==
        "rank 2 timed out at position 0, 2RECV_F0: no message from rank 1");
  handler.endless = op_kind::send_backward;
  CHECK(to_string(run(rank_program(plan, buffers, 2), handler)).find("2SEND_B0: not received by rank 1") !=
        std::string::npos);
  auto const budgeted = *with_send_budget(plan, 1).plan;
  buffer_plan const few(budgeted);
  handler.endless = op_kind::wait_send_forward;
  CHECK(to_string(run(rank_program(budgeted, few, 2), handler)).find("2WAIT_SEND_F0: not received by rank 3") !=
        std::string::npos);
}

#if defined(__GLIBC__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST_CASE("a thread that the system refuses is a failure of its rank") {
  pthread_attr_t usual, huge;
  REQUIRE(pthread_getattr_default_np(&usual) == 0);
  REQUIRE(pthread_attr_init(&huge) == 0);
  REQUIRE(pthread_attr_setstacksize(&huge, std::size_t{1} << 60) == 0);  // more than there are addresses
  REQUIRE(pthread_setattr_default_np(&huge) == 0);
  auto const reports = run_on_threads(3, [](int rank) { return run_report{run_status::completed, rank}; });
  REQUIRE(pthread_setattr_default_np(&usual) == 0);
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(reports[std::size_t(rank)].status == run_status::failed);
    CHECK(reports[std::size_t(rank)].rank == rank);
    CHECK_FALSE(reports[std::size_t(rank)].reason.empty());
  }
  pthread_attr_destroy(&huge);
  pthread_attr_destroy(&usual);
}
#endif

TEST_CASE("a time-out may be as long as its type allows, and none at all takes only what is there") {
  auto const plan = plan_communication(one_f_one_b{4, 8});
  buffer_plan const buffers(plan);
  auto const step = [&](std::chrono::nanoseconds time_out) {
    thread_transport<std::int64_t> transport(plan, time_out);
    return run_on_threads(4, [&](int rank) {
      auto w = make_worker(plan, transport, rank);
      return run(rank_program(plan, buffers, rank), w);
    });
  };
  for (auto const& report : step(std::chrono::nanoseconds::max())) CHECK(report);
  for (auto none : {0ns, -1ns, std::chrono::nanoseconds::min()}) {
    auto const deadline = detail::deadline_after(none);
    CHECK(deadline <= std::chrono::steady_clock::now());
    thread_transport<std::int64_t> transport(plan, none);
    transfer const t{plan.entries()[0].what, plan.entries()[0].what, plan.entries()[0].what, 0, 1, 0};
    std::int64_t payload = 0;
    CHECK(transport.receive(1, t, payload) == run_status::timed_out);
    transport.send(t, 7);
    CHECK(transport.receive(1, t, payload) == run_status::completed);
    CHECK(payload == 7);
  }
}

TEST_CASE("what a handler's stop or a thread's body throws is a failure, not the end of the process") {
  auto const plan = plan_communication(one_f_one_b{2, 2});
  buffer_plan const buffers(plan);
  struct clumsy : scribe {
    bool backward(op) { return false; }
    void stop(run_report const&) { throw std::runtime_error("nobody answers"); }
  };
  clumsy handler;
  auto const report = run(rank_program(plan, buffers, 1), handler);
  CHECK(report.status == run_status::failed);
  CHECK(to_string(report.at) == "1B0");

  auto const reports = run_on_threads(3, [&](int rank) -> run_report {
    if (rank == 1) throw std::runtime_error("no device");
    return {run_status::completed, rank};
  });
  CHECK(reports[0]);
  CHECK(reports[1].status == run_status::failed);
  CHECK(reports[1].rank == 1);
  CHECK(reports[1].reason == "no device");
  CHECK(reports[2]);
}
