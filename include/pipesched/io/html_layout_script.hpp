// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The part of a page's script that lays out: what is seen, and where the rows of the schedules are.

#include <string_view>

namespace pipesched {
inline namespace v0 {
namespace detail {

inline constexpr std::string_view html_layout_script = R"js(
const view = document.getElementById('view');
const space = document.getElementById('space');
const back = document.getElementById('back').getContext('2d');
const front = document.getElementById('front').getContext('2d');

const axisHeight = 24, titleHeight = 26, memoryHeight = 26, margin = 118;
const state = {
  from: 0, to: longest,        // the time that is seen
  showMemory: false, showCritical: false,
  hovered: null,               // {schedule, op}
};
let rows = [];                 // {kind: 'title' | 'lane' | 'memory', schedule, lane?, rank?, top, height}
let width = 0, height = 0, rowHeight = 22;
let colors = {};

const xOf = time => margin + (time - state.from) / (state.to - state.from) * (width - margin);
const timeAt = x => state.from + (x - margin) / (width - margin) * (state.to - state.from);
const laneRow = (schedule, lane) => rows.find(row => row.schedule === schedule && row.lane === lane);

/** Puts rows under each other, and fits the canvases to the window. */
function layOut() {
  width = view.clientWidth;
  height = view.clientHeight;
  const lanes = schedules.reduce((sum, s) => sum + s.lanes.filter(lane => lane.drawn).length, 0);
  const memory = state.showMemory ? schedules.reduce((sum, s) => sum + s.ranks, 0) * memoryHeight : 0;
  const room = height - axisHeight - schedules.length * (titleHeight + 8) - memory;
  rowHeight = Math.max(14, Math.min(30, Math.floor(room / lanes) - 3));
  rows = [];
  let top = axisHeight;
  for (const schedule of schedules) {
    rows.push({ kind: 'title', schedule, top, height: titleHeight });
    top += titleHeight;
    for (const lane of schedule.lanes) {
      if (!lane.drawn) continue;
      const lastOfRank = !schedule.lanes.some(other => other.drawn && other.rank === lane.rank && other.begin > lane.begin);
      rows.push({ kind: 'lane', schedule, lane, top, height: rowHeight });
      top += rowHeight + (lastOfRank ? 0 : 1);
      if (!lastOfRank) continue;
      if (state.showMemory) {
        rows.push({ kind: 'memory', schedule, rank: lane.rank, top, height: memoryHeight });
        top += memoryHeight;
      }
      top += 3;
    }
    top += 8;
  }
  space.style.height = Math.max(0, top) + 'px';
  const ratio = window.devicePixelRatio || 1;
  for (const context of [back, front]) {
    context.canvas.width = Math.round(width * ratio);
    context.canvas.height = Math.round(height * ratio);
    context.canvas.style.width = width + 'px';
    context.canvas.style.height = height + 'px';
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }
  const style = getComputedStyle(document.documentElement);
  for (const name of ['page', 'text', 'faint', 'line', 'idle', 'accent', 'critical', 'memory', 'frame'])
    colors[name] = style.getPropertyValue('--' + name).trim();
  redraw();
}

let pending = false;
/** Draws everything anew before the next frame, once however often it is asked for. */
function redraw() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => { pending = false; draw(); drawFront(); });
}

/** The rows that can be seen, with `y` where they are on the canvas. */
function visibleRows() {
  const scrolled = view.scrollTop;
  return rows.map(row => ({ ...row, y: row.top - scrolled }))
             .filter(row => row.y < height && row.y + row.height > axisHeight);
}
)js";

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
