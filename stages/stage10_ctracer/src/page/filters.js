// The menus that choose what is shown: by CPU, task, function, device, operation and context.
import { calls } from "./model.js";
import { button, byId, element, integer, labels, swatch } from "./text.js";
import { change, state, working } from "./state.js";

const MANY = 10; // values from which on a menu has a search of its own
const titles = {
  cpu: "CPU", task: "Task", function: "Function", device: "Device", operation: "Operation", interrupt: "Runs in",
};
for (const name of Object.keys(titles)) {
  const sums = new Map();
  for (const value of calls[name]) sums.set(value, (sums.get(value) || 0) + 1);
  const byNumber = ([a], [b]) => a - b, bySum = ([, a], [, b]) => b - a;
  const values = [...sums].sort(byNumber);
  if (name !== "cpu") values.sort(bySum);
  if (values.some(([value]) => value >= 0)) byId("filters").append(menu(name, values));
}

function menu(name, values) {
  const all = values.map(([value]) => value);
  const hide = (values) => {
    state.hidden[name] = new Set(values);
    change();
  };
  const boxes = all.map(() => Object.assign(element("input"), { type: "checkbox" }));
  const lines = values.map(([value, sum], nth) => {
    const text = element("span", "name", labels[name](value)), mark = name === "operation" ? swatch(value) : "";
    const only = button("only", () => hide(all.filter((other) => other !== value)), "only");
    only.ariaLabel = "only " + text.textContent;
    const line = element("div", "value", element("label", "", boxes[nth], mark, text, integer(sum)), only);
    line.dataset.value = value;
    return line;
  });
  const find = element("input");
  find.type = "search";
  find.placeholder = find.ariaLabel = "Find in " + all.length;
  const look = () => {
    const wanted = find.value.trim().toLowerCase();
    for (const line of lines) line.hidden = !line.querySelector(".name").textContent.toLowerCase().includes(wanted);
  };
  find.addEventListener("input", look);
  const acts = [button("", () => hide([]), "All"), button("", () => hide(all), "None"), all.length > MANY ? find : ""];
  const list = element("div", "menu", element("p", "acts", ...acts), ...lines);
  list.addEventListener("change", () => hide(all.filter((_, nth) => !boxes[nth].checked)));
  const summary = element("summary");
  working(() => {
    const hidden = state.hidden[name];
    boxes.forEach((box, nth) => { box.checked = !hidden.has(all[nth]); });
    const part = hidden.size ? all.length - hidden.size + " of " : "";
    summary.replaceChildren(titles[name], element("span", "faint", part + all.length));
    summary.classList.toggle("on", hidden.size > 0);
  });
  const made = element("details", "filter", summary, list);
  made.id = "filter-" + name;
  made.addEventListener("toggle", () => {
    find.value = "";
    look();
  });
  return made;
}

export function showAll() {
  for (const name of Object.keys(titles)) state.hidden[name] = new Set();
  change();
}
// Whether there was one to close. One that has the focus keeps it.
export function closeMenus(but) {
  const open = [...document.querySelectorAll("details.filter[open]")].filter((menu) => menu !== but);
  for (const menu of open) {
    if (menu.contains(document.activeElement)) menu.firstChild.focus();
    menu.open = false;
  }
  return open.length > 0;
}
addEventListener("pointerdown", (event) => closeMenus(event.target.closest("details.filter")));
