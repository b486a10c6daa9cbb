// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A slow simulator that shares no code with the library's graph: it looks every dependency up by name.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include <pipesched/core/schedule.hpp>

namespace test_support {

/// Start and end of each op in `schedule.ops()`, or nothing where it cannot run. `duration(f, partner or null, rank)`.
template <class T>
struct simulation {
  std::vector<T> start;
  std::vector<T> end;
};

template <class T, class Duration>
std::optional<simulation<T>> simulate(pipesched::schedule const& s, Duration duration, T latency) {
  using namespace pipesched;
  using key = std::tuple<char, int, std::int64_t>;  // 'F', 'G' (B or I) or 'W', stage, microbatch
  std::map<key, std::pair<int, T>> done;            // rank and end
  auto const key_of = [](op o) -> key {
    char const role = o.kind() == op_kind::forward ? 'F' : o.kind() == op_kind::backward_weight ? 'W' : 'G';
    return {role, o.stage(), o.microbatch()};
  };
  auto const needs = [&](op o) {
    std::vector<key> keys;
    if (o.kind() == op_kind::forward) {
      if (o.stage() > 0) keys.push_back({'F', o.stage() - 1, o.microbatch()});
    } else if (o.kind() == op_kind::backward_weight) {
      keys.push_back({'G', o.stage(), o.microbatch()});
    } else {
      keys.push_back({'F', o.stage(), o.microbatch()});
      if (o.stage() + 1 < s.stages()) keys.push_back({'G', o.stage() + 1, o.microbatch()});
    }
    return keys;
  };

  simulation<T> result{std::vector<T>(s.ops().size()), std::vector<T>(s.ops().size())};
  std::vector<std::size_t> next(s.offsets().begin(), s.offsets().end() - 1);
  std::vector<T> clock(std::size_t(s.ranks()));
  bool moved = true;
  while (moved) {
    moved = false;
    for (int rank = 0; rank < s.ranks(); ++rank) {
      auto const r = std::size_t(rank);
      while (next[r] < s.offsets()[r + 1]) {
        op const first = s.ops()[next[r]];
        bool const pair = first.overlaps_next() && next[r] + 1 < s.offsets()[r + 1];
        std::vector<op> block{first};
        if (pair) block.push_back(s.ops()[next[r] + 1]);
        T start = clock[r];
        bool ready = true;
        for (op o : block)
          for (auto const& k : needs(o)) {
            auto const found = done.find(k);
            if (found == done.end()) {
              ready = false;
            } else {
              start = std::max(start, found->second.second + (found->second.first == rank ? T{0} : latency));
            }
          }
        if (!ready) break;
        T const end = start + duration(first, pair ? &block[1] : nullptr, rank);
        for (op o : block) {
          result.start[next[r]] = start;
          result.end[next[r]++] = end;
          done[key_of(o)] = {rank, end};
        }
        clock[r] = end;
        moved = true;
      }
    }
  }
  for (int rank = 0; rank < s.ranks(); ++rank)
    if (next[std::size_t(rank)] != s.offsets()[std::size_t(rank) + 1]) return {};
  return result;
}

}  // namespace test_support
