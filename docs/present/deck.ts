// What an instructor projects, and in a second window what only the instructor sees. The two windows tell each other
// where they are.

import { Clock, listPlans, minutes } from "./clock";
import { byId, data, element, type Part, type Step } from "./data";
import { isPresenter, isThumbnail, presenter } from "./presenter";
import { first, neighbor, route, type Stop } from "./route";
import { code, nameOf, picture, question, text, title } from "./view";

const parts = data.parts;
// Where we are: a part and a step of it. Step 0 is its title.
let part = parts[0];
let step = 0;
let all = false;
let zoom = 1;
// What the keys follow, as it was chosen in this window or in the other one; empty: everything.
let plan = "";

const address = (part: Part, step: number) => `#${part.id}/${step}`;
const now = (): Step | undefined => part.steps[step - 1];

// The address names the step: whoever reloads or sends it sees the same.
function named(address: string): Stop {
  const [id, nth] = address.slice(1).split("/");
  const part = parts.find((part) => part.id === id) ?? parts[0];
  return [part, Math.min(Math.max(Number(nth) || 0, 0), part.steps.length)];
}

// Where a stage's step led to the case that we see.
let left: string | undefined;

function wayBack(to: Part): string | undefined {
  const from = now();
  if (from && from.case === to.id) return address(part, step);
  return to === part ? left : undefined;
}

function arrive(at: Part, nth: number, back = wayBack(at)): void {
  left = back;
  part = at;
  step = nth;
  all = false;
  location.replace(address(part, step));
  show();
}

// We are there at once, not when the browser reports the new address: two quick presses are two steps.
function go(to: Part, nth: number): void {
  moved = time();
  arrive(to, nth);
  tell();
}

// Where a key leads. A case ends where it was left for.
function beside(by: 1 | -1): Stop | undefined {
  const isInside = step + by >= first(part) && step + by <= part.steps.length;
  if (left && !isInside) return named(left);
  const stops = route(
    parts,
    data.plans.find(({ minutes }) => String(minutes) === plan),
  );
  return neighbor(parts, stops, [part, step], by);
}

function move(by: 1 | -1): void {
  const to = beside(by);
  if (to) go(...to);
}

// The other window. A window keeps its opener when it is reloaded, and writes to it every second; so an opener that is
// reloaded finds its window again. Pages of the file system may not look into each other, but they may send messages.
let other: Window | null = isPresenter ? window.opener : null;
// When we came here: milliseconds since 1970, in both windows by the same clock. 0: we were loaded here.
let moved = 0;
// When the plan, the zoom, the theme or the choice of lines was last changed here, likewise.
let changed = 0;

const time = () => performance.timeOrigin + performance.now();

function tell(): void {
  const { clock, toggled } = timed();
  const look = { plan, all, zoom, theme: document.documentElement.dataset.theme, changed };
  other?.postMessage({ deck: address(part, step), moved, left, toggled, clock: clock.save(), look }, "*");
}

/** Changes what both windows show of a step. */
function change(what: () => void): void {
  what();
  changed = time();
  show();
  tell();
}

// The latest move counts in both windows, and so does the latest start or stop of a clock. A message that comes late
// changes nothing, and is answered.
addEventListener("message", ({ data: said, source }) => {
  if (typeof said?.deck !== "string" || typeof said.moved !== "number") return;
  if (isThumbnail) {
    theme(said.look.theme);
    arrive(...named(said.deck), undefined);
    return;
  }
  other = source as Window;
  const { look } = said;
  if (look && look.changed > changed) {
    [plan, zoom, all, changed] = [look.plan, look.zoom, look.all, look.changed];
    theme(look.theme);
    show();
  }
  if (said.moved > moved) {
    moved = said.moved;
    arrive(...named(said.deck), said.left);
  }
  const ours = timed();
  if (said.moved === moved && said.toggled > ours.toggled) {
    ours.clock.restore(said.clock);
    ours.toggled = said.toggled;
    tick();
  } else if (said.moved < moved || said.toggled < ours.toggled) tell();
});

/** To the case that a step names, and back to the step. */
function visitCase(): void {
  const at = now();
  const id = at?.case;
  if (id) go(...named(`#${id}/1`));
  else if (left) go(...named(left));
}

function open(): void {
  if (isPresenter) return;
  other = window.open(location.href, "presenter", "popup,width=1100,height=800");
}

// The clock of each exercise and each break, which goes on while another step is shown, and when it was last started,
// stopped or reset: milliseconds since 1970, 0 for never.
const timers = new Map<Step | undefined, { clock: Clock; toggled: number }>();

