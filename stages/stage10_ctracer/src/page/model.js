// The recording: its columns as arrays of numbers, and the tree that its calls make. Nothing here ever changes.

export const view = JSON.parse(document.getElementById("view").textContent);
export const count = view.calls.start.length;
export const lives = view.lives;

// What a view has not, such as the sectors of another class than bio, is -1 everywhere: "none".
const column = (Kind, name) => (view.calls[name] ? new Kind(view.calls[name]) : new Kind(count).fill(-1));
const columns = (Kind, ...names) => Object.fromEntries(names.map((name) => [name, column(Kind, name)]));

export const calls = {
  ...columns(Int32Array, "function", "task", "cpu", "interrupt", "object", "life", "parent", "depth"),
  ...columns(Int32Array, "operation", "flags", "device", "status"),
  ...columns(Float64Array, "start", "duration", "sector", "bytes"),
  returned: view.calls.returned,
};

// When each call was over. Of one whose return was not seen, that is not known, and its start is the last that is.
export const until = calls.start.map((start, call) => start + Math.max(calls.duration[call], 0));

// The whole of the recording is from 0 to here.
export const end = Math.max(view.end_ns - view.start_ns, until.reduce((last, time) => Math.max(last, time), 1));

// The tree as a list: `order` has each call right before those that it made, `place` is where a call is in it, and
// `size` how many places its whole subtree takes. A call starts before its children, so its number is smaller.
export const size = new Int32Array(count).fill(1);
export const place = new Int32Array(count);
export const order = new Int32Array(count);
for (let call = count - 1; call >= 0; call--) {
  if (calls.parent[call] >= 0) size[calls.parent[call]] += size[call];
}
const free = new Int32Array(count);
let freeRoot = 0;
for (let call = 0; call < count; call++) {
  const parent = calls.parent[call];
  place[call] = parent < 0 ? freeRoot : free[parent];
  if (parent < 0) freeRoot += size[call];
  else free[parent] += size[call];
  free[call] = place[call] + 1;
  order[place[call]] = call;
}

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
