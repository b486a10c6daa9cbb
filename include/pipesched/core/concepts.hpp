// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What a type must offer to be used as a generator of schedules, or as the place where ops go.

#include <concepts>
#include <cstdint>
#include <string_view>

#include <pipesched/core/error.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>

namespace pipesched {
inline namespace v0 {

/// Takes one op after another.
///
/// Expression: `sink(o)` for an lvalue `sink` and an `op o`.
/// Meaning: `o` is the next op of the program that is being written. Constant time, and no ownership of the sink
/// passes. Satisfied by: any callable on an op, e.g. `[&](op o) { row.push_back(o); }`, `count_sink`, `digest_sink`.
/// Not by: `std::vector<op>`, which is not callable.
template <class S>
concept op_sink = requires(S& sink, op o) { sink(o); };

/// Takes the ops of all ranks, each rank's in order: `sink(rank, o)`.
template <class S>
concept rank_op_sink = requires(S& sink, int rank, op o) { sink(rank, o); };

namespace detail {
struct any_sink {
  constexpr void operator()(op) const noexcept {}
  constexpr void operator()(int, op) const noexcept {}
};
}  // namespace detail

/// A pipeline schedule as a value: its members are its shape, and it writes each rank's program on its own.
///
/// Expressions, for a const `g` and `int rank` in 0..ranks-1:
///  - `g.microbatches`: m of the step;
///  - `g.check()`: a `check_result`; nothing, or the parameter that is out of its bound. The other members have a
///    meaning only where it is empty, and `check` itself is safe for any values;
///  - `g.placement()`: the `placement`; the number of ranks is a part of it;
///  - `g.emit(rank, sink)` for every `op_sink`: the program of `rank`, in order. It needs no other rank's program, and
///    writes the same ops each time.
///
/// Optional: `g.operations(rank)`, the exact number of ops that `emit` writes (else they are counted by emitting them
/// once more); `G::info`, a `schedule_info`; what `emits_together` asks for.
/// Satisfied by: `gpipe`, `one_f_one_b`, every type in `schedules/`, and `forward_only<G>` of each.
/// Not by: a function that returns all programs at once, which no rank could afford at a thousand ranks.
template <class G>
concept schedule_generator = std::copyable<G> && requires(G const& g, int rank, detail::any_sink& sink) {
  { g.microbatches } -> std::convertible_to<std::int64_t>;
  { g.check() } -> std::same_as<check_result>;
  { g.placement() } -> std::same_as<placement>;
  g.emit(rank, sink);
};

/// A generator whose programs may follow from one simulation of all ranks, which each `emit` has to run again.
///
/// Expressions, beyond those of `schedule_generator`:
///  - `g.rows_are_independent()`: whether, in this shape, `emit` costs no more than the row that it writes;
///  - `g.emit_all(sink)` for every `rank_op_sink`: all programs at once, the same as `emit` writes for each rank.
///
/// Optional: `g.programs_repeat()`, whether `emit_all` hands what repeats to the sink's `row(rank)`, where it has one,
/// so that the time does not depend on the number of microbatches: see `fold`.
template <class G>
concept emits_together = schedule_generator<G> && requires(G const& g, detail::any_sink& sink) {
  { g.rows_are_independent() } -> std::same_as<bool>;
  g.emit_all(sink);
};

/// What a schedule says of itself, for lists and help.
struct schedule_info {
  std::string_view name;        ///< as the program and the files write it, e.g. "1f1b"
  std::string_view parameters;  ///< "ranks, microbatches, chunks"
  std::string_view limits;      ///< what `check` enforces, in words; "none" where everything from 1 on runs
  std::string_view source;      ///< the paper or code that defines it
};

/// The name that a generator gives itself, or "custom".
template <schedule_generator G>
[[nodiscard]] constexpr std::string_view name_of(G const&) noexcept {
  if constexpr (requires { std::string_view{G::info.name}; })
    return G::info.name;
  else
    return "custom";
}

}  // namespace v0
}  // namespace pipesched
