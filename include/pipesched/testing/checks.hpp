// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What a user's tests say of a schedule, for any test framework: each check gives a verdict that explains itself.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/report.hpp>
#include <pipesched/analysis/timeline.hpp>
#include <pipesched/core/concepts.hpp>
#include <pipesched/core/fault.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/core/view.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/graph/checker.hpp>
#include <pipesched/io/describe.hpp>
#include <pipesched/io/text_timeline.hpp>
#include <pipesched/testing/marked_rows.hpp>

namespace pipesched {
inline namespace v0 {
namespace testing {

/// Whether a check passed, and why not: `auto const v = check_valid(s); EXPECT_TRUE(v) << v.explanation;`
struct verdict {
  bool passed;
  std::string explanation = {};  ///< lines of text; empty where it passed

  explicit operator bool() const noexcept { return passed; }
};

/// What the checks take: a schedule, or a generator, whose schedule is then made.
[[nodiscard]] inline schedule const& schedule_of(schedule const& s) { return s; }
template <schedule_generator G>
[[nodiscard]] schedule schedule_of(G const& generator) {
  return generate(generator);
}

namespace detail {

/// The faults in words, the first few with their place in the rows.
[[nodiscard]] inline std::string explain(schedule const& s, view<fault> faults) {
  constexpr std::size_t shown_places = 3;
  std::string text;
  for (auto const& d : describe(faults)) text += to_string(d) + '\n';
  std::size_t shown = 0;
  for (auto const& f : faults) {
    if (f.where.rank < 0 || shown == shown_places) continue;
    text += marked_row(s, f.where);
    ++shown;
  }
  return text;
}

/// The timeline with '>' before the lines of one rank.
template <cost_model Cost>
[[nodiscard]] std::string marked_timeline(schedule const& s, Cost const& cost, int marked_rank) {
  auto const graph = build_graph(s);
  auto const picture = text_timeline(graph, make_timeline(graph, cost), {.width = 72});  // Catch2 folds at 80
  auto const mark = fmt::format("rank {} ", marked_rank);
  std::string text;
  for (std::string_view rest = picture; !rest.empty();) {
    auto const end = std::min(rest.find('\n'), rest.size() - 1);
    auto const line = rest.substr(0, end + 1);
    text += line.substr(0, mark.size()) == mark ? "> " : "  ";
    text += line;
    rest.remove_prefix(line.size());
  }
  return text;
}

/// Calls `judge(report)` where the schedule is valid; a schedule that is not has no figures.
template <cost_model Cost, class Judge>
[[nodiscard]] verdict judge_figures(schedule const& s, Cost const& cost, Judge judge) {
  auto const faults = check(s);
  if (!faults.empty()) return {false, "the schedule has faults, and so no figures:\n" + explain(s, faults)};
  return judge(analyze(s, cost));
}

}  // namespace detail

/// Nothing is wrong with the schedule.
[[nodiscard]] inline verdict check_valid(schedule const& s) {
  auto const faults = check(s);
  return {faults.empty(), detail::explain(s, faults)};
}

/// No rank waits for ever: neither for an op of another rank nor for one that comes later on its own. Missing or
/// doubled ops are not asked about.
[[nodiscard]] inline verdict check_deadlock_free(schedule const& s) {
  std::vector<fault> faults = check(s);
  std::erase_if(faults, [](fault const& f) {
    return f.kind != fault_kind::deadlock && f.kind != fault_kind::blocked_rank && f.kind != fault_kind::order_on_rank;
  });
  return {faults.empty(), detail::explain(s, faults)};
}

/// The idle time of the rank that idles most satisfies `holds`; `expected` says in words what that is.
template <class Holds, cost_model Cost = uniform_cost<>>
[[nodiscard]] verdict check_bubble_time(schedule const& s, Holds holds, std::string_view expected,
                                        Cost const& cost = {}) {
  return detail::judge_figures(s, cost, [&](auto const& figures) -> verdict {
    if (holds(figures.bubble_time)) return {true};
    auto const idlest = std::max_element(figures.per_rank.begin(), figures.per_rank.end(),
                                         [](auto const& a, auto const& b) { return a.idle < b.idle; });
    return {false, fmt::format("bubble time {}, expected {}; rank {} idles most:\n{}", figures.bubble_time, expected,
                               idlest->rank, detail::marked_timeline(s, cost, idlest->rank))};
  });
}

/// The idle share of all ranks' time satisfies `holds`.
template <class Holds, cost_model Cost = uniform_cost<>>
[[nodiscard]] verdict check_bubble_fraction(schedule const& s, Holds holds, std::string_view expected,
                                            Cost const& cost = {}) {
  return detail::judge_figures(s, cost, [&](auto const& figures) -> verdict {
    if (holds(figures.bubble_fraction)) return {true};
    auto const idlest = std::max_element(figures.per_rank.begin(), figures.per_rank.end(),
                                         [](auto const& a, auto const& b) { return a.idle < b.idle; });
    return {false, fmt::format("bubble fraction {}, expected {}; rank {} idles most:\n{}", figures.bubble_fraction,
                               expected, idlest->rank, detail::marked_timeline(s, cost, idlest->rank))};
  });
}

/// No rank holds more than `most` activations (of one stage and microbatch) at a time.
template <cost_model Cost = uniform_cost<>>
[[nodiscard]] verdict check_peak(schedule const& s, std::int64_t most, Cost const& cost = {}) {
  return detail::judge_figures(s, cost, [&](auto const& figures) -> verdict {
    if (figures.peak_activations <= most) return {true};
    auto const worst =
        std::max_element(figures.per_rank.begin(), figures.per_rank.end(),
                         [](auto const& a, auto const& b) { return a.peak_activations < b.peak_activations; });
    program_place const peak{worst->rank, worst->peak_position};
    return {false, fmt::format("{} activations on rank {} at time {}, expected at most {}\n{}{}",
                               worst->peak_activations, worst->rank, worst->peak_time, most, marked_row(s, peak),
                               detail::marked_timeline(s, cost, worst->rank))};
  });
}

/// Each rank runs the same ops in the same order as in `other`, in pairs where `other` has pairs.
[[nodiscard]] inline verdict check_same_order(schedule const& s, schedule const& other) {
  if (s.ranks() != other.ranks()) return {false, fmt::format("{} ranks, expected {}\n", s.ranks(), other.ranks())};
  // The copy of a stage follows from the rank; files do not name it.
  auto const key = [](op o) { return o.packed() & ~(std::uint64_t{0xFF} << 48); };
  for (int rank = 0; rank < s.ranks(); ++rank) {
    auto const ours = s.program(rank);
    auto const theirs = other.program(rank);
    std::size_t i = 0;
    while (i < ours.size() && i < theirs.size() && key(ours[i]) == key(theirs[i])) ++i;
    if (i == ours.size() && i == theirs.size()) continue;
    auto const text = [&](view<op> program) {
      if (i >= program.size()) return std::string("the end");
      return to_string(program[i]) + (program[i].overlaps_next() ? " overlapped with the next" : "");
    };
    program_place const here{rank, std::int64_t(i)};
    return {false, fmt::format("rank {}, position {}: {}, expected {}\n{}expected\n{}", rank, i, text(ours),
                               text(theirs), marked_row(s, here), marked_row(other, here))};
  }
  return {true};
}

/// Each rank keeps `copies` copies of the parameters of its share of the model: 1, or 2 for a bidirectional placement.
[[nodiscard]] inline verdict check_parameter_copies(schedule const& s, int copies) {
  for (int rank = 0; rank < s.ranks(); ++rank)
    if (int const found = s.where().parameter_copies(rank); found != copies)
      return {false, fmt::format("rank {} keeps {} copies of the parameters, expected {}; placement: {}\n", rank, found,
                                 copies, name_of(s.where().kind()))};
  return {true};
}

}  // namespace testing
}  // namespace v0
}  // namespace pipesched
