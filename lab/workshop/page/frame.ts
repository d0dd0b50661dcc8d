// The lesson's side of its frame: buttons for the commands that a page has, and messages. The server puts it before all
// scripts of a page of the book. In a tab of its own, such a page is as it is.

import { STORAGE } from "../../../docs/present/questions";
import { bare, type Command, commandLines, parse } from "./commands";
import { h } from "./dom";
import { actOf, type FromLesson, type ToLesson, takeFiles } from "./window";

type Shown = NonNullable<ToLesson["state"]>;

const style = `
  .workshop-button {
    font: 600 1.3rem/1.4 system-ui, sans-serif; color: var(--bg); background: var(--links); border: 1px solid var(--links);
    border-radius: 4px; padding: 1px 8px; margin: 1px 0 1px 6px; cursor: pointer; white-space: nowrap; vertical-align: baseline;
    max-width: 100%; overflow: hidden; text-overflow: ellipsis;
  }
  .workshop-button:hover:enabled { filter: brightness(1.15); }
  .workshop-button:focus-visible { outline: 3px solid var(--fg); outline-offset: 1px; }
  .light .workshop-button { background: #1d4ed8; border-color: #1d4ed8; color: #fff; }
  .navy .workshop-button { background: #8ab4ff; border-color: #8ab4ff; color: #10142a; }
  .workshop-button.workshop-button:disabled {
    color: var(--fg); background: transparent; border-color: currentColor; opacity: .75; cursor: default;
  }
  .workshop-bar { display: flex; flex-wrap: wrap; gap: 4px; margin: -8px 0 16px; }
  .workshop-bar .workshop-button { margin: 0; }
  .workshop-bar .workshop-line { font-family: var(--mono-font); font-weight: 400; font-size: 1.2rem; }
  .content :not(pre) > code { white-space: pre-wrap; overflow-wrap: anywhere; }
  .workshop-title { display: block; margin: 8px 0 0; font-size: 1.4rem; width: fit-content; }
  .content .workshop-link { margin-left: 6px; text-decoration: none; opacity: .6; }
  /* The view for a projector wants the whole window. */
  a[href*="present.html"] { display: none !important; }
  /* mdBook would move it down to where the reader scrolls up, and in a pane that changes its width, it stays there. */
  #mdbook-menu-bar { position: relative !important; top: 0 !important; }
  #mdbook-theme-toggle, #mdbook-theme-list { display: none !important; }
  @media print { .workshop-button, .workshop-bar, .workshop-link { display: none !important; } }
`;

const tell = (what: FromLesson) => parent.postMessage(what, location.origin);

/** The frame has no storage, because it has no origin. Its name goes with it from page to page, and has what the book keeps. */
const kept: Record<string, string> = {};
function change(key: string, value?: string): void {
  if (value === undefined) delete kept[key];
  else kept[key] = value;
  window.name = JSON.stringify(kept);
}

function lendStorage(): void {
  try {
    Object.assign(kept, JSON.parse(window.name));
  } catch {}
  const value = {
    getItem: (key: string) => kept[key] ?? null,
    setItem: (key: string, value: string) => {
      change(key, value);
      if (key === STORAGE) tell({ answers: value });
    },
    removeItem: (key: string) => change(key),
  };
  for (const name of ["localStorage", "sessionStorage"]) Object.defineProperty(window, name, { value });
}

const where = () => location.pathname + location.hash;

/** The headings of exercises, by the names of these. */
const headings = () =>
  new Map([...document.querySelectorAll("h3")].map((h3) => [h3.textContent?.split(" ")[0] ?? "", h3]));

/** What draws the buttons. */
let drawn: ((state: Shown) => void)[] | undefined;

function update(state: Shown): void {
  if (!drawn) {
    drawn = [];
    addButtons(state);
    // A log of the verifier is shown as this kernel has it.
    const logs = [...document.querySelectorAll<HTMLButtonElement>(".kernels button")];
    logs.find(({ textContent }) => `Linux ${state.kernel}.`.startsWith(`${textContent}.`))?.click();
  }
  for (const draw of drawn) draw(state);
}

function setTheme(theme: string): void {
  if (document.documentElement.classList.contains(theme)) return;
  // The book's own button does all that belongs to it.
  const button = document.getElementById(`mdbook-theme-${theme}`);
  if (button) button.click();
  else document.documentElement.className = `js ${theme}`;
}

function told({ state, theme, answers, top, exercise }: ToLesson): void {
  if (theme) setTheme(theme);
  if (answers && answers !== (kept[STORAGE] ?? "{}")) {
    change(STORAGE, answers);
    dispatchEvent(new StorageEvent("storage", { key: STORAGE }));
  }
  if (state) update(state);
  if (top !== undefined) scrollTo(0, top);
  if (exercise) headings().get(exercise)?.scrollIntoView();
}

