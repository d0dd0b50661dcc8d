// The axis of time. Above, how many calls the whole recording has when, with the range that is shown; below, in that
// range, the lives of all objects as bars, one lane for each that is alive at the same time.
import { calls, count, end, latency, lives, until, view } from "./model.js";
import { byId, bytes, colour, element, integer, labels, swatch, time, unitOf } from "./text.js";
import { change, drawing, redraw, state, whole } from "./state.js";
import { shown } from "./shown.js";
import { go } from "./tree.js";

const LEAST = 1000; // nanoseconds: the smallest range
const dark = matchMedia("(prefers-color-scheme: dark)");
const overview = byId("overview"), bars = byId("bars"), tip = byId("tip");

// When each life was over. One whose end was not seen was so at the latest when the next began at the same address.
const byStart = [...lives.keys()].sort((a, b) => lives[a].start - lives[b].start);
const over = new Float64Array(lives.length), later = new Map();
for (const nth of byStart.toReversed()) {
  const { object, start, end: seen } = lives[nth];
  over[nth] = seen < 0 ? later.get(object) ?? end : seen;
  later.set(object, start);
}
// Each takes the first lane that is free when it starts.
const lane = new Int32Array(lives.length), busy = [];
for (const nth of byStart) {
  const found = busy.findIndex((until) => until <= lives[nth].start);
  lane[nth] = found < 0 ? busy.length : found;
  busy[lane[nth]] = over[nth];
}
byId("axis").style.setProperty("--lanes", busy.length);

// What the colours mean, of those that are there.
const legend = (...what) => byId("legend").append(element("span", "", ...what));
(view.operations || []).forEach((name, operation) => legend(swatch(operation), name));
if (lives.length) legend(element("i", "swatch ran"), "darker: a function ran");
if (lives.some((life) => life.end < 0)) legend(element("i", "swatch op-other pale"), "end not seen");

export function zoom(from, to) {
  const width = Math.min(Math.max(to - from, LEAST), end);
  const start = Math.min(Math.max(from, 0), end - width);
  change({ from: Math.floor(start), to: Math.ceil(start + width) });
}
export const zoomOut = () => change({ from: 0, to: end });
export const pan = (by) => zoom(state.from + by * (state.to - state.from), state.to + by * (state.to - state.from));
export const zoomBy = (factor, at = (state.from + state.to) / 2) => zoom(at - (at - state.from) * factor, at + (state.to - at) * factor);

const operations = ["read", "write", "flush", "discard", "other"];
const kind = (view.operations || []).map((_, operation) => operations.indexOf(colour(operation)));

// A canvas as sharp as the screen, and the colours that the page has now.
function prepare(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas, dots = devicePixelRatio;
  canvas.width = width * dots;
  canvas.height = height * dots;
  const paint = canvas.getContext("2d");
  paint.scale(dots, dots);
  const style = getComputedStyle(canvas);
  const ink = (name) => style.getPropertyValue("--" + name);
  paint.font = style.font;
  return { paint, width, height, ink, colours: operations.map((name) => ink("op-" + name)) };
}

function drawOverview() {
  const { paint, width, height, ink, colours } = prepare(overview);
  const bins = Math.max(Math.floor(width / 3), 1), sums = operations.map(() => new Uint32Array(bins));
  for (let call = 0; call < count; call++) {
    if (shown.kept[call]) sums[kind[calls.operation[call]] ?? 4][Math.min(Math.floor((calls.start[call] / end) * bins), bins - 1)]++;
  }
  const heights = Array.from({ length: bins }, (_, bin) => sums.reduce((sum, of) => sum + of[bin], 0));
  const most = heights.reduce((most, sum) => Math.max(most, sum), 1);
  for (let bin = 0; bin < bins; bin++) {
    let y = height;
    // A root keeps what is rare in sight beside what is not.
    const tall = Math.sqrt(heights[bin] / most) * (height - 2);
    sums.forEach((of, nth) => {
      const part = heights[bin] && (of[bin] / heights[bin]) * tall;
      paint.fillStyle = colours[nth];
      paint.fillRect((bin * width) / bins, (y -= part), width / bins - 1, part);
    });
  }
  if (whole()) return;
  const [left, right] = [(state.from / end) * width, Math.max((state.to / end) * width, (state.from / end) * width + 2)];
  paint.fillStyle = ink("veil");
  paint.fillRect(0, 0, left, height);
  paint.fillRect(right, 0, width - right, height);
  paint.strokeStyle = ink("accent");
  paint.lineWidth = 2;
  paint.strokeRect(left, 1, right - left, height - 2);
}

const TICKS = 18; // pixels above the lanes
const box = (life, width, height) => {
  const tall = (height - TICKS) / Math.max(busy.length, 1);
  const x = ((lives[life].start - state.from) / (state.to - state.from)) * width;
  const right = ((over[life] - state.from) / (state.to - state.from)) * width;
  const gap = tall >= 4 ? 1 : 0;
  return { x, y: TICKS + lane[life] * tall, wide: Math.max(right - x, 1.5), tall: Math.max(Math.min(tall, 22) - gap, 0.5) };
};

