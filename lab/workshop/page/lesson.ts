// The lesson: a page of the book in a frame. We add buttons to the commands that the page has, and remember where the
// learner was.

import type { State } from "./api";
import { bare, type Command, commandLines, parse } from "./commands";
import { byId, h, keep } from "./dom";
import { takeFiles } from "./drop";
import { bookTheme, onTheme } from "./theme";

const firstPage = "/book/stages/01.html";
const contents = "/book/stages.html";

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
  /* mdBook would move it down to where the reader scrolls up, and in a pane that changes its width, it stays there. */
  #mdbook-menu-bar { position: relative !important; top: 0 !important; }
  #mdbook-theme-toggle, #mdbook-theme-list { display: none !important; }
  @media print { .workshop-button, .workshop-bar, .workshop-link { display: none !important; } }
`;

export class Lesson {
  private readonly frame = byId<HTMLIFrameElement>("book");
  private state?: State;
  /** Nobody has been here before. */
  readonly isNew: boolean;
  /** The page that is being loaded, and the exercise to show in a page. */
  private coming?: string;
  private wanted?: { path: string; exercise: string };
  /** Where the page was before a reload of ours, until the buttons have their places. */
  private top?: number;
  private isFirst = true;
  private buttons: { button: HTMLButtonElement; draw: (button: HTMLButtonElement, state: State) => void }[] = [];
  onCommand: (command: Command) => void = () => {};
  onOpen: (name: string) => void = () => {};
  onKey: (event: KeyboardEvent) => void = () => {};

  constructor() {
    this.frame.addEventListener("load", () => this.loaded());
    byId("lesson-back").addEventListener("click", () => this.back());
    byId("lesson-start").addEventListener("click", () => this.go(contents));
    onTheme(() => this.theme());
    const last = keep.get<string>("lesson");
    this.isNew = !last;
    this.frame.src = last?.startsWith("/book/") ? last : firstPage;
  }

  /** Shows this page of the book, or an exercise in it. */
  show(page: string, exercise?: string): void {
    const path = `/book/${page}`;
    this.wanted = exercise === undefined ? undefined : { path, exercise };
    if (path !== (this.coming ?? this.page?.location.pathname)) {
      this.coming = path;
      this.go(path);
    } else if (!this.coming) this.toWanted();
  }

  private toWanted(): void {
    const { page } = this;
    const wanted = this.wanted;
    // Another page, or one without its buttons, may still be there.
    if (!wanted || page?.readyState !== "complete" || page.location.pathname !== wanted.path) return;
    this.wanted = undefined;
    this.headings(page).get(wanted.exercise)?.scrollIntoView();
  }

  /** The headings of exercises, by the names of these. */
  private headings(page: Document): Map<string, HTMLElement> {
    return new Map([...page.querySelectorAll("h3")].map((h3) => [h3.textContent?.split(" ")[0] ?? "", h3]));
  }

  private back(): void {
    const view = this.frame.contentWindow as (Window & { navigation?: { canGoBack: boolean } }) | null;
    // Before the first lesson is what this tab showed before the workshop. Old browsers can't tell.
    if (view?.navigation?.canGoBack ?? true) view?.history.back();
  }

  go(path: string): void {
    this.frame.contentWindow?.location.assign(path);
  }

  focus(): void {
    this.frame.focus();
    this.frame.contentWindow?.focus();
  }

  update(state: State): void {
    const first = !this.state;
    this.state = state;
    if (first) this.decorate();
    for (const { button, draw } of this.buttons) draw(button, state);
  }

  /** The page in the frame, unless the browser shows an error of its own there. */
  private get page(): Document | undefined {
    try {
      const page = this.frame.contentDocument;
      return page?.location.pathname.startsWith("/book/") ? page : undefined;
    } catch {
      return undefined;
    }
  }

  private loaded(): void {
    this.coming = undefined;
    const { page } = this;
    const view = this.frame.contentWindow as (Window & typeof globalThis) | null;
    if (!page || !view) return;
    const sheet = new view.CSSStyleSheet();
    sheet.replaceSync(style);
    page.adoptedStyleSheets = [...page.adoptedStyleSheets, sheet];
    this.theme();

    const where = () => view.location.pathname + view.location.hash;
    const last = keep.get<{ path: string; top: number }>("lesson-top");
    this.top = this.isFirst && last?.path === where() ? last.top : undefined;
    this.isFirst = false;
    const remember = () => keep.set("lesson", where());
    remember();
    view.addEventListener("hashchange", remember);
    let timer: ReturnType<typeof setTimeout> | undefined;
    view.addEventListener("scroll", () => {
      clearTimeout(timer);
      timer = setTimeout(() => keep.set("lesson-top", { path: where(), top: view.scrollY }), 200);
    });
    view.addEventListener("keydown", (event) => this.onKey(event), true);
    takeFiles(view);

    byId("lesson-title").textContent = page.title.replace(/ - The BPF storage workbook$/, "");
    // Other sites, and the pages that want the whole window, do not fit into this frame.
    for (const link of page.querySelectorAll<HTMLAnchorElement>("a[href]")) {
      if (link.origin === location.origin && !link.pathname.endsWith("/present.html")) continue;
      link.target = "_blank";
      link.rel = "noopener";
    }
    this.decorate();
    this.toWanted();
  }

  private theme(): void {
    const { page } = this;
    if (!page || page.documentElement.classList.contains(bookTheme())) return;
    // The book's own button does all that belongs to it.
    const button = page.getElementById(`mdbook-theme-${bookTheme()}`);
    if (button) button.click();
    else page.documentElement.className = `js ${bookTheme()}`;
  }

  private decorate(): void {
    const { page, state } = this;
    this.buttons = [];
    if (page?.readyState !== "complete" || !state) return;
    this.addButtons(page, state);
    // A log of the verifier is shown as this kernel has it.
    const logs = [...page.querySelectorAll<HTMLButtonElement>(".kernels button")];
    logs.find(({ textContent }) => `Linux ${state.kernel}.`.startsWith(`${textContent}.`))?.click();
    if (this.top !== undefined) page.defaultView?.scrollTo(0, this.top);
    this.top = undefined;
  }

  private addButtons(page: Document, state: State): void {
    for (const old of page.querySelectorAll(".workshop-button, .workshop-bar, .workshop-link")) old.remove();
    const ids = [...state.exercises, ...state.mysteries].map(({ id }) => id);
    const known = new Set([...state.programs.map(({ name }) => name), ...ids]);
    const main = page.querySelector("main") ?? page.body;

    for (const code of main.querySelectorAll("code")) {
      const text = code.textContent ?? "";
      const block = code.closest("pre");
      if (!block) {
        const command = parse(text, known, state.guest);
        if (command) code.after(this.button(command));
        continue;
      }
      const commands = this.commandsOf(block, text, known, state.guest);
      if (!commands.length) continue;
      const bar = h("div", { class: "workshop-bar" });
      for (const { command, line } of commands)
        bar.append(this.button(command, commands.length > 1 ? line : undefined));
      block.after(bar);
    }

    const headings = this.headings(page);
    for (const { id } of state.exercises) {
      const label = `Link to exercise ${id}`;
      const link = { href: `/#${id}`, target: "_top", class: "workshop-link", "aria-label": label, title: label };
      headings.get(id)?.append(h("a", link, "#"));
    }

    const path = page.location.pathname.replace(/^\/book\//, "");
    const program = state.programs.find((program) => program.page === path);
    const heading = main.querySelector("h1");
    if (!program || !heading) return;
    const open = h("button", { type: "button", class: "workshop-button workshop-title" }, "Open in the editor");
    open.dataset.test = "lesson-open";
    open.addEventListener("click", () => this.onOpen(program.name));
    heading.append(open);
    this.buttons.push({ button: open, draw: () => {} });
  }

  /** In a console block, commands have a prompt, and the other lines are output. In a shell block, all are commands. */
  private commandsOf(
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

  private button(command: Command, line?: string): HTMLButtonElement {
    const button = h("button", { type: "button", class: "workshop-button", "data-test": `lesson-${command.kind}` });
    button.addEventListener("click", () => this.onCommand(command));
    const id = command.kind === "run" ? command.name : command.id;
    const draw = (button: HTMLButtonElement, state: State) => {
      const exercise = state.exercises.find((one) => one.id === id);
      let text = command.kind === "check" ? "Check" : "Run";
      if (command.kind === "start") {
        text = { new: "Start", started: "Continue", done: "Open" }[exercise?.state ?? "new"];
      }
      if (command.kind === "play") text = "Play";
      text = `${text} ${id}${command.kind === "play" && command.seed ? `, seed ${command.seed}` : ""}`;
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
      if (button.textContent !== text) button.textContent = text;
      button.classList.toggle("workshop-line", Boolean(line));
      button.disabled = disabled;
      button.title = disabled ? `Start exercise ${id} first.` : title;
      button.setAttribute("aria-label", label);
    };
    if (this.state) draw(button, this.state);
    this.buttons.push({ button, draw });
    return button;
  }
}
