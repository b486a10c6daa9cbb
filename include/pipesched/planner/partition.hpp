// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Divides a chain of layers of unequal cost and weight among stages.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include <pipesched/core/error.hpp>
#include <pipesched/core/vector.hpp>

namespace pipesched {
inline namespace v0 {

/// One piece of the model that stays whole: a layer, the embedding, the output's head.
struct chain_item {
  double cost;        ///< time, in any unit
  double weight = 0;  ///< what it holds in memory, in any unit
};

namespace detail {

/// Where the parts of a cut can end, and nowhere else.
struct cut_ends {
  vector<std::size_t> earliest;  ///< for what follows to fit into the parts behind it
  vector<std::size_t> latest;    ///< for the part and those before it to be allowed

  template <class Part>
  cut_ends(std::size_t items, std::size_t stages, Part const& part) : earliest(stages, items), latest(stages, 0) {
    for (std::size_t s = 0, end = 0; s < stages; ++s) {
      auto const begin = end;
      while (end < items && part(begin, end + 1)) ++end;
      latest[s] = end;
    }
    for (auto s = stages; s-- > 1;) {
      auto begin = earliest[s];
      while (begin > 0 && part(begin - 1, earliest[s])) --begin;
      earliest[s - 1] = begin;
    }
  }
};

/// The cheapest way to cut `items` items into `stages` contiguous, possibly empty parts, by dynamic programming over
/// where each part can end. `part(from, to)` is a part's cost, which grows with the part, or nothing where it is not
/// allowed, nor any longer one; `join(all, one)` adds a part to those before it, and is no less than either. Returns
/// the cost and where each part begins, or nothing where no cut is allowed.
template <class Part, class Join>
std::optional<std::pair<double, vector<std::size_t>>> cut_chain(std::size_t items, std::size_t stages, Part&& part,
                                                                Join&& join) {
  constexpr double never = std::numeric_limits<double>::infinity();
  cut_ends const ends(items, stages, part);
  auto const width = items + 1;
  vector<double> best(width, never);  // of the parts up to now, by where they end
  best[0] = 0;
  vector<std::size_t> begin(stages * width, 0);
  for (std::size_t s = 0; s < stages; ++s) {
    vector<double> next(width, never);
    for (auto to = ends.earliest[s]; to <= ends.latest[s]; ++to)
      for (auto from = to + 1; from-- > 0;) {
        auto const one = part(from, to);
        if (!one || *one >= next[to]) break;  // a longer part is not allowed either, or no shorter
        if (best[from] == never) continue;
        auto const all = join(best[from], *one);
        if (all < next[to]) {
          next[to] = all;
          begin[s * width + to] = from;
        }
      }
    best = std::move(next);
  }
  if (best[items] == never) return {};
  vector<std::size_t> begins(stages, 0);
  for (auto s = stages, to = items; s-- > 0; to = begins[s]) begins[s] = begin[s * width + to];
  return std::pair(best[items], std::move(begins));
}

}  // namespace detail

/// Divides a chain into contiguous parts: the index at which each stage begins. Stages may be empty.
///
/// The longest stage is as short as can be; among those cuts, the heaviest stage as light as can be; among these, the
/// sum of squared costs is the smallest, so that what is left over is spread: 61 equal layers over 16 stages are 13 of
/// four and 3 of three. Nothing where each cut has a stage heavier than `weight_limit`. Throws `parameter_error` for
/// less than one stage, or costs and weights that are negative or no numbers.
[[nodiscard]] inline std::optional<detail::vector<std::size_t>> balance(
    detail::vector<chain_item> const& chain, int stages,
    double weight_limit = std::numeric_limits<double>::infinity()) {
  require(at_least("stages", stages, 1));
  detail::vector<double> costs{0};
  detail::vector<double> weights{0};
  double most_costly = 0;
  for (auto const& item : chain) {
    most_costly = std::max(most_costly, item.cost);
    require(first_violation({at_least("cost", item.cost, 0.0), at_least("weight", item.weight, 0.0)}));
    costs.push_back(costs.back() + item.cost);
    weights.push_back(weights.back() + item.weight);
  }
  // Sums of the same items may differ in their last digits, by where they were cut.
  auto const tolerant = [](double limit) { return limit * (1 + 1e-9); };
  // Parts that are filled up to the mean or just above it are enough, but where the weight forbids them.
  constexpr double any = std::numeric_limits<double>::infinity();
  double cost_limit = weight_limit == any ? tolerant(costs.back() / stages + most_costly) : any;
  auto const cost_of = [&](std::size_t from, std::size_t to) { return costs[to] - costs[from]; };
  auto const weight_of = [&](std::size_t from, std::size_t to) { return weights[to] - weights[from]; };
  auto const within_limits = [&](auto of) {
    return [&, of](std::size_t from, std::size_t to) -> std::optional<double> {
      if (cost_of(from, to) > cost_limit || weight_of(from, to) > weight_limit) return {};
      return of(from, to);
    };
  };
  auto const worst = [](double all, double one) { return std::max(all, one); };
  auto const sum = [](double all, double one) { return all + one; };
  auto const squared = [&](std::size_t from, std::size_t to) { return cost_of(from, to) * cost_of(from, to); };

  auto const n = chain.size();
  auto const s = std::size_t(stages);
  auto const shortest = detail::cut_chain(n, s, within_limits(cost_of), worst);
  if (!shortest) return {};
  cost_limit = tolerant(shortest->first);
  auto const lightest = detail::cut_chain(n, s, within_limits(weight_of), worst);
  weight_limit = std::min(weight_limit, tolerant(lightest->first));
  return detail::cut_chain(n, s, within_limits(squared), sum)->second;
}

}  // namespace v0
}  // namespace pipesched