/** Other sites, and links to us, are opened by the page. */
function follow(event: Event): void {
  const link = (event.target as Element).closest("a[href]");
  if (!(link instanceof HTMLAnchorElement)) return;
  const isOurs = link.matches(".workshop-link");
  if (!isOurs && link.origin === location.origin) return;
  event.preventDefault();
  tell(isOurs ? { exercise: link.hash.slice(1) } : { away: link.href });
}

function live(): void {
  lendStorage();
  takeFiles();
  addEventListener("click", follow);
  addEventListener("hashchange", () => tell({ path: where() }));
  let timer: ReturnType<typeof setTimeout> | undefined;
  addEventListener("scroll", () => {
    clearTimeout(timer);
    timer = setTimeout(() => tell({ path: where(), top: scrollY }), 200);
  });
  addEventListener(
    "keydown",
    (event) => {
      const act = actOf(event, "lesson");
      if (!act) return;
      event.preventDefault();
      event.stopPropagation();
      tell({ act });
    },
    true,
  );
  addEventListener("load", () => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(style);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    // The page answers with all that it has to tell. Before that, it may mean the page that was here.
    addEventListener("message", ({ source, data }) => source === parent && told(data));
    tell({ path: where(), ready: document.title });
  });
}

function addButtons(state: Shown): void {
  const ids = state.exercises.map(({ id }) => id);
  const known = new Set([...state.programs.map(({ name }) => name), ...ids]);
  const main = document.querySelector("main") ?? document.body;

  for (const code of main.querySelectorAll("code")) {
    const text = code.textContent ?? "";
    const block = code.closest("pre");
    if (!block) {
      const command = parse(text, known, state.guest);
      if (command) code.after(button(command));
      continue;
    }
    const commands = commandsOf(block, text, known, state.guest);
    if (!commands.length) continue;
    const bar = h("div", { class: "workshop-bar" });
    for (const { command, line } of commands) bar.append(button(command, commands.length > 1 ? line : undefined));
    block.after(bar);
  }

  const places = headings();
  for (const { id } of state.exercises) {
    const label = `Link to exercise ${id}`;
    const link = { href: `/#${id}`, target: "_top", class: "workshop-link", "aria-label": label, title: label };
    places.get(id)?.append(h("a", link, "#"));
  }

  const path = location.pathname.replace(/^\/book\//, "");
  const program = state.programs.find((program) => program.page === path);
  const heading = main.querySelector("h1");
  if (!program || !heading) return;
  const open = h("button", { type: "button", class: "workshop-button workshop-title" }, "Open in the editor");
  open.dataset.test = "lesson-open";
  open.addEventListener("click", () => tell({ program: program.name }));
  heading.append(open);
}

/** In a console block, commands have a prompt, and the other lines are output. In a shell block, all are commands. */
function commandsOf(
  block: Element,
  text: string,
  known: Set<string>,
  guest: boolean,
): { command: Command; line: string }[] {
  const lines = commandLines(text);
  const prompted = lines.some((line) => /^\s*\$\s/.test(line));
  const language = block.querySelector("code")?.className ?? "";
  if (!prompted && !/language-(sh|bash|shell)\b/.test(language)) return [];
  return lines
    .filter((line) => !prompted || /^\s*\$\s/.test(line))
    .map((line) => ({ command: parse(line, known, guest), line: bare(line) }))
    .filter((found): found is { command: Command; line: string } => found.command !== undefined);
}

function button(command: Command, line?: string): HTMLButtonElement {
  const element = h("button", { type: "button", class: "workshop-button", "data-test": `lesson-${command.kind}` });
  element.addEventListener("click", () => tell({ command }));
  const id = command.kind === "run" ? command.name : command.id;
  const draw = (state: Shown) => {
    const exercise = state.exercises.find((one) => one.id === id);
    let text = command.kind === "check" ? "Check" : "Run";
    if (command.kind === "start") {
      text = { new: "Start", started: "Continue", done: "Open" }[exercise?.state ?? "new"];
    }
    text = `${text} ${id}`;
    const needsCopy = command.kind === "check" || (command.kind === "run" && command.mine);
    const disabled = needsCopy && exercise?.state === "new";
    const label = line && command.kind === "run" ? `Run ${line}` : text;
    let title = label;
    if (command.kind === "run") {
      const { name, mine, args } = command;
      title = `Run ${[mine && "--mine", name, args].filter(Boolean).join(" ")}`;
      if (line) text = title;
    }
    // A change that changes nothing would still make the page move.
    if (element.textContent !== text) element.textContent = text;
    element.classList.toggle("workshop-line", Boolean(line));
    element.disabled = disabled;
    element.title = disabled ? `Start exercise ${id} first.` : title;
    element.setAttribute("aria-label", label);
  };
  drawn?.push(draw);
  return element;
}

if (parent !== self) live();
