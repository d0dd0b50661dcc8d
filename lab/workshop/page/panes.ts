// The three panes: how large they are, which are folded, and which has the focus.

import { byId, keep } from "./dom";

export type Pane = "lesson" | "editor" | "terminals";
export const panes: Pane[] = ["lesson", "editor", "terminals"];
/** All places for the focus, with the cards and the bar at the top, in their order. */
const places = ["lesson", "panel", "editor", "verdict", "terminals", "top"];
const isPane = (id: string): id is Pane => (panes as readonly string[]).includes(id);

type Sizes = { lesson: number; terminals: number; folded: Pane[] };

export class Panes {
  private readonly sizes: Sizes = { lesson: 40, terminals: 40, folded: [], ...keep.get<Sizes>("panes") };
  private readonly root = byId("panes");

  constructor(readonly focusOn: (pane: Pane) => void) {
    this.splitter(byId("split-lesson"), "lesson", [20, 75]);
    this.splitter(byId("split-terminals"), "terminals", [15, 85]);
    for (const button of document.querySelectorAll<HTMLElement>("[data-fold]")) {
      button.addEventListener("click", () => this.fold(button.dataset.fold as Pane));
    }
    this.draw();
  }

  isFolded(pane: Pane): boolean {
    return this.sizes.folded.includes(pane);
  }

  fold(pane: Pane, folded = !this.isFolded(pane)): void {
    const rest = this.sizes.folded.filter((one) => one !== pane);
    // The right side shows a text or a terminal, or both.
    const other = { editor: "terminals", terminals: "editor", lesson: "" }[pane];
    this.sizes.folded = folded ? [...rest.filter((one) => one !== other), pane] : rest;
    this.draw();
  }

  focus(pane: Pane): void {
    this.fold(pane, false);
    this.enter(pane);
  }

  /** Whether a pane or a card is shown. */
  private isOpen(place: string): boolean {
    return isPane(place) ? !this.isFolded(place) : !byId(place).hidden;
  }

  private enter(place: string): void {
    if (isPane(place)) this.focusOn(place);
    else
      ["input:not([hidden])", "button:not(.close)", "button"]
        .map((what) => byId(place).querySelector<HTMLElement>(what))
        .find(Boolean)
        ?.focus();
    // On a small screen, the panes are below each other, and neither the editor nor a terminal scrolls to itself.
    byId(place).scrollIntoView({ block: "nearest" });
  }

  /** The place after or before the one with the focus, if it is shown. */
  step(by: 1 | -1): void {
    const open = places.filter((place) => this.isOpen(place));
    // A card is within its pane.
    const within = open.filter((place) => byId(place).contains(document.activeElement));
    const now = open.indexOf(within.find((place) => !isPane(place)) ?? within[0]);
    this.enter(open[now < 0 ? (by > 0 ? 0 : open.length - 1) : (now + by + open.length) % open.length]);
  }

  /** The first of these that is a pane or a card and still shown, or else the editor. */
  leaveTo(ids: string[]): void {
    const open = ids.find((id) => places.includes(id) && this.isOpen(id));
    if (open) this.enter(open);
    else this.focus("editor");
  }

  private splitter(splitter: HTMLElement, pane: "lesson" | "terminals", [least, most]: [number, number]): void {
    const set = (value: number) => {
      this.sizes[pane] = Math.min(Math.max(value, least), most);
      this.fold(pane, false);
    };
    splitter.setAttribute("aria-valuemin", "0");
    splitter.setAttribute("aria-valuemax", "100");
    splitter.addEventListener("pointerdown", (down) => {
      if (down.button !== 0) return;
      splitter.setPointerCapture(down.pointerId);
      document.body.classList.add("dragging");
      let moved = false;
      const move = (event: PointerEvent) => {
        if (!moved && Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) < 3) return;
        moved = true;
        const box = this.root.getBoundingClientRect();
        const right = byId("right").getBoundingClientRect();
        const wide = (100 * (event.clientX - box.left)) / box.width;
        const high = (100 * (right.bottom - event.clientY)) / right.height;
        set(pane === "lesson" ? wide : high);
      };
      const end = () => {
        splitter.removeEventListener("pointermove", move);
        document.body.classList.remove("dragging");
      };
      splitter.addEventListener("pointermove", move);
      splitter.addEventListener("lostpointercapture", end, { once: true });
    });
    splitter.addEventListener("dblclick", () => this.fold(pane));
    splitter.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.shiftKey) return;
      const more = pane === "lesson" ? "ArrowRight" : "ArrowUp";
      const less = pane === "lesson" ? "ArrowLeft" : "ArrowDown";
      if (event.key === more) set(this.sizes[pane] + 2);
      else if (event.key === less) set(this.sizes[pane] - 2);
      else if (event.key === "Home") set(least);
      else if (event.key === "End") set(most);
      else if (event.key === "Enter") this.fold(pane);
      else return;
      event.preventDefault();
    });
  }

  private draw(): void {
    keep.set("panes", this.sizes);
    this.root.style.setProperty("--lesson", `${this.sizes.lesson}%`);
    this.root.style.setProperty("--terminals", `${this.sizes.terminals}%`);
    for (const pane of panes) this.root.classList.toggle(`no-${pane}`, this.isFolded(pane));
    for (const pane of ["lesson", "terminals"] as const) {
      const value = this.isFolded(pane) ? 0 : Math.round(this.sizes[pane]);
      byId(`split-${pane}`).setAttribute("aria-valuenow", String(value));
    }
    for (const button of document.querySelectorAll<HTMLElement>("[data-fold]")) {
      const pane = button.dataset.fold as Pane;
      const folded = this.isFolded(pane);
      const label = `${folded ? "Unfold" : "Fold"} the ${pane}`;
      button.setAttribute("aria-expanded", String(!folded));
      button.setAttribute("aria-label", label);
      button.title = label;
    }
  }
}
