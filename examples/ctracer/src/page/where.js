// Where the time of a life went: a bar over the whole width, and beside the tree its calls, with their own time and the
// gaps between them. It is the life of the current call, or the longest one that is shown.
import { calls, followed, lives } from "./model.js";
import { endOf, LITTLE, PHASES, shares, spent } from "./spent.js";
import { about, button, byId, element, integer, labels, latency, plural, swatch, time, timeInColumn } from "./text.js";
import { change, drawing, redraw, state } from "./state.js";
import { shown } from "./shown.js";
import { jump } from "./tree.js";
import { zoom } from "./axis.js";

const MOST = 1000; // lines of a life that we show

let longest = -1, counted = -1;
function chosen() {
  if (counted !== shown.version) {
    const all = [...lives.keys()].filter((nth) => shown.lives[nth]);
    longest = all.reduce((most, nth) => (latency(lives[nth]) > latency(lives[most] ?? { end: -1 }) ? nth : most), -1);
  }
  counted = shown.version;
  const cursor = state.cursor < 0 ? (lives[longest]?.calls[0] ?? -1) : state.cursor;
  return cursor < 0 ? [] : [lives[calls.life[cursor]], followed(cursor)];
}

let spelled = "";
drawing(() => {
  const [life, story = []] = chosen(), now = [story[0], story.length, shown.version, ...state.unfolded].join();
  if (now !== spelled) {
    const found = story.length ? spent(story, life) : null, barred = life ?? lives[longest];
    byId("where").hidden = !barred;
    if (barred) bar(barred, life ? found : spent(barred.calls, barred));
    byId("story").replaceChildren(...(found ? track(life, story, found) : []));
  }
  spelled = now;
  byId("story").querySelector("[aria-current]")?.removeAttribute("aria-current");
  const step = byId("story").querySelector(`[data-calls~="${state.cursor}"]`), list = step?.closest(".track");
  step?.setAttribute("aria-current", "true");
  if (!step) return;
  const { offsetTop } = step, { scrollTop, clientHeight } = list;
  list.scrollTop = Math.max(Math.min(scrollTop, offsetTop - 20), offsetTop + 40 - clientHeight);
});

function bar(life, { from, whole, phases, parts, outlasts }) {
  const which = life === lives[longest] ? " \u00b7 the longest of " + plural(lives.length, "life", "lives") : "";
  const failed = element("b", "bad", life.status > 0 ? " \u00b7 error " + life.status : "");
  const title = life.end < 0 ? "Its end was not seen" : "Where did " + time(latency(life)) + " go?";
  byId("asked").replaceChildren(title, element("span", "faint", swatch(life.operation), about(life) + which), failed);
  byId("where").style.setProperty("--operation", swatch(life.operation).style.background);
  byId("split").replaceChildren(...parts.map(({ phase, from: begin, to: end }) => {
    const part = element("i", "phase-" + phase);
    part.style.left = (100 * (begin - from)) / whole + "%";
    part.style.width = (100 * (end - begin)) / whole + "%";
    return part;
  }));
  const percent = shares(phases), most = Math.max(...phases);
  const told = PHASES.flatMap((name, phase) => {
    if (!phases[phase]) return [];
    const mark = element("i", "swatch", element("i", "phase-" + phase));
    const share = element("b", "", percent[phase] + " %"), took = element("span", "faint", time(phases[phase]));
    return element("span", phases[phase] === most && "most", mark, share, " " + name + " ", took);
  });
  byId("phases").replaceChildren(...told);
  const returned = calls.duration[endOf(life)] >= 0 ? "returned" : "was called; its return was not seen";
  const rest = `: ${time(latency(life))}, and ${time(whole - latency(life))} until bio_endio() ${returned}`;
  const seen = life.end < 0 ? ", up to the last of it that was seen" : rest;
  byId("why").textContent = `100 % is ${time(whole)}${seen}.`;
  if (outlasts === undefined) return;
  const name = labels.function(calls.function[outlasts]) + "()", took = time(calls.duration[outlasts]);
  const why = `the disk was done, and bio_endio() ended the bio, before ${name} returned.`;
  byId("why").append(` ${name} took ${took}, longer than its bio lived: ${why}`);
}

