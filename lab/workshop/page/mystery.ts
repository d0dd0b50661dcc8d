// A mystery: the complaint, the clock, the answer, the notes, and an expert's way. The case itself is in a guest, which
// counts the time and grades the answers. The learner measures in the terminals.

import { type About, api, type Mystery, type Open, type Said, type State } from "./api";
import { h, pause, plain, rich, say } from "./dom";
import type { Button } from "./panel";
import { card, hideVerdict } from "./verdict";

const clock = (seconds: number) => `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
const textsOf = (all: Said[]) => all.flatMap((said) => ("text" in said ? [said.text] : []));
const paragraphs = (text: string) => text.split("\n\n").map((part) => h("p", {}, ...rich(part)));
const row = (label: string, ...content: (Node | string)[]) =>
  h("div", { class: "row" }, h("h4", {}, label), ...content);
const button = (label: string, test: string, attributes = {}) =>
  h("button", { type: "button", "data-test": test, ...attributes }, label);

export class Mysteries {
  private state?: State;
  private about?: About;
  /** The case that is shown, and whether it happens. */
  private shown?: { id: string; isOpen: boolean };
  /** When the state came. */
  private heard = 0;
  private parts?: Parts;

  constructor(
    readonly tried: (doing: Promise<unknown>) => void,
    readonly start: (id: string, seed: number | null) => Promise<void>,
    readonly go: (id: string) => void,
    /** What a learner may want to do after an answer. */
    readonly after: (isRight: boolean) => Button[],
  ) {
    setInterval(() => this.tick(), 250);
  }

  /** The case of this name. */
  of(id: string): Mystery | undefined {
    return this.state?.mysteries.find((one) => one.id === id);
  }

  /** The case that happens, if it is this one. */
  open(id: string): Open | undefined {
    const { mystery } = this.state ?? {};
    return mystery && id === idOf(mystery) ? mystery : undefined;
  }

  update(state: State): void {
    this.state = state;
    this.heard = performance.now();
    if (this.shown) this.draw();
  }

  /** The elements that show a case. They stay as they are while the learner types. */
  async show(id: string): Promise<HTMLElement> {
    this.about ??= await api.mysteries();
    this.shown = { id, isOpen: Boolean(this.open(id)) };
    this.parts = this.make(id);
    this.draw();
    return this.parts.view;
  }

  hide(): void {
    this.shown = undefined;
  }

  /** Fills in the seed that the lesson names. */
  choose(seed: string): void {
    const field = this.parts?.view.querySelector<HTMLInputElement>("#seed");
    if (field) field.value = seed;
  }

  /** Goes to an expert's way: who listens reads on from there. */
  toWay(): void {
    const way = this.parts?.view.querySelector<HTMLElement>("[data-test=way]");
    way?.focus();
    way?.scrollIntoView();
  }

  /** Shows what the case says now. */
  toNow(): void {
    this.parts?.view.querySelector("[data-test=now]")?.scrollIntoView({ block: "center" });
  }

  private draw(): void {
    const { shown, parts } = this;
    if (!shown || !parts) return;
    const open = this.open(shown.id);
    if (Boolean(open) !== shown.isOpen) {
      // It has started or ended.
      shown.isOpen = Boolean(open);
      const old = parts.view;
      this.parts = this.make(shown.id);
      old.replaceWith(this.parts.view);
      if (!open) hideVerdict();
    }
    this.parts?.draw();
    this.tick();
  }

  private tick(): void {
    const open = this.shown && this.open(this.shown.id);
    if (!open || !this.parts?.clock) return;
    const { seconds, limit, clock: said, is_solved: isSolved } = open.played;
    const now = seconds + Math.floor((performance.now() - this.heard) / 1000);
    const text = isSolved ? said : `${clock(now)} of ${clock(limit)}`;
    if (this.parts.clock.textContent !== text) this.parts.clock.textContent = text;
    this.parts.clock.className = isSolved ? "clock good" : now > limit ? "clock bad" : "clock";
  }

  private make(id: string): Parts {
    return this.open(id) ? this.game(id) : this.invitation(id);
  }

  /** Before the case, and after it. */
  private invitation(id: string): Parts {
    const seed = h("input", {
      id: "seed",
      "data-test": "seed",
      inputmode: "numeric",
      pattern: "\\d{1,9}",
      size: 6,
      placeholder: "any",
      title: "The number from which all details of the case follow. Whoever types the same one gets the same case.",
      autocomplete: "off",
    });
    const start = h("button", { type: "submit", class: "main", "data-test": "start" }, `Start ${id}`);
    const form = h("form", { class: "line" }, start, h("label", { for: "seed" }, "Seed"), seed);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.tried(this.start(id, seed.value ? Number(seed.value) : null));
    });
    const news = h("p", { role: "status" });
    const notes = h("div");
    const view = h(
      "div",
      { class: "mystery" },
      this.title(id),
      h("p", {}, ...rich(this.about?.rules ?? "")),
      h("p", {}, "You measure in the terminal that opens. The questions in the lesson lead to the cause."),
      form,
      news,
      notes,
    );
    const draw = () => {
      const { mystery, actions } = this.state ?? {};
      const phase = actions?.find(({ what, name }) => what === "play" && name === id)?.phase ?? "ended";
      start.disabled = Boolean(mystery || phase !== "ended");
      // While a case ends, its driver still runs.
      const isStarting = phase === "compiling" || phase === "booting";
      const other = mystery && idOf(mystery);
      if (other && news.dataset.other !== other) {
        const go = button(`Go to ${other}`, "go-to-open", { click: () => this.go(other) });
        news.replaceChildren(`${other} is open. End it first. `, go);
      } else if (!other) news.textContent = isStarting ? "The case is being made. This takes some seconds." : "";
      news.dataset.other = other ?? "";
      fill(notes, this.of(id)?.notes ?? [], (all) => row("Your notes", list(all, "notes")));
    };
    return { view, draw };
  }

  private title(id: string, ...more: Node[]): HTMLElement {
    const one = this.of(id);
    const open = this.open(id);
    const name = `${id} ${one?.title ?? ""}`;
    const seed = open ? h("span", { class: "seed" }, `seed ${open.played.seed}`) : null;
    const solved = one?.done && !open ? h("span", { class: "solved", "data-test": "solved" }, "✓ solved") : null;
    return h("div", { class: "line head" }, h("h3", {}, ...rich(name)), seed, solved, ...more);
  }

  /** While it happens. */
  private game(id: string): Parts {
    const time = h("span", { class: "clock", "data-test": "clock" });
    const now = h("div", { role: "status", "data-test": "now" });
    const answers = h("div");
    const notes = h("div");
    const way = h("div", { "data-test": "way", tabindex: -1, role: "group", "aria-label": "An expert's way" });
    const complaint = h("blockquote", { "data-test": "complaint" });
    const look = button("Look", "look", { title: "How slow it was in the last seconds" });
    look.addEventListener("click", () => this.tried(api.play("look")));
    const view = h(
      "div",
      { class: "mystery" },
      this.title(id, time),
      complaint,
      h("div", { class: "line" }, look, now),
      row("Your answer", this.answerForm(id), answers),
      row("Your notes", this.noteForm(), notes),
      way,
    );
    let wasMoving = false;
    const draw = () => {
      const { played, moving, now: looked, way: steps } = this.open(id) ?? {};
      if (!played) return;
      fill(complaint, [played.complaint], ([text]) => h("div", {}, ...paragraphs(text)));
      pause(look, Boolean(moving));
      const texts = textsOf(looked ?? []);
      fill(now, texts.length || moving !== "look" ? texts : ["…"], (all) => h("p", {}, ...rich(all.join(" "))));
      fill(answers, played.answers, (all) => list(all, "answers"));
      fill(notes, this.of(id)?.notes ?? [], (all) => list(all, "notes"));
      const isMoving = moving === "solution";
      if (isMoving && !wasMoving) say("The commands of an expert run now. Each takes some seconds.");
      if (wasMoving && !isMoving && steps?.length) say("An expert's way is complete. The button Solution goes to it.");
      const isNews = fill(way, [steps ?? [], isMoving] as const, ([all, isMoving]) => wayOf(all, isMoving));
      if (isNews && (isMoving || wasMoving)) way.scrollIntoView({ block: "end" });
      wasMoving = isMoving;
    };
    return { view, draw, clock: time };
  }

  private noteForm(): HTMLElement {
    const words = h("input", {
      "data-test": "note",
      "aria-label": "Note",
      placeholder: "What you have measured",
      autocomplete: "off",
      maxlength: 1000,
    });
    const form = h(
      "form",
      { class: "line" },
      words,
      h("button", { type: "submit", "data-test": "add-note" }, "Write down"),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = words.value.trim();
      // What was typed stays until it is written down.
      const written = async () => {
        await api.play({ note: { words: [text] } });
        if (words.value.trim() === text) words.value = "";
        say("The note is written down");
      };
      if (text) this.tried(written());
      words.focus();
    });
    return form;
  }

  /** The form asks what the chosen cause asks. */
  private answerForm(id: string): HTMLElement {
    const causes = this.about?.causes ?? [];
    const option = (word: string, text: string) => h("option", { value: word }, text);
    const cause = h(
      "select",
      { "data-test": "cause", "aria-label": "Cause" },
      option("", "What is the cause?"),
      ...causes.map(({ word, what }) => option(word, plain(`${word}: ${what}`))),
    );
    const field = (test: string) =>
      h("input", { "data-test": test, autocomplete: "off", maxlength: 200, required: true });
    const [place, number] = [field("place"), field("number")];
    const [placeIs, numberIs] = [h("span"), h("span")];
    const rest = h(
      "div",
      { class: "fields", hidden: true },
      h("label", { class: "field" }, "Place", place, placeIs),
      h("label", { class: "field" }, "Number", number, numberIs),
      h("button", { type: "submit", class: "main", "data-test": "answer" }, "Answer"),
    );
    cause.addEventListener("change", () => {
      const chosen = causes.find(({ word }) => word === cause.value);
      rest.hidden = !chosen;
      placeIs.replaceChildren(...rich(chosen?.place ?? ""));
      numberIs.replaceChildren(...rich(chosen?.number ?? ""));
    });
    const form = h("form", { class: "answer", "data-test": "answer-form" }, cause, rest);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const [where, count] = [place, number].map(({ value }) => value.trim());
      const answer = { cause: cause.value, place: where || null, number: count ? [count] : [] };
      this.tried(api.play({ answer }).then(({ said }) => this.judged(id, said)));
    });
    return form;
  }

  /** The card above the terminal: which parts are right. */
  private judged(id: string, all: Said[]): void {
    const parts = all.flatMap((said) => ("graded" in said ? said.graded : []));
    if (!parts.length) return;
    const right = parts.filter(({ is_right: isRight }) => isRight).length;
    const isRight = right === parts.length;
    const title = isRight ? `${id} is solved` : `${right} of ${parts.length} are right`;
    const line = ({ name, is_right: isRight, verdict }: (typeof parts)[number]) => [
      h("dt", { class: isRight ? "good" : "bad" }, `${isRight ? "✓" : "✗"} ${name}`),
      h("dd", {}, ...rich(verdict)),
    ];
    card(isRight ? "good" : "bad", title, hideVerdict, [
      h("dl", {}, ...parts.flatMap(line)),
      ...textsOf(all).map((text) => h("p", {}, ...rich(text))),
      h(
        "div",
        { class: "buttons" },
        ...this.after(isRight).map(({ label, test, act }) => button(label, test ?? "", { click: act })),
      ),
    ]);
  }
}

/** The elements of a case, and what keeps them up to date. */
type Parts = { view: HTMLElement; draw: () => void; clock?: HTMLElement };

const idOf = ({ played }: Open) => `mystery-${played.number}`;

/** Draws anew only what has changed. Returns whether it has. */
function fill<T>(box: HTMLElement, now: T, draw: (now: T) => HTMLElement | null): boolean {
  const key = JSON.stringify(now);
  if (box.dataset.now === key) return false;
  box.dataset.now = key;
  const content = Array.isArray(now) && !now.length ? null : draw(now);
  box.replaceChildren(...(content ? [content] : []));
  return true;
}

const list = (all: string[], test: string) =>
  h("ul", { class: "list", "data-test": test }, ...all.map((text) => h("li", {}, ...rich(text))));

/** An expert's commands with what they print, and what follows from that. */
function wayOf(all: Said[], isMoving: boolean): HTMLElement | null {
  if (!all.length && !isMoving) return null;
  const shown = all.flatMap((said) => {
    if ("step" in said)
      return [h("p", {}, ...rich(said.step.why)), h("pre", { class: "typed" }, `# ${said.step.command}`)];
    if ("lines" in said) return [h("pre", {}, said.lines.trimEnd())];
    return "text" in said ? paragraphs(said.text) : [];
  });
  const wait = isMoving ? h("p", { class: "wait" }, "The commands run now. Each takes some seconds …") : null;
  return row("An expert's way", ...shown, ...(wait ? [wait] : []));
}
