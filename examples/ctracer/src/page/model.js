// The recording: its columns as arrays of numbers, and the tree of its calls. Nothing here ever changes.

export const view = JSON.parse(document.getElementById("view").textContent);
export const count = view.calls.start.length;
export const lives = view.lives;

// A column that the view doesn't have, such as sectors if the class isn't bio, is -1 everywhere, which means "none".
const numbers = [
  "function", "task", "cpu", "interrupt", "object", "life", "parent", "depth", "start", "duration",
  "sector", "bytes", "operation", "flags", "device", "status",
];
const column = (name) => new Float64Array(view.calls[name] ?? Array(count).fill(-1));
export const calls = Object.fromEntries(numbers.map((name) => [name, column(name)]));
calls.returned = view.calls.returned;

// When each call ended. If we didn't see its return, we use its start, the last time that we know.
export const until = calls.start.map((start, call) => start + Math.max(calls.duration[call], 0));

// How much of its duration each call spent outside of the calls that it made. -1 means "not known".
export const self = calls.duration.slice();
calls.parent.forEach((parent, call) => { if (parent >= 0) self[parent] -= Math.max(calls.duration[call], 0); });

// The whole recording is from 0 to this time.
export const end = Math.max(view.end_ns - view.start_ns, until.reduce((last, time) => Math.max(last, time), 1));

// When each life was over. If we didn't see its end, that was at the latest when the next one began at the same
// address.
const later = new Map();
export const over = lives.toReversed().map(({ object, start, end: seen }) => {
  const next = later.get(object) ?? end;
  later.set(object, start);
  return seen < 0 ? next : seen;
}).reverse();

// The tree as a list: in `order`, each call comes right before the calls that it made. `place` is a call's index in it,
// and `size` is the number of calls in its subtree, itself included.
export const order = [], place = new Int32Array(count), size = new Int32Array(count);
const children = Array.from({ length: count + 1 }, () => []);
calls.parent.forEach((parent, call) => children[parent + 1].push(call));
function put(call) {
  place[call] = order.length;
  order.push(call);
  children[call + 1].forEach(put);
  size[call] = order.length - place[call];
}
children[0].forEach(put);

// The calls that we show together with a call: those of its life. If it belongs to no life, those with the same object
// before and after it, up to the next life. `NEAR` limits their number if there is no life nearby.
const NEAR = 200;
export function followed(call) {
  if (calls.life[call] >= 0) return lives[calls.life[call]].calls;
  const along = (by) => {
    const found = [];
    for (let at = call + by; calls.start[at] >= 0 && found.length < NEAR; at += by) {
      if (calls.object[at] !== calls.object[call]) continue;
      if (calls.life[at] >= 0) break;
      found.push(at);
    }
    return found;
  };
  return [...along(-1).reverse(), call, ...along(1)];
}
