// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What overlap hides, as text.

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <pipesched/analysis/streams.hpp>
#include <pipesched/graph/moe_events.hpp>
#include <pipesched/io/report_text.hpp>
#include <pipesched/io/text_table.hpp>

namespace pipesched {
inline namespace v0 {

namespace detail {

/// All ranks' events by kind.
template <time_value T>
[[nodiscard]] std::string kinds_table(streams_report<T> const& all) {
  text_table table({"event", "count", "busy", "exposed", "hidden"});
  std::array<kind_report<T>, 64> sums{};
  for (auto const& r : all.per_rank)
    for (auto on : {stream::compute, stream::all_to_all, stream::p2p})
      for (auto const& of_kind : r.of(on).kinds) {
        auto& sum = sums[std::size_t(of_kind.kind)];
        sum.kind = of_kind.kind;
        sum.count += of_kind.count;
        sum.busy += of_kind.busy;
        sum.exposed += of_kind.exposed;
        sum.hidden += of_kind.hidden;
      }
  for (auto const& sum : sums) {
    if (sum.count == 0) continue;
    bool const computes = stream_of(sum.kind) == stream::compute;
    table.add({std::string(name_of(sum.kind)), fmt::format("{}", sum.count), time_text(sum.busy),
               computes ? "" : time_text(sum.exposed), computes ? "" : time_text(sum.hidden)});
  }
  return table.text();
}

}  // namespace detail

/// The communication of a step in two lines, then a line per rank: its streams, its overlapped pairs with their mean
/// time (the effective F&B) and the busy share within them; then a line per kind of event, over all ranks.
template <time_value T>
[[nodiscard]] std::string streams_text(streams_report<T> const& all) {
  auto const mean = [](std::optional<double> value) {
    return value ? fmt::format("{:.7g}", *value) : std::string("none");
  };
  std::string text = fmt::format(
      "all-to-all: {} exposed, {} hidden beside computation, over all ranks\n"
      "overlapped pairs: mean time {}, busy {} of it\n\n",
      time_text(all.exposed_communication), time_text(all.hidden_communication), mean(all.mean_pair),
      percent_text(all.pair_utilization));
  text_table table({"rank", "compute", "all-to-all", "exposed", "hidden", "p2p", "pairs", "mean", "busy in pairs"});
  for (auto const& r : all.per_rank)
    table.add({fmt::format("{}", r.rank), time_text(r.compute.busy), time_text(r.all_to_all.busy),
               time_text(r.exposed_communication()), time_text(r.hidden_communication()), time_text(r.p2p.busy),
               fmt::format("{}", r.pairs.size()), mean(r.mean_pair), percent_text(r.pair_utilization)});
  return text + table.text() + "\n" + detail::kinds_table(all);
}

}  // namespace v0
}  // namespace pipesched
