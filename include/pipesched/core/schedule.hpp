// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The schedule: one ordered program per rank.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/concepts.hpp>
#include <pipesched/core/digest.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/core/writer.hpp>

namespace pipesched {
inline namespace v0 {

/// The most ops that a stored schedule may have: what a graph can number.
inline constexpr std::int64_t max_operations = (std::int64_t{1} << 28) - 1;
/// The most microbatches of a step.
inline constexpr std::int64_t max_microbatches = 0x7FFFFFFF;

/// One ordered program per rank, in one piece of memory. Immutable; const calls are safe from many threads.
class schedule {
 public:
  /// A schedule from programs written by hand, one per rank of `where`. Nothing is asked of the ops but that their
  /// stage, replica and microbatch exist; whether they can run is the checker's question.
  /// Throws `parameter_error` for a wrong number of programs and for an op out of range.
  template <class Programs = std::vector<std::vector<op>>>
    requires requires(Programs const& programs) { programs[0][0].kind(); }
  constexpr schedule(placement where, std::int64_t microbatches, Programs const& programs,
                     std::string_view name = "custom")
      : schedule(std::move(where), microbatches, name) {
    require(first_violation(
        {at_least("microbatches", microbatches, 1), at_most("microbatches", microbatches, max_microbatches)}));
    if (std::int64_t(std::size(programs)) != ranks())
      require(parameter_violation{"programs (size)", std::int64_t(std::size(programs)), "must be", ranks(), "ranks"});
    detail::vector<std::int64_t> lengths;
    for (auto const& program : programs) lengths.push_back(std::int64_t(std::size(program)));
    allocate(lengths);
    op* next = ops_.data();
    for (auto const& program : programs)
      for (op o : program) {
        require(check_range(o));
        *next++ = o;
      }
  }

  [[nodiscard]] constexpr std::string_view name() const noexcept { return {name_.data(), name_.size()}; }
  [[nodiscard]] constexpr placement const& where() const noexcept { return where_; }
  [[nodiscard]] constexpr int ranks() const noexcept { return where_.ranks(); }
  [[nodiscard]] constexpr int stages() const noexcept { return where_.stages(); }
  [[nodiscard]] constexpr std::int64_t microbatches() const noexcept { return microbatches_; }

  /// The program of one rank, in order. Precondition: `rank` exists.
  [[nodiscard]] constexpr view<op> program(int rank) const noexcept {
    auto const r = std::size_t(rank);
    return {ops_.data() + offsets_[r], offsets_[r + 1] - offsets_[r]};
  }
  /// All programs, rank after rank.
  [[nodiscard]] constexpr view<op> ops() const noexcept { return ops_.view(); }
  /// All ops, for another owner. What is left may be destroyed or assigned to.
  [[nodiscard]] constexpr detail::buffer<op> take_ops() && noexcept { return std::move(ops_); }
  /// Where each rank's program begins in `ops()`; ranks + 1 entries.
  [[nodiscard]] constexpr view<std::size_t> offsets() const noexcept { return {offsets_.data(), offsets_.size()}; }

  /// Equal for equal placements, microbatches and programs; the name does not count. The same on every compiler, and
  /// the same as `digest_of` of the generator that made the schedule.
  [[nodiscard]] constexpr std::uint64_t digest() const {
    pipesched::digest result = digest_of_shape(where_, microbatches_);
    for (int rank = 0; rank < ranks(); ++rank) {
      for (op o : program(rank)) result.add(o.packed());
      result.add(~std::uint64_t{0});  // no op: its kind does not exist
    }
    return result.value();
  }

  /// Same placement, microbatches and programs.
  friend constexpr bool operator==(schedule const& a, schedule const& b) {
    if (a.where_ != b.where_ || a.microbatches_ != b.microbatches_ || a.offsets_ != b.offsets_) return false;
    for (std::size_t i = 0; i < a.ops_.size(); ++i)
      if (a.ops_[i] != b.ops_[i]) return false;
    return true;
  }

 private:
  template <schedule_generator G>
  friend constexpr schedule generate(G const&);
  template <schedule_generator G>
  friend constexpr schedule generate(G const&, schedule&&);
  template <schedule_generator G>
  friend constexpr std::uint64_t digest_of(G const&);

  constexpr schedule(placement where, std::int64_t microbatches, std::string_view name)
      : where_(std::move(where)), microbatches_(microbatches), name_(name.begin(), name.end()) {}

  constexpr void allocate(detail::vector<std::int64_t> const& lengths) {
    std::int64_t total = 0;
    offsets_.assign(1, 0);
    for (auto length : lengths) {
      total += length;  // at most 65536 ranks of 2^40 ops
      require(at_most("operations", total, max_operations, "what a stored schedule can hold"));
      offsets_.push_back(std::size_t(total));
    }
    ops_.resize_uninitialised(std::size_t(total));
  }

  [[nodiscard]] constexpr check_result check_range(op o) const {
    return first_violation({at_most("stage", o.stage(), stages() - 1, "stages - 1"),
                            at_most("replica", o.replica(), where_.replicas() - 1, "replicas - 1"),
                            at_most("microbatch", o.microbatch(), microbatches_ - 1, "microbatches - 1")});
  }

  [[nodiscard]] static constexpr pipesched::digest digest_of_shape(placement const& where, std::int64_t microbatches) {
    pipesched::digest result;
    result.add(std::uint64_t(where.ranks()));
    result.add(std::uint64_t(where.stages()));
    result.add(std::uint64_t(where.replicas()));
    result.add(std::uint64_t(microbatches));
    for (int replica = 0; replica < where.replicas(); ++replica)
      for (int stage = 0; stage < where.stages(); ++stage) result.add(std::uint64_t(where.rank_of(stage, replica)));
    return result;
  }

  placement where_;
  std::int64_t microbatches_;
  detail::vector<char> name_;  // not std::string, which libstdc++ 12 cannot use in constant expressions
  detail::vector<std::size_t> offsets_;
  detail::buffer<op> ops_;
};

/// The number of ops of one rank's program, known from the shape where the generator says it.
template <schedule_generator G>
[[nodiscard]] constexpr std::int64_t operations_of(G const& generator, int rank) {
  if constexpr (requires { std::int64_t{generator.operations(rank)}; }) {
    return generator.operations(rank);
  } else {
    count_sink counted;
    generator.emit(rank, counted);
    return counted.count;
  }
}

namespace detail {

/// Stores ops one after another in memory that is large enough.
struct store_sink {
  op* next;
  constexpr void operator()(op o) noexcept { next++->assign_packed(o.packed()); }
};

/// Whether to ask for all programs at once.
template <schedule_generator G>
constexpr bool programs_depend(G const& generator) {
  if constexpr (emits_together<G>) return !generator.rows_are_independent();
  return false;
}

/// The number of ops of each rank's program.
template <schedule_generator G>
constexpr vector<std::int64_t> lengths_of(G const& generator) {
  int const ranks = generator.placement().ranks();
  vector<std::int64_t> lengths;
  if constexpr (emits_together<G> && !requires { generator.operations(0); }) {
    if (programs_depend(generator)) {
      lengths.assign(std::size_t(ranks), 0);
      auto count = [&](int rank, op) { ++lengths[std::size_t(rank)]; };
      generator.emit_all(count);
      return lengths;
    }
  }
  for (int rank = 0; rank < ranks; ++rank) lengths.push_back(operations_of(generator, rank));
  return lengths;
}

template <schedule_generator G>
constexpr void require_shape(G const& generator) {
  require(generator.check());
  require(first_violation({at_least("microbatches", std::int64_t(generator.microbatches), 1),
                           at_most("microbatches", std::int64_t(generator.microbatches), max_microbatches)}));
}

/// A generator that miscounts its ops leaves some of them uninitialised, or writes over those of the next rank.
constexpr void require_count(std::int64_t stated, std::int64_t written) {
  if (stated != written)
    require(parameter_violation{"operations", stated, "must be", written, "the ops that emit writes"});
}

}  // namespace detail

/// The program of one rank alone; the other ranks' cost nothing. Throws `parameter_error` where the generator's check
/// fails, or where its `operations` are not those that it writes.
template <schedule_generator G>
[[nodiscard]] constexpr std::vector<op> generate_program(G const& generator, int rank) {
  detail::require_shape(generator);
  require(first_violation(
      {at_least("rank", rank, 0), at_most("rank", rank, generator.placement().ranks() - 1, "ranks - 1")}));
  auto const length = operations_of(generator, rank);
  require(at_most("operations", length, max_operations, "what a stored schedule can hold"));
  std::vector<op> program(std::size_t(length), op{});
  detail::store_sink out{program.data()};
  generator.emit(rank, out);
  detail::require_count(length, out.next - program.data());
  return program;
}

/// The whole schedule, in the memory of one that is no longer needed where that is large enough.
/// Throws `parameter_error` where the generator's check fails, where the ops are more than `max_operations`, or where
/// `operations` are not those that it writes.
template <schedule_generator G>
[[nodiscard]] constexpr schedule generate(G const& generator, schedule&& reuse) {
  detail::require_shape(generator);
  schedule result(generator.placement(), std::int64_t(generator.microbatches), name_of(generator));
  result.ops_ = std::move(reuse.ops_);
  result.allocate(detail::lengths_of(generator));
  if constexpr (emits_together<G>) {
    if (detail::programs_depend(generator)) {
      detail::vector<detail::store_sink> rows;
      for (int rank = 0; rank < result.ranks(); ++rank)
        rows.push_back(detail::store_sink{result.ops_.data() + result.offsets_[std::size_t(rank)]});
      auto out = [&](int rank, op o) { rows[std::size_t(rank)](o); };
      generator.emit_all(out);
      return result;
    }
  }
  for (int rank = 0; rank < result.ranks(); ++rank) {
    auto const stated = result.program(rank);
    op* const begin = result.ops_.data() + result.offsets_[std::size_t(rank)];
    detail::store_sink out{begin};
    generator.emit(rank, out);
    detail::require_count(std::int64_t(stated.size()), out.next - begin);
  }
  return result;
}

/// The whole schedule. Throws as above.
template <schedule_generator G>
[[nodiscard]] constexpr schedule generate(G const& generator) {
  return generate(generator, schedule(placement::linear(1), 1, std::string_view{}));
}

/// The digest of the schedule that `generator` makes, without storing it where its rows are independent.
template <schedule_generator G>
[[nodiscard]] constexpr std::uint64_t digest_of(G const& generator) {
  detail::require_shape(generator);
  if (detail::programs_depend(generator)) return generate(generator).digest();
  auto const where = generator.placement();
  auto result = schedule::digest_of_shape(where, std::int64_t(generator.microbatches));
  auto add = [&](op o) { result.add(o.packed()); };
  for (int rank = 0; rank < where.ranks(); ++rank) {
    generator.emit(rank, add);
    result.add(~std::uint64_t{0});
  }
  return result.value();
}

}  // namespace v0
}  // namespace pipesched
