// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// All built-in schedules by name, made from one common shape.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/error.hpp>
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
#include <pipesched/schedules/pass_times.hpp>
#include <pipesched/schedules/v_half.hpp>
#include <pipesched/schedules/v_min.hpp>
#include <pipesched/schedules/zb_h1.hpp>
#include <pipesched/schedules/zb_h2.hpp>
#include <pipesched/schedules/zb_v.hpp>

namespace pipesched {
inline namespace v0 {

/// A list of types, to be visited.
template <class... Types>
struct type_list {};

/// Every schedule of the library, in the order in which lists show them.
using built_in_schedules =
    type_list<gpipe, one_f_one_b, eager_one_f_one_b, interleaved, looped_bfs, zb_h1, zb_h2, interleaved_zb, zb_v,
              v_half, v_min, chimera, dual_pipe, dual_pipe_v, one_f_one_b_overlap, interleaved_overlap>;

/// What a schedule is asked for by name. A parameter that is not given is the schedule's own default.
struct shape {
  std::int64_t ranks = 1;
  std::int64_t microbatches = 1;
  std::optional<std::int64_t> chunks = {};     ///< stages per rank
  std::optional<std::int64_t> group = {};      ///< microbatches of one chunk in a row
  std::optional<std::int64_t> pipelines = {};  ///< copies of the model, 2f
  /// The times that the schedule is made for; equal ones where not given. Schedules whose order does not depend on
  /// times are the same for any.
  std::optional<pass_times> times = {};
};

/// Calls `visit.template operator()<Generator>()` for every built-in schedule.
template <class Visit>
constexpr void for_each_schedule(Visit&& visit) {
  [&]<class... Generators>(type_list<Generators...>) {
    (visit.template operator()<Generators>(), ...);
  }(built_in_schedules{});
}

namespace detail {

template <class... Generators>
constexpr auto names_of(type_list<Generators...>) {
  return std::array<std::string_view, sizeof...(Generators)>{Generators::info.name...};
}

template <class G>
concept has_chunks = requires(G g) { g.chunks; };
template <class G>
concept has_group = requires(G g) { g.group; };
template <class G>
concept has_pipelines = requires(G g) { g.pipelines; };
template <class G>
concept has_times = requires(G g) { g.times; };

constexpr check_result fits_int(std::string_view parameter, std::optional<std::int64_t> value) {
  if (!value) return {};
  return first_violation({at_least(parameter, *value, 1), at_most(parameter, *value, std::numeric_limits<int>::max())});
}

/// A parameter that the schedule does not have may only say what is so anyway.
constexpr check_result is_fixed(std::string_view parameter, std::optional<std::int64_t> value, std::int64_t fixed,
                                std::string_view reason) {
  if (!value || *value == fixed) return {};
  return parameter_violation{parameter, *value, "must be", fixed, reason};
}

/// Precondition: the shape's numbers fit.
template <schedule_generator G>
constexpr G fill(shape const& wanted) {
  G generator{};
  generator.ranks = static_cast<int>(wanted.ranks);
  generator.microbatches = static_cast<int>(wanted.microbatches);
  if constexpr (has_chunks<G>)
    if (wanted.chunks) generator.chunks = static_cast<int>(*wanted.chunks);
  if constexpr (has_group<G>)
    if (wanted.group) generator.group = static_cast<int>(*wanted.group);
  if constexpr (has_pipelines<G>)
    if (wanted.pipelines) generator.pipelines = static_cast<int>(*wanted.pipelines);
  if constexpr (has_times<G>)
    if (wanted.times) generator.times = *wanted.times;
  return generator;
}

}  // namespace detail

/// The names of the built-in schedules.
inline constexpr auto schedule_names = detail::names_of(built_in_schedules{});

/// Whether schedule `G` can be made with this shape: nothing, or the first parameter that is out of its bounds, or that
/// the schedule does not have.
template <schedule_generator G>
[[nodiscard]] constexpr check_result check_shape(shape const& wanted) {
  auto const numbers =
      first_violation({detail::fits_int("ranks", wanted.ranks), detail::fits_int("microbatches", wanted.microbatches),
                       detail::fits_int("chunks", wanted.chunks), detail::fits_int("group", wanted.group),
                       detail::fits_int("pipelines", wanted.pipelines)});
  if (numbers) return numbers;
  auto const generator = detail::fill<G>(wanted);
  if (auto const violation = generator.check()) return violation;
  auto const where = generator.placement();
  if constexpr (!detail::has_chunks<G>)
    if (auto const violation = detail::is_fixed("chunks", wanted.chunks, where.stages() / where.ranks(),
                                                "this schedule's stages per rank are fixed"))
      return violation;
  if constexpr (!detail::has_group<G>)
    if (auto const violation =
            detail::is_fixed("group", wanted.group, 0, "this schedule has no microbatch group: leave it out"))
      return violation;
  if constexpr (!detail::has_pipelines<G>)
    if (auto const violation =
            detail::is_fixed("pipelines", wanted.pipelines, where.replicas(), "this schedule's copies are fixed"))
      return violation;
  return {};
}

/// The shape without the parameters that schedule `G` does not have: what is left of a shape meant for several
/// schedules at once.
template <schedule_generator G>
[[nodiscard]] constexpr shape applicable(shape wanted) {
  if constexpr (!detail::has_chunks<G>) wanted.chunks.reset();
  if constexpr (!detail::has_group<G>) wanted.group.reset();
  if constexpr (!detail::has_pipelines<G>) wanted.pipelines.reset();
  return wanted;
}

/// How many stages of one copy of the model a rank of schedule `G` holds: the chunks that are wanted or its default, or
/// what its placement has.
template <schedule_generator G>
[[nodiscard]] constexpr std::int64_t stages_per_rank(shape const& wanted) {
  if constexpr (detail::has_chunks<G>) {
    return wanted.chunks ? *wanted.chunks : G{}.chunks;
  } else {
    auto const where = detail::fill<G>(shape{.ranks = 2}).placement();
    return where.stages() / where.ranks();
  }
}

/// The generator `G` of a shape. Throws `parameter_error` where `check_shape` finds a violation.
template <schedule_generator G>
[[nodiscard]] constexpr G make_generator(shape const& wanted) {
  require(check_shape<G>(wanted));
  return detail::fill<G>(wanted);
}

/// Calls `visit.template operator()<Generator>()` for the schedule of that name; false where there is none.
template <class Visit>
constexpr bool with_schedule_type(std::string_view name, Visit&& visit) {
  bool found = false;
  for_each_schedule([&]<class Generator>() {
    if (Generator::info.name != name) return;
    found = true;
    visit.template operator()<Generator>();
  });
  return found;
}

/// Calls `visit(generator)` with the schedule of that name and shape; false where there is none of that name. Throws
/// `parameter_error` where the shape does not suit it.
template <class Visit>
constexpr bool with_schedule(std::string_view name, shape const& wanted, Visit&& visit) {
  return with_schedule_type(name, [&]<class Generator>() { visit(make_generator<Generator>(wanted)); });
}

/// "unknown schedule 'x'; known are gpipe, 1f1b, ..."
[[nodiscard]] inline std::string unknown_schedule_message(std::string_view name) {
  std::string text = "unknown schedule '";
  text.append(name).append("'; known are ");
  for (std::size_t i = 0; i < schedule_names.size(); ++i) {
    if (i > 0) text.append(", ");
    text.append(schedule_names[i]);
  }
  return text;
}

}  // namespace v0
}  // namespace pipesched
