// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A rank's program in which what repeats is stored once.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/folding.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/core/view.hpp>

namespace pipesched {
inline namespace v0 {

/// One op of a pattern: as it is in the first iteration, and how many microbatches later in each further one.
struct folded_op {
  op first;
  std::int64_t advance;

  /// The op in an iteration of its run, in a round that is `later` microbatches behind the first one.
  [[nodiscard]] constexpr op at(std::int64_t iteration, std::int64_t later) const noexcept {
    return first.microbatches_later(iteration * advance + later);
  }
};

/// A pattern, `size` ops from `begin` on, that is run `times` times.
struct folded_run {
  std::uint32_t begin;
  std::uint32_t size;
  std::int64_t times;
};

/// Runs, `size` of them from `begin` on, that are run `times` times, each time `advance` microbatches later.
struct folded_round {
  std::uint32_t begin;
  std::uint32_t size;
  std::int64_t times;
  std::int64_t advance;
};

/// The program of one rank as rounds of runs of patterns. Its memory is that of its patterns: for a steady state it
/// does not depend on the number of microbatches.
class folded_program {
 public:
  [[nodiscard]] constexpr view<folded_op> ops() const noexcept { return {ops_.data(), ops_.size()}; }
  [[nodiscard]] constexpr view<folded_run> runs() const noexcept { return {runs_.data(), runs_.size()}; }
  [[nodiscard]] constexpr view<folded_round> rounds() const noexcept { return {rounds_.data(), rounds_.size()}; }

  [[nodiscard]] constexpr view<folded_op> pattern(folded_run const& run) const noexcept {
    return ops().subspan(run.begin, run.size);
  }
  [[nodiscard]] constexpr view<folded_run> runs_of(folded_round const& round) const noexcept {
    return runs().subspan(round.begin, round.size);
  }

  /// Length of the program.
  [[nodiscard]] constexpr std::int64_t operations() const noexcept {
    std::int64_t count = 0;
    for (auto const& round : rounds_)
      for (auto const& run : runs_of(round)) count += round.times * run.times * run.size;
    return count;
  }

  /// Writes the program op by op.
  template <op_sink Sink>
  constexpr void unfold(Sink& out) const {
    for (auto const& round : rounds_)
      for (std::int64_t turn = 0; turn < round.times; ++turn)
        for (auto const& run : runs_of(round))
          for (std::int64_t iteration = 0; iteration < run.times; ++iteration)
            for (auto const& folded : pattern(run)) out(folded.at(iteration, turn * round.advance));
  }

 private:
  friend class program_folder;

  detail::vector<folded_op> ops_;
  detail::vector<folded_run> runs_;
  detail::vector<folded_round> rounds_;
};

/// An op sink that folds what it takes: the phases that `repeat` hands over as such, and short patterns that it finds
/// in ops that come one by one.
class program_folder {
 public:
  /// The longest pattern that is searched for. Those of the known schedules have up to 6 ops.
  static constexpr std::size_t longest_pattern = 8;

  constexpr program_folder() = default;
  /// Goes on counting single ops behind those that other ranks' folders have taken.
  constexpr explicit program_folder(std::int64_t single_ops) : single_ops_(single_ops) {}

  /// Throws `parameter_error` where more ops come one by one than a stored schedule can have.
  constexpr void operator()(op o) {
    switch (now_) {
      case state::ops: take(o); break;
      case state::first_iteration: p_.ops_.push_back({o, 0}); break;
      case state::second_iteration: compare(o); break;
    }
  }

  /// \name What `repeat` calls: see `detail::folding_sink`
  /// \{
  constexpr void begin_run() {
    close_ops();
    run_begin_ = p_.ops_.size();
    now_ = state::first_iteration;
  }
  constexpr void next_iteration() {
    compared_ = run_begin_;
    now_ = state::second_iteration;
  }
  constexpr void end_run(std::int64_t times) {
    if (now_ == state::second_iteration && compared_ != p_.ops_.size()) faithful_ = false;
    now_ = state::ops;
    add_run(run_begin_, p_.ops_.size(), times);
    first_literal_ = p_.ops_.size();
  }
  constexpr void begin_round() {
    close_ops();
    close_round();
    in_round_ = true;
  }
  constexpr void end_round(std::int64_t times, std::int64_t advance) {
    add_round(times, advance);
    in_round_ = false;
  }
  [[nodiscard]] constexpr bool within_run() const noexcept { return now_ != state::ops; }
  /// \}

  /// Ops that came one by one.
  [[nodiscard]] constexpr std::int64_t single_ops() const noexcept { return single_ops_; }
  /// False where the bodies of a `repeat` did not do the same twice: then the program is not what was written.
  [[nodiscard]] constexpr bool faithful() const noexcept { return faithful_; }

  /// The program of all that came; the folder is empty then.
  [[nodiscard]] constexpr folded_program finish() {
    close_ops();
    close_round();
    return static_cast<folded_program&&>(p_);
  }

 private:
  enum class state : std::uint8_t { ops, first_iteration, second_iteration };

  /// The same op but for its microbatch.
  [[nodiscard]] static constexpr bool alike(op a, op b) noexcept { return (a.packed() ^ b.packed()) >> 32 == 0; }

  constexpr void compare(op o) {
    if (compared_ < p_.ops_.size() && alike(p_.ops_[compared_].first, o))
      p_.ops_[compared_].advance = o.microbatch() - p_.ops_[compared_].first.microbatch();
    else
      faithful_ = false;
    ++compared_;
  }

  constexpr void take(op o) {
    if (++single_ops_ > max_operations)
      require(at_most("operations", single_ops_, max_operations, "written one by one, not as repetitions"));
    if (open_size_ > 0) {
      auto const& expected = p_.ops_[p_.ops_.size() - open_size_ + open_at_];
      if (expected.at(open_times_, 0) == o) {
        if (++open_at_ == open_size_) open_at_ = 0, ++open_times_;
        return;
      }
      close_open_run();
    }
    add_literal(o);
  }

  constexpr void add_literal(op o) {
    auto& ops = p_.ops_;
    ops.push_back({o, 0});
    auto const literals = ops.size() - first_literal_;
    for (std::size_t period = 1; period <= longest_pattern; ++period) {
      auto& matches = matches_[period - 1];
      matches = goes_on(literals, period) ? matches + 1 : 0;
      if (matches == period) return open_run(period);
    }
  }

  /// Whether the last three ops at a distance of `period` are alike and equally many microbatches apart.
  [[nodiscard]] constexpr bool goes_on(std::size_t literals, std::size_t period) const {
    if (literals <= 2 * period) return false;
    auto const* const last = &p_.ops_.back();
    op const third = last->first;
    op const second = (last - period)->first;
    op const first = (last - 2 * period)->first;
    return alike(third, second) && alike(second, first) &&
           third.microbatch() - second.microbatch() == second.microbatch() - first.microbatch();
  }

  /// The last three periods of the literals become a run that the next ops may go on with.
  constexpr void open_run(std::size_t period) {
    auto& ops = p_.ops_;
    auto const begin = ops.size() - 3 * period;
    for (std::size_t i = begin; i < begin + period; ++i)
      ops[i].advance = ops[i + period].first.microbatch() - ops[i].first.microbatch();
    ops.resize(begin + period, folded_op{ops[begin].first, 0});
    add_run(first_literal_, begin, 1);
    open_size_ = period;
    open_times_ = 3;
    open_at_ = 0;
    matches_ = {};
  }

  constexpr void close_open_run() {
    auto const begin = p_.ops_.size() - open_size_;
    add_run(begin, p_.ops_.size(), open_times_);
    first_literal_ = p_.ops_.size();
    auto const unfinished = open_at_;
    auto const times = open_times_;
    open_size_ = open_at_ = 0;
    for (std::size_t i = begin; i < begin + unfinished; ++i) add_literal(p_.ops_[i].at(times, 0));
  }

  /// Ends what came op by op.
  constexpr void close_ops() {
    while (open_size_ > 0) close_open_run();  // what was unfinished may have been a shorter run itself
    add_run(first_literal_, p_.ops_.size(), 1);
    first_literal_ = p_.ops_.size();
    matches_ = {};
  }

  constexpr void add_run(std::size_t begin, std::size_t end, std::int64_t times) {
    if (begin < end) p_.runs_.push_back({std::uint32_t(begin), std::uint32_t(end - begin), times});
  }
  /// Runs that are in no round of their own are one that is run once.
  constexpr void close_round() {
    if (!in_round_) add_round(1, 0);
  }
  constexpr void add_round(std::int64_t times, std::int64_t advance) {
    auto const begin = p_.rounds_.empty() ? 0 : p_.rounds_.back().begin + p_.rounds_.back().size;
    auto const end = std::uint32_t(p_.runs_.size());
    if (begin < end) p_.rounds_.push_back({begin, end - begin, times, advance});
  }

  folded_program p_;
  state now_ = state::ops;
  bool in_round_ = false;
  bool faithful_ = true;
  std::int64_t single_ops_ = 0;
  std::size_t run_begin_ = 0;
  std::size_t compared_ = 0;

  // Ops that come one by one: literals from `first_literal_` on, or behind them a run that is going on, the pattern of
  // which is the last ops.
  std::size_t first_literal_ = 0;
  std::size_t open_size_ = 0;
  std::size_t open_at_ = 0;
  std::int64_t open_times_ = 0;
  std::array<std::size_t, longest_pattern> matches_{};  // by period: how many last ops go on with it
};

/// The program of one rank, folded. Where the generator hands its phases to `repeat` with their writer, time and memory
/// do not depend on how often they repeat. Throws `parameter_error` as `generate_program` does.
template <schedule_generator G>
[[nodiscard]] constexpr folded_program fold_program(G const& generator, int rank) {
  detail::require_shape(generator);
  require(first_violation(
      {at_least("rank", rank, 0), at_most("rank", rank, generator.placement().ranks() - 1, "ranks - 1")}));
  program_folder out;
  generator.emit(rank, out);
  return out.finish();
}

/// The programs of all ranks of a schedule, folded.
struct folded_schedule {
  placement where;
  std::int64_t microbatches;
  detail::vector<folded_program> programs;  ///< one per rank

  /// Length of all programs.
  [[nodiscard]] constexpr std::int64_t operations() const noexcept {
    std::int64_t count = 0;
    for (auto const& program : programs) count += program.operations();
    return count;
  }
};

namespace detail {

/// A folder for each rank.
struct rank_folders {
  vector<program_folder> folders;

  constexpr program_folder& row(int rank) { return folders[std::size_t(rank)]; }
  constexpr void operator()(int rank, op o) { row(rank)(o); }
};

/// Refuses programs that follow from a simulation of all ranks op by op, where they have more ops than can be stored.
template <schedule_generator G>
constexpr void require_simulation(G const& generator) {
  if constexpr (requires { generator.programs_repeat(); })
    if (generator.programs_repeat()) return;
  std::int64_t operations = 0;
  for (auto length : lengths_of(generator)) operations += length;
  require(at_most("operations", operations, max_operations, "programs that follow from a simulation"));
}

}  // namespace detail

/// All programs, folded; nothing where a body of the generator's own that it hands to `repeat` with a writer does not
/// repeat itself. Throws `parameter_error` where the generator's check fails, and for more than `max_operations` ops
/// that come one by one or from a simulation of all ranks.
template <schedule_generator G>
[[nodiscard]] constexpr std::optional<folded_schedule> fold(G const& generator) {
  detail::require_shape(generator);
  folded_schedule result{generator.placement(), std::int64_t(generator.microbatches), {}};
  int const ranks = result.where.ranks();
  if constexpr (emits_together<G>) {
    if (detail::programs_depend(generator)) {
      detail::require_simulation(generator);
      detail::rank_folders out{detail::vector<program_folder>(std::size_t(ranks), program_folder{})};
      generator.emit_all(out);
      for (auto& folder : out.folders) result.programs.push_back(folder.finish());
      return result;
    }
  }
  std::int64_t single_ops = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    program_folder folder(single_ops);
    generator.emit(rank, folder);
    if (!folder.faithful()) return {};
    single_ops = folder.single_ops();
    result.programs.push_back(folder.finish());
  }
  return result;
}

}  // namespace v0
}  // namespace pipesched
