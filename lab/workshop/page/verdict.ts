// The card above a terminal. After a check: whether the exercise is right, and if not, what was expected and what was seen.

import type { Action, Fault } from "./api";
import { byId, h, rich } from "./dom";
import type { Button } from "./panel";

const isRight = ({ status }: Action) => status === 0;

/** Whether the program itself is to blame, and not the guest. */
const isJudged = ({ name, verdict, cause, diagnostics }: Action) =>
  Boolean(verdict) ||
  diagnostics.some(({ severity }) => severity === "error") ||
  cause?.startsWith(`${name} is not right yet`);

/** The card of a check that has ended. */
export function showVerdict(action: Action, buttons: Button[], close: () => void): void {
  const { name, verdict } = action;
  const title = isRight(action)
    ? `${name} is right`
    : `${name} ${isJudged(action) ? "is not right yet" : "could not be checked"}`;
  card(isRight(action) ? "good" : "bad", title, close, [
    ...(verdict && "wrong" in verdict ? fault(verdict.wrong) : [h("p", {}, ...rich(reason(action)))]),
    h(
      "div",
      { class: "buttons" },
      ...buttons.map(({ label, test, act }) => h("button", { type: "button", "data-test": test, click: act }, label)),
    ),
  ]);
}

/** Shows a card above the terminal. */
export function card(kind: "good" | "bad" | "wait", title: string, close: () => void, content: Node[]): void {
  const cross = { "aria-label": "Close the verdict", title: "Close", click: close };
  const box = byId("verdict");
  box.className = kind;
  box.setAttribute("aria-label", title);
  box.replaceChildren(
    h("h3", {}, title),
    h("button", { type: "button", class: "close", "data-test": "verdict-close", ...cross }, "×"),
    ...content,
  );
  box.hidden = false;
  box.scrollTop = 0;
}

export function hideVerdict(): void {
  byId("verdict").hidden = true;
}

function fault({ expected, seen, lines, before, wrong }: Fault): HTMLElement[] {
  const row = (name: string, ...content: (Node | string)[]) => [h("dt", {}, name), h("dd", {}, ...content)];
  const line = wrong === null ? [] : row(`line ${before + wrong + 1}`, h("mark", {}, lines[wrong]));
  return [h("dl", {}, ...row("expected", ...rich(expected)), ...row("seen", ...rich(seen)), ...line)];
}

/** What the check saw, or why it could not judge the program. */
function reason({ name, verdict, cause, diagnostics }: Action): string {
  if (verdict && "right" in verdict) return verdict.right;
  const first = diagnostics.find(({ severity }) => severity === "error");
  if (first) return `${first.path.split("/").pop()}:${first.line}: ${first.message.split("\n")[0]}`;
  return cause?.replace(`${name} is not right yet: `, "") ?? "See the terminal.";
}
