// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The style sheet of the pages that `html_page` writes.

#include <string_view>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Colours are variables, light and dark; the script reads them for the canvas.
inline constexpr std::string_view html_style = R"css(
:root {
  color-scheme: light dark;
  --page: #ffffff; --text: #1c1c1c; --faint: #666666; --line: #d0d0d0; --idle: #f1f1f1;
  --panel: #ffffff; --accent: #0a58ca; --critical: #c2003d; --memory: #9a9a9a; --frame: #000000; --blue: #0072b2;
}
@media (prefers-color-scheme: dark) {
  :root:not([data-theme=light]) {
    --page: #16181c; --text: #e8e8e8; --faint: #a0a0a0; --line: #3a3d44; --idle: #22252b;
    --panel: #262a31; --accent: #7ab7ff; --critical: #ff6b8f; --memory: #7d828c; --frame: #ffffff; --blue: #3b8fd6;
  }
}
:root[data-theme=dark] {
  --page: #16181c; --text: #e8e8e8; --faint: #a0a0a0; --line: #3a3d44; --idle: #22252b;
  --panel: #262a31; --accent: #7ab7ff; --critical: #ff6b8f; --memory: #7d828c; --frame: #ffffff; --blue: #3b8fd6;
}
* { box-sizing: border-box; }
html, body { margin: 0; background: var(--page); color: var(--text); font: 13px system-ui, Helvetica, Arial, sans-serif; }
header { display: flex; flex-wrap: wrap; gap: 6px 14px; align-items: center; padding: 8px 12px; border-bottom: 1px solid var(--line); }
h1 { font-size: 16px; margin: 0; }
button { font: inherit; color: inherit; background: var(--panel); border: 1px solid var(--line); border-radius: 5px; padding: 3px 9px; cursor: pointer; }
button[aria-pressed=true] { border-color: var(--accent); color: var(--accent); }
button:focus-visible, summary:focus-visible, #view:focus-visible { outline: 2px solid var(--accent); outline-offset: -2px; }
#legend { display: flex; flex-wrap: wrap; gap: 4px 14px; padding: 6px 12px; color: var(--faint); }
#legend i { display: inline-block; width: 18px; height: 11px; margin-right: 5px; vertical-align: -1px; border: 1px solid var(--line); }
#figures { display: flex; flex-wrap: wrap; gap: 12px; padding: 12px; }
#figures svg { max-width: 100%; height: auto; border: 1px solid var(--line); border-radius: 5px; }
#figures .paper, #figures .ring { fill: var(--panel); }
#figures .ink { fill: var(--text); }
#figures .grid { stroke: var(--line); }
#figures .axes { stroke: var(--faint); }
#figures .ring, #figures [stroke="#000000"] { stroke: var(--text); }
#figures [fill="#000000"] { fill: var(--text); }
#figures [fill="#fff"] { fill: var(--panel); }
#figures [stroke="#0072b2"] { stroke: var(--blue); }
#figures [fill="#0072b2"] { fill: var(--blue); }
#figures .halo { stroke: var(--panel); }
summary { padding: 6px 12px 0; color: var(--faint); cursor: pointer; }
#view { position: relative; overflow-y: auto; overflow-x: hidden; height: calc(100vh - 116px); min-height: 320px; }
#sheet { position: sticky; top: 0; height: 0; }
#sheet canvas { position: absolute; left: 0; top: 0; }
#front { cursor: crosshair; touch-action: none; }
#front.dragging { cursor: grabbing; }
#tip { position: fixed; z-index: 2; max-width: 460px; padding: 7px 10px; background: var(--panel); border: 1px solid var(--line); border-radius: 6px; box-shadow: 0 3px 12px #0005; pointer-events: none; }
#tip b { font-size: 14px; }
#tip div { color: var(--faint); }
#status { padding: 3px 12px; color: var(--faint); border-top: 1px solid var(--line); white-space: nowrap; overflow: hidden; text-overflow: ellipsis; height: 24px; }
dialog { color: inherit; background: var(--panel); border: 1px solid var(--line); border-radius: 8px; }
kbd { border: 1px solid var(--line); border-radius: 3px; padding: 0 5px; font: 12px ui-monospace, monospace; }
td { padding: 3px 10px 3px 0; }
@media print { header button, #status { display: none; } }
)css";

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
