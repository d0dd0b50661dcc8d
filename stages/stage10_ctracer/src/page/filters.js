// The menus that choose what is shown: by CPU, task, function, device, operation and context.
import { calls, count } from "./model.js";
import { button, byId, element, integer, labels, plural, swatch } from "./text.js";
import { change, drawing, state, working } from "./state.js";
import { total } from "./shown.js";
import { clearSelected, selectBetween } from "./tree.js";

const LONG = 10; // values from which on a menu has a search of its own

const names = { cpu: "CPU", task: "Task", function: "Function", device: "Device", operation: "Operation", interrupt: "Runs in" };
for (const [name, title] of Object.entries(names)) {
  const sums = new Map();
  for (const value of calls[name]) sums.set(value, (sums.get(value) || 0) + 1);
  if (sums.has(-1) && sums.size === 1) continue;
  byId("filters").append(menu(name, title, [...sums]));
}

function menu(name, title, values) {
  const hidden = state.hidden[name];
  if (name === "cpu") values.sort(([a], [b]) => a - b);
  else values.sort(([a, many], [b, more]) => more - many || a - b);
  const all = values.map(([value]) => value);
  const hide = (values) => {
    hidden.clear();
    for (const value of values) hidden.add(value);
    change();
  };
  const lines = values.map(([value, sum]) => {
    const box = element("input");
    box.type = "checkbox";
    box.addEventListener("change", () => {
      if (box.checked) hidden.delete(value);
      else hidden.add(value);
      change();
    });
    const text = [element("span", "name", labels[name](value)), element("span", "faint", integer(sum))];
    const label = element("label", "", box, name === "operation" ? swatch(value) : "", ...text);
    const only = button("only", () => hide(all.filter((other) => other !== value)), "only");
    only.setAttribute("aria-label", "only " + labels[name](value));
    working(() => { box.checked = !hidden.has(value); });
    const line = element("div", "value", label, only);
    line.dataset.value = value;
    return line;
  });
  const summary = element("summary");
  working(() => {
    const part = all.length - hidden.size;
    summary.replaceChildren(title, element("span", "", hidden.size ? part + " of " + all.length : String(all.length)));
    summary.classList.toggle("on", hidden.size > 0);
  });
  const list = element("div", "menu", element("p", "acts", button("", () => hide([]), "All"), button("", () => hide(all), "None")), ...lines);
  if (all.length > LONG) {
    const find = element("input");
    find.type = "search";
    find.placeholder = find.ariaLabel = "Find in " + integer(all.length);
    find.addEventListener("input", () => {
      for (const line of lines) line.hidden = !line.querySelector(".name").textContent.toLowerCase().includes(find.value.trim().toLowerCase());
    });
    list.firstChild.append(find);
  }
  const made = element("details", "filter", summary, list);
  made.id = "filter-" + name;
  return made;
}

export function showAll() {
  for (const hidden of Object.values(state.hidden)) hidden.clear();
  change();
}
// Whether there was one to close.
export function closeMenus(but) {
  const open = [...document.querySelectorAll("details.filter[open]")].filter((menu) => menu !== but);
  for (const menu of open) {
    if (menu.contains(document.activeElement)) menu.firstChild.focus();
    menu.open = false;
  }
  return open.length > 0;
}
addEventListener("pointerdown", (event) => closeMenus(event.target.closest("details.filter")));

byId("between").addEventListener("click", selectBetween);
byId("only").addEventListener("click", () => change({ only: !state.only }));
byId("none").addEventListener("click", clearSelected);
byId("all").addEventListener("click", showAll);

drawing(() => {
  const filtered = Object.values(state.hidden).some((hidden) => hidden.size);
  byId("all").disabled = !filtered;
  byId("between").disabled = state.selected.size + (state.cursor >= 0 && !state.selected.has(state.cursor)) < 2 || state.selected.size < 1;
  byId("only").disabled = byId("none").disabled = !state.selected.size;
  byId("only").setAttribute("aria-pressed", state.only);
  byId("only").textContent = "Only selected" + (state.selected.size ? " (" + integer(state.selected.size) + ")" : "");
  byId("shown").textContent = total() === count ? plural(count, "call") : integer(total()) + " of " + plural(count, "call");
});
