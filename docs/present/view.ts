// How a step looks.

import {
  type Code,
  data,
  type Exercise,
  element,
  type Line,
  link,
  type Part,
  type Picture,
  type Question,
  type Step,
  type Text,
} from "./data";

// Of an item that is folded, unchanged lines are shown only if they are so near a change.
const CONTEXT = 3;
// A command of fewer letters is on one line, and so is a quoted part of a longer one, if it has no more than these.
const SHORT = 24;
const LONG_QUOTE = 48;
// A command of ours is whole on its line if it is no longer.
const COMMAND = 56;
// As in present.css.
const TAB = 4;

const place = (step: Code) =>
  [
    step.file,
    ...(["lesson", "run", "table", "evidence"].includes(step.part) ? [] : [step.part]),
    ...(step.of ? [step.of] : []),
  ].join(", ");

/** What a step is called in a list. */
export function nameOf(step: Step): string {
  switch (step.kind) {
    case "code":
      return step.of ? `${step.item}, ${step.of}` : step.item;
    case "picture":
      return step.title;
    case "text":
      return step.title;
    case "question":
      return step.right === undefined ? step.title : `${step.title}: the answer`;
    case "exercise":
      return `${step.id} ${step.title}`;
  }
}

/** The first page of a part: a stage's number, its question and its idea, or the titles of the theory's slides. */
export function title(part: Part): HTMLElement[] {
  const isStage = /^\d+$/.test(part.id);
  // A question stands alone.
  const isQuestion = part.title.endsWith("?");
  const slides = part.steps.flatMap((step, nth) => {
    const before = part.steps[nth - 1];
    // The views of one picture are one entry.
    const isNew = step.kind === "picture" && !(before?.kind === "picture" && step.title === before.title);
    return isNew && !isStage && !isQuestion ? [element("li", "", link(`#${part.id}/${nth + 1}`, step.title))] : [];
  });
  return [
    ...(isStage ? [element("p", "number", part.id)] : []),
    element("h1", "", !part.name || isStage ? part.title : `${part.name}: ${part.title}`),
    element("p", "idea", part.idea),
    ...(slides.length > 1 ? [element("ul", "", ...slides)] : []),
  ];
}

/** A line may wrap anywhere but within an operator or a command's option. */
const unbroken = (text: string) =>
  text.split(/(->|::<|(?<= )--?[a-z][\w-]*)/i).map((part, nth) => (nth % 2 ? element("span", "whole", part) : part));

const isInComment = ([, pieces]: Line) => /^\s*\*[\s/]/.test(pieces.map(([, text]) => text).join(""));

/** An item of a program; `all` shows the lines far from a change, too. */
export function code(step: Code, all: boolean): HTMLElement[] {
  const lines = step.lines;
  const has = (kind: string) => lines.some(([other]) => other === kind);
  const whole = all || !step.folded || lines.every(([kind]) => kind === "same");
  const near = (nth: number) =>
    lines.slice(Math.max(nth - CONTEXT, 0), nth + CONTEXT + 1).some(([kind]) => kind !== "same");
  const shown = element("div", "code");
  for (let nth = 0; nth < lines.length; nth++) {
    let end = nth;
    while (!whole && end < lines.length && !near(end)) end++;
    // A comment is folded whole.
    while (end > nth && end < lines.length && lines[end][0] === "same" && isInComment(lines[end])) end++;
    if (end > nth + 1) {
      const fold = `${end - nth}${has("mark") ? " more lines" : " lines as before"}`;
      shown.append(element("div", "fold", fold));
      nth = end - 1;
      continue;
    }
    const [kind, pieces] = lines[nth];
    const mixed = pieces.some(([changed]) => !changed);
    const words = pieces.map(([changed, text]) =>
      element("span", changed && mixed && text.trim() ? "word" : "", ...unbroken(text)),
    );
    const line = element("div", kind, ...words);
    const [blank] = /^\s*/.exec(line.textContent) ?? [""];
    line.style.setProperty("--tabs", `${Math.floor(blank.replaceAll("\t", "    ").length / TAB)}`);
    line.dataset.sign = { same: "", mark: "\u2192", new: "+", gone: "\u2212" }[kind];
    if (!pieces.length) line.append("\u200b");
    shown.append(line);
  }
  const way = step.case ? [", ", link(`#${step.case}/1`, `clinic ${step.case.replace("-", " ")}`)] : [];
  // What a command proves is asked above it.
  const heading =
    step.part === "evidence"
      ? [element("span", "item", step.item), element("code", "file", ...unbroken(place(step)))]
      : [element("code", "item", ...unbroken(step.item)), element("span", "file", place(step), ...way)];
  return [element("h2", step.part, ...heading), shown];
}

