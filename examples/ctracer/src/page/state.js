// The reader's choices, and how all parts of the page learn about a change.
import { count, end, lives } from "./model.js";
import { labels } from "./text.js";

// What is chosen at first.
export const usual = { lanes: lives.length ? "lives" : "task", sort: "-lasted" };
export const state = {
  cursor: -1, // the current call
  folded: new Uint8Array(count), // by call
  unfolded: new Set(), // the first calls of the lines beside the tree that are unfolded
  selected: new Set(), // calls
  only: false, // show only the selected calls?
  hidden: Object.fromEntries(Object.keys(labels).map((name) => [name, new Set()])), // the values that the filters hide
  from: 0, // the range of time, in nanoseconds since the start
  to: end,
  query: "",
  lanes: usual.lanes, // what the axis has lanes for: "lives", "cpu" or "task"
  sort: usual.sort, // the column by which the lives are sorted; "-": the largest first
};
export const whole = () => state.from === 0 && state.to === end;
export const filtered = () => Object.values(state.hidden).some((values) => values.size > 0);

// When a choice changes, we immediately compute again which calls pass. Before the next frame each part draws itself. A
// part that is expensive to draw checks first whether anything has changed for it.
const works = [], draws = [];
export const working = (work) => works.push(work);
export const drawing = (draw) => draws.push(draw);

let asked = false;
export function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    for (const draw of draws) draw();
  });
}
export function change(changes = {}) {
  Object.assign(state, changes);
  for (const work of works) work();
  redraw();
}
