// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The part of a page's script that listens: pointer, wheel, keyboard, buttons.

#include <string_view>

namespace pipesched {
inline namespace v0 {
namespace detail {

inline constexpr std::string_view html_input_script = R"js(
const tip = document.getElementById('tip');
const status = document.getElementById('status');
const help = document.getElementById('help');
const surface = front.canvas;

/** Shows the time from..to, or as near as the step's length and the clock's precision allow. */
function look(from, to) {
  const least = longest * 1e-7;
  const length = Math.min(longest, Math.max(least, to - from));
  state.from = Math.min(Math.max(0, from), longest - length);
  state.to = state.from + length;
  redraw();
}

/** Makes the time at `x` stay where it is while what is seen becomes `factor` times as long. */
function zoom(factor, x = (margin + width) / 2) {
  const fixed = timeAt(Math.max(x, margin));
  const length = Math.min(longest, (state.to - state.from) * factor);
  const share = (fixed - state.from) / (state.to - state.from);
  look(fixed - share * length, fixed + (1 - share) * length);
}

function pan(share) {
  const shift = share * (state.to - state.from);
  look(state.from + shift, state.to + shift);
}

/** The op at a place on the canvas, or null. */
function opAt(x, y) {
  if (x < margin || y < axisHeight) return null;
  const top = y + view.scrollTop;
  const row = rows.find(r => r.kind === 'lane' && top >= r.top && top < r.top + r.height);
  if (!row) return null;
  const op = row.schedule.opAt(row.lane, timeAt(x), top < row.top + row.height / 2);
  return op < 0 ? null : { schedule: row.schedule, op };
}

/** Makes an op the one that is described and has arrows; null: none. */
function hover(target, x, y) {
  state.hovered = target;
  drawFront();
  tip.hidden = !target;
  status.textContent = '';
  if (!target) return;
  const { schedule, op } = target;
  const lines = schedule.describe(op);
  const heading = document.createElement('b');
  heading.textContent = schedule.name(op);
  tip.replaceChildren(heading, ...lines.map(line => {
    const element = document.createElement('div');
    element.textContent = line;
    return element;
  }));
  const which = schedules.length > 1 ? ` (${schedule.title.split(':')[0]})` : '';
  status.textContent = `${schedule.name(op)}${which}: ${lines.join('; ')}`;
  const size = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 16, innerWidth - size.width - 4)) + 'px';
  tip.style.top = (y + 18 + size.height < innerHeight ? y + 18 : Math.max(4, y - size.height - 12)) + 'px';
}

/** Hovers over an op from the keyboard, and brings it into view. */
function select(schedule, op) {
  const length = state.to - state.from;
  if (schedule.start[op] < state.from || schedule.end[op] > state.to) {
    const middle = (schedule.start[op] + schedule.end[op]) / 2;
    look(middle - length / 2, middle + length / 2);
  }
  const row = laneRow(schedule, schedule.lanes[schedule.laneOf[op]]);
  if (row.top < view.scrollTop + axisHeight) view.scrollTop = row.top - axisHeight;
  if (row.top + row.height > view.scrollTop + height) view.scrollTop = row.top + row.height - height;
  const box = boxOf(schedule, op), frame = surface.getBoundingClientRect();
  hover({ schedule, op }, frame.left + box.x + box.w, frame.top + box.y + box.h - 8);
}

/** The next op of the row in either direction; the first in sight where none is selected. */
function step(direction) {
  if (!state.hovered) {
    const row = rows.find(r => r.kind === 'lane' && r.top >= view.scrollTop);
    const op = row ? row.schedule.firstEndingAfter(row.lane, state.from) : 0;
    if (row && op < row.lane.finish) select(row.schedule, op);
    return;
  }
  const { schedule, op } = state.hovered;
  const lane = schedule.lanes[schedule.laneOf[op]];
  const next = op + direction;
  if (next >= lane.begin && next < lane.finish) select(schedule, next);
}

/** The op that runs at the same time, or the next, on the row below (1) or above (-1). */
function stepRow(direction) {
  if (!state.hovered) return step(0);
  const { schedule, op } = state.hovered;
  const lanes = rows.filter(row => row.kind === 'lane');
  const here = lanes.findIndex(row => row.lane === schedule.lanes[schedule.laneOf[op]]);
  for (let at = here + direction; at >= 0 && at < lanes.length; at += direction) {
    const { schedule: other, lane } = lanes[at];
    const found = Math.min(other.firstEndingAfter(lane, schedule.start[op]), lane.finish - 1);
    if (found >= lane.begin) return select(other, found);
  }
}

function toggle(name) {
  state[name] = !state[name];
  document.querySelector(`button[data-toggle=${name}]`).setAttribute('aria-pressed', state[name]);
  layOut();
}

function changeTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = dark ? 'light' : 'dark';
  layOut();
}

