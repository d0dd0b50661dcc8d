// The time axis. The overview above shows how many bios were in flight at each time of the whole recording, and the
// chosen range. Below are the lives in that range as bars, or the tracks of CPUs or tasks. Lives that overlap in time
// are in different lanes.
import { calls, end, lives, order, over, until, view } from "./model.js";
import { button, byId, colour, COLOURS, element, integer, swatch, time, unitOf } from "./text.js";
import { change, drawing, redraw, state, whole } from "./state.js";
import { shown } from "./shown.js";
import { arrange, drawTracks } from "./tracks.js";

const LEAST = 1000; // nanoseconds: the smallest range
export const TICKS = 18; // pixels above the lanes
const dark = matchMedia("(prefers-color-scheme: dark)");
export const overview = byId("overview"), bars = byId("bars");

// Each life takes the first lane that is free when it starts.
const busy = [];
const lane = lives.map(({ start }, nth) => {
  const free = busy.findIndex((until) => until <= start), found = free < 0 ? busy.length : free;
  busy[found] = over[nth];
  return found;
});
byId("axis").style.setProperty("--lanes", busy.length);

// What the colors mean.
const legend = (mark, text) => byId("legend").append(element("span", "", mark, text));
(view.operations || []).forEach((name, operation) => legend(swatch(operation), name));
if (lives.length) legend(element("i", "swatch ran"), "darker: a function ran");
if (lives.some((life) => life.end < 0)) legend(element("i", "swatch pale"), "paler: end not seen");

export function zoom(one, other) {
  const width = Math.min(Math.max(Math.abs(other - one), LEAST), end);
  const from = Math.min(Math.max(Math.min(one, other), 0), end - width);
  change({ from: Math.floor(from), to: Math.ceil(from + width) });
}
export const zoomOut = () => change({ from: 0, to: end });
export const zoomBy = (factor, at = (state.from + state.to) / 2) =>
  zoom(at - (at - state.from) * factor, at + (state.to - at) * factor);
export function pan(by) {
  const way = by * (state.to - state.from);
  zoom(state.from + way, state.to + way);
}

// Converts between times and positions on a canvas.
export function scaleOf(canvas) {
  const [from, to] = canvas === overview ? [0, end] : [state.from, state.to];
  const { clientWidth: width, clientHeight: height } = canvas, per = width / (to - from);
  return { width, height, per, x: (time) => (time - from) * per, time: (x) => from + x / per };
}
// Prepares a canvas with the screen's resolution, and returns the colors that page.css has for it now.
function paintOn(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas, style = getComputedStyle(canvas);
  canvas.width = width * devicePixelRatio;
  canvas.height = height * devicePixelRatio;
  const paint = canvas.getContext("2d");
  paint.scale(devicePixelRatio, devicePixelRatio);
  paint.font = style.font;
  const ink = (name) => {
    canvas.style.color = `var(--${name})`;
    return style.color;
  };
  return { paint, ink };
}

// How many lives that pass the filters are in flight: the number from each time on, at which one begins or is over. If
// nothing has a life, we count the outermost calls.
let flight = [], flown = -1;
function inFlight() {
  if (flown === shown.version) return flight;
  flown = shown.version;
  const spans = lives.flatMap(({ start }, nth) => (shown.alive[nth] ? [[start, over[nth]]] : []));
  const isOutermost = (call) => shown.kept[call] && calls.parent[call] < 0 && calls.duration[call] > 0;
  if (!lives.length) order.forEach((call) => { if (isOutermost(call)) spans.push([calls.start[call], until[call]]); });
  const changes = spans.flatMap(([from, to]) => [[from, 1], [to, -1]]);
  let number = 0;
  flight = changes.sort(([a, one], [b, other]) => a - b || one - other).map(([at, by]) => [at, number += by]);
  return flight;
}
function drawOverview() {
  const { width, height, x } = scaleOf(overview), { paint, ink } = paintOn(overview), steps = inFlight();
  const most = steps.reduce((most, [, number]) => Math.max(most, number), 1);
  paint.fillStyle = ink("edge");
  steps.forEach(([at, number], nth) => {
    const tall = (number / most) * (height - 2);
    if (number) paint.fillRect(x(at), height - tall, Math.max(x(steps[nth + 1][0]) - x(at), 1), tall);
  });
  if (whole()) return;
  const left = x(state.from), right = Math.max(x(state.to), left + 2);
  paint.fillStyle = ink("veil");
  paint.fillRect(0, 0, left, height);
  paint.fillRect(right, 0, width - right, height);
  paint.strokeStyle = ink("accent");
  paint.lineWidth = 2;
  paint.strokeRect(left, 1, right - left, height - 2);
}

