// The tree of calls. Only the visible rows are elements, however many rows there are.
import { calls, self, view } from "./model.js";
import { byId, clock, element, labels, signature, swatch, timeInColumn } from "./text.js";
import { change, drawing, redraw, state, working } from "./state.js";
import { fill, hasChildren, shown, total } from "./shown.js";
import { matches } from "./search.js";

const ROW = 22; // pixels, as in page.css
const TALLEST = 2_000_000; // pixels; browsers limit the height of elements
const LONG = 1e6; // nanoseconds; we highlight durations from here on
const tree = byId("tree"), body = byId("rows");
const head = tree.firstElementChild;

// How tall all rows are, how much of that is visible, and how far rows move for each pixel that you scroll: 1, unless
// there are too many rows.
const inSight = () => tree.clientHeight - head.offsetHeight;
const tall = () => Math.min(shown.rows * ROW, TALLEST);
const scale = () => (tall() < TALLEST ? 1 : (shown.rows * ROW - inSight()) / (TALLEST - inSight()));

function scrollRows(top) {
  body.style.height = tall() + "px";
  tree.scrollTop = top / scale();
}

// Where we drew the cursor's row. When the filters change, it stays there.
let held = -1;
working(() => {
  if (held >= 0 && shown.row[state.cursor] >= 0) scrollRows(shown.row[state.cursor] * ROW - held);
});

function draw() {
  body.style.height = tall() + "px";
  const top = tree.scrollTop * scale();
  const first = Math.max(Math.floor(top / ROW) - 4, 0);
  const last = Math.min(Math.ceil((top + inSight()) / ROW) + 4, shown.rows);
  const rows = [];
  for (let row = first; row < last; row++) rows.push(line(row, tree.scrollTop + row * ROW - top));
  body.replaceChildren(...rows);
  const at = shown.row[state.cursor] * ROW - top;
  held = at >= 0 && at <= inSight() - ROW ? at : -1;
  tree.setAttribute("aria-rowcount", shown.rows + 1);
  const cursor = byId("call-" + state.cursor);
  if (cursor) tree.setAttribute("aria-activedescendant", cursor.id);
  else tree.removeAttribute("aria-activedescendant");
  byId("nothing").hidden = total() > 0;
}
drawing(draw);

function line(row, top) {
  const call = shown.calls[row], nth = calls.function[call], { prototype, source } = view.functions[nth];
  const parent = hasChildren(call), open = parent && !state.folded[call];
  const lasted = calls.duration[call], returned = calls.returned[call];
  const triangle = parent ? (open ? "\u25be" : "\u25b8") : "", result = returned == null ? "" : " = " + returned;
  const name = cell("name", element("i", "fold", triangle), ...signature(nth), element("span", "faint", result));
  name.title = prototype;
  name.style.setProperty("--level", shown.level[row]);
  const cursor = call === state.cursor, life = calls.life[call] >= 0 && calls.life[call] === calls.life[state.cursor];
  const made = element(
    "div",
    ["row", cursor && "cursor", life && "life", matches(call) && "match", calls.status[call] > 0 && "failed"],
    cell("mark", calls.operation[call] < 0 ? "" : swatch(calls.operation[call]), element("i", "box")),
    cell("at", ...clock(calls.start[call])),
    cell("cpu", element("span", "irq", calls.interrupt[call] > 0 ? "irq" : ""), labels.cpu(calls.cpu[call])),
    cell("task", labels.task(calls.task[call])),
    cell(["lasted", lasted >= LONG && "long"], timeInColumn(lasted)),
    cell(["self", self[call] >= LONG && "long"], timeInColumn(self[call])),
    name,
    cell("source", source || ""),
  );
  made.id = "call-" + call;
  made.role = "row";
  made.style.top = top + "px";
  const aria = { rowindex: row + 2, level: shown.level[row] + 1, selected: state.selected.has(call) };
  if (parent) aria.expanded = open;
  for (const [name, value] of Object.entries(aria)) made.setAttribute("aria-" + name, value);
  return made;
}
function cell(names, ...children) {
  const made = element("span", names, ...children);
  made.role = "gridcell";
  return made;
}

