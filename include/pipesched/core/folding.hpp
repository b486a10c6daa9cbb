// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Repetition as such: how a phase of a schedule reaches a sink that does not want to see each of its 10^9 rounds.

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/op.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// A sink that stores what repeats once.
///
/// A *run* is a pattern of ops that is written several times, each time of later microbatches: `begin_run()`, the ops
/// of the first time, `next_iteration()`, those of the second, `end_run(times)`. A *round* is a sequence of runs that
/// is written several times, each time `advance` microbatches later: `begin_round()`, its runs, `end_round(times,
/// advance)`. Neither contains another of its kind.
template <class S>
concept folding_sink = op_sink<S> && requires(S& sink, std::int64_t n) {
  sink.begin_run();
  sink.next_iteration();
  sink.end_run(n);
  sink.begin_round();
  sink.end_round(n, n);
  { sink.within_run() } -> std::convertible_to<bool>;
};

/// What can say of itself how it goes on, so that its repetitions need not be written.
///
/// Expressions, for a `state` that `w.state()` returned before:
///  - `w.repetitions(state)`: how many more times it can do what it did since then, with the same ops but for later
///    microbatches; 0 where it does not look the same;
///  - `w.skip(state, n)`: does so, without writing; n is not more than that;
///  - `w.advance_since(state)`: by how many microbatches it is later, where `repetitions` is not 0.
template <class W>
concept repeating_writer = requires(W& w, W const& c, std::int64_t n) {
  c.sink();
  { c.repetitions(c.state()) } -> std::same_as<std::int64_t>;
  { c.advance_since(c.state()) } -> std::same_as<std::int64_t>;
  w.skip(c.state(), n);
};

inline constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

/// Writes one run, of at most `times` iterations of `body`; returns of how many.
template <class Writer, class Sink, class Body>
constexpr std::int64_t fold_run(Writer& writer, Sink& out, std::int64_t times, Body& body) {
  auto const before = writer.state();
  out.begin_run();
  body();
  auto const more = std::min(times - 1, writer.repetitions(before));
  if (more > 0) {  // the second iteration shows by how much each op advances
    auto const second = writer.state();
    out.next_iteration();
    body();
    writer.skip(second, more - 1);
  }
  out.end_run(1 + more);
  return 1 + more;
}

/// Writes `times` iterations of `body` as runs, and as rounds wherever the writer comes back to the same place.
template <class Writer, class Sink, class Body>
constexpr void fold_phase(Writer& writer, Sink& out, std::int64_t times, Body& body) {
  if (times <= 0) return;
  times -= fold_run(writer, out, times, body);  // up to a place that it can come back to
  while (times > 0) {
    auto const start = writer.state();
    auto const left = times;
    std::int64_t more = 0;
    out.begin_round();
    while (times > 0 && more == 0) {
      times -= fold_run(writer, out, times, body);
      more = std::min(times / (left - times), writer.repetitions(start));
    }
    out.end_round(1 + more, more > 0 ? writer.advance_since(start) : 0);
    times -= more * (left - times);
    writer.skip(start, more);
  }
}

}  // namespace detail

/// Runs the bodies, one after another, `times` times; not at all where `times` is negative. The bodies may do anything.
/// Always inlined: clang leaves calls out where bodies are long, and then a writer lives in memory, not in registers.
template <class... Bodies>
[[gnu::always_inline]] constexpr void repeat(std::int64_t times, Bodies&&... bodies) {
  for (std::int64_t i = 0; i < times; ++i) (bodies(), ...);
}

/// A phase of a schedule: the same, where the bodies only write with `writer` and depend on nothing else that changes.
/// What goes round can then be written as such: `fold_program` takes no longer for 10^9 microbatches than for 10.
template <detail::repeating_writer Writer, class... Bodies>
[[gnu::always_inline]] constexpr void repeat(Writer& writer, std::int64_t times, Bodies&&... bodies) {
  auto& out = writer.sink();
  if constexpr (detail::folding_sink<std::remove_reference_t<decltype(out)>>) {
    auto body = [&] { (bodies(), ...); };
    if (!out.within_run()) return detail::fold_phase(writer, out, times, body);
  }
  repeat(times, static_cast<Bodies&&>(bodies)...);
}

}  // namespace v0
}  // namespace pipesched