// Where the bar of a life is.
export function box(nth, { x, height }) {
  const left = x(lives[nth].start), tall = (height - TICKS - 3) / busy.length, gap = tall >= 4 ? 1 : 0;
  const wide = Math.max(x(over[nth]) - left, 1.5);
  return { left, top: TICKS + lane[nth] * tall, wide, tall: Math.max(Math.min(tall, 22) - gap, 0.5) };
}

function drawBars() {
  const scale = scaleOf(bars), { width, height, per, x } = scale, { paint, ink } = paintOn(bars);
  // The distance between ticks is a round number, and at least 90 pixels.
  const tens = 10 ** Math.ceil(Math.log10(90 / per));
  const step = Math.max([0.2, 0.5, 1].find((part) => part * tens * per >= 90) * tens, 1);
  const [unit, name] = unitOf(step * 10);
  paint.textBaseline = "middle";
  for (let at = Math.ceil(state.from / step) * step; at <= state.to; at += step) {
    const label = integer(at / unit) + " " + name;
    paint.fillStyle = ink("line");
    paint.fillRect(x(at), 0, 1, height);
    paint.fillStyle = ink("faint");
    if (x(at) + 4 + paint.measureText(label).width < width) paint.fillText(label, x(at) + 4, TICKS / 2);
  }
  if (state.lanes !== "lives") return drawTracks(paint, ink, scale, TICKS);
  const ran = ink("ran"), inks = Object.fromEntries(COLOURS.map((name) => [name, ink(name)]));
  lives.forEach((life, nth) => {
    if (life.start > state.to || over[nth] < state.from) return;
    const { left, top, wide, tall } = box(nth, scale);
    paint.globalAlpha = (shown.lives[nth] ? 1 : 0.3) * (life.end < 0 ? 0.45 : 1);
    paint.fillStyle = inks[colour(life.operation)];
    paint.fillRect(left, top, wide, tall);
    if (wide < 40) return;
    // A wide bar is darker while any of its functions ran.
    paint.fillStyle = ran;
    let reach = life.start;
    for (const call of life.calls) {
      const from = Math.max(calls.start[call], reach);
      reach = Math.max(reach, Math.min(until[call], over[nth]));
      if (reach > from) paint.fillRect(x(from), top, Math.max((reach - from) * per, 1), tall);
    }
  });
}

// Marks the current call and its life, with elements above the bars.
function drawCursor() {
  const scale = scaleOf(bars), life = calls.life[state.cursor] ?? -1;
  byId("here").hidden = state.cursor < 0;
  byId("here").style.left = scale.x(calls.start[state.cursor]) + "px";
  byId("mine").hidden = life < 0 || state.lanes !== "lives";
  if (byId("mine").hidden) return;
  const { left, top, wide, tall } = box(life, scale), seen = Math.max(left, -9);
  const place = { left: seen, top, width: Math.min(left + wide, scale.width + 9) - seen, height: tall };
  for (const [name, pixels] of Object.entries(place)) byId("mine").style[name] = pixels + "px";
}

// What the lanes are.
const kinds = { ...(lives.length ? { lives: "Lives" } : {}), cpu: "CPUs", task: "Tasks" };
byId("kinds").append(...Object.entries(kinds).map(([lanes, name]) => {
  const choice = button("", () => {
    byId("lanes").scrollTop = 0;
    change({ lanes });
  }, name);
  drawing(() => { choice.ariaPressed = state.lanes === lanes; });
  return choice;
}));

let drawn = "";
drawing(() => {
  const isTracks = state.lanes !== "lives", rows = isTracks ? arrange() + TICKS : 0;
  const now = [shown.version, bars.clientWidth, bars.clientHeight, devicePixelRatio, dark.matches, state.lanes];
  byId("lanes").classList.toggle("tracks", isTracks);
  byId("lanes").style.setProperty("--rows", rows + "px");
  if (isTracks) now.push(state.cursor, byId("lanes").scrollTop);
  if (now.join() !== drawn) {
    drawOverview();
    drawBars();
    figure();
  }
  drawn = now.join();
  drawCursor();
});
// The range in words, and how many bios were in flight in it.
function figure() {
  byId("range").textContent = whole() ? time(end) : time(state.from) + " \u2013 " + time(state.to);
  const steps = inFlight(), { from, to } = state;
  let most = 0, sum = 0;
  steps.forEach(([at, number], nth) => {
    const until = steps[nth + 1]?.[0] ?? end;
    if (at > to || until < from) return;
    most = Math.max(most, number);
    sum += number * (Math.min(until, to) - Math.max(at, from));
  });
  const what = lives.length ? "in flight" : "calls at the same time", average = (sum / (to - from)).toFixed(2);
  byId("inflight").textContent = `${what}: at most ${integer(most)}, on average ${average}`;
}
byId("lanes").addEventListener("scroll", redraw, { passive: true });

new ResizeObserver(redraw).observe(bars);
dark.addEventListener("change", redraw);
