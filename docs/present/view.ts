// How a step looks.

import {
  type Case,
  type Code,
  data,
  type Exercise,
  element,
  link,
  type Part,
  type Picture,
  type Questions,
  type Step,
  type Text,
} from "./data";

// An item of more lines is folded: unchanged lines are shown only if they are so near a change.
const LONG = 22;
const CONTEXT = 3;

const place = (step: Code) =>
  [step.file, ...(["lesson", "run"].includes(step.part) ? [] : [step.part]), ...(step.of ? [step.of] : [])].join(", ");

/** What a step is called in a list. */
export function nameOf(step: Step): string {
  switch (step.kind) {
    case "code":
      return step.of ? `${step.item}, ${step.of}` : step.item;
    case "picture":
      return step.title;
    case "questions":
      return step.title;
    case "text":
      return step.title;
    case "case":
      return `The verifier clinic: ${step.title}`;
    case "exercise":
      return `${step.id} ${step.title}`;
  }
}

/** The first page of a part: its idea, and its steps. */
export function title(part: Part): HTMLElement[] {
  const steps = part.steps.map((step, nth) => {
    const name = step.kind === "code" ? element("code", "", step.item) : nameOf(step);
    const shown = link(`#${part.id}/${nth + 1}`, name);
    const where = step.kind === "code" ? place({ ...step, of: undefined }) : "";
    return element("li", "", shown, element("span", "file", where));
  });
  // The views of one picture are one entry, and so are the pages of an item.
  const isNew = (_: HTMLElement, nth: number) => {
    const [step, before] = [part.steps[nth], part.steps[nth - 1]];
    if (step.kind === "code") return !step.of || step.of.startsWith("1 ");
    return !(step.kind === "picture" && before?.kind === "picture" && step.title === before.title);
  };
  const kept = part.kept.length ? [element("p", "kept", `As before: ${part.kept.join(", ")}`)] : [];
  return [
    element("h1", "", part.name ? `${part.name}: ${part.title}` : part.title),
    element("p", "idea", part.idea),
    ...(part.parts ? [element("h2", "", part.parts)] : []),
    element("ul", "", ...steps.filter(isNew)),
    ...kept,
  ];
}

/** An item of a program; `all` shows the lines far from a change, too. */
export function code(step: Code, all: boolean): HTMLElement[] {
  const lines = step.lines;
  const has = (kind: string) => lines.some(([other]) => other === kind);
  const whole = all || lines.length <= LONG || lines.every(([kind]) => kind === "same");
  const near = (nth: number) =>
    lines.slice(Math.max(nth - CONTEXT, 0), nth + CONTEXT + 1).some(([kind]) => kind !== "same");
  const shown = element("div", "code");
  for (let nth = 0; nth < lines.length; nth++) {
    let end = nth;
    while (!whole && end < lines.length && !near(end)) end++;
    if (end > nth + 1) {
      const fold = `${end - nth}${has("mark") ? " more lines" : " lines as before"}`;
      shown.append(element("div", "fold", fold));
      nth = end - 1;
      continue;
    }
    const [kind, pieces] = lines[nth];
    const mixed = pieces.some(([changed]) => !changed);
    const words = pieces.map(([changed, text]) => element("span", changed && mixed ? "word" : "", text));
    const line = element("div", kind, ...words);
    line.dataset.sign = { same: "", mark: "\u2192", new: "+", gone: "\u2212" }[kind];
    if (!pieces.length) line.append("\u200b");
    shown.append(line);
  }
  const heading = element("h2", step.part, element("code", "item", step.item), element("span", "file", place(step)));
  return [heading, shown];
}

function svgElement(tag: string, attributes: Record<string, string>): SVGElement {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// Where the picture stood at the step before, to move on from there.
let stood = { picture: "", transform: "" };

/** A picture as wide as the window. What has not come yet is covered. */
export function picture(step: Picture): HTMLElement[] {
  const card = element("div", "picture");
  card.innerHTML = data.pictures[step.picture];
  if (stood.picture === step.picture) card.style.transform = stood.transform;
  const svg = card.querySelector("svg");
  // Some pictures have a style for the book's page.
  svg?.removeAttribute("style");
  if (svg && step.seen.length) {
    const { width, height } = svg.viewBox.baseVal;
    const all = { width: String(width), height: String(height) };
    const mask = svgElement("mask", { id: "seen" });
    mask.append(svgElement("rect", { ...all, fill: "white" }));
    for (const [x, y, w, h] of step.seen) {
      const area = { x: String(x), y: String(y), width: String(w), height: String(h) };
      mask.append(svgElement("rect", { ...area, fill: "black" }));
    }
    svg.append(mask, svgElement("rect", { ...all, mask: "url(#seen)", class: "cover" }));
  }
  return [element("h2", "", step.title), element("div", "frame", card), element("p", "caption", step.caption)];
}

/** Moves a picture that is higher than the window, so that what it shows now is in the middle. */
export function frame(step: Picture): void {
  const box = document.querySelector<HTMLElement>(".frame");
  const card = document.querySelector<HTMLElement>(".frame .picture");
  const svg = card?.querySelector("svg");
  if (!box || !card || !svg) return;
  const { width, height } = svg.viewBox.baseVal;
  const scale = box.clientWidth / width;
  const [, y, , h] = step.seen.at(-1) ?? [0, 0, width, height];
  const most = Math.max(height * scale - box.clientHeight, 0);
  const top = Math.min(Math.max((y + h / 2) * scale - box.clientHeight / 2, 0), most);
  card.style.transform = `translateY(${-top}px)`;
  stood = { picture: step.picture, transform: card.style.transform };
}

export function questions(step: Questions): HTMLElement[] {
  const asked = step.ask.map(({ question }) => element("p", "question", question));
  return [element("h2", "", step.title), ...asked];
}

/** A case, and the way to it. */
export function clinicCase(step: Case): HTMLElement[] {
  const text = element("div", "text");
  text.innerHTML = step.text;
  const way = element("p", "question", link(`#${step.id}/1`, "the program"), " ", element("span", "file", "key c"));
  return [element("h2", "", nameOf(step)), text, way];
}

/** An exercise or a text, with a clock if it has minutes. */
export function text(step: Exercise | Text): HTMLElement[] {
  const text = element("div", "text");
  text.innerHTML = step.text;
  const clock = element("p", "timer");
  clock.id = "timer";
  const heading = step.kind === "exercise" ? `Exercise ${step.id}: ${step.title}` : step.title;
  const shown = [element("h2", "", heading), text];
  if (step.minutes) shown.splice(step.kind === "exercise" ? 0 : 2, 0, clock);
  return shown;
}
