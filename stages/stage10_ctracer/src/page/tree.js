// The tree of calls. However many rows there are, only those in sight are elements.
import { calls, view } from "./model.js";
import { byId, clock, element, labels, signature, swatch, time } from "./text.js";
import { change, drawing, redraw, state } from "./state.js";
import { fill, hasChildren, parentRow, shown, total } from "./shown.js";
import { matches } from "./search.js";

const ROW = 22; // pixels, as in page.css
const TALLEST = 10_000_000; // pixels; browsers can't make elements of any height
const tree = byId("tree"), body = byId("rows");
const head = tree.firstElementChild;

// How far rows move for each pixel that is scrolled: 1, unless there are too many rows.
const inSight = () => tree.clientHeight - head.offsetHeight;
function scale() {
  const all = shown.rows * ROW, tall = Math.min(all, TALLEST);
  return all > tall ? (all - inSight()) / (tall - inSight()) : 1;
}

function draw() {
  body.style.height = Math.min(shown.rows * ROW, TALLEST) + "px";
  const top = tree.scrollTop * scale();
  const first = Math.max(Math.floor(top / ROW) - 4, 0);
  const last = Math.min(Math.ceil((top + inSight()) / ROW) + 4, shown.rows);
  const rows = [];
  for (let row = first; row < last; row++) rows.push(line(row, tree.scrollTop + row * ROW - top));
  body.replaceChildren(...rows);
  tree.setAttribute("aria-rowcount", shown.rows + 1);
  const cursor = byId("call-" + state.cursor);
  if (cursor) tree.setAttribute("aria-activedescendant", cursor.id);
  else tree.removeAttribute("aria-activedescendant");
  byId("nothing").hidden = total() > 0;
}
drawing(draw);

function line(row, top) {
  const call = shown.calls[row], nth = calls.function[call];
  const open = hasChildren(call) ? !state.folded[call] : null;
  const name = cell("name", element("i", "fold" + (open === null ? "" : open ? " open" : " shut")), ...signature(nth));
  name.style.setProperty("--level", shown.level[row]);
  name.title = view.functions[nth].prototype;
  const returned = calls.returned?.[call];
  if (returned != null) name.append(element("span", "faint", " = " + returned));
  const lasted = calls.duration[call];
  const made = element(
    "div",
    "row",
    cell("mark"),
    cell("at", ...clock(calls.start[call])),
    cell("cpu", calls.interrupt[call] > 0 ? element("span", "irq", "irq") : "", labels.cpu(calls.cpu[call])),
    cell("task", labels.task(calls.task[call])),
    cell("lasted" + (lasted >= 1e6 ? " long" : ""), time(lasted, true)),
    name,
    cell("source", view.functions[nth].source || ""),
  );
  if (calls.operation[call] >= 0) made.firstChild.append(swatch(calls.operation[call]));
  made.firstChild.append(element("i", "box"));
  made.id = "call-" + call;
  made.style.top = top + "px";
  made.classList.toggle("cursor", call === state.cursor);
  made.classList.toggle("life", state.cursor >= 0 && calls.life[call] >= 0 && calls.life[call] === calls.life[state.cursor]);
  made.classList.toggle("match", matches(call));
  made.classList.toggle("failed", calls.status[call] > 0);
  made.setAttribute("role", "row");
  made.setAttribute("aria-rowindex", row + 2);
  made.setAttribute("aria-level", shown.level[row] + 1);
  made.setAttribute("aria-selected", state.selected.has(call));
  if (open !== null) made.setAttribute("aria-expanded", open);
  return made;
}
function cell(name, ...children) {
  const made = element("span", name, ...children);
  made.setAttribute("role", "gridcell");
  return made;
}

// Looks at a call: opens what it is folded into, and brings it in sight. One that a filter hides is looked at all the same.
export function go(call) {
  if (call < 0 || call === undefined) return;
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
  body.style.height = Math.min(shown.rows * ROW, TALLEST) + "px";
  const top = row * ROW, above = tree.scrollTop * scale() - top, below = -above + ROW - inSight();
  // The next row scrolls in at the edge; what is further away comes to the middle.
  if (Math.max(above, below) > ROW) tree.scrollTop = (top - inSight() / 2) / scale();
  else if (above > 0) tree.scrollTop = top / scale();
  else if (below > 0) tree.scrollTop = (top + ROW - inSight()) / scale();
}
const goRow = (row) => go(shown.calls[Math.min(Math.max(row, 0), shown.rows - 1)]);
export function move(by) {
  // Without a cursor in sight, down leads to the first row.
  const row = state.cursor < 0 ? -1 : shown.row[state.cursor];
  if (shown.rows) goRow(row + by);
}
export const page = () => Math.max(Math.floor(inSight() / ROW) - 1, 1);

function fold(call, shut) {
  state.folded[call] = shut;
  fill();
  redraw();
}
export function foldAll(shut) {
  state.folded.fill(shut);
  // The cursor stays in sight: it goes to the row that now holds its call.
  let at = state.cursor;
  while (shut && at >= 0 && calls.parent[at] >= 0) at = calls.parent[at];
  fill();
  redraw();
  go(at);
}
// Left folds, or goes up where there is nothing to fold; right unfolds, or goes down.
export function left() {
  const row = shown.row[state.cursor];
  if (row === undefined || row < 0) return move(0);
  if (hasChildren(state.cursor) && !state.folded[state.cursor]) fold(state.cursor, 1);
  else if (parentRow(row) >= 0) goRow(parentRow(row));
}
export function right() {
  const row = shown.row[state.cursor];
  if (row === undefined || row < 0) return move(0);
  if (!hasChildren(state.cursor)) return;
  if (state.folded[state.cursor]) fold(state.cursor, 0);
  else goRow(row + 1);
}

export function select(call) {
  if (call < 0) return;
  if (!state.selected.delete(call)) state.selected.add(call);
  selected();
}
// Selects all rows between the first and the last that are selected; where it is only one, between that and the cursor.
export function selectBetween() {
  const ends = state.selected.size === 1 ? [...state.selected, state.cursor] : [...state.selected];
  const rows = ends.map((call) => shown.row[call]).filter((row) => row >= 0).sort((a, b) => a - b);
  if (rows.length < 2) return;
  for (let row = rows[0]; row <= rows.at(-1); row++) state.selected.add(shown.calls[row]);
  selected();
}
export function clearSelected() {
  state.selected.clear();
  selected();
}
// What is selected matters to what is shown only if nothing else is.
function selected() {
  if (state.only) change({ only: state.selected.size > 0 });
  else redraw();
}

body.addEventListener("click", (event) => {
  const row = event.target.closest(".row");
  if (!row) return;
  const call = Number(row.id.slice("call-".length));
  if (event.target.closest(".fold.open, .fold.shut")) return fold(call, state.folded[call] ? 0 : 1);
  if (event.shiftKey && state.cursor >= 0) {
    state.selected = new Set([state.cursor, call]);
    selectBetween();
  } else if (event.ctrlKey || event.metaKey || event.target.closest(".mark")) select(call);
  go(call);
});
tree.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
new ResizeObserver(redraw).observe(tree);
