// What is known about the call that is looked at, and the whole life of its object; before one is, about the recording.
import { calls, count, followed, latency, lives, until, view } from "./model.js";
import { button, byId, bytes, colour, element, integer, labels, plural, signature, swatch, time } from "./text.js";
import { change, drawing, state } from "./state.js";
import { shown } from "./shown.js";
import { go } from "./tree.js";
import { zoom } from "./axis.js";

const MOST = 1000; // calls of a life that are listed

// The panel is made anew only if it has to show something else.
let drawn = "", story = [], told = -1;
drawing(() => {
  const { cursor } = state, now = cursor + " " + shown.version;
  if (now === drawn) return;
  drawn = now;
  byId("data").replaceChildren(...(cursor < 0 ? recording() : data(cursor)));
  const same = told === shown.version && story.includes(cursor);
  told = shown.version;
  if (!same) {
    const stays = story.includes(cursor), { scrollTop } = byId("detail");
    story = cursor < 0 ? [] : followed(cursor);
    byId("story").replaceChildren(...(cursor < 0 ? [] : track(cursor)));
    byId("detail").scrollTop = stays ? scrollTop : 0;
  }
  byId("story").querySelector("[aria-current]")?.removeAttribute("aria-current");
  const step = byId("story").querySelector(`[data-call="${cursor}"]`);
  step?.setAttribute("aria-current", "true");
  if (same) step?.scrollIntoView({ block: "nearest" });
});

function table(pairs) {
  const list = element("dl", "data");
  for (const [name, ...value] of pairs) list.append(element("dt", "", name), element("dd", "", ...value));
  return list;
}

// As in the slides of 2019: magic, time, sector, bytes, action, pid, device, cpu, error.
function data(call) {
  const { pid, tid, comm } = view.tasks[calls.task[call]], nth = calls.function[call];
  const { source } = view.functions[nth];
  const absolute = (ns) => String(BigInt(view.start_ns) + BigInt(ns));
  const back = calls.duration[call] < 0 ? "its return was not seen" : absolute(until[call]);
  const pairs = [
    ["class", "struct " + view.class],
    ["address", view.objects[calls.object[call]]],
    ["time", absolute(calls.start[call]) + " \u2192 " + back],
    ["duration", time(calls.duration[call])],
  ];
  if (calls.operation[call] >= 0) {
    const device = calls.device[call], known = view.devices[device];
    const flags = view.flag_names?.[calls.flags[call]];
    pairs.push(
      ["sector", calls.sector[call] < 0 ? "\u2013" : String(calls.sector[call])],
      ["bytes", calls.bytes[call] < 0 ? "\u2013" : String(calls.bytes[call])],
      ["action", swatch(calls.operation[call]), labels.operation(calls.operation[call]) + (flags ? " + " + flags : "")],
      ["device", device < 0 ? "none" : known.number + (known.name ? " " + known.name : "")],
      ["error", calls.status[call] > 0 ? element("b", "bad", String(calls.status[call])) : String(Math.max(calls.status[call], 0))],
    );
  }
  pairs.push(["pid", pid + (tid === pid ? "" : ", thread " + tid) + " " + comm], ["cpu", calls.cpu[call] + (calls.interrupt[call] > 0 ? ", in an interrupt of this task" : "")]);
  if (calls.returned?.[call] != null) pairs.push(["returned", calls.returned[call]]);
  if (source) pairs.push(["source", source]);
  return [
    element("h2", "call", ...signature(nth)),
    shown.row[call] < 0 ? element("p", "note", "This call is hidden by a filter.") : "",
    table(pairs),
  ];
}

