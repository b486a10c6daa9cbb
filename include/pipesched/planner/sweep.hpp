// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The figures of many shapes and schedules, computed on all cores, as a range.
///
/// In this layer, and not beside `analyze`, because it needs threads, whose headers cost more than all of `analysis`.

#include <concepts>
#include <cstddef>
#include <iterator>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/memory.hpp>
#include <pipesched/analysis/report.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/planner/ordered_map.hpp>
#include <pipesched/planner/shape_grid.hpp>
#include <pipesched/schedules/registry.hpp>

namespace pipesched {
inline namespace v0 {

/// The cost model of each placement.
///
/// Expression: `costs(where)` for a `placement where`: a `cost_model` for schedules on it, e.g. with one time for each
/// of its stages. Called from many threads at once.
template <class C>
concept cost_by_placement = requires(C const& costs, placement const& where) {
  { costs(where) } -> cost_model;
};

/// What a sweep computes and where.
struct sweep_options {
  int threads = 0;            ///< the caller's is one of them; 0: as many as there are cores
  memory_model memory = {};   ///< what the peaks count
  std::stop_token stop = {};  ///< ends the sweep from anywhere: the range is over after the result at hand
};

/// What a sweep has found of one shape.
template <time_value T>
struct sweep_result {
  std::size_t position;  ///< in the shapes
  named_shape what;
  check_result violation;            ///< why the schedule refuses the shape, if it does
  std::optional<report<T>> figures;  ///< none where the shape was refused
};

namespace detail {

template <class Cost>
struct sweep_time;
template <cost_model Cost>
struct sweep_time<Cost> {
  using type = time_of<Cost>;
};
template <cost_by_placement Cost>
struct sweep_time<Cost> {
  using type = time_of<std::remove_cvref_t<std::invoke_result_t<Cost const&, placement const&>>>;
};

/// Computes one shape after another; what a thread of a sweep does.
template <shape_sequence Shapes, class Cost>
struct sweep_work {
  using time = typename sweep_time<Cost>::type;

  Shapes shapes;
  Cost cost;
  memory_model activations;

  [[nodiscard]] sweep_result<time> operator()(std::size_t position) const {
    sweep_result<time> result{position, shapes[position], {}, {}};
    bool const known = with_schedule_type(result.what.schedule, [&]<class Generator>() {
      if ((result.violation = check_shape<Generator>(result.what.shape))) return;
      auto const generator = make_generator<Generator>(result.what.shape);
      if constexpr (cost_by_placement<Cost>)
        result.figures = analyze(generator, cost(generator.placement()), activations);
      else
        result.figures = analyze(generator, cost, activations);
    });
    if (!known) PIPESCHED_FAIL(schedule_error(unknown_schedule_message(result.what.schedule)));
    return result;
  }
};

}  // namespace detail

/// The results of a sweep, as an input range: made by `sweep`, gone through once.
///
/// They come in the order of the shapes and are the same for any number of threads. The threads are at most a fixed
/// number of shapes ahead, so that memory does not grow with the number of shapes. Leaving the loop ends the sweep: the
/// destructor waits for the shapes that are being computed and begins no more.
template <shape_sequence Shapes, class Cost>
class shape_sweep {
  using work = detail::sweep_work<Shapes, Cost>;

 public:
  using value_type = sweep_result<typename work::time>;

  shape_sweep(Shapes shapes, Cost cost, sweep_options options)
      : stop_(std::move(options.stop)),
        count_(shapes.size()),
        results_(count_, detail::thread_count(options.threads, count_),
                 work{std::move(shapes), std::move(cost), options.memory}) {}

  /// The number of shapes; with `sweep_result::position` it tells how far the sweep is.
  [[nodiscard]] std::size_t size() const noexcept { return count_; }

  class iterator {
   public:
    using value_type = shape_sweep::value_type;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    explicit iterator(shape_sweep& from) : from_(&from) {}
    [[nodiscard]] value_type const& operator*() const noexcept { return *from_->current_; }
    [[nodiscard]] value_type const* operator->() const noexcept { return &*from_->current_; }
    /// Throws what the cost model or `analyze` threw for the next shape, and `schedule_error` for a name of no
    /// schedule.
    iterator& operator++() {
      from_->advance();
      return *this;
    }
    void operator++(int) { ++*this; }
    [[nodiscard]] friend bool operator==(iterator const& i, std::default_sentinel_t) noexcept { return i.at_end(); }

   private:
    [[nodiscard]] bool at_end() const noexcept { return !from_->current_.has_value(); }

    shape_sweep* from_;
  };

  /// To be called once. Throws as `++` of the iterator.
  [[nodiscard]] iterator begin() {
    advance();
    return iterator(*this);
  }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  void advance() {
    current_.reset();  // also where the next one throws
    if (stop_.stop_requested()) results_.close();
    current_ = results_.next();
  }

  std::stop_token stop_;
  std::size_t count_;
  std::optional<value_type> current_;
  detail::ordered_map<value_type, work> results_;
};

/// The figures of each of `shapes`, computed on all cores:
///
///     for (auto const& r : sweep(shape_grid({.ranks = 64}), uniform_cost{}))
///       if (r.figures) fmt::print("{} {}\n", r.what.schedule, r.figures->bubble_time);
///
/// `cost` is one cost model for all, or makes one for each placement; it is called from many threads at once. A shape
/// that its schedule refuses has its violation in place of figures. An exception of the cost model comes out of the
/// loop, at the shape that it belongs to.
template <shape_sequence Shapes, class Cost = uniform_cost<>>
  requires(cost_model<Cost> || cost_by_placement<Cost>)
[[nodiscard]] shape_sweep<Shapes, Cost> sweep(Shapes shapes, Cost cost = {}, sweep_options options = {}) {
  return shape_sweep<Shapes, Cost>(std::move(shapes), std::move(cost), std::move(options));
}

}  // namespace v0
}  // namespace pipesched