function timed(): { clock: Clock; toggled: number } {
  const found = timers.get(now()) ?? { clock: new Clock(), toggled: 0 };
  timers.set(now(), found);
  return found;
}

/** Changes the clock, here and in the other window. */
function clocks(change: (clock: Clock) => void): void {
  change(timed().clock);
  timed().toggled = time();
  tell();
  tick();
}

function tick(): void {
  const at = now();
  const shown = document.getElementById("timer");
  if (!shown || !at || !("minutes" in at)) return;
  const left = at.minutes * 60_000 - timed().clock.elapsed;
  shown.textContent = minutes(left);
  shown.classList.toggle("runs", timed().clock.runs);
  shown.classList.toggle("over", left < 0);
}

setInterval(tick, 250);

function view(): HTMLElement[] {
  const at = now();
  switch (at?.kind) {
    case "code":
      return code(at, all);
    case "picture":
      return picture(at);
    case "question":
      return question(at);
    case "exercise":
    case "text":
      return text(at);
    default:
      return title(part);
  }
}

function show(): void {
  const at = now();
  document.title = `${part.id} ${part.title}`;
  byId<HTMLSelectElement>("stage").value = part.id;
  byId("about").replaceChildren(element("b", "", part.title), " ", element("span", "", part.adds ?? ""));
  byId("about").style.visibility = step ? "visible" : "hidden";
  byId("count").textContent = `${step} / ${part.steps.length}`;
  byId<HTMLSelectElement>("plan").value = plan;
  listSteps();
  byId<HTMLAnchorElement>("page").href =
    at?.kind === "picture" || at?.kind === "text" ? (at.page ?? part.page) : part.page;
  byId("view").replaceChildren(...view());
  byId("view").className = `at-${at?.kind ?? "title"}`;
  tick();
  fit();
  if (isPresenter) presenter(part, step, plan, beside(1));
  const first = document.querySelector("main :is(.mark, .new, .gone)");
  window.scrollTo(0, 0);
  if (first && first.getBoundingClientRect().bottom > innerHeight) first.scrollIntoView({ block: "center" });
}

// The steps of this part, to jump to.
let listed: Part | undefined;
function listSteps(): void {
  const list = byId<HTMLSelectElement>("jump");
  if (listed !== part) {
    const option = (name: string, nth: number) => new Option(`${nth}  ${name}`, String(nth));
    list.replaceChildren(...["title", ...part.steps.map(nameOf)].map(option));
    listed = part;
  }
  list.value = String(step);
}

// A longer line of code may wrap: whole, it would make all others small.
const LONGEST = 80;

// The largest letters in which the step fits the window, within what can be read and what looks well. Lines of code that
// are still too long wrap, and the page scrolls down.
function fit(): void {
  const least = Math.max(innerWidth * 0.0141, 12);
  const text = document.querySelector<HTMLElement>("main > .text, main > .asked, main > ul");
  if (text) fitText(text, least);
  const drawn = document.querySelector<SVGSVGElement>(".frame svg");
  if (drawn) drawn.style.width = drawn.style.height = `${100 * zoom}%`;
  const shown = document.querySelector<HTMLElement>("main .code");
  if (!shown) return;
  const bar = document.querySelector("nav");
  const nav = bar && getComputedStyle(bar).position !== "fixed" ? bar.offsetHeight : 0;
  const height = innerHeight - shown.getBoundingClientRect().top - scrollY - nav - 16;
  // Few sizes, so that letters don't jump from step to step.
  const lines = [...shown.querySelectorAll("div")];
  let size = 0;
  for (const part of [0.03, 0.026, 0.0225, 0.0195, 0.0165]) {
    size = Math.max(innerWidth * part, 12);
    shown.style.fontSize = `${size}px`;
    // The rows of a table and the lines of a run stay whole, but for a few long ones.
    const isOne = (line: HTMLElement) => line.offsetHeight < 2 * size || line.textContent.length > LONGEST;
    const isWhole = !document.querySelector("h2.table, h2.run, h2.evidence") || lines.every(isOne);
    if (shown.offsetHeight <= height && isWhole) break;
  }
  shown.style.fontSize = `${size * zoom}px`;
}

function fitText(text: HTMLElement, least: number): void {
  text.style.fontSize = "";
  let size = parseFloat(getComputedStyle(text).fontSize) * zoom;
  text.style.fontSize = `${size}px`;
  while (document.documentElement.scrollHeight > innerHeight && size > least) {
    size = Math.max(size - 1, least);
    text.style.fontSize = `${size}px`;
  }
}

