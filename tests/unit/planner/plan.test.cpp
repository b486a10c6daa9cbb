// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <pipesched/analysis/memory.hpp>
#include <pipesched/analysis/report.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/planner/plan_json.hpp>
#include <pipesched/planner/plan_text.hpp>
#include <pipesched/planner/planner.hpp>
#include <pipesched/planner/presets.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>
#include <pipesched/schedules/registry.hpp>

#include "support/catch.hpp"
#include "support/sanitized.hpp"

using namespace pipesched;

namespace {

/// A dense model of 24 equal layers on 64 GPUs.
plan_request small_request() {
  plan_request request{llama_3_70b(), cluster_spec::of(h100, 64)};
  request.model.layers = 24;
  request.model.sequence = 4096;
  request.model.batch = 128;
  return request;
}

/// For tests that plan again and again: a few schedules of different kinds.
void choose_some(plan_request& request) { request.choices.schedules = {"1f1b", "interleaved-zb", "dualpipe-v"}; }

}  // namespace

TEST_CASE("a shape's figures are those of its op graph") {
  auto request = small_request();
  request.model.zero_stage = 1;
  auto const entry = evaluate_plan(request, {.schedule = "1f1b", .pipeline = 4, .sizes = {.tensor = 4}});
  CHECK(entry.shape.sizes.data == 4);
  CHECK(entry.shape.microbatches == 32);

  model_costs const costs(request.model, request.cluster, entry.shape.sizes);
  auto const stages = stages_of(costs, *read_layout(entry.layout).layout);
  plan_cost const cost{&stages, costs.transfer()};
  auto const report = analyze(one_f_one_b{.ranks = 4, .microbatches = 32}, cost);
  CHECK(entry.pipeline_time == report.makespan);
  CHECK(entry.bubble_fraction == Approx(report.bubble_fraction));

  // 1F1B holds P - r microbatches on rank r.
  std::vector<std::int64_t> held;
  for (std::size_t r = 0; r < 4; ++r)
    held.push_back(std::int64_t(4 - r) * stages[r].activation +
                   states_of(request.model, stages[r].parameters, entry.shape.sizes).total());
  CHECK(entry.memory.total() == *std::max_element(held.begin(), held.end()));
  CHECK(entry.memory.total() == held[std::size_t(entry.memory.rank)]);
  CHECK(entry.step_time == entry.pipeline_time + entry.exposed_data + entry.optimizer_time);
  auto const all = entry.step_time * 64 * request.cluster.bf16_rate;
  CHECK(entry.mfu == step_operations(request.model, false) / all);
  CHECK(entry.tokens_per_second * entry.step_time == Approx(double(request.model.tokens())));
}

TEST_CASE("plans are ranked, fit memory, divide everything, and are the same each time") {
  auto const request = small_request();
  CHECK(check_request(request).empty());
  std::vector<std::int64_t> seen;
  auto const result = plan(request, [&](std::int64_t done, std::int64_t all) {
    CHECK(done <= all);
    seen.push_back(done);
  });
  REQUIRE_FALSE(result.entries.empty());
  CHECK_FALSE(result.failure);
  CHECK(std::is_sorted(seen.begin(), seen.end()));
  CHECK(seen.size() > 10);
  CHECK(result.entries.size() == 10);
  CHECK(result.fitting + result.drops.total() == result.considered);
  for (std::size_t i = 0; i < result.entries.size(); ++i) {
    auto const& e = result.entries[i];
    if (i > 0) CHECK(result.entries[i - 1].step_time <= e.step_time);
    CHECK(e.memory.total() <= request.cluster.usable_memory());
    CHECK(e.shape.pipeline * e.shape.sizes.tensor * e.shape.sizes.data == 64);
    CHECK(e.shape.microbatches * e.shape.sizes.data * request.model.microbatch == request.model.batch);
    CHECK(e.mfu > 0);
    CHECK(e.mfu < request.cluster.bf16_share * 1.1);
    CHECK(e.bubble_fraction >= 0);
    CHECK(e.bubble_fraction < 1);
    auto const layout = read_layout(e.layout).layout;
    REQUIRE(layout);
    CHECK(check_layout(*layout, {.layers = 24, .ranks = e.shape.pipeline}).empty());
  }
  auto const again = plan(request);
  REQUIRE(again.entries.size() == result.entries.size());
  for (std::size_t i = 0; i < result.entries.size(); ++i) {
    CHECK(again.entries[i].shape == result.entries[i].shape);
    CHECK(again.entries[i].step_time == result.entries[i].step_time);
  }
  for (auto const& other : result.alternatives) CHECK(other.shape.schedule != result.entries.front().shape.schedule);
  CHECK_FALSE(result.changes.empty());
}