const named = (svg: SVGSVGElement, names: string[]) =>
  names.map((name) => svg.querySelector<SVGGElement>(`#${name}`)).filter((group) => group !== null);

/** A picture, in groups: what has been shown is dimmed, and what has not come yet is hidden. */
export function picture(step: Picture): HTMLElement[] {
  const frame = element("div", "frame");
  frame.innerHTML = data.pictures[step.picture];
  const svg = frame.querySelector("svg");
  if (svg) {
    for (const group of named(svg, step.earlier)) group.classList.add("earlier");
    for (const group of named(svg, step.later)) group.classList.add("later");
    if (step.here) {
      svg.classList.add("map");
      for (const group of named(svg, step.now)) group.classList.add("here");
      for (const group of named(svg, step.from ? [step.from] : [])) group.classList.add("from");
    }
  }
  return [element("h2", "", step.title), frame, element("p", "caption", step.caption)];
}

/** A question, with its options for hands or fingers; later the right one, and what proves it. */
export function question(step: Question): HTMLElement[] {
  const asked = element("div", "asked");
  asked.innerHTML = step.text;
  const options = step.options.map((option, nth) => {
    const item = element("li", step.right === undefined ? "" : nth === step.right ? "right" : "wrong");
    item.innerHTML = option;
    return item;
  });
  const because = element("div", "because");
  because.innerHTML = step.because ?? "";
  const proof = element("div", "proof", ...(step.proof ?? []).map((line) => element("div", "mark", line)));
  asked.append(element("ol", "options", ...options), ...[because, proof].filter((part) => part.hasChildNodes()));
  keepWhole(asked);
  return [element("h2", "", step.title), asked];
}

/** Code breaks only at its blanks, and not at a hyphen or in quotes: people type what they see. */
function keepWhole(text: HTMLElement): void {
  for (const code of text.querySelectorAll("code")) {
    const text = code.textContent;
    const limit = text.startsWith("cargo lab") ? COMMAND : SHORT;
    const parts = text.length < limit ? [text] : text.split(/ (?=(?:[^"]*"[^"]*")*[^"]*$)/);
    const short = parts.flatMap((part) => (part.length > LONG_QUOTE ? part.split(" ") : [part]));
    const words = short.map((word) => element("span", "whole", word));
    code.replaceChildren(...words.flatMap((word, nth) => (nth ? [" ", word] : [word])));
    if (text.startsWith("cargo lab") && text.length >= COMMAND) alone(code);
  }
}

/** A long command has its own lines, so that it is seen where it begins and ends. */
function alone(code: HTMLElement): void {
  code.classList.add("alone");
  const after = code.nextSibling;
  if (after?.nodeType === Node.TEXT_NODE) after.textContent = after.textContent?.replace(/^[.,]\s*/, "") ?? "";
}

/** An exercise or a text, with a clock if it has minutes and is for all. */
export function text(step: Exercise | Text): HTMLElement[] {
  const text = element("div", "text");
  text.innerHTML = step.text;
  keepWhole(text);
  const clock = element("p", "timer");
  clock.id = "timer";
  const isOptional = step.kind === "exercise" && step.optional;
  const heading = step.kind === "exercise" ? `Exercise ${step.id}: ${step.title}` : step.title;
  const whole = `${heading}${isOptional ? " (optional)" : ""}`;
  return [element("h2", "", whole), text, ...(step.minutes && !isOptional ? [clock] : [])];
}
