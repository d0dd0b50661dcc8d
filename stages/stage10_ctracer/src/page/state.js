// What the reader has chosen, and what tells all parts of the page when that changes.
import { count, end } from "./model.js";
import { labels } from "./text.js";

export const state = {
  cursor: -1, // the call that is looked at
  folded: new Uint8Array(count), // by call
  selected: new Set(), // calls
  only: false, // are those the only ones that are shown?
  hidden: Object.fromEntries(Object.keys(labels).map((name) => [name, new Set()])), // what the filters keep back
  from: 0, // the range of time, in nanoseconds since the start
  to: end,
  query: "",
};
export const whole = () => state.from === 0 && state.to === end;
export const filtered = () => Object.values(state.hidden).some((values) => values.size > 0);

// When what is chosen changes, what passes is worked out anew, at once. Before the next picture each part draws itself;
// what is costly to draw looks first whether it has changed.
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