TEST_CASE("a plan is the same for any number of threads") {
  auto request = small_request();
  auto moe = request;
  moe.model = deepseek_v3();
  moe.model.layers = 13;
  moe.model.batch = 512;
  auto none = request;
  none.cluster = cluster_spec::of(h100, 2);
  for (auto* each : {&request, &moe, &none}) {
    if (test_support::sanitized && each == &moe) continue;
    choose_some(*each);
    if (test_support::sanitized) each->choices.schedules = {"1f1b"};
    each->threads = 1;
    auto const of_one = plan(*each);
    for (int const threads : {2, 3, 16}) {
      each->threads = threads;
      CHECK(plan_json(plan(*each), *each) == plan_json(of_one, *each));
    }
  }
}

TEST_CASE("what is left out as slower is slower: a long list begins as a short one does") {
  auto request = small_request();
  if (test_support::sanitized) choose_some(request);
  request.listed = 1'000'000;
  auto const all = plan(request);
  CHECK(all.drops.slower == 0);
  CHECK(std::int64_t(all.entries.size()) == all.fitting);
  for (std::int64_t listed : {1, 3, 10, 50}) {
    request.listed = listed;
    auto const some = plan(request);
    CHECK(some.considered == all.considered);
    REQUIRE(std::int64_t(some.entries.size()) == listed);
    for (std::size_t i = 0; i < some.entries.size(); ++i) {
      CHECK(some.entries[i].shape == all.entries[i].shape);
      CHECK(some.entries[i].step_time == all.entries[i].step_time);
    }
    REQUIRE(some.alternatives.size() == all.alternatives.size());
    for (std::size_t i = 0; i < some.alternatives.size(); ++i)
      CHECK(some.alternatives[i].shape == all.alternatives[i].shape);
    if (listed == 1) CHECK(some.drops.slower > 0);
  }
}

TEST_CASE("no shape takes less than its least time or holds less than its least memory") {
  auto request = small_request();
  request.model.experts = 16;
  request.model.top_k = 2;
  request.model.expert_hidden = 4096;
  request.cluster.memory = 1e12;
  request.listed = 1'000'000;
  if (test_support::sanitized) choose_some(request);
  auto const result = plan(request);
  detail::division_cache divisions(request);
  CHECK(result.entries.size() > (test_support::sanitized ? 50 : 500));
  for (auto const& e : result.entries) {
    auto const where = detail::placement_of(e.shape);
    auto const by = detail::better_balance(request, divisions, e.shape, where, detail::has_pairs(e.shape.schedule));
    auto const& d = divisions.of(e.shape, where.stages(), by);
    INFO(to_string(e.shape));
    CHECK(detail::least_time(where, d, e.shape.microbatches) <= e.pipeline_time);
    CHECK(detail::least_memory(where, d) <= e.memory.total());
  }
}

TEST_CASE("a rank holds no more with fewer rounds of microbatches") {
  for_each_schedule([&]<class Generator>() {
    for (int const ranks : {1, 2, 3, 4, 6, 8})
      for (int const chunks : {2, 3})
        for (int m = 16 * ranks; m < 20 * ranks; m += ranks) {
          auto const wanted = [&](int microbatches) {
            return shape{.ranks = ranks, .microbatches = microbatches, .chunks = chunks};
          };
          auto const fewer = 4 * ranks + m % (4 * ranks);
          if (check_shape<Generator>(wanted(m)) || check_shape<Generator>(wanted(fewer))) continue;
          auto const many = build_graph(make_generator<Generator>(wanted(m)));
          auto const few = build_graph(make_generator<Generator>(wanted(fewer)));
          for (int rank = 0; rank < ranks; ++rank)
            if (peak_activations(few, rank, {}).held > peak_activations(many, rank, {}).held)
              FAIL(Generator::info.name << ", P " << ranks << ", m " << m << ", rank " << rank);
        }
  });
}

