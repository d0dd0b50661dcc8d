"use strict";
// What is shown: a stage, or a case of the clinic, and a step of it. Step 0 is its title. Each further step of a stage is
// an item that changed.
const stages = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
// An item of more lines is folded: unchanged lines are shown only if they are so near a change.
const LONG = 24, CONTEXT = 3;
let stage = stages[0], step = 0, all = false, zoom = 1;

function element(tag, name, ...children) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...children);
  return made;
}
const address = (stage, step) => "#" + stage.id + "/" + step;

// The address is the state: whoever reloads, goes back or sends it sees the same.
function read() {
  const [id, nth] = location.hash.slice(1).split("/");
  stage = stages.find((stage) => stage.id === id) || stages[0];
  step = Math.min(Math.max(Number(nth) || 0, 0), stage.steps.length);
  all = false;
  show();
}
function go(stage, step) {
  location.replace(address(stage, step));
}
function move(by) {
  const other = stages[stages.indexOf(stage) + by];
  if (step + by >= 0 && step + by <= stage.steps.length) go(stage, step + by);
  else if (other) go(other, by > 0 ? 0 : other.steps.length);
}

function show() {
  document.title = stage.id + " " + stage.title;
  byId("stage").value = stage.id;
  byId("about").replaceChildren(element("b", "", stage.title), " ", element("span", "", stage.adds || ""));
  byId("about").style.visibility = step ? "visible" : "hidden";
  byId("count").textContent = step + " / " + stage.steps.length;
  byId("page").href = stage.page;
  byId("view").replaceChildren(...(step ? change(stage.steps[step - 1]) : title()));
  fit();
  const first = document.querySelector(".mark, .new, .gone");
  window.scrollTo(0, 0);
  if (first && first.getBoundingClientRect().bottom > innerHeight) first.scrollIntoView({ block: "center" });
}

const place = (step) => step.file + (step.part === "lesson" ? "" : ", " + step.part);

function title() {
  const steps = stage.steps.map((step, nth) => {
    const link = element("a", "", element("code", "", step.item));
    link.href = address(stage, nth + 1);
    return element("li", step.part, link, element("span", "file", place(step)));
  });
  const kept = stage.kept.length ? [element("p", "kept", "As before: " + stage.kept.join(", "))] : [];
  return [
    element("h1", "", stage.name + ": " + stage.title),
    element("p", "idea", stage.idea),
    element("h2", "", stage.parts),
    element("ul", "", ...steps),
    ...kept,
  ];
}

function change(step) {
  const lines = step.lines;
  const has = (kind) => lines.some(([other]) => other === kind);
  const whole = all || lines.length <= LONG || lines.every(([kind]) => kind === "same");
  const near = (nth) => lines.slice(Math.max(nth - CONTEXT, 0), nth + CONTEXT + 1).some(([kind]) => kind !== "same");
  const code = element("div", "code");
  for (let nth = 0; nth < lines.length; nth++) {
    let end = nth;
    while (!whole && end < lines.length && !near(end)) end++;
    if (end > nth + 1) {
      code.append(element("div", "fold", end - nth + (has("mark") ? " more lines" : " lines as before")));
      nth = end - 1;
      continue;
    }
    const [kind, pieces] = lines[nth];
    const mixed = pieces.some(([changed]) => !changed);
    const line = element("div", kind, ...pieces.map(([changed, text]) => element("span", changed && mixed ? "word" : "", text)));
    line.dataset.sign = { same: "", mark: "\u2192", new: "+", gone: "\u2212" }[kind];
    if (!pieces.length) line.append("\u200b");
    code.append(line);
  }
  return [element("h2", step.part, element("code", "item", step.item), element("span", "file", place(step))), code];
}

// The largest letters in which the item fits the window, within what can be read and what looks well. Lines that are
// still too long wrap, and the page scrolls down.
function fit() {
  const code = document.querySelector(".code");
  if (!code) return;
  const tab = Number(getComputedStyle(code).tabSize);
  const columns = (line) => [...line.textContent].reduce((at, c) => (c === "\t" ? at + tab - (at % tab) : at + 1), 8);
  const widest = Math.max(...[...code.children].map(columns));
  const height = innerHeight - code.getBoundingClientRect().top - scrollY - document.querySelector("nav").offsetHeight - 16;
  const fits = Math.min(code.clientWidth / (widest * 0.61), height / (code.children.length * 1.4));
  const least = Math.max(innerWidth * 0.012, 12), most = Math.max(innerWidth * 0.028, 14);
  code.style.fontSize = Math.min(Math.max(fits, least), most) * zoom + "px";
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  try { localStorage.setItem("present-theme", name); } catch { /* then it is not remembered */ }
}
const dark = matchMedia("(prefers-color-scheme: dark)");
const system = () => (dark.matches ? "dark" : "light");
let remembered = null;
try { remembered = localStorage.getItem("present-theme"); } catch { /* as above */ }
document.documentElement.dataset.theme = remembered || system();
dark.addEventListener("change", () => { document.documentElement.dataset.theme = system(); });

const keys = {
  ArrowRight: () => move(1), PageDown: () => move(1), " ": () => move(1),
  ArrowLeft: () => move(-1), PageUp: () => move(-1),
  Home: () => go(stage, 0), End: () => go(stage, stage.steps.length),
  a: () => { all = !all; show(); },
  "+": () => { zoom *= 1.1; fit(); }, "=": () => { zoom *= 1.1; fit(); }, "-": () => { zoom /= 1.1; fit(); },
  d: () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
  f: () => (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen()).catch(() => {}),
  "?": () => byId("keys").showModal(),
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
  if (event.target.closest("select") || (event.target.closest("button, a") && event.key === " ")) return;
  const chosen = stages.find((stage) => stage.id === "0" + event.key);
  const act = chosen ? () => go(chosen, 0) : Object.hasOwn(keys, event.key) && keys[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

let touched = null;
addEventListener("touchstart", (event) => { touched = event.touches.length === 1 ? event.touches[0] : null; }, { passive: true });
addEventListener("touchend", (event) => {
  if (!touched) return;
  const end = event.changedTouches[0];
  const across = end.clientX - touched.clientX, down = end.clientY - touched.clientY;
  if (Math.abs(across) > 60 && Math.abs(across) > 2 * Math.abs(down)) move(across < 0 ? 1 : -1);
}, { passive: true });

for (const stage of stages) {
  const option = element("option", "", stage.id.replace("-", " "));
  option.value = stage.id;
  byId("stage").append(option);
}
byId("stage").addEventListener("change", (event) => {
  event.target.blur();
  go(stages.find((stage) => stage.id === event.target.value), 0);
});
byId("next").addEventListener("click", () => move(1));
byId("back").addEventListener("click", () => move(-1));
byId("help").addEventListener("click", keys["?"]);
addEventListener("hashchange", read);
addEventListener("resize", fit);
read();