// Makes a call the current one: unfolds the calls around it and scrolls to it. A call that a filter hides can be the
// current one, too.
export function go(call) {
  if (!(call >= 0)) return;
  let folded = 0;
  for (let at = calls.parent[call]; at >= 0; at = calls.parent[at]) {
    folded |= state.folded[at];
    state.folded[at] = 0;
  }
  if (folded) fill();
  state.cursor = call;
  redraw();
  const row = shown.row[call];
  if (row < 0) return;
  const top = row * ROW, bottom = top + ROW - inSight(), now = tree.scrollTop * scale();
  // The next row scrolls in at the edge. A row further away goes to the middle.
  if (top < now - ROW || bottom > now + ROW) scrollRows(top - inSight() / 2);
  else scrollRows(Math.max(Math.min(now, top), bottom));
}
export function jump(call) {
  go(call);
  tree.focus();
}
const goRow = (row) => go(shown.calls[Math.min(Math.max(row, 0), shown.rows - 1)]);
export function move(by) {
  // If the cursor's row is not shown, the down key goes to the first row.
  if (shown.rows) goRow((shown.row[state.cursor] ?? -1) + by);
}
export const page = () => Math.max(Math.floor(inSight() / ROW) - 1, 1);

function fold(call, shut) {
  state.folded[call] = shut;
  fill();
  redraw();
}
export function foldAll(shut) {
  state.folded.fill(shut);
  fill();
  redraw();
  // The cursor goes to the row into which its call is now folded.
  let at = state.cursor;
  while (shut && calls.parent[at] >= 0) at = calls.parent[at];
  go(at);
}
// Left folds, or goes up if there is nothing to fold. Right unfolds, or goes down.
export function left() {
  const { cursor, folded } = state, row = shown.row[cursor] ?? -1;
  if (row < 0) move(0);
  else if (hasChildren(cursor) && !folded[cursor]) fold(cursor, 1);
  else {
    let parent = calls.parent[cursor];
    while (shown.row[parent] < 0) parent = calls.parent[parent];
    go(parent);
  }
}
export function right() {
  const { cursor, folded } = state, row = shown.row[cursor] ?? -1;
  if (row < 0) move(0);
  else if (hasChildren(cursor)) folded[cursor] ? fold(cursor, 0) : goRow(row + 1);
}

export function select(call) {
  if (call < 0) return;
  if (!state.selected.delete(call)) state.selected.add(call);
  selected();
}
// Selects all rows between the first and the last selected row. If only one is selected, between that one and the
// cursor.
const ends = () => new Set(state.selected.size === 1 ? [...state.selected, state.cursor] : state.selected);
export function selectBetween() {
  const rows = [...ends()].map((call) => shown.row[call]).filter((row) => row >= 0).sort((a, b) => a - b);
  for (let row = rows[0]; row <= rows.at(-1); row++) state.selected.add(shown.calls[row]);
  selected();
}
export const clearSelected = () => selected(new Set());
// The selection affects which calls are shown only if "Only selected" is on.
function selected(calls = state.selected) {
  state.selected = calls;
  if (state.only) change({ only: calls.size > 0 });
  else redraw();
}

body.addEventListener("click", (event) => {
  const row = event.target.closest(".row");
  if (!row) return;
  const call = Number(row.id.slice("call-".length));
  if (event.target.closest("[aria-expanded] .fold")) return fold(call, 1 - state.folded[call]);
  if (event.shiftKey && state.cursor >= 0) {
    state.selected = new Set([state.cursor, call]);
    selectBetween();
  } else if (event.ctrlKey || event.metaKey || event.target.closest(".mark")) select(call);
  go(call);
});
tree.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
new ResizeObserver(redraw).observe(tree);