TEST_CASE("what would change the choice is what a plan of the changed request chooses") {
  auto request = small_request();
  request.choices.schedules = {"1f1b", "interleaved-1f1b", "zb-v", "dualpipe-v"};
  auto const result = plan(request);
  REQUIRE(result.changes.size() == 7);
  bool flips = false;
  for (auto const& change : result.changes) {
    auto changed = request;
    auto const is = [&](std::string_view text) { return change.change.find(text) == 0; };
    if (is("half the network")) changed.cluster.network /= 2;
    if (is("twice the network")) changed.cluster.network *= 2;
    if (is("half the NVLink")) changed.cluster.nvlink /= 2;
    if (is("half the memory")) changed.cluster.memory /= 2;
    if (is("twice the memory")) changed.cluster.memory *= 2;
    if (is("half the batch")) changed.model.batch /= 2;
    if (is("twice the batch")) changed.model.batch *= 2;
    INFO(change.change);
    auto const now = plan(changed);
    REQUIRE(change.possible == !now.failure.has_value());
    if (!change.possible) continue;
    CHECK(change.entry.shape == now.entries.front().shape);
    CHECK(change.entry.step_time == now.entries.front().step_time);
    flips = flips || !change.same;
  }
  CHECK(flips);
}

TEST_CASE("context parallelism is tried only where it is asked for") {
  auto request = small_request();
  request.model.sequence = 65536;
  request.model.batch = 32;
  for (auto const& e : plan(request).entries) CHECK(e.shape.sizes.context == 1);
  request.choices.context = {4, 8};
  auto const result = plan(request);
  REQUIRE_FALSE(result.entries.empty());
  for (auto const& e : result.entries) {
    CHECK(e.shape.sizes.context > 1);
    CHECK(e.shape.pipeline * e.shape.sizes.tensor * e.shape.sizes.context * e.shape.sizes.data == 64);
    CHECK(e.exposed_context > 0);
  }
  request.model.exchange = context_exchange::ring;  // beside the core of long sequences
  auto const ring = plan(request);
  CHECK(ring.entries.front().exposed_context < result.entries.front().exposed_context);
  CHECK(ring.entries.front().step_time < result.entries.front().step_time);

  plan_shape const shape{.schedule = "1f1b", .pipeline = 2, .sizes = {.tensor = 4, .context = 8}};
  auto const divided = evaluate_plan(request, shape);
  CHECK(divided.shape.sizes.data == 1);
  request.model.sequence = 65540;
  CHECK_THROWS_WITH(evaluate_plan(request, shape), "sequence = 65540, must be a multiple of 16 (2 * context)");
}

TEST_CASE("a smaller share of memory leaves fewer plans, none of them new") {
  auto request = small_request();
  if (test_support::sanitized) choose_some(request);
  request.listed = 1'000'000;
  auto const all = plan(request).entries;
  request.cluster.memory_share = 0.6;
  auto const some = plan(request).entries;
  CHECK(some.size() < all.size());
  for (auto const& e : some)
    CHECK(std::any_of(all.begin(), all.end(), [&](ranked_plan const& other) { return other.shape == e.shape; }));
}

TEST_CASE("a bidirectional schedule holds two copies of weights and gradients, and divides the optimiser's states") {
  auto request = small_request();
  auto const one = evaluate_plan(request, {.schedule = "1f1b", .pipeline = 4, .sizes = {.tensor = 4}});
  auto const two = evaluate_plan(request, {.schedule = "dualpipe", .pipeline = 4, .sizes = {.tensor = 4}});
  CHECK(two.parameter_copies == 2);
  // The embedding's stage lies beside the head's, in both directions.
  CHECK(double(two.memory.states.weights) > 1.8 * double(one.memory.states.weights));
  CHECK(double(two.memory.states.optimizer) < 1.1 * double(one.memory.states.optimizer));
}

TEST_CASE("overlapped pairs hide the all-to-alls of experts") {
  plan_request const request{deepseek_v3(), deepseek_v3_cluster()};
  auto const with = [&](std::string_view schedule) {
    return evaluate_plan(request, {.schedule = schedule, .pipeline = 16, .sizes = {.expert = 64}});
  };
  auto const one = with("1f1b");
  auto const dual = with("dualpipe");
  CHECK(dual.exposed_all_to_all < 0.3 * one.exposed_all_to_all);
  CHECK(dual.step_time < one.step_time);
  CHECK(dual.shape.microbatches == 120);
  CHECK(dual.memory.total() < request.cluster.usable_memory());
}

