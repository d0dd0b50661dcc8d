// The view in the page's address, so that a link or a reload shows the same: after #, as in #call=12&from=0&to=5000.
import { calls, count, end } from "./model.js";
import { change, drawing, state, usual } from "./state.js";
import { byId } from "./text.js";
import { columns } from "./recording.js";
import { go } from "./tree.js";

const LATER = 300; // milliseconds; browsers limit how often an address may change

function addressed() {
  const parts = new URLSearchParams(), { cursor, from, to, query, lanes, sort, hidden } = state;
  if (cursor >= 0) parts.set("call", cursor);
  if (from > 0 || to < end) for (const [name, time] of Object.entries({ from, to })) parts.set(name, time);
  if (query) parts.set("search", query);
  if (lanes !== usual.lanes) parts.set("lanes", lanes);
  if (sort !== usual.sort) parts.set("sort", sort);
  for (const [name, values] of Object.entries(hidden)) if (values.size) parts.set("no-" + name, [...values].join(" "));
  return parts.toString();
}

let waits = 0, address = "";
drawing(() => {
  clearTimeout(waits);
  waits = setTimeout(() => {
    if (addressed() === address) return;
    address = addressed();
    history.replaceState(null, "", "#" + address);
  }, LATER);
});

// An address may be of another recording, or typed, so what doesn't fit is left out.
function read() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const one = (name, known) => known.find((each) => each === parts.get(name));
  const number = (name, most, other) => {
    const given = Number(parts.get(name) ?? NaN);
    return Number.isInteger(given) && given >= 0 && given <= most ? given : other;
  };
  const from = number("from", end - 1, 0), to = number("to", end, end), hidden = {};
  for (const name of Object.keys(state.hidden)) {
    const known = new Set(calls[name]), given = parts.get("no-" + name)?.split(" ").map(Number) ?? [];
    hidden[name] = new Set(given.filter((value) => known.has(value)));
  }
  const range = from < to ? { from, to } : { from: 0, to: end }, query = parts.get("search") ?? "";
  byId("search").value = query;
  const sort = one("sort", Object.keys(columns).flatMap((name) => [name, "-" + name])) ?? usual.sort;
  const lanes = one("lanes", ["cpu", "task"]) ?? usual.lanes;
  change({ ...range, hidden, query, sort, lanes, cursor: -1 });
  go(number("call", count - 1, -1));
}
addEventListener("hashchange", read);
read();
