// Where the time of a life went. At each moment, the innermost of its calls has the time: the one that began last and
// is still open. That is this call's own time. But if that call calls others, a long time between them is a gap: there,
// functions ran that don't get this object, or something else had the CPU, or the disk was at work.
import { calls, lives, order, place, size, until, view } from "./model.js";

export const LITTLE = 0.01; // of the time: shorter rows are folded
const GAP = 0.05; // of the time: shorter times between calls count as the function's own
// Before the request, until the driver got it, until the disk was done with it, and from there on. The last one is what
// comes before the end of a life that had no request.
export const PHASES = ["before", "queue", "disk", "completing", "without a request"];
const [BEFORE, QUEUE, DISK, COMPLETE, ALL] = PHASES.keys();
const ending = view.functions.findIndex(({ name }) => name === "bio_endio");
// The call of bio_endio() that ended a life.
export const endOf = ({ calls: list, end }) =>
  list.findLast((call) => calls.start[call] === end && calls.function[call] === ending) ?? -1;
const isWithin = (call, outer) => place[call] >= place[outer] && place[call] < place[outer] + size[outer];

// `list` has the calls of a life, or, without one, the calls with the same object. We add all calls inside these,
// because a call for a piece of a bio works for the whole. The time begins with the first call. It goes on after the
// end of the life, up to the return of the bio_endio() that ended it.
export function spent(list, life) {
  const inside = (call) => order.slice(place[call], place[call] + size[call]);
  const story = [...new Set(list.flatMap(inside))].sort((a, b) => a - b), known = new Set(story);
  const end = life?.end >= 0 ? life.end : Infinity, last = life ? endOf(life) : -1;
  const completes = (call) => last >= 0 && isWithin(call, last);
  const from = calls.start[story[0]];
  const to = last >= 0 ? until[last] : Math.min(end, story.reduce((to, call) => Math.max(to, until[call]), from));
  const over = (call) => Math.min(until[call], completes(call) ? to : Math.min(end, to)), whole = to - from;

  const rows = new Map([[-1, { call: -1, children: [] }]]);
  for (const call of story) {
    const at = calls.start[call], row = { call, own: 0, time: Math.max(over(call) - at, 0), at, children: [] };
    if (at > end && !completes(call)) continue;
    rows.set(call, row);
    const parent = call !== last && known.has(calls.parent[call]) ? calls.parent[call] : -1;
    rows.get(parent).children.push(row);
  }
  // The moments at which something begins or is over. If both come at the same time, what is over comes first.
  const marks = [[to, -1, 1]];
  for (const { call, at, time } of rows.values()) if (time > 0) marks.push([at, call, 1], [at + time, call, 0]);
  marks.sort((a, b) => a[0] - b[0] || a[2] - b[2]);
  const open = [];
  let at = from, before = "";
  for (const [now, call, begins] of marks) {
    const inner = open.at(-1) ?? -1, time = now - at;
    if (time > 0) {
      const isGap = inner < 0 || (size[inner] > 1 && time >= GAP * whole);
      const gap = before || [begins ? "before" : "in", call];
      if (isGap) rows.get(inner).children.push({ gap, own: time, time, at, children: [] });
      else rows.get(inner).own += time;
    }
    at = now;
    before = begins ? "" : ["after", call];
    if (begins) open.push(call);
    else open.splice(open.lastIndexOf(call), 1);
  }
  for (const { children } of rows.values()) children.sort((a, b) => a.at - b.at);
  const outlasts = story.find((call) => until[call] > to);
  return { from, to, whole, ...divided(life, from, to), rows: rows.get(-1).children, outlasts };
}

// The parts of a life, one after the other, and how long each phase took.
function divided(life, from, to) {
  const phases = PHASES.map(() => 0), parts = [], [made, issued, done] = life?.request ?? [];
  const ends = life?.request ? [[BEFORE, made], [QUEUE, issued], [DISK, done]] : [[ALL, life?.end >= 0 ? life.end : to]];
  let at = from;
  for (const [phase, end] of [...ends, [COMPLETE, to]]) {
    if (end <= at) continue;
    parts.push({ phase, from: at, to: end });
    phases[phase] += end - at;
    at = end;
  }
  return { phases, parts };
}

// The phases of a life, or of several together.
const computed = new Map();
function phasesOf(life) {
  if (!computed.has(life)) computed.set(life, life.end < 0 ? PHASES.map(() => 0) : spent(life.calls, life).phases);
  return computed.get(life);
}
// Which share of it the disk had.
export const onDisk = (life) => phasesOf(life)[DISK] / phasesOf(life).reduce((sum, time) => sum + time, 0);
export const together = (some) =>
  some.reduce((sums, life) => phasesOf(life).map((time, phase) => sums[phase] + time), PHASES.map(() => 0));

// Shares of a sum in percent with one digit, which always make 100: those with the largest rest are rounded up.
export function shares(times) {
  const sum = times.reduce((sum, time) => sum + time, 0) || 1, exact = times.map((time) => (1000 * time) / sum);
  const parts = exact.map(Math.floor), rest = (nth) => exact[nth] - parts[nth];
  const nths = times.map((_, nth) => nth).sort((a, b) => rest(b) - rest(a));
  const left = 1000 - parts.reduce((sum, part) => sum + part, 0);
  for (const nth of nths.slice(0, left)) parts[nth]++;
  return parts.map((part) => (part / 10).toFixed(1));
}
