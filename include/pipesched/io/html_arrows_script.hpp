// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The part of a page's script that draws what follows the pointer, on the canvas at the front: arrows.

#include <string_view>

namespace pipesched {
inline namespace v0 {
namespace detail {

inline constexpr std::string_view html_arrows_script = R"js(
/** The hovered op and the arrows of its dependencies. */
function drawFront() {
  front.clearRect(0, 0, width, height);
  const { hovered } = state;
  if (!hovered) return;
  const { schedule, op } = hovered;
  clipped(front, axisHeight, height, () => {
    outline(schedule, op, colors.accent, 3);
    for (const need of schedule.needs(op)) arrow(schedule, need.op, op, colors.accent, []);
    for (const reader of schedule.neededBy(op)) arrow(schedule, op, reader.op, colors.faint, [5, 3]);
    const cause = schedule.cause(op);
    if (cause) {
      outline(schedule, cause.op, colors.critical, 2);
      arrow(schedule, cause.op, op, colors.critical, []);
    }
  });
}

/** Where an op is on the canvas. */
function boxOf(schedule, op) {
  const row = laneRow(schedule, schedule.lanes[schedule.laneOf[op]]);
  if (!row) return null;
  const partner = schedule.partner(op);
  const h = partner < 0 ? row.height : row.height / 2;
  const x = xOf(schedule.start[op]);
  return { x, y: row.top - view.scrollTop + (partner >= 0 && partner < op ? h : 0), w: xOf(schedule.end[op]) - x, h };
}

function outline(schedule, op, color, lineWidth) {
  const box = boxOf(schedule, op);
  if (!box) return;
  front.strokeStyle = color;
  front.lineWidth = lineWidth;
  front.strokeRect(box.x, box.y, Math.max(box.w, 2), box.h);
}

function arrow(schedule, fromOp, toOp, color, dash) {
  const from = boxOf(schedule, fromOp), to = boxOf(schedule, toOp);
  if (!from || !to) return;
  const x0 = from.x + from.w, y0 = from.y + from.h / 2, x1 = to.x, y1 = to.y + to.h / 2;
  const bend = Math.max(12, Math.abs(x1 - x0) / 2);
  const lift = Math.abs(y1 - y0) < 1 ? Math.min(2 * from.h, Math.abs(x1 - x0) / 2) : 0;  // along a row it passes above the ops between
  front.strokeStyle = front.fillStyle = color;
  front.lineWidth = 1.6;
  front.setLineDash(dash);
  front.beginPath();
  front.moveTo(x0, y0);
  front.bezierCurveTo(x0 + bend, y0 - lift, x1 - bend, y1 - lift, x1 - 5, y1);
  front.stroke();
  front.setLineDash([]);
  front.beginPath();
  front.moveTo(x1, y1);
  front.lineTo(x1 - 7, y1 - 3.5);
  front.lineTo(x1 - 7, y1 + 3.5);
  front.fill();
}
)js";

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