function theme(name: string): void {
  document.documentElement.dataset.theme = name;
  try {
    localStorage.setItem("present-theme", name);
  } catch {
    // Then it is not remembered.
  }
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const system = () => (dark.matches ? "dark" : "light");
let remembered: string | null = null;
try {
  remembered = localStorage.getItem("present-theme");
} catch {
  // As above.
}
document.documentElement.dataset.theme = remembered ?? system();
const PLAN = "present-plan";
try {
  plan = localStorage.getItem(PLAN) ?? "";
} catch {
  // As above.
}
listPlans();
if (isThumbnail) document.body.classList.add("thumbnail");
dark.addEventListener("change", () => {
  document.documentElement.dataset.theme = system();
});

const enlarge = (by: number) =>
  change(() => {
    zoom *= by;
  });

function fullscreen(): void {
  const done = document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen();
  done.catch(() => {
    // Then the window stays as it is.
  });
}

const next = () => move(1);
const back = () => move(-1);
const help = () => byId<HTMLDialogElement>("keys").showModal();
const keys: Record<string, () => void> = {
  ArrowRight: next,
  PageDown: next,
  " ": next,
  ArrowLeft: back,
  PageUp: back,
  Home: () => go(part, 0),
  End: () => go(part, part.steps.length),
  a: () =>
    change(() => {
      all = !all;
    }),
  t: () => clocks((clock) => clock.toggle()),
  r: () => clocks((clock) => clock.reset()),
  c: visitCase,
  p: open,
  "+": () => enlarge(1.1),
  "=": () => enlarge(1.1),
  "-": () => enlarge(1 / 1.1),
  d: () => change(() => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark")),
  f: fullscreen,
  "?": help,
};

addEventListener("keydown", (event) => {
  // 229: a key of an input method.
  if (event.isComposing || event.keyCode === 229) return;
  if (event.ctrlKey || event.metaKey || event.altKey || byId<HTMLDialogElement>("keys").open) return;
  const at = event.target as Element;
  // In a field, only a clicker turns pages.
  if (at.closest("input") && !event.key.startsWith("Page")) return;
  if (at.closest("select") || (at.closest("button, a") && event.key === " ")) return;
  // The stages whose numbers end in this digit, one after the other.
  const stages = parts.filter(({ id }) => /^\d\d$/.test(id) && id[1] === event.key);
  const chosen = stages[(stages.indexOf(part) + 1) % stages.length];
  const act = chosen ? () => go(chosen, 0) : Object.hasOwn(keys, event.key) && keys[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

let touched: Touch | null = null;
addEventListener(
  "touchstart",
  (event) => {
    touched = event.touches.length === 1 ? event.touches[0] : null;
  },
  { passive: true },
);
addEventListener(
  "touchend",
  (event) => {
    if (!touched) return;
    const end = event.changedTouches[0];
    const across = end.clientX - touched.clientX;
    const down = end.clientY - touched.clientY;
    if (Math.abs(across) > 60 && Math.abs(across) > 2 * Math.abs(down)) move(across < 0 ? 1 : -1);
  },
  { passive: true },
);

for (const part of parts) {
  const option = element("option", "", [part.name, part.title].filter(Boolean).join(": ")) as HTMLOptionElement;
  option.value = part.id;
  byId("stage").append(option);
}
byId("stage").addEventListener("change", (event) => {
  const select = event.target as HTMLSelectElement;
  select.blur();
  go(parts.find((part) => part.id === select.value) ?? parts[0], 0);
});
byId("jump").addEventListener("change", (event) => {
  const select = event.target as HTMLSelectElement;
  select.blur();
  go(part, Number(select.value));
});
byId("plan").addEventListener("change", (event) => {
  const select = event.target as HTMLSelectElement;
  select.blur();
  change(() => {
    plan = select.value;
  });
  try {
    localStorage.setItem(PLAN, plan);
  } catch {
    // Then it is chosen again the next time.
  }
});
byId("next").addEventListener("click", next);
byId("back").addEventListener("click", back);
byId("help").addEventListener("click", help);
byId("notes").addEventListener("click", open);
addEventListener("hashchange", () => {
  if (location.hash !== address(part, step)) go(...named(location.hash));
});
addEventListener("resize", fit);
// The bars would cover the lesson, so they come only to a mouse that looks for them.
let still = 0;
addEventListener("mousemove", ({ clientY }) => {
  clearTimeout(still);
  const near = innerHeight / 8;
  document.body.classList.toggle("at-top", clientY < near);
  document.body.classList.toggle("at-bottom", clientY > innerHeight - near);
  still = setTimeout(() => document.body.classList.remove("at-top", "at-bottom"), 2000);
});
arrive(...named(location.hash));
if (isPresenter) {
  tell();
  setInterval(tell, 1000);
}