let drag = null;
surface.addEventListener('pointerdown', event => {
  drag = { x: event.clientX, y: event.clientY, from: state.from, to: state.to, top: view.scrollTop };
  surface.setPointerCapture(event.pointerId);
  surface.classList.add('dragging');
});
surface.addEventListener('pointerup', () => { drag = null; surface.classList.remove('dragging'); });
surface.addEventListener('pointercancel', () => { drag = null; surface.classList.remove('dragging'); });
surface.addEventListener('pointermove', event => {
  if (drag) {
    const shift = (drag.x - event.clientX) / (width - margin) * (drag.to - drag.from);
    look(drag.from + shift, drag.to + shift);
    view.scrollTop = drag.top + drag.y - event.clientY;
    return;
  }
  const frame = surface.getBoundingClientRect();
  hover(opAt(event.clientX - frame.left, event.clientY - frame.top), event.clientX, event.clientY);
});
surface.addEventListener('pointerleave', () => { if (!drag) hover(null); });
surface.addEventListener('dblclick', event => zoom(0.4, event.clientX - surface.getBoundingClientRect().left));

// The wheel zooms; with Shift, or sideways, it pans; with Alt, or over the names of the rows, it scrolls.
view.addEventListener('wheel', event => {
  const x = event.clientX - surface.getBoundingClientRect().left;
  if (event.altKey || x < margin) return;
  event.preventDefault();
  const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;  // in pixels
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
    pan(unit * (event.deltaX || event.deltaY) / (width - margin));
  else
    zoom(1.0018 ** (unit * event.deltaY), x);
}, { passive: false });
view.addEventListener('scroll', redraw);

const keys = {
  '+': () => zoom(1 / 1.5), '=': () => zoom(1 / 1.5), '-': () => zoom(1.5), w: () => zoom(1 / 1.5), s: () => zoom(1.5),
  ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), a: () => pan(-0.15), d: () => pan(0.15),
  ArrowUp: () => view.scrollBy(0, -60), ArrowDown: () => view.scrollBy(0, 60),
  PageUp: () => view.scrollBy(0, -height * 0.8), PageDown: () => view.scrollBy(0, height * 0.8),
  0: () => look(0, longest), Home: () => look(0, longest),
  n: () => step(1), p: () => step(-1), j: () => stepRow(1), k: () => stepRow(-1), Escape: () => hover(null),
  c: () => toggle('showCritical'), m: () => toggle('showMemory'), t: changeTheme, '?': () => help.showModal(),
};
addEventListener('keydown', event => {
  const action = keys[event.key];
  if (!action || event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  event.preventDefault();
  action();
});

for (const button of document.querySelectorAll('button[data-key]'))
  button.addEventListener('click', () => keys[button.dataset.key]());
for (const button of document.querySelectorAll('button[data-toggle]'))
  button.addEventListener('click', () => toggle(button.dataset.toggle));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', layOut);
new ResizeObserver(layOut).observe(view);
layOut();

/** For scripts of the user's own, and for tests: what is seen, and where an op is on the screen. */
window.pipesched = {
  schedules, state, look,
  opOnScreen(schedule, op) {
    const box = boxOf(schedules[schedule], op), frame = surface.getBoundingClientRect();
    return { x: frame.left + box.x + box.w / 2, y: frame.top + box.y + box.h / 2, width: box.w, height: box.h };
  },
};
)js";

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