function drawBars() {
  const { paint, width, height, ink, colours } = prepare(bars);
  const per = width / (state.to - state.from);
  const tens = 10 ** Math.ceil(Math.log10(90 / per)), step = Math.max([0.2, 0.5, 1].find((part) => part * tens * per >= 90) * tens, 1);
  const [unit, name] = unitOf(step * 10);
  paint.textBaseline = "middle";
  for (let at = Math.ceil(state.from / step) * step; at <= state.to; at += step) {
    const x = (at - state.from) * per;
    paint.fillStyle = ink("line");
    paint.fillRect(x, 0, 1, height);
    paint.fillStyle = ink("faint");
    const label = integer(at / unit) + " " + name;
    if (x + 4 + paint.measureText(label).width < width) paint.fillText(label, x + 4, TICKS / 2);
  }
  const ran = ink("ran");
  for (let nth = 0; nth < lives.length; nth++) {
    const life = lives[nth];
    if (life.start > state.to || over[nth] < state.from) continue;
    const { x, y, wide, tall } = box(nth, width, height);
    paint.fillStyle = colours[kind[life.operation]];
    paint.globalAlpha = (shown.lives[nth] ? 1 : 0.3) * (life.end < 0 ? 0.45 : 1);
    paint.fillRect(x, y, wide, tall);
    if (wide < 40) continue;
    // A wide bar is darker where any of its functions ran.
    paint.fillStyle = ran;
    let reach = life.start;
    for (const call of life.calls) {
      const from = Math.max(calls.start[call], reach);
      reach = Math.max(reach, Math.min(until[call], over[nth]));
      if (reach > from) paint.fillRect((from - state.from) * per, y, Math.max((reach - from) * per, 1), tall);
    }
  }
}

// Where the cursor's call and its life are, which are elements above the bars.
function drawCursor() {
  const { clientWidth: width, clientHeight: height } = bars, life = state.cursor < 0 ? -1 : calls.life[state.cursor];
  byId("here").hidden = state.cursor < 0;
  byId("mine").hidden = life < 0;
  if (state.cursor >= 0) byId("here").style.left = ((calls.start[state.cursor] - state.from) / (state.to - state.from)) * width + "px";
  if (life < 0) return;
  const { x, y, wide, tall } = box(life, width, height), left = Math.max(x, -9);
  Object.assign(byId("mine").style, { left: left + "px", top: y + "px", width: Math.min(x + wide, width + 9) - left + "px", height: tall + "px" });
}

let drawnBars = "";
drawing(() => {
  const key = [shown.filtered, bars.clientWidth, bars.clientHeight, devicePixelRatio, dark.matches].join();
  if (key !== drawnBars) {
    drawOverview();
    drawBars();
  }
  drawnBars = key;
  drawCursor();
  byId("range").textContent = whole() ? time(end) : time(state.from) + " \u2013 " + time(state.to);
  byId("whole").disabled = whole();
});

// The life under the pointer. A bar may be thinner than a pointer is exact.
function under(event) {
  const { clientWidth: width, clientHeight: height } = bars;
  let nearest = -1, least = 4;
  for (let nth = 0; nth < lives.length; nth++) {
    const { x, y, wide, tall } = box(nth, width, height);
    const aside = Math.max(x - event.offsetX, event.offsetX - x - wide, 0), off = Math.max(y - event.offsetY, event.offsetY - y - tall, 0);
    if (aside + off < least) [nearest, least] = [nth, aside + off];
  }
  return nearest;
}

// A drag over a canvas takes that range; over the overview's own range, it moves it.
let drag = null;
for (const canvas of [overview, bars]) {
  const [low, high] = canvas === overview ? [() => 0, () => end] : [() => state.from, () => state.to];
  const at = (event) => low() + (event.offsetX / canvas.clientWidth) * (high() - low());
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    const moves = canvas === overview && !whole() && at(event) > state.from && at(event) < state.to;
    drag = { from: at(event), x: event.offsetX, moves, was: [state.from, state.to], low: low(), high: high() };
  });
  canvas.addEventListener("pointermove", (event) => {
    tip.hidden = true;
    if (!drag) return canvas === bars && hint(event);
    if (Math.abs(event.offsetX - drag.x) < 4) return;
    const here = drag.low + (event.offsetX / canvas.clientWidth) * (drag.high - drag.low);
    if (drag.moves) zoom(drag.was[0] + here - drag.from, drag.was[1] + here - drag.from);
    else if (canvas === overview) zoom(Math.min(drag.from, here), Math.max(drag.from, here));
    else brush(drag.x, event.offsetX);
    drag.to = here;
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const { from, to, moves } = drag;
    stop();
    if (to !== undefined) moves || canvas === overview || zoom(Math.min(from, to), Math.max(from, to));
    else if (canvas === bars && under(event) >= 0) go(lives[under(event)].calls[0]);
  });
  canvas.addEventListener("pointercancel", stop);
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("dblclick", zoomOut);
}
function stop() {
  drag = null;
  brush(0, 0);
}
function brush(from, to) {
  const { style } = byId("brush");
  style.left = Math.min(from, to) + "px";
  style.width = Math.abs(to - from) + "px";
}
bars.addEventListener("wheel", (event) => {
  event.preventDefault();
  const at = state.from + (event.offsetX / bars.clientWidth) * (state.to - state.from);
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 1000);
  else zoomBy(1.2 ** Math.sign(event.deltaY), at);
}, { passive: false });

function hint(event) {
  const life = lives[under(event)];
  bars.style.cursor = life ? "pointer" : "crosshair";
  if (!life) return;
  const lasted = life.end < 0 ? "end not seen" : time(latency(life));
  tip.textContent = [labels.operation(life.operation), bytes(life.bytes), "sector " + life.sector, labels.device(life.device), lasted].join(" \u00b7 ");
  tip.hidden = false;
  tip.style.left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = event.clientY + 16 + "px";
}
new ResizeObserver(redraw).observe(bars);
dark.addEventListener("change", redraw);
