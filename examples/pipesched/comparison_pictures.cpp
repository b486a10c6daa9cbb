// SPDX-License-Identifier: MIT
#include "comparison_pictures.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <pipesched/analysis/comparison.hpp>
#include <pipesched/analysis/moe_cost.hpp>
#include <pipesched/analysis/report.hpp>
#include <pipesched/analysis/streams.hpp>
#include <pipesched/graph/build_graph.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/graph/lower_moe.hpp>
#include <pipesched/io/html.hpp>
#include <pipesched/io/report_text.hpp>

namespace {

/// Microbatches times ranks of the largest shape that a sweep looks at beyond the one that was asked for.
constexpr std::int64_t most_cells = std::int64_t{1} << 18;
/// Ops of the timelines on one page.
constexpr std::size_t most_operations = 200000;

/// The numbers of microbatches of a sweep: powers of two times the ranks, and the one that was asked for.
std::vector<std::int64_t> sweep(std::int64_t ranks, std::int64_t microbatches) {
  std::vector<std::int64_t> counts{microbatches};
  for (auto count = std::max<std::int64_t>(1, ranks / 2); count <= std::max(8 * ranks, microbatches); count *= 2)
    if (count * ranks <= std::max(most_cells, microbatches * ranks)) counts.push_back(count);
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

/// The graph of a schedule, or nothing where it does not suit so many microbatches.
std::optional<pipesched::op_graph> graph_of(schedule_maker const& make, std::string const& name,
                                            std::int64_t microbatches) try {
  return pipesched::build_graph(make(name, microbatches));
} catch (pipesched::parameter_error const&) {
  return {};
}

}  // namespace

comparison_pictures::comparison_pictures(std::int64_t ranks, std::int64_t microbatches, cost_options const& cost,
                                         std::vector<std::string> schedules, schedule_maker make)
    : ranks_(ranks),
      microbatches_(microbatches),
      cost_(cost),
      schedules_(std::move(schedules)),
      make_(std::move(make)),
      plots_{bubbles(), memory(), exposed()} {}

pipesched::plot comparison_pictures::bubbles() const {
  std::vector<pipesched::plot_series> lines;
  for (auto const& name : schedules_) {
    pipesched::plot_series line{name, {}};
    for (auto const count : sweep(ranks_, microbatches_)) {
      auto const graph = graph_of(make_, name, count);
      if (!graph) continue;
      cost_.with_model(graph->stages(), graph->ranks(), [&](auto const& model) {
        auto const report = pipesched::analyze(cost_.lowered(*graph), model);
        line.points.push_back({static_cast<double>(count), report.bubble_fraction * 100});
      });
    }
    if (!line.points.empty()) lines.push_back(std::move(line));
  }
  return pipesched::bubble_plot(static_cast<int>(ranks_), std::move(lines));
}

pipesched::plot comparison_pictures::memory() const {
  std::vector<pipesched::plot_series> marks;
  for (auto const& name : schedules_) {
    auto const graph = graph_of(make_, name, microbatches_);
    if (!graph) continue;
    cost_.with_model(graph->stages(), graph->ranks(), [&](auto const& model) {
      auto const report = pipesched::analyze(cost_.lowered(*graph), model);
      auto const parts = pipesched::make_comparison(*graph, report, static_cast<int>(ranks_)).activation_parts;
      marks.push_back({name, {{parts, report.bubble_fraction * 100}}});
    });
  }
  return pipesched::memory_plot(static_cast<int>(ranks_), microbatches_,
                                fmt::format("1 = one microbatch in 1/{} of the model", ranks_), std::move(marks));
}

pipesched::plot comparison_pictures::exposed() const {
  std::vector<pipesched::plot_series> lines;
  for (auto const& name : schedules_) {
    auto const chunks = graph_of(make_, name, microbatches_);
    if (!chunks) continue;
    auto const graph = cost_.lowers() ? cost_.lowered(*chunks) : pipesched::lower_moe(*chunks);
    pipesched::execution_order const order(graph);
    pipesched::plot_series line{name, {}};
    for (int quarters = 0; quarters <= 8; ++quarters) {
      double const ratio = quarters / 4.0;
      pipesched::moe_cost<double> times;
      times.dispatch = times.combine = ratio;  // attention and MLP take 1 each
      auto const streams = pipesched::analyze_streams(graph, pipesched::make_timeline(graph, order, times));
      line.points.push_back({ratio, 100 * streams.exposed_communication / (graph.ranks() * streams.makespan)});
    }
    lines.push_back(std::move(line));
  }
  return pipesched::exposed_plot(static_cast<int>(ranks_), microbatches_, std::move(lines));
}

std::string comparison_pictures::html() const {
  std::vector<pipesched::op_graph> graphs;
  std::string left_out;
  std::size_t operations = 0;
  for (auto const& name : schedules_) {
    auto graph = graph_of(make_, name, microbatches_);
    if (graph) graph = cost_.lowered(*graph);
    if (!graph || operations + graph->size() > most_operations) {
      left_out += (left_out.empty() ? ", without " : ", ") + name;
      continue;
    }
    operations += graph->size();
    graphs.push_back(std::move(*graph));
  }
  pipesched::html_page page(fmt::format("Schedules, P = {}, m = {}{}", ranks_, microbatches_, left_out));
  for (auto const& plot : plots_) page.add_figure(pipesched::svg(plot));
  for (auto const& graph : graphs)
    cost_.with_model(graph.stages(), graph.ranks(), [&](auto const& model) {
      auto const times = pipesched::make_timeline(graph, model);
      page.add(graph, times, model, pipesched::figures_text(pipesched::make_report(graph, times, model)));
    });
  return page.text();
}
