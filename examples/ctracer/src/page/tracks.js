// The tracks of CPUs or tasks: each call is a slice, below the call that made it. Arrows go from where a bio was
// submitted to where it ended.
import { calls, count, lives, order, place, size, until } from "./model.js";
import { byId, colour, COLOURS, labels } from "./text.js";
import { endOf } from "./spent.js";
import { state } from "./state.js";
import { shown } from "./shown.js";

const SLICE = 15; // pixels
const FEW = 60; // lives; if more are in sight, only the current one has an arrow

// The tracks of a kind, and where on its track each call is. What overlaps in time, such as the calls of two tasks on
// one CPU, or of an interrupt and what it interrupted, is in different rows.
const layouts = {};
function layout(kind) {
  if (layouts[kind]) return layouts[kind];
  const roots = new Map();
  for (let call = 0; call < count; call++) {
    if (calls.parent[call] >= 0) continue;
    const isTask = kind === "task" && !(calls.interrupt[call] > 0), cpu = "CPU " + labels.cpu(calls.cpu[call]);
    const name = isTask ? labels.task(calls.task[call]) : kind === "task" ? "interrupts of " + cpu : cpu;
    if (!roots.has(name)) roots.set(name, []);
    roots.get(name).push(call);
  }
  const track = new Int32Array(count), row = new Int32Array(count);
  const isLast = (name) => name.startsWith("interrupts of ");
  const byName = (a, b) => isLast(a) - isLast(b) || a.localeCompare(b, "en", { numeric: true });
  const tracks = [...roots.keys()].sort(byName).map((name, nth) => {
    const busy = [];
    for (const root of roots.get(name)) {
      const tree = order.slice(place[root], place[root] + size[root]);
      const level = (call) => calls.depth[call] - calls.depth[root];
      const deep = tree.reduce((deep, call) => Math.max(deep, level(call) + 1), 1);
      let first = 0;
      for (let at = 0; at < first + deep; at++) if (busy[at] > calls.start[root]) first = at + 1;
      for (let at = first; at < first + deep; at++) busy[at] = Math.max(until[root], calls.start[root] + 1);
      for (const call of tree) [track[call], row[call]] = [nth, first + level(call)];
    }
    return { name, deep: busy.length };
  });
  return (layouts[kind] = { tracks, track, row });
}

// The tracks that have a call in sight, each with its first row, which has its name.
let seen = { rows: 0, row: () => -1, names: [] }, version = "";
export function arrange() {
  if (version === state.lanes + shown.version) return seen.rows * SLICE;
  version = state.lanes + shown.version;
  const { tracks, track, row } = layout(state.lanes), tops = tracks.map(() => -1), names = [];
  for (let call = 0; call < count; call++) if (shown.passes[call]) tops[track[call]] = 0;
  let rows = 0;
  tracks.forEach(({ name, deep }, nth) => {
    if (tops[nth] < 0) return;
    names.push([rows, name]);
    tops[nth] = rows + 1;
    rows += deep + 1;
  });
  seen = { rows, names, row: (call) => (tops[track[call]] < 0 ? -1 : tops[track[call]] + row[call]) };
  return rows * SLICE;
}

export function drawTracks(paint, ink, { width, height, x }, ticks) {
  const { row, names, rows } = seen, shift = ticks - byId("lanes").scrollTop, y = (row) => shift + row * SLICE;
  const inks = Object.fromEntries(COLOURS.map((name) => [name, ink(name)])), text = ink("on-accent");
  paint.beginPath();
  paint.rect(0, ticks, width, height);
  paint.clip();
  // The slices of a row come in the order of time. One that would be within the same pixel as the last is left out.
  const reach = new Float64Array(rows).fill(-1);
  for (let call = 0; call < count; call++) {
    const at = row(call), top = y(at), left = Math.max(x(calls.start[call]), 0);
    const right = Math.min(Math.max(x(until[call]), left + 1), width);
    if (at < 0 || right <= reach[at] || top < ticks - SLICE || top > height || left > width) continue;
    reach[at] = right;
    paint.globalAlpha = shown.passes[call] ? 1 : 0.3;
    paint.fillStyle = inks[colour(calls.operation[call])];
    paint.fillRect(left, top, right - left, SLICE - 1);
    const letters = Math.floor((right - left - 6) / 6.5);
    if (letters < 4) continue;
    const name = labels.function(calls.function[call]);
    paint.fillStyle = text;
    paint.fillText(name.length > letters ? name.slice(0, letters - 1) + "\u2026" : name, left + 3, top + SLICE / 2);
  }
  paint.globalAlpha = 1;
  paint.fillStyle = ink("ink");
  for (const [at, name] of names) paint.fillText(name, 4, y(at) + SLICE / 2);
  const current = calls.life[state.cursor], some = [...lives.keys()].filter((nth) => shown.lives[nth]);
  for (const nth of some.length <= FEW ? some : some.filter((nth) => nth === current)) {
    const { start, end, calls: list } = lives[nth], ends = [list[0], endOf(lives[nth])];
    if (ends.some((call) => call < 0 || row(call) < 0)) continue;
    const [above, below] = ends.map((call) => y(row(call)) + SLICE / 2);
    const left = x(start), right = x(end), bend = (right - left) / 2;
    paint.strokeStyle = paint.fillStyle = ink(nth === current ? "ink" : "faint");
    paint.lineWidth = nth === current ? 2 : 1;
    paint.beginPath();
    paint.moveTo(left, above);
    paint.bezierCurveTo(left + bend, above, right - bend, below, right - 5, below);
    paint.stroke();
    paint.beginPath();
    paint.moveTo(right, below);
    paint.lineTo(right - 7, below - 4);
    paint.lineTo(right - 7, below + 4);
    paint.fill();
  }
  if (state.cursor < 0 || row(state.cursor) < 0) return;
  const left = x(calls.start[state.cursor]), wide = Math.max(x(until[state.cursor]) - left, 2);
  paint.strokeStyle = ink("ink");
  paint.lineWidth = 2;
  paint.strokeRect(left, y(row(state.cursor)) - 1, wide, SLICE);
}

// The call at this place, or near it, because a slice can be too thin to hit exactly.
export function sliceAt({ x }, across, down, ticks) {
  const at = Math.floor((down + byId("lanes").scrollTop - ticks) / SLICE);
  let nearest = -1, least = 4;
  for (let call = 0; call < count; call++) {
    if (seen.row(call) !== at) continue;
    const off = Math.max(x(calls.start[call]) - across, across - x(until[call]), 0);
    if (off < least) [nearest, least] = [call, off];
  }
  return nearest;
}
