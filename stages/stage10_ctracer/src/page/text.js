// How things are written, and how elements are made. Text is only ever set as text, never as HTML.
import { view } from "./model.js";

export const byId = (id) => document.getElementById(id);

export function element(tag, name, ...children) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...children);
  return made;
}

export function button(name, act, ...children) {
  const made = element("button", name, ...children);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

export const integer = new Intl.NumberFormat("en").format;
export const plural = (number, noun) => integer(number) + " " + noun + (number === 1 ? "" : "s");
const four = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 }).format;

// Nanoseconds in the unit that suits them, to four digits, or for a column of such numbers, to three decimals. -1 is
// "not seen".
export const unitOf = (ns) => [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"]].find(([unit]) => ns >= unit) || [1, "ns"];
export function time(ns, decimals) {
  if (ns < 0) return "\u2013";
  const [unit, name] = unitOf(ns);
  return (decimals && unit > 1 ? (ns / unit).toFixed(3) : four(ns / unit)) + " " + name;
}

// Nanoseconds since the start as seconds, the last three digits apart, so that the rest reads as microseconds.
export function clock(ns) {
  const digits = String(ns).padStart(10, "0");
  return [digits.slice(0, -9) + "." + digits.slice(-9, -3), element("span", "faint", digits.slice(-3))];
}

export function bytes(number) {
  if (number < 0) return "\u2013";
  const [unit, name] = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]].find(([unit]) => number >= unit) || [1, "B"];
  return four(number / unit) + " " + name;
}

// What stands for a number of the view's tables.
export const labels = {
  cpu: (cpu) => String(cpu),
  task: (task) => view.tasks[task].comm + "-" + view.tasks[task].tid,
  function: (nth) => view.functions[nth].name,
  device: (device) => (device < 0 ? "none" : view.devices[device].name || view.devices[device].number),
  interrupt: (interrupt) => (interrupt > 0 ? "an interrupt" : "the task itself"),
  operation: (operation) => (operation < 0 ? "none" : view.operations[operation]),
};

// The class of an operation's colour. Those that are rare share one.
const coloured = ["read", "write", "flush", "discard"];
export const colour = (operation) => (coloured.includes(view.operations?.[operation]) ? view.operations[operation] : "other");
export const swatch = (operation) => element("i", "swatch op-" + colour(operation));

// A function's parameters, cut at the one that is followed: what is before it, itself, and what is after it.
const parameters = view.functions.map(({ prototype, argument }) => {
  const inner = prototype.slice(prototype.indexOf("(") + 1, prototype.lastIndexOf(")"));
  const parts = [""];
  let depth = 0;
  for (const letter of inner) {
    depth += (letter === "(") - (letter === ")");
    if (letter === "," && depth === 0) parts.push("");
    else parts[parts.length - 1] += letter;
  }
  const names = parts.map((part) => part.trim());
  const before = names.slice(0, argument - 1), after = names.slice(argument);
  return [before.map((name) => name + ", ").join(""), names[argument - 1] || "", after.map((name) => ", " + name).join("")];
});

export function signature(nth) {
  const [before, own, after] = parameters[nth];
  const faint = (text) => element("span", "faint", text);
  return [element("b", "", view.functions[nth].name), faint("(" + before), element("span", "own", own), faint(after + ")")];
}
