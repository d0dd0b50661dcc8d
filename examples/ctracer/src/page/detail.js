// Beside the tree: the data of the current call, and the figures of what is shown.
import { calls, order, place, self, size, until, view } from "./model.js";
import { byId, element, labels, signature, swatch, time } from "./text.js";
import { drawing, state } from "./state.js";
import { shown } from "./shown.js";
import { recording } from "./recording.js";

// We rebuild a part of the panel only if it has to show something else.
const made = {};
function make(part, now, parts) {
  if (now !== made[part]) byId(part).replaceChildren(...parts());
  made[part] = now;
}
drawing(() => {
  const { cursor } = state;
  make("call", cursor + " " + shown.version, () => (cursor < 0 ? [] : data(cursor)));
  make("figures", shown.version, recording);
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
  if (size[call] > 1 && self[call] >= 0) add("self", time(self[call]) + longestGap(call));
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

// The longest time that a call spent between two calls that it made, or before or after them, if that is most of its
// time.
function longestGap(call) {
  let reach = calls.start[call], before = "", longest = 0, text = "";
  const inside = order.slice(place[call] + 1, place[call] + size[call]);
  const within = inside.filter((inner) => calls.parent[inner] === call);
  for (const inner of [...within, -1]) {
    const gap = (inner < 0 ? until[call] : calls.start[inner]) - reach;
    const name = inner < 0 ? "" : labels.function(calls.function[inner]);
    const where = before ? "after " + before : "before " + name;
    if (gap > longest && gap > calls.duration[call] / 2) text = `, ${time(gap)} of it ${where}`;
    longest = Math.max(longest, gap);
    reach = until[inner];
    before = name;
  }
  return text;
}