// The calls of a life, on all CPUs and in all tasks, with the gaps. If there is no life, the calls with this object.
function track(life, story, { from, to, whole, rows }) {
  const between = "These calls are between two lives: after bio_endio of one, and before submit_bio of the next.";
  const title = element("h3", "", life ? "Its life" : "Calls with this object");
  const take = button("take", () => change({ selected: new Set(story) }), "Select all");
  const acts = element("div", "acts", title, button("zoom", () => zoom(from, to), "Zoom"), take);
  const cell = (name, text) => element("span", name, text);
  const head = [cell("name", ""), cell("self", "self"), cell("share", ""), cell("lasted", "with calls")];
  const list = element("div", "track", element("p", "step head", ...head));
  let lines = 0;
  // Adds a line. Behind its text, a bar shows when it was.
  function put(line, level, text, row, lasted) {
    if (lines++ >= MOST) return;
    const name = cell("name", text), bar = element("i");
    if (!row.gap) name.title = text;
    name.style.setProperty("--level", level);
    bar.style.left = (100 * (row.at - from)) / whole + "%";
    bar.style.width = (100 * row.time) / whole + "%";
    const share = whole ? ((100 * row.own) / whole).toFixed(1) + " %" : "";
    line.append(bar, name, cell("self", timeInColumn(row.own)), cell("share", share), cell("lasted", lasted));
    list.append(line);
  }
  function one(row, level) {
    const { call, gap } = row;
    if (gap) {
      const line = element("p", "step gap");
      line.title = "No function with this object ran: it was in a queue, in the driver or on the disk.";
      return put(line, level, `gap ${gap[0]} ${labels.function(calls.function[gap[1]])}`, row, "");
    }
    const line = button(["step", !shown.passes[call] && "hid"], () => jump(call));
    line.dataset.calls = call;
    put(line, level, labels.function(calls.function[call]), row, time(calls.duration[call]));
  }
  // Short calls that come one after the other are one line, until you click it.
  function fold(group, level) {
    const all = flat(group), [{ call, at }] = group, last = group.at(-1), open = state.unfolded.has(call);
    const line = button("step little", () => {
      if (!state.unfolded.delete(call)) state.unfolded.add(call);
      redraw();
    });
    line.ariaExpanded = open;
    if (!open) line.dataset.calls = all.map(({ row }) => row.call).join(" ");
    const text = `${integer(all.length)} below 1 %: ${labels.function(calls.function[call])} \u2026`;
    const own = all.reduce((sum, { row }) => sum + row.own, 0), sum = { at, time: last.at + last.time - at, own };
    put(line, level, (open ? "\u25be " : "\u25b8 ") + text, sum, "");
    if (open) for (const { row, level: deeper } of all) one(row, level + deeper);
  }
  const place = ({ call }) => {
    const task = (calls.interrupt[call] > 0 ? "interrupt of " : "") + labels.task(calls.task[call]);
    return "CPU " + calls.cpu[call] + " \u00b7 " + task;
  };
  let here = "";
  function all(rows, level) {
    const isLittle = (row) => row?.time < LITTLE * whole && (row.gap || place(row) === here);
    for (let nth = 0; nth < rows.length && lines < MOST; nth++) {
      const row = rows[nth], first = nth;
      if (!row.gap && place(row) !== here) list.append(element("h4", "", here = place(row)));
      if (!row.gap && isLittle(row)) while (isLittle(rows[nth + 1])) nth++;
      const group = rows.slice(first, nth + 1);
      if (!row.gap && isLittle(row) && flat(group).length > 1) fold(group, level);
      else {
        one(row, level);
        all(row.children, level + 1);
      }
    }
  }
  all(rows, 0);
  if (lines >= MOST) list.append(element("p", "note", "The list ends after " + plural(MOST, "line") + "."));
  return [acts, life || !lives.length ? "" : element("p", "note", between), list];
}
const flat = (rows, level = 0) => rows.flatMap((row) => [{ row, level }, ...flat(row.children, level + 1)]);
