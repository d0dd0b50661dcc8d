// Search: finds the calls that contain a text, and goes from one to the next.
import { calls, count, order, place, view } from "./model.js";
import { byId, integer, labels } from "./text.js";
import { drawing, state, working } from "./state.js";
import { shown } from "./shown.js";
import { go } from "./tree.js";

// The calls that match and pass the filters, in the order of the tree, and each call's number in that list, counted
// from 1.
const found = { calls: [], nth: new Int32Array(count) };
export const matches = (call) => found.nth[call] > 0;

working(() => {
  const query = state.query.trim().toLowerCase();
  found.calls = [];
  found.nth.fill(0);
  if (!query) return;
  // We search each table once, because many calls share an entry.
  const hits = (table, name) => (table || []).map((each, nth) => name(nth, each).toLowerCase().includes(query));
  const itself = (_, name) => name;
  const tables = Object.entries({
    function: hits(view.functions, labels.function), task: hits(view.tasks, labels.task),
    object: hits(view.objects, itself), device: hits(view.devices, labels.device),
    operation: hits(view.operations, itself), flags: hits(view.flag_names, itself),
  }).filter(([, hit]) => hit.includes(true));
  const sector = /^\d+$/.test(query) ? Number(query) : NaN;
  for (const call of order) {
    const hit = tables.some(([name, hit]) => hit[calls[name][call]]) || calls.sector[call] === sector;
    if (hit && shown.passes[call]) found.nth[call] = found.calls.push(call);
  }
});

// Goes to the next match after the cursor, or the previous one before it. After the last match comes the first one
// again.
export function next(by) {
  const all = found.calls, here = state.cursor < 0 ? (by > 0 ? -1 : count) : place[state.cursor];
  if (by > 0) go(all.find((call) => place[call] > here) ?? all[0]);
  else go(all.findLast((call) => place[call] < here) ?? all.at(-1));
}

drawing(() => {
  const at = state.cursor >= 0 && matches(state.cursor) ? integer(found.nth[state.cursor]) + " of " : "";
  byId("found").textContent = state.query.trim() ? at + integer(found.calls.length) : "";
});
