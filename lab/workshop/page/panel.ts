// The panel above the text: hints, errors and news.

import { type Problem, problem } from "./api";
import { byId, coded, h, rich } from "./dom";

export type Button = { label: string; test?: string; act: () => void };

export function showPanel(kind: "hint" | "bad" | "news", title: string, content: Node[], buttons: Button[] = []): void {
  const panel = byId("panel");
  panel.className = kind;
  shown = undefined;
  panel.setAttribute("aria-label", title);
  const { activeElement } = document;
  const focused = panel.contains(activeElement) && activeElement?.textContent;
  const close = { label: "Close", test: "panel-close", act: hidePanel };
  panel.replaceChildren(
    h("h3", {}, title),
    h("div", { class: "said" }, ...content),
    h(
      "div",
      { class: "buttons" },
      ...[...buttons, close].map(({ label, test, act }) =>
        h("button", { type: "button", "data-test": test, click: act }, label),
      ),
    ),
  );
  panel.hidden = false;
  // Who goes on with the same button finds it where it was.
  if (focused) [...panel.querySelectorAll("button")].find(({ textContent }) => textContent === focused)?.focus();
  panel.scrollTop = 0;
}

export function hidePanel(): void {
  byId("panel").hidden = true;
  shown = undefined;
}

/** All three parts of an error: its cause, what shows it, and what helps. */
export function explain({ cause, evidence, fix }: Pick<Problem, "cause" | "evidence" | "fix">): Node[] {
  const sentence = (text: string) => h("p", {}, ...rich(text.charAt(0).toUpperCase() + text.slice(1)));
  return [sentence(cause), ...(evidence ? [h("pre", {}, ...coded(evidence))] : []), ...(fix ? [sentence(fix)] : [])];
}

/** The error in the panel. */
let shown: Problem | undefined;
export const shownProblem = () => shown;

export function showProblem(thrown: unknown): void {
  const what = problem(thrown);
  showPanel("bad", "This did not work", explain(what));
  shown = what;
}

/** Hides this error, if it is still in the panel. */
export function hideProblem(over: Problem | undefined): void {
  if (over && over === shown) hidePanel();
}
