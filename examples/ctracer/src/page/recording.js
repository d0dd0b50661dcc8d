// The recording: what was traced, what was lost, and its figures.
import { calls, count, end, lives, view } from "./model.js";
import { button, byId, bytes, element, integer, labels, latency, plural, swatch, time, timeInColumn } from "./text.js";
import { jump } from "./tree.js";

const SLOW = 12; // how many of the longest lives we list

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

// The recording's figures and the longest lives, which we show beside the tree until you choose a call.
export function recording() {
  const title = element("h2", "", "The recording");
  if (!lives.length) return [title, count ? "Click a call to see the object that it was called with." : ""];
  const ended = lives.filter((life) => life.end >= 0).sort((a, b) => latency(a) - latency(b));
  const sums = view.operations.flatMap((name, operation) => {
    const all = lives.filter((life) => life.operation === operation);
    if (!all.length) return [];
    // The time at this share of the sorted list, for example the median at 0.5.
    const times = ended.filter((life) => life.operation === operation).map(latency);
    const at = (share) => (times.length ? time(times[Math.ceil(share * times.length) - 1]) : "\u2013");
    const moved = bytes(all.reduce((sum, life) => sum + life.bytes, 0));
    return [[marked(operation), integer(all.length), moved, at(0.5), at(0.99), at(1)]];
  });
  const longest = ended.toReversed().slice(0, SLOW).map((life) => [
    marked(life.operation), button("", () => jump(life.calls[0]), timeInColumn(latency(life))),
    bytes(life.bytes), life.sector, labels.device(life.device),
  ]);
  return [
    title,
    table("sums", ["", "lives", "bytes", "median", "99 %", "longest"], sums),
    element("h3", "", "The longest lives"),
    table("longest", ["", "lasted", "bytes", "sector", "device"], longest),
    element("p", "note", "Click a call or a bar to see the object and its life. Press ? for the keys."),
  ];
}
const marked = (operation) => element("span", "", swatch(operation), labels.operation(operation));
function table(name, head, rows) {
  const row = (tag, cells) => element("tr", "", ...cells.map((cell) => element(tag, "", cell)));
  return element("table", name, row("th", head), ...rows.map((cells) => row("td", cells)));
}
