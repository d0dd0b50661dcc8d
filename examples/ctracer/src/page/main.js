// The buttons, the keys, and the start.
import { calls, count, end, followed, lives, until } from "./model.js";
import { byId, integer, plural } from "./text.js";
import { change, drawing, filtered, redraw, state, whole } from "./state.js";
import { total } from "./shown.js";
import { next } from "./search.js";
import { clearSelected, foldAll, go, left, move, page, right, select, selectBetween } from "./tree.js";
import { pan, zoom, zoomBy, zoomOut } from "./axis.js";
import { showAll } from "./filters.js";
import { save } from "./perfetto.js";

// Goes to the next call of the current life, or to the previous one.
function follow(by) {
  const all = state.cursor < 0 ? [] : followed(state.cursor);
  go(all[all.indexOf(state.cursor) + by]);
}
function zoomToLife() {
  const all = state.cursor < 0 ? [] : followed(state.cursor), life = lives[calls.life[state.cursor]];
  if (life) zoom(life.start, life.end < 0 ? end : life.end);
  else if (all.length) zoom(calls.start[all[0]], all.reduce((to, call) => Math.max(to, until[call]), 0));
}
function search(query) {
  byId("search").value = query;
  change({ query });
}
const only = () => change({ only: !state.only && state.selected.size > 0 });
const help = () => byId("keys").showModal();
// Each press of Esc clears one thing, the first of these that is set.
function clear() {
  if (state.query) search("");
  else if (state.selected.size) clearSelected();
  else if (!whole()) zoomOut();
  else if (filtered()) showAll();
  else {
    state.cursor = -1;
    redraw();
  }
}

// The buttons: what each does, and when it is enabled.
const some = () => state.selected.size > 0;
const two = () => some() && state.selected.size + (state.cursor >= 0 && !state.selected.has(state.cursor)) > 1;
const buttons = {
  whole: [zoomOut, () => !whole()], all: [showAll, filtered], help: [help, () => true],
  perfetto: [save, () => true],
  between: [selectBetween, two], only: [only, some], none: [clearSelected, some],
};
for (const [id, [act, can]] of Object.entries(buttons)) {
  byId(id).addEventListener("click", () => act());
  drawing(() => { byId(id).disabled = !can(); });
}
drawing(() => {
  byId("only").ariaPressed = state.only;
  byId("only").textContent = "Only selected" + (some() ? " (" + integer(state.selected.size) + ")" : "");
  byId("shown").textContent = (total() === count ? "" : integer(total()) + " of ") + plural(count, "call");
});

const keys = {
  ArrowUp: () => move(-1), ArrowDown: () => move(1), ArrowLeft: left, ArrowRight: right,
  PageUp: () => move(-page()), PageDown: () => move(page()), Home: () => move(-count), End: () => move(count),
  Enter: () => select(state.cursor), " ": () => select(state.cursor), b: selectBetween, o: only,
  "[": () => follow(-1), "]": () => follow(1), z: zoomToLife, "0": zoomOut, w: () => zoomBy(0.5), s: () => zoomBy(2),
  a: () => pan(-0.25), d: () => pan(0.25), f: () => foldAll(1), u: () => foldAll(0),
  "/": () => byId("search").select(), n: () => next(1), N: () => next(-1), "?": help, Escape: clear,
};
const barKeys = {
  ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25), ArrowUp: () => zoomBy(0.5), ArrowDown: () => zoomBy(2),
};
const toTree = () => byId("tree").focus({ preventScroll: true });
const searchKeys = {
  Enter: () => next(1), "Shift+Enter": () => next(-1), ArrowDown: toTree,
  Escape: () => {
    clear();
    toTree();
  },
};
addEventListener("keydown", (event) => {
  const { target, key } = event;
  // An input method ends a word with Enter, too.
  if (event.isComposing || event.keyCode === 229) return;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  // Leave these keys to the browser, which presses buttons and closes menus with them.
  if (target.closest("button") && (key === "Enter" || key === " ")) return;
  if (key === "Escape" && document.querySelector(":popover-open")) return;
  const own = { search: searchKeys, bars: barKeys }[target.id]?.[(event.shiftKey ? "Shift+" : "") + key];
  const act = own || (target.closest("input") ? null : keys[key]);
  if (!act) return;
  event.preventDefault();
  act();
});
byId("search").addEventListener("input", (event) => change({ query: event.target.value }));

toTree();
