// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What is asked of the planner, and what it answers.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <pipesched/planner/cluster.hpp>
#include <pipesched/planner/layout.hpp>
#include <pipesched/planner/model.hpp>
#include <pipesched/planner/model_memory.hpp>

namespace pipesched {
inline namespace v0 {

/// The sizes and schedules to choose among; an empty list leaves the choice to the planner.
struct plan_choices {
  std::vector<std::int64_t> pipeline = {};  ///< ranks P
  std::vector<std::int64_t> chunks = {};    ///< stages v of a rank
  std::vector<std::int64_t> tensor = {};
  std::vector<std::int64_t> expert = {};
  std::vector<std::int64_t> context = {1};  ///< context-parallel sizes; an empty list is that of 1
  std::vector<std::string> schedules = {};
  std::optional<pipeline_layout> layout = {};  ///< instead of a balanced one; its stages must be P * v
};

struct plan_request {
  model_spec model;
  cluster_spec cluster;
  plan_choices choices = {};
  std::int64_t listed = 10;  ///< plans of the answer, beside the best of every schedule
  int threads = 0;           ///< of the search, which does not change the answer; 0: one per core
};

/// What is tried: a schedule, its shape, and how many GPUs share what.
struct plan_shape {
  std::string_view schedule = {};
  std::int64_t pipeline = 1;
  std::int64_t chunks = 1;
  std::int64_t microbatches = 1;
  parallel_sizes sizes = {};

  /// A total order, so that equal plans are listed the same way each time.
  friend constexpr auto operator<=>(plan_shape const& a, plan_shape const& b) noexcept {
    auto const key = [](plan_shape const& s) {
      return std::tuple(s.pipeline, s.chunks, s.sizes.tensor, s.sizes.context, s.sizes.expert, s.sizes.data,
                        s.microbatches, s.schedule);
    };
    return key(a) <=> key(b);
  }
  friend constexpr bool operator==(plan_shape const& a, plan_shape const& b) noexcept { return (a <=> b) == 0; }
};

/// What the fullest rank holds, in bytes.
struct plan_memory {
  std::int64_t rank = 0;
  state_bytes states = {};
  std::int64_t activations = 0;  ///< the peak of the op graph, and what a layer needs while it runs

  [[nodiscard]] constexpr std::int64_t total() const noexcept { return states.total() + activations; }
};

/// A shape with its figures. Times are seconds of a step; exposed communication is the mean over ranks.
struct ranked_plan {
  plan_shape shape = {};
  std::string layout = {};  ///< Megatron-LM's text; see `read_layout`
  double step_time = 0;
  double pipeline_time = 0;       ///< makespan of the op graph
  double bubble_fraction = 0;     ///< of the makespan
  double exposed_all_to_all = 0;  ///< of experts, in the makespan
  double exposed_tensor = 0;      ///< collectives of tensor parallelism, in the makespan
  double exposed_context = 0;     ///< keys and values among context-parallel ranks, in the makespan
  double exposed_data = 0;        ///< gradients and weights among data-parallel ranks, beyond the makespan
  double optimizer_time = 0;      ///< reads and writes of the states
  int parameter_copies = 1;
  plan_memory memory = {};
  double mfu = 0;         ///< of the 16-bit rate, attention's whole matrix counted
  double mfu_causal = 0;  ///< with the half that a causal mask leaves
  double tokens_per_second = 0;

  [[nodiscard]] constexpr double exposed_communication() const noexcept {
    return exposed_all_to_all + exposed_tensor + exposed_context + exposed_data;
  }
};

/// How many shapes a constraint has dropped.
struct plan_drops {
  std::int64_t gpus = 0;      ///< sizes that do not divide the GPUs
  std::int64_t heads = 0;     ///< tensor-parallel ranks that do not divide the heads
  std::int64_t sequence = 0;  ///< context-parallel ranks that do not divide the sequence into two parts each
  std::int64_t experts = 0;   ///< expert-parallel ranks that divide no experts, or not the ranks of a stage
  std::int64_t batch = 0;     ///< microbatches do not come out even
  std::int64_t stages = 0;    ///< more stages than pieces of the model, or a given layout of other size
  std::int64_t schedule = 0;  ///< the schedule is not made for this shape
  std::int64_t memory = 0;
  std::int64_t size = 0;    ///< more ops than are worth computing: `max_planned_operations`
  std::int64_t slower = 0;  ///< even without a bubble slower than the plans listed and the best of its schedule

  [[nodiscard]] constexpr std::int64_t total() const noexcept {
    return gpus + heads + sequence + experts + batch + stages + schedule + memory + size + slower;
  }
};

/// A change of the request, and the plan that would then be first.
struct plan_change {
  std::string change = {};
  ranked_plan entry = {};
  bool same = false;     ///< still the first's schedule and sizes
  bool possible = true;  ///< whether anything fits
};

/// Why there is no plan.
struct plan_failure {
  std::string constraint;                   ///< the one that broke last, a member of `plan_drops`
  std::string message;                      ///< with the values
  std::optional<ranked_plan> closest = {};  ///< the shape that comes closest to fitting memory
  std::vector<plan_change> nearest = {};    ///< what fits, after the smallest change first
};

struct plan_result {
  std::vector<ranked_plan> entries = {};  ///< the fastest that fit, by step time
  std::int64_t considered = 0;            ///< shapes: those that fit and those that were dropped
  std::int64_t fitting = 0;               ///< shapes that were computed and fit
  plan_drops drops = {};
  /// The best entry of each other schedule; of those whose shapes all exceed the memory, the one that needs the least.
  std::vector<ranked_plan> alternatives = {};
  std::vector<plan_change> changes = {};  ///< who would be first under other circumstances
  std::optional<plan_failure> failure = {};
};

/// Ops of a schedule beyond which a shape is left out.
inline constexpr std::int64_t max_planned_operations = std::int64_t{1} << 20;

}  // namespace v0
}  // namespace pipesched
