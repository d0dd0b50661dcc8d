// The panel beside the tree: the data of the current call and the whole life of its object, or the recording's figures
// if there is no current call.
import { calls, followed, lives, until, view } from "./model.js";
import { button, byId, element, labels, signature, swatch } from "./text.js";
import { about, integer, lasted, plural, time, timeInColumn } from "./text.js";
import { change, drawing, state } from "./state.js";
import { shown } from "./shown.js";
import { jump } from "./tree.js";
import { zoom } from "./axis.js";
import { recording } from "./recording.js";

const MOST = 1000; // calls of a life that we list

// We rebuild a part of the panel only if it has to show something else.
const made = { data: "", story: "" };
function make(part, now, parts) {
  if (now === made[part]) return;
  made[part] = now;
  byId(part).replaceChildren(...parts());
}
drawing(() => {
  const { cursor } = state, story = cursor < 0 ? [] : followed(cursor);
  make("data", cursor + " " + shown.version, () => (cursor < 0 ? recording() : data(cursor)));
  make("story", story[0] + " " + story.length + " " + shown.version, () => (cursor < 0 ? [] : track(cursor, story)));
  byId("story").querySelector("[aria-current]")?.removeAttribute("aria-current");
  const step = byId("story").querySelector(`[data-call="${cursor}"]`);
  step?.setAttribute("aria-current", "true");
  step?.scrollIntoView({ block: "nearest" });
});

// The fields are those of the slides of 2019: magic, time, sector, bytes, action, pid, device, cpu, error. Short ones
// go two to a line.
const SHORT = ["class", "cpu", "duration", "error", "sector", "bytes"];
function data(call) {
  const { pid, tid, comm } = view.tasks[calls.task[call]];
  const nth = calls.function[call], { source } = view.functions[nth];
  const absolute = (ns) => String(BigInt(view.start_ns) + BigInt(ns));
  const list = element("dl", "data");
  const add = (name, ...value) => {
    const place = SHORT.includes(name) ? "" : "wide";
    list.append(element("div", place, element("dt", "", name), element("dd", "", ...value)));
  };
  add("class", "struct " + view.class);
  add("cpu", calls.cpu[call] + (calls.interrupt[call] > 0 ? ", interrupt" : ""));
  add("address", view.objects[calls.object[call]]);
  const back = calls.duration[call] < 0 ? "its return was not seen" : absolute(until[call]);
  add("time", absolute(calls.start[call]) + " \u2192 " + back);
  add("duration", time(calls.duration[call]));
  if (calls.operation[call] >= 0) {
    const { number, name } = view.devices[calls.device[call]] || { number: "none" };
    const flags = view.flag_names[calls.flags[call]], operation = labels.operation(calls.operation[call]);
    add("error", element("span", calls.status[call] > 0 ? "bad" : "", String(calls.status[call])));
    add("sector", String(calls.sector[call]));
    add("bytes", String(calls.bytes[call]));
    add("action", swatch(calls.operation[call]), operation + (flags ? " + " + flags : ""));
    add("device", number + (name ? " " + name : ""));
  }
  add("pid", pid + (tid === pid ? "" : ", thread " + tid) + " " + comm);
  if (calls.returned[call] != null) add("returned", calls.returned[call]);
  if (source) add("source", source);
  const hidden = shown.passes[call] ? "" : element("p", "note", "Hidden by the filters or the time range.");
  return [element("h2", "call", ...signature(nth)), hidden, list];
}

// The life of the call's object. If it has none, the calls with this object.
function track(call, story) {
  const life = lives[calls.life[call]], listed = story.slice(0, MOST);
  const from = life ? life.start : calls.start[story[0]];
  const to = listed.reduce((to, each) => Math.max(to, until[each]), Math.max(life ? life.end : from, from + 1));
  const between = "These calls are between two lives: after bio_endio of one, and before submit_bio of the next.";
  const summary = element("p", "", life || !lives.length ? "" : between);
  if (life) {
    const text = " \u00b7 " + about(life) + " \u00b7 " + plural(life.calls.length, "call") + " ";
    const failed = element("b", "bad", life.status > 0 ? "error " + life.status : "");
    summary.append(swatch(life.operation), element("b", "", lasted(life)), text, failed);
  }
  const title = element("h3", "", life ? "Its life" : "Calls with this object");
  const take = button("take", () => change({ selected: new Set(story) }), "Select all");
  const acts = element("div", "acts", title, button("zoom", () => zoom(from, to), "Zoom"), take);
  const list = steps(listed, from, to, life?.operation);
  if (story.length > MOST) list.append(element("p", "note", "and " + integer(story.length - MOST) + " more calls"));
  return [acts, summary, list];
}

// The calls on all CPUs and in all tasks, each with its place in time, and the gaps in which none of them ran.
function steps(listed, from, to, operation) {
  const list = element("div", "track"), share = (time) => (100 * time) / (to - from);
  const cells = (at, name, level, bar, start, until, lasted) => {
    const title = element("span", "name", name);
    bar.style.left = share(start - from) + "%";
    bar.style.width = share(until - start) + "%";
    title.style.setProperty("--level", level);
    title.title = name;
    return [element("span", "at", at), title, element("span", "bar", bar), element("span", "lasted", lasted)];
  };
  let reach = from, where = "", longest = { time: 0 };
  for (const call of listed) {
    const start = calls.start[call], gap = start - reach;
    if (gap > 0) {
      const part = Math.round(share(gap)) + " %";
      const line = element("p", "step gap", ...cells("", time(gap) + " between", 0, element("i"), reach, start, part));
      if (gap > longest.time) longest = { time: gap, line };
      list.append(line);
    }
    reach = Math.max(reach, until[call]);
    const task = (calls.interrupt[call] > 0 ? "interrupt of " : "") + labels.task(calls.task[call]);
    const here = "CPU " + calls.cpu[call] + " \u00b7 " + task;
    if (here !== where) list.append(element("h4", "", here));
    where = here;
    const name = labels.function(calls.function[call]), lasted = timeInColumn(calls.duration[call]);
    const level = Math.max(calls.depth[call] - calls.depth[listed[0]], 0);
    const line = cells("+" + time(start - from), name, level, swatch(operation, ""), start, until[call], lasted);
    const step = button(["step", !shown.passes[call] && "hid"], () => jump(call), ...line);
    step.dataset.call = call;
    list.append(step);
  }
  longest.line?.classList.add("most");
  return list;
}
