// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Schedules to lower, and what an overlapped pair must cost, found without the library's graph.

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include <pipesched/analysis/moe_cost.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/graph/moe_pair_order.hpp>
#include <pipesched/schedules/chimera.hpp>
#include <pipesched/schedules/dual_pipe.hpp>
#include <pipesched/schedules/dual_pipe_v.hpp>
#include <pipesched/schedules/eager_one_f_one_b.hpp>
#include <pipesched/schedules/gpipe.hpp>
#include <pipesched/schedules/interleaved.hpp>
#include <pipesched/schedules/interleaved_overlap.hpp>
#include <pipesched/schedules/interleaved_zb.hpp>
#include <pipesched/schedules/looped_bfs.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>
#include <pipesched/schedules/one_f_one_b_overlap.hpp>
#include <pipesched/schedules/zb_h1.hpp>
#include <pipesched/schedules/zb_h2.hpp>

#include "support/random_schedules.hpp"

namespace test_support {

/// Schedules with and without pairs and split backwards, on all kinds of placements, some of them random.
inline std::vector<pipesched::schedule> moe_schedules() {
  using namespace pipesched;
  std::vector<schedule> all;
  auto const add = [&](auto const&... generators) { (all.push_back(generate(generators)), ...); };
  add(gpipe{1, 1}, gpipe{3, 5}, one_f_one_b{1, 3}, one_f_one_b{4, 2}, one_f_one_b{4, 9}, eager_one_f_one_b{4, 7});
  add(interleaved{2, 4, 2}, interleaved{3, 7, 3}, looped_bfs{2, 5, 3}, interleaved_zb{2, 6, 2}, chimera{4, 4});
  add(zb_h1{1, 2}, zb_h1{4, 9}, zb_h2{3, 8});
  add(one_f_one_b_overlap{1, 4}, one_f_one_b_overlap{4, 9}, interleaved_overlap{2, 4, 2}, interleaved_overlap{4, 8, 3});
  add(dual_pipe{2, 4}, dual_pipe{4, 10}, dual_pipe_v{1, 2}, dual_pipe_v{2, 6}, dual_pipe_v{4, 10});
  std::mt19937 random(7);
  for (auto const& where : {placement::linear(3), placement::loop(2, 2), placement::v(2), placement::bidirectional(4)})
    for (int i = 0; i < 4; ++i) all.push_back(random_schedule(where, 6, random));
  return all;
}

/// Whole times between 0 and 9.
inline pipesched::moe_cost<> random_moe_cost(std::mt19937& random) {
  auto const time = [&] { return std::int64_t(random() % 10); };
  return {.attention = time(),
          .dispatch = time(),
          .mlp = time(),
          .combine = time(),
          .attention_backward_input = time(),
          .attention_backward_weight = time(),
          .mlp_backward_input = time(),
          .mlp_backward_weight = time(),
          .dispatch_backward = time(),
          .combine_backward = time()};
}

/// How long a pair of two chunks of `layers` layers runs in the order of DeepSeek-V3's figure 4: two streams walked by
/// hand, with every event's end looked up by name.
inline std::int64_t pair_time_by_hand(pipesched::moe_cost<> const& cost, int layers) {
  using k = pipesched::op_kind;
  std::map<std::pair<k, int>, std::int64_t> end;
  auto const time = [&](k kind) { return cost({kind, pipesched::stage_id{0}, pipesched::microbatch_id{0}}, 0); };
  std::int64_t compute = 0;
  std::int64_t all_to_all = 0;
  auto const run = [&](std::int64_t& clock, k kind, int layer, std::int64_t ready) {
    clock = std::max(clock, ready) + time(kind);
    end[{kind, layer}] = clock;
  };
  for (int up = 0; up < layers; ++up) {
    int const down = layers - 1 - up;
    run(compute, k::attention_forward, up, up > 0 ? end.at({k::combine_forward, up - 1}) : 0);
    run(all_to_all, k::combine_backward, down, up > 0 ? end.at({k::attention_backward_input, down + 1}) : 0);
    run(compute, k::mlp_backward_input, down, end.at({k::combine_backward, down}));
    run(compute, k::mlp_backward_weight, down, end.at({k::mlp_backward_input, down}));
    run(all_to_all, k::dispatch_forward, up, end.at({k::attention_forward, up}));
    run(compute, k::mlp_forward, up, end.at({k::dispatch_forward, up}));
    run(all_to_all, k::dispatch_backward, down, end.at({k::mlp_backward_input, down}));
    run(compute, k::attention_backward_input, down, end.at({k::dispatch_backward, down}));
    run(compute, k::attention_backward_weight, down, end.at({k::attention_backward_input, down}));
    run(all_to_all, k::combine_forward, up, end.at({k::mlp_forward, up}));
  }
  return std::max(compute, all_to_all);
}

}  // namespace test_support
