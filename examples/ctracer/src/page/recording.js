// The recording: what was traced, what was lost, and its figures.
import { calls, count, end, lives, view } from "./model.js";
import { onDisk, PHASES, shares, together } from "./spent.js";
import { button, byId, bytes, element, integer, labels, latency, plural, swatch, time, timeInColumn } from "./text.js";
import { change, filtered, state, whole } from "./state.js";
import { shown } from "./shown.js";
import { jump } from "./tree.js";

const SOME = 12; // how many lives we list

document.title = "struct " + view.class + ": " + plural(count, "call");
byId("class").textContent = "struct " + view.class;
const facts = [plural(count, "call"), "Linux " + view.kernel];
if (count) facts.splice(1, 0, plural(new Set(calls.function).size, "function"), time(end));
if (lives.length) facts.splice(1, 0, plural(lives.length, "life", "lives"));
byId("facts").textContent = facts.join(" \u00b7 ");

const report = (name, text) => byId("losses").append(element("p", name, text));
const lost = view.lost.reduce((sum, each) => sum + each, 0);
const reason = "While one probe is running, the kernel skips others on the same CPU, and their calls are not shown. ";
if (!view.lost.length) report("bad", "The recording was cut short. How many events were lost is not known.");
if (lost) {
  const where = view.lost.flatMap((each, cpu) => (each ? ["CPU " + cpu + ": " + integer(each)] : [])).join(", ");
  const holes = "So calls may lack a return, and lives may lack an end.";
  report("bad", `${plural(lost, "event")} found no room in the buffer (${where}). ${holes}`);
}
if (view.suppressed) report("bad", reason + "It skipped " + plural(view.suppressed, "call") + ".");
if (view.suppressed === null) report("", reason + "This kernel does not count the skipped calls.");
if (!count) {
  document.body.classList.add("empty");
  const watched = plural(view.functions.length, "function");
  const why = `None of the ${watched} that were traced was called with a struct ${view.class}.`;
  const fix = "Record while there is I/O, or for longer, or with a wider --functions, --pid or --device.";
  byId("nothing").replaceChildren(element("b", "", "This recording is empty."), element("p", "", why + " " + fix));
}

// The figures of the lives that are shown, and some of them.
export function recording() {
  const title = element("h2", "", whole() && !filtered() ? "The recording" : "What is shown");
  if (!lives.length) return [title, count ? "Click a call to see the object that it was called with." : ""];
  const seen = lives.filter((_, nth) => shown.lives[nth]);
  const ended = seen.filter((life) => life.end >= 0).sort((a, b) => latency(a) - latency(b));
  const sums = view.operations.flatMap((name, operation) => {
    const all = seen.filter((life) => life.operation === operation);
    if (!all.length) return [];
    // The time at this share of the sorted list, for example the median at 0.5.
    const times = ended.filter((life) => life.operation === operation).map(latency);
    const at = (share) => (times.length ? time(times[Math.ceil(share * times.length) - 1]) : "\u2013");
    const moved = bytes(all.reduce((sum, life) => sum + life.bytes, 0));
    return [[marked(operation), integer(all.length), moved, at(0.5), at(0.99), at(1)]];
  });
  const sum = together(ended), told = shares(sum).map((share, phase) => share + " % " + PHASES[phase]);
  const phases = told.filter((_, phase) => sum[phase]).join(", ");
  const parts = [
    title,
    table("sums", ["", "lives", "bytes", "median", "99 %", "longest"].map((name) => [name]), sums),
    element("p", "note", "All their time: " + phases + "."),
    ...histogram(ended),
  ];
  const named = state.sort.replace("-", ""), way = state.sort.startsWith("-") ? -1 : 1, { key } = columns[named];
  const sorted = ended.map((life) => [key(life), life]).sort(([a], [b]) => way * (a < b ? -1 : a > b ? 1 : 0));
  const listed = sorted.slice(0, SOME).map(([, life]) => [
    marked(life.operation), button("", () => jump(life.calls[0]), timeInColumn(latency(life))),
    Math.round(100 * onDisk(life)) + " %", bytes(life.bytes), life.sector,
    labels.device(life.device),
  ]);
  const heads = Object.entries(columns).map(([name, { title }]) => {
    const sort = button("sort", () => change({ sort: (state.sort === "-" + name ? "" : "-") + name }), title);
    return [sort, name === named ? (way < 0 ? "descending" : "ascending") : "none"];
  });
  const some = `The first ${SOME} of ${integer(ended.length)}, by the column that you choose. `;
  const hint = "Click a call or a bar to see the object and its life. Press ? for the keys.";
  return [
    ...parts,
    element("h3", "", "Lives"),
    table("longest", heads, listed),
    element("p", "note", (ended.length > SOME ? some : "") + hint),
  ];
}
// The columns by which the lives can be sorted.
export const columns = {
  operation: { title: "kind", key: (life) => labels.operation(life.operation) },
  lasted: { title: "lasted", key: latency },
  disk: { title: "disk", key: onDisk },
  bytes: { title: "bytes", key: (life) => life.bytes },
  sector: { title: "sector", key: (life) => life.sector },
  device: { title: "device", key: (life) => labels.device(life.device) },
};
// How many lives lasted how long: from 1, 2 and 5 times a power of ten on.
function histogram(ended) {
  const step = (ns) => {
    const ten = 10 ** Math.floor(Math.log10(Math.max(ns, 1)));
    return Math.round(Math.log10(ten)) * 3 + (ns >= 5 * ten ? 2 : ns >= 2 * ten ? 1 : 0);
  };
  const from = (step) => [1, 2, 5][step % 3] * 10 ** Math.floor(step / 3), numbers = new Map();
  for (const life of ended) numbers.set(step(latency(life)), (numbers.get(step(latency(life))) ?? 0) + 1);
  if (!numbers.size) return [];
  const first = Math.min(...numbers.keys()), last = Math.max(...numbers.keys()), most = Math.max(...numbers.values());
  const bars = Array.from({ length: last - first + 1 }, (_, nth) => {
    const number = numbers.get(first + nth) ?? 0, bar = element("i");
    bar.style.setProperty("--share", number / most);
    const low = element("small", "", time(from(first + nth)));
    const made = element("span", "", element("b", "", number ? integer(number) : ""), bar, low);
    made.title = `${time(from(first + nth))} to ${time(from(first + nth + 1))}: ${plural(number, "life", "lives")}`;
    return made;
  });
  return [element("h3", "", "How long they lasted"), element("div", "histogram", ...bars)];
}
const marked = (operation) => element("span", "", swatch(operation), labels.operation(operation));
function table(name, head, rows) {
  const heads = head.map(([title, sort]) => {
    const made = element("th", "", title);
    if (sort) made.ariaSort = sort;
    return made;
  });
  const row = (cells) => element("tr", "", ...cells.map((cell) => element("td", "", cell)));
  return element("table", name, element("tr", "", ...heads), ...rows.map(row));
}
