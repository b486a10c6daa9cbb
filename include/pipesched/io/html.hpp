// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Timelines as one interactive page: a file that needs no other and no network.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <pipesched/analysis/memory.hpp>
#include <pipesched/analysis/timeline.hpp>
#include <pipesched/graph/edge.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/io/append.hpp>
#include <pipesched/io/html_arrows_script.hpp>
#include <pipesched/io/html_data.hpp>
#include <pipesched/io/html_input_script.hpp>
#include <pipesched/io/html_layout_script.hpp>
#include <pipesched/io/html_model_script.hpp>
#include <pipesched/io/html_rows_script.hpp>
#include <pipesched/io/html_style.hpp>
#include <pipesched/io/markup_text.hpp>
#include <pipesched/io/picture_style.hpp>

namespace pipesched {
inline namespace v0 {

/// A page of one or several timelines under each other on one time axis. Zoom with the wheel, pan by dragging; the op
/// under the pointer says when it runs and what it waited for, and shows its dependencies; keys do all of it too.
class html_page {
 public:
  explicit html_page(std::string_view title) : title_(title) {}

  /// Adds a timeline of `graph` under `cost`, which made it; `caption` follows the schedule's name in its title.
  template <time_value T, cost_model Cost>
  void add(op_graph const& graph, timeline<T> const& times, Cost const& cost, std::string_view caption = {},
           memory_model const& memory = {}) {
    auto title = detail::title_of(graph);
    if (!caption.empty()) title.append("; ").append(caption);
    schedules_.push_back(detail::html_data_writer<T, Cost>(graph, times, cost, memory).write(title));
    for (op o : graph.nodes()) {
      hues_[std::size_t(detail::hue_of(o.kind()))] = true;
      pairs_ = pairs_ || o.overlaps_next() || o.in_pair();
    }
    auto const variants = detail::variants_legend(detail::op_looks(graph.where()));
    if (variants_.find(variants) == std::string::npos) variants_ += (variants_.empty() ? "" : "; ") + variants;
  }

  /// Adds a picture above the timelines: the text of an `<svg>` element, as `svg` writes plots. (That of a timeline has
  /// a style sheet, which would count for the whole page.)
  void add_figure(std::string_view svg_element) { figures_ += svg_element; }

  /// The file.
  [[nodiscard]] std::string text() const {
    std::string page;
    auto const title = detail::markup_text(title_);
    detail::append(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
        "'unsafe-inline'; script-src 'unsafe-inline'\">\n"
        "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n",
        title, detail::html_style);
    detail::append(page, "<header><h1>{}</h1>\n{}</header>\n<div id=\"legend\">{}</div>\n", title, controls, legend());
    if (!figures_.empty())
      detail::append(page, "<details open><summary>plots</summary><div id=\"figures\">{}</div></details>\n", figures_);
    page += body;
    page += "<script type=\"application/json\" id=\"data\">";
    append_data(page);
    page += "</script>\n<script>";
    for (auto part : {detail::html_model_script, detail::html_layout_script, detail::html_rows_script,
                      detail::html_arrows_script, detail::html_input_script})
      page += part;
    page += "</script>\n</body>\n</html>\n";
    return page;
  }

 private:
  [[nodiscard]] std::string legend() const {
    std::string text;
    for (int hue = 0; hue < detail::op_hues; ++hue) {
      if (!hues_[hue]) continue;
      auto const color = detail::color_of(detail::op_hue(hue));
      detail::append(text, "<span><i style=\"background:rgb({},{},{})\"></i>{}</span>", color.red, color.green,
                     color.blue, detail::legend_of(detail::op_hue(hue)));
    }
    if (pairs_) text += "<span><i style=\"border:2px solid currentColor\"></i>overlapped pair</span>";
    if (!variants_.empty()) text += "<span>" + variants_ + "</span>";
    return text + "<span>number: microbatch</span>";
  }

  /// Within a script element no text may look like its end.
  void append_data(std::string& page) const {
    std::string data = "{\"edgeKinds\":[";
    for (int kind = 0; kind <= int(edge_kind::pair); ++kind)
      detail::append(data, "{}\"{}\"", kind > 0 ? "," : "", name_of(edge_kind(kind)));
    data += "],\"schedules\":[";
    for (std::size_t i = 0; i < schedules_.size(); ++i) data += (i > 0 ? ",\n" : "\n") + schedules_[i];
    data += "]}";
    for (char const c : data) {
      if (c == '<')
        page += "\\u003c";
      else
        page += c;
    }
  }

  static constexpr std::string_view controls =
      "<button data-key=\"+\" title=\"zoom in (+)\">zoom in</button>\n"
      "<button data-key=\"-\" title=\"zoom out (-)\">zoom out</button>\n"
      "<button data-key=\"0\" title=\"see the whole step (0)\">whole step</button>\n"
      "<button data-toggle=\"showCritical\" aria-pressed=\"false\" title=\"(c)\">critical path</button>\n"
      "<button data-toggle=\"showMemory\" aria-pressed=\"false\" title=\"(m)\">memory</button>\n"
      "<button data-key=\"t\" title=\"light or dark (t)\">theme</button>\n"
      "<button data-key=\"?\" title=\"what the keys do (?)\">keys</button>\n";

  static constexpr std::string_view body =
      R"html(<div id="view" tabindex="0" role="application" aria-label="timelines; press ? for the keys">
<div id="sheet"><canvas id="back"></canvas><canvas id="front"></canvas></div>
<div id="space"></div>
</div>
<div id="status" role="status" aria-live="polite"></div>
<div id="tip" hidden></div>
<dialog id="help"><table>
<tr><td><kbd>+</kbd> <kbd>-</kbd> or wheel</td><td>zoom</td></tr>
<tr><td><kbd>&larr;</kbd> <kbd>&rarr;</kbd> or drag</td><td>pan</td></tr>
<tr><td><kbd>&uarr;</kbd> <kbd>&darr;</kbd> or Alt and wheel</td><td>scroll</td></tr>
<tr><td><kbd>0</kbd></td><td>the whole step</td></tr>
<tr><td><kbd>n</kbd> <kbd>p</kbd></td><td>the next op of a row, the previous one</td></tr>
<tr><td><kbd>j</kbd> <kbd>k</kbd></td><td>the row below, above</td></tr>
<tr><td><kbd>c</kbd></td><td>the critical path</td></tr>
<tr><td><kbd>m</kbd></td><td>activations held over time</td></tr>
<tr><td><kbd>t</kbd></td><td>light or dark</td></tr>
<tr><td>arrows</td><td>solid: what the op needs; red: what it waited for; dashed: what needs it</td></tr>
</table><form method="dialog"><button>close</button></form></dialog>
)html";

  std::string title_;
  std::string figures_;
  std::vector<std::string> schedules_;  // each a JSON object
  bool hues_[detail::op_hues] = {};
  bool pairs_ = false;
  std::string variants_;
};

/// The page of one timeline, titled with the schedule's name.
template <time_value T, cost_model Cost>
[[nodiscard]] std::string html(op_graph const& graph, timeline<T> const& times, Cost const& cost,
                               std::string_view caption = {}, memory_model const& memory = {}) {
  html_page page(graph.name().empty() ? std::string_view("timeline") : graph.name());
  page.add(graph, times, cost, caption, memory);
  return page.text();
}

}  // namespace v0
}  // namespace pipesched
