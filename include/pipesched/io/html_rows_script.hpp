// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The part of a page's script that draws the rows, on the canvas at the back: axis, ops, frames, memory.

#include <string_view>

namespace pipesched {
inline namespace v0 {
namespace detail {

inline constexpr std::string_view html_rows_script = R"js(
function draw() {
  back.fillStyle = colors.page;
  back.fillRect(0, 0, width, height);
  for (const row of visibleRows()) {
    if (row.kind === 'title') drawTitle(row);
    else if (row.kind === 'memory') drawMemory(row);
    else drawLane(row);
  }
  drawFrames();
  drawAxis();
}

function drawTitle(row) {
  back.fillStyle = colors.text;
  back.font = 'bold 13px system-ui, Helvetica, Arial, sans-serif';
  back.textAlign = 'left';
  back.fillText(row.schedule.title, 10, row.y + 18);
}

function drawAxis() {
  back.fillStyle = colors.page;
  back.fillRect(0, 0, width, axisHeight);
  const least = (state.to - state.from) / Math.max(2, (width - margin) / 90);
  let step = 10 ** Math.floor(Math.log10(least));
  for (const factor of [2, 2.5, 2]) if (step < least) step *= factor;
  back.font = '11px system-ui, Helvetica, Arial, sans-serif';
  back.textAlign = 'center';
  for (let tick = Math.ceil(state.from / step); tick * step <= state.to; ++tick) {
    const x = xOf(tick * step);
    back.fillStyle = colors.faint;
    back.fillText(number(tick * step), x, 15);
    back.fillStyle = colors.line;
    back.fillRect(x, 19, 1, 5);
  }
  back.fillStyle = colors.line;
  back.fillRect(0, axisHeight - 1, width, 1);
}

/** Runs `paint` with all that falls on the margin cut off. */
function clipped(context, top, bottom, paint) {
  context.save();
  context.beginPath();
  context.rect(margin, top, width - margin, bottom - top);
  context.clip();
  paint();
  context.restore();
}

function drawLane(row) {
  const { schedule, lane, y } = row;
  back.fillStyle = colors.faint;
  back.font = '11px system-ui, Helvetica, Arial, sans-serif';
  back.textAlign = 'left';
  const isFirst = lane.stream === 'compute';
  if (isFirst) back.fillText(`rank ${lane.rank}`, 10, y + row.height / 2 + 4);
  if (schedule.streams > 1) {
    back.textAlign = 'right';
    back.fillText(lane.stream, margin - 6, y + row.height / 2 + 4);
  }
  back.fillStyle = colors.idle;
  const end = xOf(schedule.makespan);
  back.fillRect(margin, y, Math.min(end, width) - margin, row.height);
  clipped(back, axisHeight, height, () => {
    const begin = schedule.firstEndingAfter(lane, state.from);
    const finish = Math.min(lane.finish, schedule.firstEndingAfter(lane, state.to) + 2);
    if ((finish - begin) * 3 > width - margin) drawStrip(row, begin, finish);
    else drawOps(row, begin, finish);
  });
}

const labelFont = size => `${size}px system-ui, Helvetica, Arial, sans-serif`;
const labelWidths = new Map();
/** In pixels; measured once per label. */
function labelWidth(text, size) {
  const key = size + ' ' + text;
  let known = labelWidths.get(key);
  if (known === undefined) {
    back.font = labelFont(size);
    known = back.measureText(text).width;
    labelWidths.set(key, known);
  }
  return known;
}

/** Each op as a box with its label. */
function drawOps(row, begin, finish) {
  const { schedule, y } = row;
  back.textAlign = 'center';
  for (let op = begin; op < finish; ++op) {
    const x = xOf(schedule.start[op]);
    const w = xOf(schedule.end[op]) - x;
    if (x > width || w <= 0) continue;
    const partner = schedule.partner(op);
    const h = partner < 0 ? row.height : row.height / 2;
    const top = partner >= 0 && partner < op ? y + h : y;
    const type = schedule.types[schedule.type[op]];
    const gap = w > 4 && partner < 0 ? 1 : 0;
    back.fillStyle = type.color;
    back.fillRect(x, top, Math.max(w - gap, 0.5), h);
    if (type.hatched) hatch(x, top, w - gap, h);
    const dimmed = state.showCritical && !schedule.isCritical[op];
    if (dimmed) {
      back.fillStyle = colors.page + 'b0';
      back.fillRect(x, top, w, h);
    }
    const size = Math.min(11, h - 1);
    const label = [schedule.label(op), String(schedule.microbatch[op])].find(text => labelWidth(text, size) + 2 < w);
    if (label && size > 5) {
      back.fillStyle = dimmed ? colors.text : '#000';
      back.font = labelFont(size);
      back.fillText(label, (Math.max(x, margin) + Math.min(x + w, width)) / 2, top + h / 2 + size * 0.36);
    }
    if (partner >= 0 && partner < op && w > 4) {
      back.strokeStyle = colors.frame;
      back.lineWidth = 1.2;
      back.strokeRect(x + 0.5, y + 0.5, w - 1, row.height - 1);
    }
    if (state.showCritical && schedule.isCritical[op]) {
      back.fillStyle = colors.critical;
      back.fillRect(x, top + h - 3, w - gap, 3);
    }
  }
}

let hatching = null;
function hatch(x, y, w, h) {
  if (w < 4) return;
  if (!hatching) {
    const tile = new OffscreenCanvas(6, 6);
    const context = tile.getContext('2d');
    context.strokeStyle = 'rgba(0,0,0,.25)';
    for (const shift of [-6, 0, 6]) {
      context.beginPath();
      context.moveTo(shift, 6);
      context.lineTo(shift + 6, 0);
      context.stroke();
    }
    hatching = back.createPattern(tile, 'repeat');
  }
  back.fillStyle = hatching;
  back.fillRect(x, y, w, h);
}

/** Many ops in few pixels: each column of pixels gets the mixture of what runs in it, idle time included. */
function drawStrip(row, begin, finish) {
  const { schedule, y } = row;
  const columns = Math.ceil(width - margin);
  const perTime = columns / (state.to - state.from);
  const halves = [0, 1].map(() => new Float32Array(columns * 4));
  for (let op = begin; op < finish; ++op) {
    const color = schedule.types[schedule.type[op]].parts;
    const partner = schedule.partner(op);
    const left = Math.max(0, (schedule.start[op] - state.from) * perTime);
    const right = Math.min(columns, (schedule.end[op] - state.from) * perTime);
    for (let column = Math.floor(left); column < right; ++column) {
      const share = Math.min(right, column + 1) - Math.max(left, column);
      for (const half of [0, 1]) {
        if (partner >= 0 && half !== (partner < op ? 1 : 0)) continue;
        const sum = halves[half];
        for (let i = 0; i < 3; ++i) sum[column * 4 + i] += share * color[i];
        sum[column * 4 + 3] += share;
      }
    }
  }
  const strip = new OffscreenCanvas(columns, 2);
  const context = strip.getContext('2d');
  const image = context.createImageData(columns, 2);
  halves.forEach((sum, half) => {
    for (let column = 0; column < columns; ++column) {
      const share = sum[column * 4 + 3];
      const at = (half * columns + column) * 4;
      for (let i = 0; i < 3; ++i) image.data[at + i] = share > 0 ? sum[column * 4 + i] / share : 0;
      image.data[at + 3] = 255 * Math.min(1, share);
    }
  });
  context.putImageData(image, 0, 0);
  back.imageSmoothingEnabled = false;
  back.drawImage(strip, 0, 0, columns, 1, margin, y, columns, row.height / 2);
  back.drawImage(strip, 0, 1, columns, 1, margin, y + row.height / 2, columns, row.height / 2);
  if (state.showCritical) drawCriticalStrip(row, begin, finish);
}

function drawCriticalStrip(row, begin, finish) {
  back.fillStyle = colors.critical;
  for (let op = begin; op < finish; ++op)
    if (row.schedule.isCritical[op]) {
      const x = xOf(row.schedule.start[op]);
      back.fillRect(x, row.y + row.height - 3, Math.max(0.5, xOf(row.schedule.end[op]) - x), 3);
    }
}

/** The frames of pairs whose events are on several streams, over all rows of their rank. */
function drawFrames() {
  back.strokeStyle = colors.frame;
  back.lineWidth = 1.2;
  const lanes = visibleRows().filter(row => row.kind === 'lane' && row.schedule.streams > 1);
  clipped(back, axisHeight, height, () => {
    for (const row of lanes.filter(row => row.lane.stream === 'compute')) {
      const { schedule, lane } = row;
      const drawn = schedule.lanes.filter(other => other.drawn && other.rank === lane.rank).length;
      for (const [start, end] of schedule.frames[lane.rank]) {
        const x = xOf(start), w = xOf(end) - x;
        if (x < width && x + w > margin && w > 4)
          back.strokeRect(x + 0.5, row.y + 0.5, w - 1, drawn * (row.height + 1) - 2);
      }
    }
  });
}

function drawMemory(row) {
  const { schedule, rank } = row;
  const { time, held } = schedule.memory[rank];
  const bottom = row.y + row.height - 1;
  const level = amount => bottom - amount / Math.max(1, schedule.mostHeld) * (row.height - 5);
  back.fillStyle = colors.faint;
  back.font = '10px system-ui, Helvetica, Arial, sans-serif';
  back.textAlign = 'right';
  back.fillText(`at most ${schedule.peaks[rank]}`, margin - 6, bottom - 6);
  clipped(back, axisHeight, height, () => {
    back.fillStyle = colors.memory;
    const area = new Path2D();
    area.moveTo(xOf(0), bottom);
    let lastX = -1, highest = 0;
    for (let i = 0; i < time.length; ++i) {
      const x = xOf(time[i]);
      highest = Math.max(highest, held[i]);
      const next = i + 1 < time.length ? xOf(time[i + 1]) : Infinity;
      if (next < margin || (next - lastX < 0.5 && next !== Infinity)) continue;
      area.lineTo(x, level(i ? held[i - 1] : 0));
      area.lineTo(x, level(Math.max(held[i], next - x < 0.5 ? highest : 0)));
      lastX = x;
      highest = 0;
      if (x > width) break;
    }
    area.lineTo(xOf(schedule.makespan), bottom);
    back.fill(area);
  });
}
)js";

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
