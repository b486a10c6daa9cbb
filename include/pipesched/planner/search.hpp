// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Computes the shapes of a request, ranked by step time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <pipesched/core/placement.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/planner/bounds.hpp>
#include <pipesched/planner/evaluate.hpp>
#include <pipesched/planner/ordered_map.hpp>
#include <pipesched/planner/plan.hpp>
#include <pipesched/planner/shape_list.hpp>
#include <pipesched/schedules/registry.hpp>

namespace pipesched {
inline namespace v0 {

namespace detail {

[[nodiscard]] inline bool same_graph(plan_shape const& a, plan_shape const& b) noexcept {
  return a.schedule == b.schedule && a.pipeline == b.pipeline && a.chunks == b.chunks &&
         a.microbatches == b.microbatches;
}

[[nodiscard]] inline pipesched::shape schedule_shape(plan_shape const& shape) {
  return {.ranks = shape.pipeline, .microbatches = shape.microbatches, .chunks = shape.chunks};
}
/// Whether its schedule can be made.
[[nodiscard]] inline check_result check_schedule(plan_shape const& shape) {
  check_result violation;
  with_schedule_type(shape.schedule,
                     [&]<class Generator>() { violation = check_shape<Generator>(schedule_shape(shape)); });
  return violation;
}

/// What `make(generator)` makes of a shape's generator. Throws `schedule_error` for a name of no schedule, and
/// `parameter_error` where its schedule refuses the shape.
template <class Make>
[[nodiscard]] auto with_generator(plan_shape const& shape, Make&& make) {
  std::optional<decltype(make(gpipe{}))> made;
  with_schedule(shape.schedule, schedule_shape(shape), [&](auto const& generator) { made.emplace(make(generator)); });
  if (!made) PIPESCHED_FAIL(schedule_error(unknown_schedule_message(shape.schedule)));
  return *std::move(made);
}
[[nodiscard]] inline placement placement_of(plan_shape const& shape) {
  return with_generator(shape, [](auto const& generator) { return generator.placement(); });
}
/// In a function of its own, so that what follows of a schedule is compiled once, and not for each generator.
[[nodiscard]] inline op_graph graph_of(plan_shape const& shape) {
  return build_graph(with_generator(shape, [](auto const& generator) { return generate(generator); }));
}

/// A shape and what it needs of memory however its ops are ordered.
struct dropped_shape {
  plan_shape shape;
  std::int64_t bytes;
};

/// What a search has to find: the `listed` fastest shapes, and the fastest of each schedule.
struct search_goal {
  std::size_t listed = 10;
  bool each_schedule = true;
};

struct search_result {
  std::vector<ranked_plan> entries;  ///< those of the goal, by step time
  vector<dropped_shape> too_large;   ///< with what they need, or, far beyond the memory, a bound of it from below
  std::int64_t fitting = 0;          ///< shapes that were computed and fit
  std::int64_t slower = 0;           ///< shapes that were not: their least time is above what the goal asks for
};

/// The step times that a shape has to reach to matter.
class search_limits {
 public:
  explicit search_limits(search_goal goal) : goal_(goal) {}

  [[nodiscard]] bool matters(plan_shape const& shape, double least_time) const {
    if (fastest_.size() < goal_.listed || least_time <= fastest_.back()) return true;
    if (!goal_.each_schedule) return false;
    auto const best = of_schedule_.find(shape.schedule);
    return best == of_schedule_.end() || least_time <= best->second;
  }
  void add(ranked_plan const& entry) {
    fastest_.insert(std::upper_bound(fastest_.begin(), fastest_.end(), entry.step_time), entry.step_time);
    if (fastest_.size() > goal_.listed) fastest_.pop_back();
    auto const [best, first] = of_schedule_.emplace(entry.shape.schedule, entry.step_time);
    if (!first) best->second = std::min(best->second, entry.step_time);
  }
  /// Leaves of entries in order those that the goal asks for.
  void keep_goal(std::vector<ranked_plan>& entries) const {
    std::size_t at = 0;
    std::vector<std::string_view> seen;
    std::erase_if(entries, [&](ranked_plan const& entry) {
      bool const first = std::find(seen.begin(), seen.end(), entry.shape.schedule) == seen.end();
      if (first) seen.push_back(entry.shape.schedule);
      return at++ >= goal_.listed && !(first && goal_.each_schedule);
    });
  }

 private:
  search_goal goal_;
  vector<double> fastest_;
  std::map<std::string_view, double> of_schedule_;
};

/// A search over shapes, in the order of their least times: what these show to be slower than the goal is not computed.
/// The result depends neither on that order nor on the number of threads.
///
/// Threads compute groups of shapes ahead, and leave out what the step times known by then show to be slower. Group by
/// group the consumer asks again, with those of every group before: they are no fewer, so whatever it needs is there.
class shape_search {
 public:
  shape_search(plan_request const& request, vector<plan_shape> const& shapes, search_goal goal)
      : request_(request),
        shapes_(shapes),
        divisions_(request),
        usable_(request.cluster.usable_memory()),
        threads_(request.threads),
        limits_(goal) {
    std::map<std::string_view, bool> pairs;
    for (auto const name : schedule_names) pairs[name] = has_pairs(name);
    for (std::size_t at = 0; at < shapes.size();) {
      auto after = at + 1;
      while (after < shapes.size() && same_graph(shapes[at], shapes[after])) ++after;
      bound(at, after, placement_of(shapes[at]), pairs[shapes[at].schedule]);
      at = after;
    }
    std::sort(groups_.begin(), groups_.end(), [](group const& a, group const& b) {
      return std::pair(a.members.front().least_time, a.members.front().index) <
             std::pair(b.members.front().least_time, b.members.front().index);
    });
  }

  /// `progress(done, all)` after each group of shapes that share a graph, in the caller's thread.
  template <class Progress>
  [[nodiscard]] search_result run(Progress&& progress) {
    auto const computed = [this](std::size_t g) { return compute(groups_[g]); };
    // Few ahead: what is computed long before its turn knows few step times, and is computed in vain.
    constexpr std::size_t ahead = 2;
    ordered_map<computed_group, decltype(computed)> results(groups_.size(), thread_count(threads_, groups_.size()),
                                                            computed, ahead);
    for (std::size_t done = 0; auto found = results.next();) {
      take(groups_[done], *std::move(found));
      progress(std::int64_t(++done), std::int64_t(groups_.size()));
    }
    std::sort(result_.entries.begin(), result_.entries.end(), [](ranked_plan const& a, ranked_plan const& b) {
      return std::tie(a.step_time, a.shape) < std::tie(b.step_time, b.shape);
    });
    limits_.keep_goal(result_.entries);
    return std::move(result_);
  }

 private:
  struct bounded_shape {
    std::size_t index;
    double least_time;
    balanced_by by;
  };
  /// Shapes that share a graph, by least time.
  struct group {
    vector<bounded_shape> members;
  };

  void bound(std::size_t from, std::size_t to, placement const& where, bool pairs) {
    group g;
    for (auto i = from; i < to; ++i) {
      auto const by = better_balance(request_, divisions_, shapes_[i], where, pairs);
      auto const& d = divisions_.of(shapes_[i], where.stages(), by);
      if (auto const least = least_memory(where, d); least > usable_)
        result_.too_large.push_back({shapes_[i], least});
      else
        g.members.push_back({i, least_time(where, d, shapes_[i].microbatches), by});
    }
    if (g.members.empty()) return;
    std::sort(g.members.begin(), g.members.end(), [](bounded_shape const& a, bounded_shape const& b) {
      return std::pair(a.least_time, a.index) < std::pair(b.least_time, b.index);
    });
    groups_.push_back(std::move(g));
  }

  /// A graph of the same schedule with few microbatches, if this one has many: ranks hold no more in it.
  [[nodiscard]] static std::optional<op_graph> shorter_graph(plan_shape shape) {
    // Rounds and halves of microbatches stay whole. A ragged last round moves the groups of interleaved schedules.
    auto const period = 4 * shape.pipeline;
    if (shape.microbatches < 4 * period || shape.microbatches % shape.pipeline != 0) return {};
    shape.microbatches = period + shape.microbatches % period;
    if (check_schedule(shape)) return {};
    return graph_of(shape);
  }

  /// What was computed of a shape: its figures, or without them what it needs of memory, if that is too much.
  struct computed_shape {
    std::int64_t too_large = 0;
    std::optional<ranked_plan> entry = {};
  };
  /// One for each member; those left out as slower have nothing.
  using computed_group = vector<computed_shape>;

  [[nodiscard]] search_limits limits_by_now() const {
    std::lock_guard const lock(mutex_);
    return limits_;
  }

  [[nodiscard]] computed_group compute(group const& g) const {
    auto limits = limits_by_now();
    std::optional<op_graph> shorter;
    std::optional<op_graph> graph;
    std::optional<execution_order> order;
    auto const figures = [&](bounded_shape const& member) -> computed_shape {
      auto const& shape = shapes_[member.index];
      auto const& d = divisions_.met(shape, int(shape.pipeline * shape.chunks), member.by);
      if (!shorter && !graph) shorter = shorter_graph(shape);
      if (shorter)
        if (auto const least = fullest_rank(*shorter, d.costs, d.stages).total(); least > usable_) return {least};
      if (!graph) graph.emplace(graph_of(shape));
      auto const memory = fullest_rank(*graph, d.costs, d.stages);
      if (memory.total() > usable_) return {memory.total()};
      if (!order) order.emplace(*graph);
      auto entry = evaluate(shape, memory, *graph, *order, d.costs, d.stages);
      entry.layout = write_layout(d.layout);
      return {.entry = std::move(entry)};
    };
    computed_group computed(g.members.size());
    for (std::size_t i = 0; i < g.members.size(); ++i) {
      auto const& member = g.members[i];
      if (!limits.matters(shapes_[member.index], member.least_time)) continue;
      computed[i] = figures(member);
      if (computed[i].entry) limits.add(*computed[i].entry);
    }
    return computed;
  }

  void take(group const& g, computed_group computed) {
    std::lock_guard const lock(mutex_);
    for (std::size_t i = 0; i < g.members.size(); ++i) {
      auto const& shape = shapes_[g.members[i].index];
      if (!limits_.matters(shape, g.members[i].least_time)) {
        ++result_.slower;
      } else if (!computed[i].entry) {
        result_.too_large.push_back({shape, computed[i].too_large});
      } else {
        limits_.add(*computed[i].entry);
        ++result_.fitting;
        result_.entries.push_back(*std::move(computed[i].entry));
      }
    }
  }

  plan_request const& request_;
  vector<plan_shape> const& shapes_;
  division_cache divisions_;
  std::int64_t usable_;
  int threads_;
  vector<group> groups_;
  mutable std::mutex mutex_;  // of the limits, which threads read while the consumer adds to them
  search_limits limits_;
  search_result result_;
};

/// The figures of one shape, whether it fits memory or not. Throws as `with_generator` does.
[[nodiscard]] inline ranked_plan figures_of(plan_request const& request, plan_shape const& shape) {
  division_cache divisions(request);
  auto const graph = graph_of(shape);
  auto const by = better_balance(request, divisions, shape, graph.where(), has_pairs(shape.schedule));
  auto const& d = divisions.of(shape, graph.where().stages(), by);
  auto entry =
      evaluate(shape, fullest_rank(graph, d.costs, d.stages), graph, execution_order(graph), d.costs, d.stages);
  entry.layout = write_layout(d.layout);
  return entry;
}

/// The best plan of a request, if there is one.
[[nodiscard]] inline std::optional<ranked_plan> best_of(plan_request const& request) {
  if (request.model.check() || request.cluster.check()) return {};
  shape_list const list(request);
  auto found =
      shape_search(request, list.shapes(), {.listed = 1, .each_schedule = false}).run([](std::int64_t, std::int64_t) {
      });
  if (found.entries.empty()) return {};
  return std::move(found.entries.front());
}

}  // namespace detail

}  // namespace v0
}  // namespace pipesched
