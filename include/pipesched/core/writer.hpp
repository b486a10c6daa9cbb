// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The small language that generators are written in: what comes next on a stage, without a counter in sight.

#include <algorithm>
#include <cstdint>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/folding.hpp>
#include <pipesched/core/op.hpp>

namespace pipesched {
inline namespace v0 {

/// Writes the ops of one copy of a stage: the n-th forward is that of the n-th microbatch, and so for each kind.
/// Every call writes one op and returns the writer, so that a phase of a schedule is one expression.
template <op_sink Sink>
class stage_writer {
 public:
  /// `first_microbatch`: where this copy's microbatches begin; a bidirectional schedule's second half starts at m/2.
  constexpr stage_writer(Sink& out, int stage, int replica = 0, std::int64_t first_microbatch = 0)
      : out_(&out),
        forward_(op_kind::forward, stage_id{stage}, microbatch_id{first_microbatch}, replica_id{replica}),
        gradient_(forward_.as(op_kind::backward)),
        weight_(forward_.as(op_kind::backward_weight)) {}

  constexpr stage_writer& forward() { return write(forward_); }
  /// A full backward takes the weights along: its microbatch has no W of its own, and the next W is of a later one.
  /// Precondition: the W of every earlier I is written.
  constexpr stage_writer& backward() {
    weight_ = weight_.next_microbatch();
    return write(gradient_);
  }
  constexpr stage_writer& backward_input() {
    (*out_)(gradient_.as(op_kind::backward_input));
    gradient_ = gradient_.next_microbatch();
    return *this;
  }
  constexpr stage_writer& backward_weight() { return write(weight_); }

  [[nodiscard]] constexpr op next_forward() const noexcept { return forward_; }
  [[nodiscard]] constexpr op next_backward() const noexcept { return gradient_; }

  /// One overlapped pair in one slot: the next forward of `f`'s stage and the next full backward of `b`'s.
  friend constexpr void overlap(stage_writer& f, stage_writer& b) {
    (*f.out_)(f.forward_.overlapping_next());
    f.forward_ = f.forward_.next_microbatch();
    b.backward();
  }

  /// \name What `repeat` asks: see `detail::repeating_writer`
  /// \{
  [[nodiscard]] constexpr Sink& sink() const noexcept { return *out_; }
  [[nodiscard]] constexpr stage_writer state() const noexcept { return *this; }
  [[nodiscard]] constexpr std::int64_t repetitions(stage_writer const&) const noexcept { return detail::unlimited; }
  [[nodiscard]] constexpr std::int64_t advance_since(stage_writer const& before) const noexcept {
    return forward_.microbatch() - before.forward_.microbatch();
  }
  constexpr void skip(stage_writer const& before, std::int64_t times) {
    auto const skip_ops = [&](op& next, op then) {
      next = next.microbatches_later(times * (next.microbatch() - then.microbatch()));
    };
    skip_ops(forward_, before.forward_);
    skip_ops(gradient_, before.gradient_);
    skip_ops(weight_, before.weight_);
  }
  /// \}

 private:
  constexpr stage_writer& write(op& next) {
    (*out_)(next);
    next = next.next_microbatch();
    return *this;
  }

  Sink* out_;
  op forward_;
  op gradient_;  // B and I share one sequence: a microbatch has one or the other
  op weight_;
};

/// Two writers that a phase goes on with by turns: `repeat(both, n, f0, f1)`.
template <detail::repeating_writer First, detail::repeating_writer Second>
class writer_pair {
 public:
  constexpr writer_pair(First& first, Second& second) : first_(&first), second_(&second) {}

  struct states {
    First first;
    Second second;
  };
  [[nodiscard]] constexpr auto& sink() const noexcept { return first_->sink(); }
  [[nodiscard]] constexpr states state() const { return {*first_, *second_}; }
  [[nodiscard]] constexpr std::int64_t repetitions(states const& before) const {
    return std::min(first_->repetitions(before.first), second_->repetitions(before.second));
  }
  [[nodiscard]] constexpr std::int64_t advance_since(states const& before) const {
    return first_->advance_since(before.first);
  }
  constexpr void skip(states const& before, std::int64_t times) {
    first_->skip(before.first, times);
    second_->skip(before.second, times);
  }

 private:
  First* first_;
  Second* second_;
};

/// The number of ops, and nothing else.
struct count_sink {
  std::int64_t count = 0;
  constexpr void operator()(op) noexcept { ++count; }
};

namespace detail {

/// Takes the program of one rank alone, of all that a generator emits together.
template <op_sink Sink>
struct one_row_sink {
  int rank;
  Sink& out;

  constexpr void operator()(int of, op o) const {
    if (wants(of)) out(o);
  }
  [[nodiscard]] constexpr bool wants(int of) const noexcept { return of == rank; }
  [[nodiscard]] constexpr Sink& row(int) const noexcept { return out; }
};

}  // namespace detail

}  // namespace v0
}  // namespace pipesched
