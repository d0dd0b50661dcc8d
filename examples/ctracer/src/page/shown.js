// Which calls pass the filters, and which rows of the tree they make.
import { calls, count, lives, order, over, place, size, until } from "./model.js";
import { state, working } from "./state.js";

export const shown = {
  kept: new Uint8Array(count), // by call: passes all filters except the time?
  passes: new Uint8Array(count), // by call: passes all filters?
  before: new Int32Array(count + 1), // by place: how many calls before it pass
  calls: new Int32Array(count), // by row
  level: new Int32Array(count), // by row
  row: new Int32Array(count), // by call; -1: it is not shown
  rows: 0,
  version: 0, // goes up whenever the filters are applied again
  alive: new Uint8Array(lives.length), // by life: does any of its calls pass all filters except the time?
  lives: new Uint8Array(lives.length), // by life: is it also within the range of time?
};

working(() => {
  const { selected, only, from, to, hidden } = state;
  const columns = Object.entries(hidden).filter(([, values]) => values.size);
  shown.alive.fill(0);
  for (let call = 0; call < count; call++) {
    let kept = !only || selected.has(call);
    for (const [name, values] of columns) kept &&= !values.has(calls[name][call]);
    shown.kept[call] = kept;
    shown.passes[call] = kept && calls.start[call] <= to && until[call] >= from;
    if (kept && calls.life[call] >= 0) shown.alive[calls.life[call]] = 1;
  }
  lives.forEach(({ start }, nth) => { shown.lives[nth] = shown.alive[nth] && start <= to && over[nth] >= from; });
  for (let at = 0; at < count; at++) shown.before[at + 1] = shown.before[at] + shown.passes[order[at]];
  shown.version++;
  fill();
});

// Builds the rows. Call it again after folding. A call whose parent is not shown appears below its nearest ancestor
// that is.
export function fill() {
  shown.rows = 0;
  shown.row.fill(-1);
  const ends = [];
  for (let at = 0; at < count; at++) {
    const call = order[at];
    if (!shown.passes[call]) continue;
    while (ends.at(-1) <= at) ends.pop();
    shown.calls[shown.rows] = call;
    shown.level[shown.rows] = ends.length;
    shown.row[call] = shown.rows++;
    if (state.folded[call]) at += size[call] - 1;
    else ends.push(at + size[call]);
  }
}

export const total = () => shown.before[count];
export const hasChildren = (call) => shown.before[place[call] + size[call]] > shown.before[place[call] + 1];