// A life: its calls on every CPU and in every task, each with its place in time, and the time that lies between them.
function track(call) {
  const all = story, listed = all.slice(0, MOST), life = lives[calls.life[call]];
  const from = life ? life.start : calls.start[all[0]];
  const to = Math.max(life ? life.end : from, ...listed.map((each) => until[each]), from + 1);
  const list = element("div", "track");
  const bar = (name, start, until) => {
    const made = element("i", name);
    made.style.left = (100 * (start - from)) / (to - from) + "%";
    made.style.width = (100 * (until - start)) / (to - from) + "%";
    return element("span", "bar", made);
  };
  let reach = from, where = "";
  const gaps = [];
  for (const each of listed) {
    const start = calls.start[each];
    if (start > reach) {
      const share = Math.round((100 * (start - reach)) / (to - from)) + " %";
      const gap = element("p", "step gap", element("span"), element("span", "name", time(start - reach) + " between"), bar("", reach, start), element("span", "lasted", share));
      gaps.push([start - reach, gap]);
      list.append(gap);
    }
    reach = Math.max(reach, until[each]);
    const here = "CPU " + calls.cpu[each] + " \u00b7 " + (calls.interrupt[each] > 0 ? "interrupt of " : "") + labels.task(calls.task[each]);
    if (here !== where) list.append(element("h4", "", here));
    where = here;
    const name = element("span", "name", labels.function(calls.function[each]));
    name.style.setProperty("--level", Math.min(view.calls.depth[each], 12));
    const entry = button("step", () => { go(each); byId("tree").focus(); },
      element("span", "at", "+" + time(start - from)), name, bar("op-" + colour(life?.operation), start, until[each]), element("span", "lasted", time(calls.duration[each], true)));
    entry.classList.toggle("hid", shown.row[each] < 0);
    entry.dataset.call = each;
    list.append(entry);
  }
  gaps.sort(([a], [b]) => b - a)[0]?.[1].classList.add("longest");
  if (all.length > MOST) list.append(element("p", "note", "and " + integer(all.length - MOST) + " calls more"));
  return [
    element("h3", "", life ? "Its life" : "Calls with this object"),
    element("p", "", ...(life ? summary(life) : [lives.length ? "The calls between two lives: behind one's bio_endio, before the next one's submit_bio." : "The calls with the object at this address."])),
    element(
      "p",
      "acts",
      button("", () => zoom(from, to), "Zoom to it"),
      button("", () => change({ selected: new Set(all) }), "Select its calls"),
    ),
    list,
  ];
}

function summary(life) {
  const parts = [labels.operation(life.operation), bytes(life.bytes), "sector " + life.sector, labels.device(life.device), plural(life.calls.length, "call")];
  const lasted = life.end < 0 ? "still in flight at the end" : time(latency(life));
  const failed = life.status > 0 ? [" ", element("b", "bad", "error " + life.status)] : [];
  return [swatch(life.operation), element("b", "", lasted), " \u00b7 " + parts.join(" \u00b7 "), ...failed];
}

// What a recording is like, and the lives that took longest.
function recording() {
  const ended = lives.filter((life) => life.end >= 0).sort((a, b) => latency(b) - latency(a));
  const rows = (view.operations || []).flatMap((name, operation) => {
    const mine = ended.filter((life) => life.operation === operation), all = lives.filter((life) => life.operation === operation);
    if (!all.length) return [];
    const at = (share) => (mine.length ? time(latency(mine[Math.floor((mine.length - 1) * share)])) : "\u2013");
    const cells = [integer(all.length), bytes(all.reduce((sum, life) => sum + Math.max(life.bytes, 0), 0)), at(0.5), at(0.01), at(0)];
    return [element("tr", "", element("th", "", swatch(operation), name), ...cells.map((text) => element("td", "", text)))];
  });
  const head = ["", "lives", "bytes", "median", "99 %", "longest"].map((text) => element("th", "", text));
  const slow = ended.slice(0, 12).map((life) => {
    const cells = [labels.operation(life.operation), bytes(life.bytes), life.sector, labels.device(life.device)].map((text) => element("span", "", text));
    cells[0].prepend(swatch(life.operation));
    return button("slow", () => { go(life.calls[0]); byId("tree").focus(); }, element("b", "", time(latency(life), true)), ...cells);
  });
  if (!lives.length) return [element("h2", "", "The recording"), element("p", "", count ? "Click a call to see the object that it was called with." : "")];
  return [
    element("h2", "", "The recording"),
    element("table", "sums", element("tr", "", ...head), ...rows),
    element("h3", "", "The longest lives"),
    element("p", "slow faint", ...["lasted", "operation", "bytes", "sector", "device"].map((text) => element("span", "", text))),
    ...slow,
    element("p", "note", "Click a call or a bar to see the object and its life. Press ? for the keys."),
  ];
}
