// How we write numbers and names, and how we make elements. We set text only as text, never as HTML.
import { view } from "./model.js";

export const byId = (id) => document.getElementById(id);

// `names` are the element's class names. False ones are left out: ["row", isCursor && "cursor"].
export function element(tag, names, ...children) {
  const made = document.createElement(tag), given = [names].flat().filter(Boolean);
  if (given.length) made.className = given.join(" ");
  made.append(...children);
  return made;
}
export function button(name, act, ...children) {
  const made = element("button", name, ...children);
  made.addEventListener("click", act);
  return made;
}

export const integer = new Intl.NumberFormat("en").format;
export const plural = (number, noun, nouns = noun + "s") => integer(number) + " " + (number === 1 ? noun : nouns);

// Numbers in a suitable unit, with four digits, or in a column with three decimals. -1 means "not known".
const SIZES = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
const TIMES = [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"], [1, "ns"]];
const four = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 }).format;
const unitIn = (units, number) => units.find(([unit]) => number >= unit) || units.at(-1);
function written(number, units, digits = four) {
  const [unit, name] = unitIn(units, number);
  return number < 0 ? "\u2013" : digits(number / unit) + " " + name;
}
export const bytes = (number) => written(number, SIZES);
export const time = (ns) => written(ns, TIMES);
export const timeInColumn = (ns) => written(ns, TIMES, ns < 1000 ? four : (number) => number.toFixed(3));
export const unitOf = (ns) => unitIn(TIMES, ns);

// Nanoseconds since the start, in seconds. The last three digits are separate, so you can read the rest as
// microseconds.
export function clock(ns) {
  const digits = String(ns).padStart(10, "0");
  return [digits.slice(0, -9) + "." + digits.slice(-9, -3), element("span", "faint", digits.slice(-3))];
}

// The names of the numbers in the view's tables. There is a filter for each of these.
export const labels = {
  cpu: (cpu) => String(cpu),
  task: (task) => view.tasks[task].comm + "-" + view.tasks[task].tid,
  function: (nth) => view.functions[nth].name,
  device: (device) => (device < 0 ? "none" : view.devices[device].name || view.devices[device].number),
  operation: (operation) => (operation < 0 ? "none" : view.operations[operation]),
  interrupt: (interrupt) => (interrupt > 0 ? "an interrupt" : "the task itself"),
};

// The names of the operations' colors in page.css. Rare operations share the last one.
export const COLOURS = ["read", "write", "flush", "discard", "other"];
export const colour = (operation) => COLOURS.find((name) => name === view.operations?.[operation]) || "other";
export function swatch(operation, name = "swatch") {
  const made = element("i", name);
  made.style.background = `var(--${colour(operation)})`;
  return made;
}

export const latency = (life) => (life.end < 0 ? -1 : life.end - life.start);
export const lasted = (life) => (life.end < 0 ? "end not seen" : time(latency(life)));
export const about = ({ operation, bytes: size, sector, device }) =>
  [labels.operation(operation), bytes(size), "sector " + sector, labels.device(device)].join(" \u00b7 ");

// A function's name and its parameters. The parameter for the object is marked.
export function signature(nth) {
  const { name, prototype, argument } = view.functions[nth];
  const open = prototype.indexOf("("), close = prototype.lastIndexOf(")"), cuts = [open];
  for (let at = open + 1, depth = 0; at < close; at++) {
    depth += (prototype[at] === "(") - (prototype[at] === ")");
    if (prototype[at] === "," && depth === 0) cuts.push(at);
  }
  const own = cuts[argument - 1] + 1, behind = cuts[argument] ?? close;
  const part = (name, from, to) => element("span", name, prototype.slice(from, to));
  return [element("b", "", name), part("faint", open, own), part("own", own, behind), part("faint", behind, close + 1)];
}
