// What the book's pages do: they ask questions, look up an error in the clinic, step through a verifier's log, and show a
// table as cards in a narrow window.

import "./log";
import { enlivenAll } from "./questions";

enlivenAll();

// The Enter that ends an input method's word would lead to the first result of mdBook's search.
addEventListener(
  "keydown",
  (event) => {
    if (event.isComposing || event.keyCode === 229) event.stopPropagation();
  },
  true,
);

/** A mistake, as `verifier::known()` describes it. */
interface Known {
  says: string[];
  case: string | null;
  cause: string;
  why: string;
  cure: string;
}

/** What the names in braces stand for, if the pattern fits the text; the same rule as in `common/verifier/src/pattern.rs`. */
function match(pattern: string, text: string): Map<string, string> | undefined {
  const [first = "", ...rest] = pattern.split("{");
  if (!text.startsWith(first)) return undefined;
  const values = new Map<string, string>();
  let left = text.slice(first.length);
  for (const part of rest) {
    const [name = "", literal = ""] = part.split("}");
    const end = literal === "" ? left.length : left.indexOf(literal);
    if (end < 0) return undefined;
    values.set(name, left.slice(0, end));
    left = left.slice(end + literal.length);
  }
  return left === "" ? values : undefined;
}

/** The mistake with its texts filled in, if it has these words. */
function explained(known: Known, lines: string[]): Known | undefined {
  for (const says of known.says) {
    const height = says.split("\n").length;
    for (let nth = 0; nth + height <= lines.length; nth++) {
      const values = match(says, lines.slice(nth, nth + height).join("\n"));
      if (!values) continue;
      const room = Number(values.get("size") ?? 0) - Number(values.get("offset"));
      if (room >= 0) values.set("room", `${room}`);
      const fill = (text: string) => text.replace(/\{(\w+)\}/g, (all, name: string) => values.get(name) ?? all);
      const filled = { ...known, cause: fill(known.cause), why: fill(known.why), cure: fill(known.cure) };
      if (!`${filled.cause}${filled.why}${filled.cure}`.includes("{")) return filled;
    }
  }
  return undefined;
}

function paragraph(text: string, parent: Element, name = "p"): Element {
  const element = parent.appendChild(document.createElement(name));
  // What stands in backticks is code.
  text.split("`").forEach((part, nth) => {
    if (nth % 2 === 0) element.append(part);
    else element.appendChild(document.createElement("code")).textContent = part;
  });
  return element;
}

const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.;)]$/.test(text) ? "" : "."}`;

function lookUp(box: HTMLElement): void {
  const [text, data, answer] = [
    box.querySelector("textarea"),
    box.querySelector("script"),
    box.querySelector("output"),
  ];
  if (!text || !data?.textContent || !answer) return;
  const all: Known[] = JSON.parse(data.textContent);
  box.hidden = false;
  text.addEventListener("input", () => {
    const lines = text.value.split("\n").map((line) => line.trim().replace(/^libbpf: /, ""));
    const found = all.flatMap((known) => explained(known, lines) ?? []);
    const causes = found.filter(({ cause }, nth) => found.findIndex((other) => other.cause === cause) === nth);
    answer.replaceChildren();
    if (lines.every((line) => line === "")) return;
    if (causes.length === 0) {
      paragraph(
        "The workbook does not know these words. Did you paste the last lines, before `processed ... insns`?",
        answer,
      );
      return;
    }
    if (causes.length > 1) paragraph("This message has several causes. Which of them fits your line?", answer);
    for (const { cause, why, cure, case: number } of causes) {
      const entry = answer.appendChild(document.createElement("section"));
      paragraph(sentence(cause), entry).className = "cause";
      paragraph(sentence(why), entry);
      const end = paragraph(`${sentence(cure.replace(/,? for example:$/, ""))} `, entry);
      if (!number) continue;
      const link = end.appendChild(document.createElement("a"));
      link.href = `clinic/${number}.html`;
      link.textContent = `Case ${number}`;
    }
  });
}

for (const box of document.querySelectorAll<HTMLElement>(".look-up")) lookUp(box);

// mdBook's button for the sidebar is a label, which no key reaches.
const toggle = document.getElementById("mdbook-sidebar-toggle");
toggle?.setAttribute("role", "button");
toggle?.setAttribute("tabindex", "0");
toggle?.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" && event.key !== " ") return;
  event.preventDefault();
  toggle.click();
});

/** What is too wide for its place can be scrolled with keys. */
function makeScrollable(): void {
  for (const box of document.querySelectorAll<HTMLElement>("pre, pre > code, .table-wrapper")) {
    if (box.scrollWidth > box.clientWidth && getComputedStyle(box).overflowX !== "visible") box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}
makeScrollable();
addEventListener("resize", makeScrollable);

// mdBook puts a list right into another where a page leaves a level of headings out.
addEventListener("load", () => {
  for (const list of document.querySelectorAll(".on-this-page ol > ol")) list.parentElement?.replaceWith(list);
});

// The empty corner of a table is no header.
for (const head of document.querySelectorAll("th:empty")) head.replaceWith(document.createElement("td"));

// In a narrow window, each cell of a row has a line, with its column's name.
for (const table of document.querySelectorAll(".content table")) {
  const heads = [...table.querySelectorAll("thead :is(td, th)")].map((head) => head.textContent ?? "");
  for (const row of table.querySelectorAll("tbody tr")) {
    for (const [nth, cell] of [...row.children].entries()) cell.setAttribute("data-column", heads[nth] ?? "");
  }
}
