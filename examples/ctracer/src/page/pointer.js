// The pointer over the axis: drag to choose a range, turn the wheel to zoom, click a bar to go to its life.
import { calls, lives } from "./model.js";
import { about, byId, labels, lasted, time } from "./text.js";
import { state, whole } from "./state.js";
import { go } from "./tree.js";
import { bars, box, overview, pan, scaleOf, TICKS, zoom, zoomBy, zoomOut } from "./axis.js";
import { sliceAt } from "./tracks.js";

const tip = byId("tip");

// The call under the pointer, and what we say about it: for the bar of a life, its first one. What is near will do,
// too, because a bar can be too thin to hit exactly.
function under(event) {
  if (state.lanes !== "lives") {
    const call = sliceAt(scaleOf(bars), event.offsetX, event.offsetY, TICKS);
    if (call < 0) return;
    const text = [labels.function(calls.function[call]), time(calls.duration[call]), labels.task(calls.task[call])];
    return { call, text: text.join(" \u00b7 ") };
  }
  const scale = scaleOf(bars), beside = (at, from, length) => Math.max(from - at, at - from - length, 0);
  let nearest, least = 4;
  lives.forEach((life, nth) => {
    const { left, top, wide, tall } = box(nth, scale);
    const off = beside(event.offsetX, left, wide) + beside(event.offsetY, top, tall);
    if (off < least) [nearest, least] = [life, off];
  });
  return nearest && { call: nearest.calls[0], text: about(nearest) + " \u00b7 " + lasted(nearest) };
}

// Dragging over a canvas chooses that range. Dragging the overview's present range moves it.
let drag = null;
for (const canvas of [overview, bars]) {
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    const { from, to } = state, time = scaleOf(canvas).time, start = time(event.offsetX);
    const moves = canvas === overview && !whole() && start > from && start < to;
    drag = { from, to, time, start, x: event.offsetX, moves, moved: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return canvas === bars && hint(event);
    drag.moved ||= Math.abs(event.offsetX - drag.x) >= 4;
    if (!drag.moved) return;
    const here = drag.time(event.offsetX), way = here - drag.start;
    if (drag.moves) zoom(drag.from + way, drag.to + way);
    else if (canvas === overview) zoom(drag.start, here);
    else brush(drag.x, event.offsetX);
  });
  canvas.addEventListener("pointerup", (event) => {
    const { start, time, moved } = drag ?? {};
    stop();
    if (canvas === overview || start === undefined) return;
    if (moved) zoom(start, time(event.offsetX));
    else go(under(event)?.call);
  });
  canvas.addEventListener("pointercancel", stop);
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("dblclick", zoomOut);
}
function stop() {
  drag = null;
  brush(0, 0);
}
function brush(one, other) {
  byId("brush").style.left = Math.min(one, other) + "px";
  byId("brush").style.width = Math.abs(other - one) + "px";
}
bars.addEventListener("wheel", (event) => {
  // With Alt, the wheel scrolls the tracks.
  if (event.altKey) return;
  event.preventDefault();
  const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
  if (sideways) pan((event.deltaX || event.deltaY) / 1000);
  else zoomBy(1.2 ** Math.sign(event.deltaY), scaleOf(bars).time(event.offsetX));
}, { passive: false });

function hint(event) {
  const found = under(event);
  bars.style.cursor = found ? "pointer" : "crosshair";
  tip.hidden = !found;
  if (!found) return;
  tip.textContent = found.text;
  tip.style.left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = event.clientY + 16 + "px";
}
