// The recording: its columns as arrays of numbers, and the tree that its calls make. Nothing here ever changes.

export const view = JSON.parse(document.getElementById("view").textContent);
export const count = view.calls.start.length;
export const lives = view.lives;

// What a view has not, such as the sectors of another class than bio, is -1 everywhere: "none".
const numbers = [
  "function", "task", "cpu", "interrupt", "object", "life", "parent", "depth", "start", "duration",
  "sector", "bytes", "operation", "flags", "device", "status",
];
const column = (name) => new Float64Array(view.calls[name] ?? Array(count).fill(-1));
export const calls = Object.fromEntries(numbers.map((name) => [name, column(name)]));
calls.returned = view.calls.returned;

// When each call was over. Of one whose return was not seen, that is not known, and its start is the last that is.
export const until = calls.start.map((start, call) => start + Math.max(calls.duration[call], 0));

// The whole of the recording is from 0 to here.
export const end = Math.max(view.end_ns - view.start_ns, until.reduce((last, time) => Math.max(last, time), 1));

// The tree as a list: `order` has each call right before those that it made, `place` is where a call is in it, and
// `size` how many places its whole subtree takes.
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

// What is shown as one story: the calls of a life, or of a call that belongs to none, those before and behind it with
// the same object, as far as the next one that does. `NEAR` keeps that short where no call does.
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
