// The menus that choose what is shown: by CPU, task, function, device, operation and context.
import { calls } from "./model.js";
import { button, byId, element, integer, labels, swatch } from "./text.js";
import { change, state, working } from "./state.js";

const MANY = 10; // a menu with more values than this has its own search field
const titles = {
  cpu: "CPU", task: "Task", function: "Function", device: "Device", operation: "Operation", interrupt: "Runs in",
};
for (const name of Object.keys(titles)) {
  const sums = new Map();
  for (const value of calls[name]) sums.set(value, (sums.get(value) || 0) + 1);
  const byNumber = ([a], [b]) => a - b, bySum = ([, a], [, b]) => b - a;
  const values = [...sums].sort(byNumber);
  if (name !== "cpu") values.sort(bySum);
  if (values.some(([value]) => value >= 0)) byId("filters").append(...menu(name, values));
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
  const find = Object.assign(element("input"), { type: "search", placeholder: "Find in " + all.length });
  const look = () => {
    const wanted = find.value.trim().toLowerCase();
    for (const line of lines) line.hidden = !line.querySelector(".name").textContent.toLowerCase().includes(wanted);
  };
  find.addEventListener("input", look);
  const acts = [button("", () => hide([]), "All"), button("", () => hide(all), "None"), all.length > MANY ? find : ""];
  const list = element("div", "menu", element("p", "acts", ...acts), ...lines);
  list.addEventListener("change", () => hide(all.filter((_, nth) => !boxes[nth].checked)));
  list.id = "menu-" + name;
  list.popover = "auto";
  const opener = element("button", "opener");
  opener.id = "filter-" + name;
  opener.popoverTargetElement = list;
  list.addEventListener("beforetoggle", () => {
    const { left, bottom } = opener.getBoundingClientRect();
    Object.assign(list.style, { left: left + "px", top: bottom + 4 + "px" });
    find.value = "";
    look();
  });
  working(() => {
    const hidden = state.hidden[name];
    boxes.forEach((box, nth) => { box.checked = !hidden.has(all[nth]); });
    const part = hidden.size ? all.length - hidden.size + " of " : "";
    opener.replaceChildren(titles[name] + " ", element("span", "faint", part + all.length));
    opener.classList.toggle("on", hidden.size > 0);
  });
  return [opener, list];
}

export function showAll() {
  for (const name of Object.keys(titles)) state.hidden[name] = new Set();
  change();
}
