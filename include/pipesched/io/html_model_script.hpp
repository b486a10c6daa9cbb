// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The part of a page's script that knows the schedules: ops, what they wait for, and what is where in time.

#include <string_view>

namespace pipesched {
inline namespace v0 {
namespace detail {

inline constexpr std::string_view html_model_script = R"js(
'use strict';

/** One schedule. Ops have the numbers of the graph's nodes, lane after lane. */
class Schedule {
  constructor(data) {
    Object.assign(this, data);
    for (const type of this.types) type.parts = [1, 3, 5].map(i => parseInt(type.color.slice(i, i + 2), 16));
    const size = this.lanes.reduce((sum, lane) => sum + lane.type.length, 0);
    this.size = size;
    this.laneOf = new Uint32Array(size);
    this.type = new Uint32Array(size);
    this.microbatch = new Uint32Array(size);
    this.start = new Float64Array(size);
    this.end = new Float64Array(size);
    let node = 0;
    this.lanes.forEach((lane, number) => {
      lane.begin = node;
      for (let i = 0; i < lane.type.length; ++i, ++node) {
        this.laneOf[node] = number;
        this.type[node] = lane.type[i];
        this.microbatch[node] = lane.microbatch[i];
        this.start[node] = lane.start[i];
        this.end[node] = lane.start[i] + lane.duration[i];
      }
      lane.finish = node;
    });
    this.opensPair = new Uint8Array(size);
    for (const first of this.pairs) this.opensPair[first] = 1;
    this.isCritical = new Uint8Array(size);
    for (const op of this.critical) this.isCritical[op] = 1;
    this.readers = Array.from({ length: size }, () => []);
    this.links.forEach((link, op) => {
      for (let i = 0; i < link.length; i += 2) this.readers[link[i]].push(op, link[i + 1]);
    });
  }

  /** "3F12" */
  name(op) { return this.types[this.type[op]].name + this.microbatch[op]; }
  /** "F12", as it stands in the picture */
  label(op) {
    const type = this.types[this.type[op]];
    return type.letters + this.microbatch[op] + type.suffix;
  }

  /** The first op of a lane that ends after `time`; the lane's `finish` where none does. */
  firstEndingAfter(lane, time) {
    let low = lane.begin, high = lane.finish;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end[middle] > time) high = middle; else low = middle + 1;
    }
    return low;
  }

  /** The op of a lane that runs at `time`; of a pair the forward where `upper`. -1 where none does. */
  opAt(lane, time, upper) {
    const op = this.firstEndingAfter(lane, time);
    if (op >= lane.finish || this.start[op] > time) return -1;
    return this.opensPair[op] && !upper ? op + 1 : op;
  }

  partner(op) {
    if (this.opensPair[op]) return op + 1;
    return op > 0 && this.opensPair[op - 1] ? op - 1 : -1;
  }

  /** What an op needs, or what needs it: [{op, kind}], past ops that have no row of their own. */
  needs(op) { return this.follow(op, this.links); }
  neededBy(op) { return this.follow(op, this.readers); }
  follow(op, edges) {
    const found = [];
    for (let i = 0; i < edges[op].length; i += 2) {
      const other = edges[op][i];
      if (this.lanes[this.laneOf[other]].drawn) found.push({ op: other, kind: edgeKinds[edges[op][i + 1]] });
      else found.push(...this.follow(other, edges));
    }
    return found;
  }

  /** What made an op start when it did: {op, kind}, or null where it starts at 0. */
  cause(op) {
    const from = this.causes[2 * op];
    if (from < 0) return null;
    if (this.lanes[this.laneOf[from]].drawn) return { op: from, kind: edgeKinds[this.causes[2 * op + 1]] };
    return this.cause(from);
  }

  /** What is said of an op under the pointer, line by line. */
  describe(op) {
    const type = this.types[this.type[op]];
    const lane = this.lanes[this.laneOf[op]];
    const lines = [
      `${type.text}, stage ${type.stage}, microbatch ${this.microbatch[op]}` +
        (this.replicas > 1 ? `, replica ${type.replica}` : ''),
      `rank ${lane.rank}${this.streams > 1 ? ', ' + lane.stream : ''}`,
      `start ${number(this.start[op])}, end ${number(this.end[op])}, takes ${number(this.end[op] - this.start[op])}`,
    ];
    const partner = this.partner(op);
    if (partner >= 0) lines.push(`overlapped with ${this.name(partner)}`);
    const cause = this.cause(op);
    lines.push(cause
      ? `waited for ${this.name(cause.op)} on rank ${this.lanes[this.laneOf[cause.op]].rank} (${cause.kind}), which ended at ${number(this.end[cause.op])}`
      : 'waited for nothing');
    const others = this.needs(op).filter(need => !cause || need.op !== cause.op);
    if (others.length) lines.push('also needs ' + others.map(need => `${this.name(need.op)} (${need.kind})`).join(', '));
    if (this.isCritical[op]) lines.push('on the critical path');
    return lines;
  }
}

/** A time in few digits. */
function number(value) { return String(Number(value.toPrecision(7))); }

const page = JSON.parse(document.getElementById('data').textContent);
const edgeKinds = page.edgeKinds;
const schedules = page.schedules.map(data => new Schedule(data));
const longest = Math.max(...schedules.map(schedule => schedule.makespan), 1e-300);
)js";

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
