// The time axis. The overview above shows how many calls the whole recording has at each time, and the chosen range.
// Below are the lives in that range as bars. Lives that overlap in time are in different lanes.
import { calls, count, end, lives, until, view } from "./model.js";
import { byId, colour, COLOURS, element, integer, swatch, time, unitOf } from "./text.js";
import { change, drawing, redraw, state, whole } from "./state.js";
import { shown } from "./shown.js";

const LEAST = 1000; // nanoseconds: the smallest range
const TICKS = 18; // pixels above the lanes
const dark = matchMedia("(prefers-color-scheme: dark)");
export const overview = byId("overview"), bars = byId("bars");

// When each life ended. If we didn't see the end, the life ended at the latest when the next one began at the same
// address.
const later = new Map();
const over = lives.toReversed().map(({ object, start, end: seen }) => {
  const next = later.get(object) ?? end;
  later.set(object, start);
  return seen < 0 ? next : seen;
}).reverse();
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

function drawOverview() {
  const { width, height, x } = scaleOf(overview), { paint, ink } = paintOn(overview);
  const bins = Math.max(Math.floor(width / 3), 1), all = new Uint32Array(bins);
  const sums = Object.fromEntries(COLOURS.map((name) => [name, new Uint32Array(bins)]));
  for (let call = 0; call < count; call++) {
    if (!shown.kept[call]) continue;
    const bin = Math.min(Math.floor((calls.start[call] / end) * bins), bins - 1);
    sums[colour(calls.operation[call])][bin]++;
    all[bin]++;
  }
  // A square root keeps small bars visible next to large ones.
  const most = Math.max(...all), top = new Float64Array(bins).fill(height);
  for (const name of COLOURS) {
    paint.fillStyle = ink(name);
    sums[name].forEach((sum, bin) => {
      const part = sum && (sum / all[bin]) * Math.sqrt(all[bin] / most) * (height - 2);
      paint.fillRect((bin * width) / bins, (top[bin] -= part), width / bins - 1, part);
    });
  }
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
  byId("mine").hidden = life < 0;
  if (life < 0) return;
  const { left, top, wide, tall } = box(life, scale), seen = Math.max(left, -9);
  const place = { left: seen, top, width: Math.min(left + wide, scale.width + 9) - seen, height: tall };
  for (const [name, pixels] of Object.entries(place)) byId("mine").style[name] = pixels + "px";
}

let drawn = "";
drawing(() => {
  const now = [shown.version, bars.clientWidth, bars.clientHeight, devicePixelRatio, dark.matches].join();
  if (now !== drawn) {
    drawOverview();
    drawBars();
  }
  drawn = now;
  drawCursor();
  byId("range").textContent = whole() ? time(end) : time(state.from) + " \u2013 " + time(state.to);
});

new ResizeObserver(redraw).observe(bars);
dark.addEventListener("change", redraw);
