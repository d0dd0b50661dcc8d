// The head of the page, the keys, and the start.
import { calls, count, end, followed, lives, until, view } from "./model.js";
import { byId, element, integer, plural, time } from "./text.js";
import { change, redraw, state, whole } from "./state.js";
import { shown } from "./shown.js";
import { next } from "./search.js";
import { clearSelected, foldAll, go, left, move, page, right, select, selectBetween } from "./tree.js";
import { pan, zoom, zoomBy, zoomOut } from "./axis.js";
import { closeMenus, showAll } from "./filters.js";

// What the recording is, and what it lacks.
document.title = "struct " + view.class + ": " + plural(count, "call");
byId("class").textContent = "struct " + view.class;
const facts = [plural(count, "call")];
if (lives.length) facts.push(integer(lives.length) + (lives.length === 1 ? " life" : " lives"));
if (count) facts.push(plural(new Set(calls.function).size, "function"), time(end));
byId("facts").textContent = [...facts, "Linux " + view.kernel].join(" \u00b7 ");

const tell = (name, ...text) => byId("losses").append(element("p", name, text.join(" ")));
const lost = view.lost.reduce((sum, each) => sum + each, 0);
if (!view.lost.length) tell("bad", "The recording was cut short. How many events were lost is not known.");
if (lost) {
  const where = view.lost.flatMap((each, cpu) => (each ? ["CPU " + cpu + ": " + integer(each)] : [])).join(", ");
  const holes = "What is shown has holes: calls without a return, lives without an end.";
  tell("bad", plural(lost, "event"), "found no room in the buffer and", lost === 1 ? "is" : "are", "lost (" + where + ").", holes);
}
const reason = "while a probe is at work on the same CPU is not shown: the kernel runs no second one then.";
if (view.suppressed) tell("bad", "What comes", reason, "It kept back", plural(view.suppressed, "call") + ".");
if (view.suppressed === null) tell("", "What comes", reason, "This kernel does not tell how many calls that were.");
if (!count) {
  document.body.classList.add("empty");
  const watched = plural(view.functions.length, "function");
  const told = `None of the ${watched} that were watched was called with a struct ${view.class}.`;
  const fix = "Record while there is I/O, or for longer, or with a wider --functions, --pid or --device.";
  byId("nothing").replaceChildren(element("b", "", "This recording is empty."), element("p", "", told + " " + fix));
}

// The next call of the life that is followed, or the one before.
function follow(by) {
  if (state.cursor < 0) return;
  const all = followed(state.cursor);
  go(all[all.indexOf(state.cursor) + by]);
}
function zoomToLife() {
  const all = state.cursor < 0 ? [] : followed(state.cursor), life = lives[calls.life[state.cursor]];
  if (life) zoom(life.start, life.end < 0 ? end : life.end);
  else if (all.length) zoom(calls.start[all[0]], all.reduce((to, call) => Math.max(to, until[call]), 0));
}
// One step back towards the whole: each press clears the first of these that there is.
function clear() {
  if (closeMenus()) return;
  if (state.query) return search("");
  if (state.selected.size) return clearSelected();
  if (!whole()) return zoomOut();
  if (Object.values(state.hidden).some((hidden) => hidden.size)) return showAll();
  state.cursor = -1;
  redraw();
}
function search(query) {
  byId("search").value = query;
  change({ query });
}

const keys = {
  ArrowUp: () => move(-1), ArrowDown: () => move(1), ArrowLeft: left, ArrowRight: right,
  PageUp: () => move(-page()), PageDown: () => move(page()), Home: () => move(-count), End: () => move(count),
  Enter: () => select(state.cursor), " ": () => select(state.cursor),
  b: selectBetween, o: () => change({ only: !state.only && state.selected.size > 0 }),
  "[": () => follow(-1), "]": () => follow(1), z: zoomToLife, w: zoomOut,
  f: () => foldAll(1), u: () => foldAll(0),
  "/": () => byId("search").select(), n: () => next(1), N: () => next(-1),
  "?": () => byId("keys").showModal(), Escape: clear,
};
const axisKeys = {
  ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25), ArrowUp: () => zoomBy(0.5), ArrowDown: () => zoomBy(2),
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
  const { target, key } = event;
  if (target.closest("input") && key !== "Escape") return;
  if (target.closest("button, summary") && (key === "Enter" || key === " ")) return;
  const here = target.closest("#bars") ? { ...keys, ...axisKeys } : keys;
  if (!Object.hasOwn(here, key)) return;
  event.preventDefault();
  here[key]();
  if (key === "Escape" && target.closest("input")) byId("tree").focus();
});
byId("search").addEventListener("input", (event) => change({ query: event.target.value }));
byId("search").addEventListener("keydown", (event) => {
  if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
  if (event.key === "ArrowDown") byId("tree").focus();
});
byId("help").addEventListener("click", keys["?"]);
byId("whole").addEventListener("click", zoomOut);

change();
byId("tree").focus({ preventScroll: true });