TEST_CASE("a division that does not come out even is refused by name") {
  auto const request = small_request();
  CHECK_THROWS_WITH(evaluate_plan(request, {.schedule = "1f1b", .pipeline = 5}),
                    "gpus = 64, must be a multiple of 5 (pipeline * tensor * context)");
  CHECK_THROWS_WITH(evaluate_plan(request, {.schedule = "1f1b", .pipeline = 4, .sizes = {.expert = 2}}),
                    "expert = 2, must be at most 1 (the model has no experts)");
  auto odd = request;
  odd.model.batch = 129;
  CHECK_THROWS_AS(evaluate_plan(odd, {.schedule = "1f1b", .pipeline = 4}), parameter_error);
  CHECK_THROWS_AS(evaluate_plan(request, {.schedule = "dualpipe", .pipeline = 1}), parameter_error);
}

TEST_CASE("what does not fit memory says so, and what is nearest fits") {
  auto request = small_request();
  request.model = llama_3_70b();
  request.model.recompute = recomputation::none;
  request.model.batch = 64;
  request.cluster.gpus = 16;
  request.choices.schedules = {"1f1b"};
  auto const result = plan(request);
  REQUIRE(result.failure);
  CHECK(result.entries.empty());
  CHECK(result.failure->constraint == "memory");
  REQUIRE(result.failure->closest);
  CHECK(result.failure->closest->memory.total() > request.cluster.usable_memory());
  REQUIRE_FALSE(result.failure->nearest.empty());
  auto const& nearest = result.failure->nearest;
  CHECK(nearest.size() > 1);
  for (std::size_t i = 0; i + 1 < nearest.size(); ++i)
    CHECK(nearest[i].entry.memory.total() <= request.cluster.usable_memory());
  CHECK(nearest.back().change.find("memory = ") == 0);
  for (std::size_t i = 0; i < nearest.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      CHECK((nearest[i].entry.shape != nearest[j].entry.shape ||
             nearest[i].entry.step_time != nearest[j].entry.step_time ||
             nearest[i].entry.memory.total() != nearest[j].entry.memory.total()));
}

TEST_CASE("each constraint that breaks is named, and the nearest request that holds is found") {
  auto const broken = [](plan_request const& request, std::string_view constraint) {
    auto const result = plan(request);
    REQUIRE(result.failure);
    CHECK(result.failure->constraint == constraint);
    CHECK_FALSE(result.failure->message.empty());
    CHECK_FALSE(result.failure->nearest.empty());
    return *result.failure;
  };
  auto request = small_request();
  request.choices.pipeline = {7};
  CHECK(broken(request, "gpus").nearest.front().change == "pipeline = 8");
  request = small_request();
  request.model.batch = 127;
  request.choices.pipeline = {4};
  request.choices.tensor = {4};
  CHECK(broken(request, "batch").nearest.front().change == "batch = 128");
  request = small_request();
  request.choices.pipeline = {32};
  request.choices.schedules = {"interleaved-1f1b"};
  request.choices.chunks = {2};
  CHECK(broken(request, "stages").message.find("pipeline * chunks = 64, must be at most 26 (layers, embedding and") ==
        0);
  request = small_request();
  request.choices.tensor = {7};
  request.cluster.gpus = 56;
  request.model.batch = 112;
  CHECK(broken(request, "heads").message.find("heads = 64, must be a multiple of 7 (tensor)") == 0);
  request = small_request();  // 64 GPUs are no multiple of 3 either, but no other number would help
  request.choices.tensor = {3};
  CHECK(broken(request, "heads").message.find("heads = 64, must be a multiple of 3 (tensor)") == 0);
  request = small_request();
  request.choices.context = {3};
  request.cluster.gpus = 48;
  request.model.batch = 96;
  CHECK(broken(request, "sequence").nearest.front().change == "context = 2");
  request = small_request();
  request.model.experts = 100;
  request.model.top_k = 2;
  request.model.expert_hidden = 512;
  request.choices.expert = {16};
  CHECK(broken(request, "experts").message.find("experts = 100, must be a multiple of 16 (expert)") == 0);
  request = small_request();
  request.choices.layout = read_layout("Et*8|t*8|t*8L").layout;
  request.choices.pipeline = {2};
  CHECK(broken(request, "stages").message.find("must be 3 (the stages of the layout)") != std::string::npos);
  request = small_request();
  request.choices.schedules = {"dualpipe"};
  request.choices.chunks = {3};
  CHECK(broken(request, "schedule").message.find("chunks = 3, must be 1 (of this schedule)") != std::string::npos);
  request = small_request();
  request.choices.expert = {2};
  CHECK(broken(request, "experts").message.find("expert = 2, must be at most 1 (the model has no experts)") == 0);
  request = small_request();
  request.choices.pipeline = {4};
  request.model.batch = (std::int64_t{1} << 31) - 1;
  request.model.batch -= request.model.batch % (3 * 64);  // a power of two is not what it takes
  request.choices.schedules = {"1f1b"};
  CHECK(broken(request, "size").message.find("must be at most 1048576") != std::string::npos);
  request = small_request();
  request.choices.pipeline = {16};
  request.choices.tensor = {1};
  request.choices.schedules = {"dualpipe"};
  request.model.batch = 16;
  CHECK(broken(request, "schedule").message ==
        "dualpipe with pipeline = 16: microbatches = 4, must be at least 32 (2 * ranks)");
}

TEST_CASE("one rank is tried with 1F1B alone, unless another schedule is asked for") {
  auto request = small_request();
  request.choices.pipeline = {1};
  request.model.layers = 8;
  request.listed = 1000;
  auto const result = plan(request);
  REQUIRE_FALSE(result.entries.empty());
  for (auto const& e : result.entries) {
    CHECK(e.shape.schedule == "1f1b");
    CHECK(e.shape.chunks == 1);
  }
  request.choices.schedules = {"gpipe"};
  for (auto const& e : plan(request).entries) CHECK(e.shape.schedule == "gpipe");
}

TEST_CASE("a request is checked before it is tried") {
  auto request = small_request();
  request.choices.schedules = {"2f2b"};
  request.choices.chunks = {0};
  request.model.hidden = -1;
  request.cluster.gpus = 0;
  request.choices.layout = read_layout("Et|tL").layout;
  auto const wrong = check_request(request);
  REQUIRE(wrong.size() == 5);
  CHECK(to_string(wrong[0]) == "model: hidden = -1, must be at least 1");
  CHECK(to_string(wrong[1]) == "cluster: gpus = 0, must be at least 1");
  CHECK(to_string(wrong[2]) == "model: choices.chunks = 0, must be at least 1");
  CHECK(wrong[3].message.find("unknown schedule '2f2b'") == 0);
  CHECK(to_string(wrong[4]) ==
        "model.choices.layout: the layout holds 2 transformer layers, the last in stage 1 (\"tL\"); expected 24");
  CHECK_THROWS_AS(plan(request), parameter_error);
  request = small_request();
  request.choices.tensor = {0};
  CHECK_THROWS_AS(plan(request), parameter_error);
  request = small_request();
  request.listed = 0;
  CHECK_THROWS_AS(plan(request), parameter_error);
}

TEST_CASE("a given layout may have more stages than the model has pieces") {
  auto request = small_request();
  request.choices.layout = read_layout("E|(t|)*24||||||L").layout;
  REQUIRE(request.choices.layout->stages.size() == 32);
  request.choices.pipeline = {16};
  request.choices.schedules = {"1f1b", "interleaved-1f1b"};
  auto const result = plan(request);
  REQUIRE_FALSE(result.entries.empty());
  for (auto const& entry : result.entries) {
    CHECK(entry.shape.pipeline * entry.shape.chunks == 32);
    CHECK(read_layout(entry.layout).layout == request.choices.layout);
  }
}

TEST_CASE("a given layout is used as it is") {
  auto request = small_request();
  request.choices.layout = read_layout("Et*5|t*7|t*6|t*6L").layout;
  auto const result = plan(request);
  REQUIRE_FALSE(result.entries.empty());
  for (auto const& e : result.entries) CHECK(e.layout == "Et*5|t*7|t*6|t*6L");
}
