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
    const stays = story.includes(cursor), scrolled = byId("story").lastChild?.scrollTop;
    story = cursor < 0 ? [] : followed(cursor);
    byId("story").replaceChildren(...(cursor < 0 ? [] : track(cursor)));
    if (stays) byId("story").lastChild.scrollTop = scrolled;
  }
  byId("story").querySelector("[aria-current]")?.removeAttribute("aria-current");
  const step = byId("story").querySelector(`[data-call="${cursor}"]`);
  step?.setAttribute("aria-current", "true");
  step?.scrollIntoView({ block: "nearest" });
});

// What stands two in a line.
const SHORT = new Set(["class", "cpu", "duration", "error", "sector", "bytes"]);
function table(pairs) {
  const list = element("dl", "data");
  for (const [name, ...value] of pairs) {
    list.append(element("div", SHORT.has(name) ? "" : "wide", element("dt", "", name), element("dd", "", ...value)));
  }
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
    ["cpu", calls.cpu[call] + (calls.interrupt[call] > 0 ? ", interrupt" : "")],
    ["address", view.objects[calls.object[call]]],
    ["time", absolute(calls.start[call]) + " \u2192 " + back],
    ["duration", time(calls.duration[call])],
  ];
  if (calls.operation[call] >= 0) {
    const device = calls.device[call], known = view.devices[device];
    const flags = view.flag_names?.[calls.flags[call]];
    pairs.push(
      ["error", calls.status[call] > 0 ? element("b", "bad", String(calls.status[call])) : "0"],
      ["sector", String(calls.sector[call])],
      ["bytes", String(calls.bytes[call])],
      ["action", swatch(calls.operation[call]), labels.operation(calls.operation[call]) + (flags ? " + " + flags : "")],
      ["device", device < 0 ? "none" : known.number + (known.name ? " " + known.name : "")],
    );
  }
  pairs.push(["pid", pid + (tid === pid ? "" : ", thread " + tid) + " " + comm]);
  if (calls.returned?.[call] != null) pairs.push(["returned", calls.returned[call]]);
  if (source) pairs.push(["source", source]);
  return [
    element("h2", "call", ...signature(nth)),
    !shown.passes[call] ? element("p", "note", "This call is hidden by a filter.") : "",
    table(pairs),
  ];
}

// The life of the call's object, or what is known of it without one.
function track(call) {
  const life = lives[calls.life[call]], listed = story.slice(0, MOST);
  const from = life ? life.start : calls.start[story[0]];
  const to = listed.reduce((to, each) => Math.max(to, until[each]), Math.max(life ? life.end : from, from + 1));
  const apart = "The calls between two lives: behind one's bio_endio, before the next one's submit_bio.";
  return [
    element(
      "div",
      "acts",
      element("h3", "", life ? "Its life" : "Calls with this object"),
      button("zoom", () => zoom(from, to), "Zoom"),
      button("take", () => change({ selected: new Set(story) }), "Select all"),
    ),
    element("p", "", ...(life ? summary(life) : [lives.length ? apart : "The calls with the object at this address."])),
    steps(listed, from, to, "op-" + colour(life?.operation)),
  ];
}

// Calls on every CPU and in every task, each with its place in time, and between them the times in which none ran.
function steps(listed, from, to, colours) {
  const list = element("div", "track"), share = (time) => (100 * time) / (to - from);
  const bar = (name, start, until) => {
    const made = element("i", name);
    made.style.left = share(start - from) + "%";
    made.style.width = share(until - start) + "%";
    return element("span", "bar", made);
  };
  const parts = (at, name, bar, lasted) => [element("span", "at", at), element("span", "name", name), bar, element("span", "lasted", lasted)];
  let reach = from, where = "", longest = { time: 0 };
  for (const call of listed) {
    const start = calls.start[call], gap = start - reach;
    if (gap > 0) {
      const line = element("p", "step gap", ...parts("", time(gap) + " between", bar("", reach, start), Math.round(share(gap)) + " %"));
      if (gap > longest.time) longest = { time: gap, line };
      list.append(line);
    }
    reach = Math.max(reach, until[call]);
    const here = "CPU " + calls.cpu[call] + " \u00b7 " + (calls.interrupt[call] > 0 ? "interrupt of " : "") + labels.task(calls.task[call]);
    if (here !== where) list.append(element("h4", "", here));
    where = here;
    const lasted = time(calls.duration[call], true);
    const line = parts("+" + time(start - from), labels.function(calls.function[call]), bar(colours, start, until[call]), lasted);
    const { depth } = view.calls;
    line[1].style.setProperty("--level", Math.max(depth[call] - depth[listed[0]], 0));
    const step = button("step", () => jump(call), ...line);
    step.classList.toggle("hid", !shown.passes[call]);
    step.dataset.call = call;
    step.title = labels.function(calls.function[call]);
    list.append(step);
  }
  longest.line?.classList.add("longest");
  if (story.length > MOST) list.append(element("p", "note", "and " + integer(story.length - MOST) + " calls more"));
  return list;
}
function jump(call) {
  go(call);
  byId("tree").focus();
}

function summary(life) {
  const parts = [labels.operation(life.operation), bytes(life.bytes), "sector " + life.sector, labels.device(life.device), plural(life.calls.length, "call")];
  const lasted = life.end < 0 ? "end not seen" : time(latency(life));
  const failed = life.status > 0 ? [" ", element("b", "bad", "error " + life.status)] : [];
  return [swatch(life.operation), element("b", "", lasted), " \u00b7 " + parts.join(" \u00b7 "), ...failed];
}

// What a recording is like, and the lives that took longest.
function recording() {
  const ended = lives.filter((life) => life.end >= 0).sort((a, b) => latency(b) - latency(a));
  const rows = (view.operations || []).flatMap((name, operation) => {
    const mine = ended.filter((life) => life.operation === operation), all = lives.filter((life) => life.operation === operation);
    if (!all.length) return [];
    // The one with this rank, counted from the shortest.
    const at = (share) => (mine.length ? time(latency(mine[mine.length - Math.ceil(share * mine.length)])) : "\u2013");
    const moved = all.reduce((sum, life) => sum + Math.max(life.bytes, 0), 0);
    const cells = [integer(all.length), bytes(moved), at(0.5), at(0.99), at(1)];
    return [element("tr", "", element("th", "", swatch(operation), name), ...cells.map((text) => element("td", "", text)))];
  });
  const head = ["", "lives", "bytes", "median", "99 %", "longest"].map((text) => element("th", "", text));
  const slow = ended.slice(0, 12).map((life) => {
    const cells = [labels.operation(life.operation), bytes(life.bytes), life.sector, labels.device(life.device)].map((text) => element("span", "", text));
    cells[0].prepend(swatch(life.operation));
    return button("slow", () => jump(life.calls[0]), element("b", "", time(latency(life), true)), ...cells);
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
