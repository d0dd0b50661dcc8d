// What the page shows. docs/present.rs writes it.

/** A line of code: whether it is new, and its pieces, of which some have changed. */
export type Line = [kind: "same" | "mark" | "new" | "gone", pieces: [changed: boolean, text: string][]];

interface Shown {
  /** What the presenter says, in a few sentences. */
  say: string;
  /** What the presenter asks. */
  ask: { question: string; answer: string }[];
  /** The part with a case of the clinic that fits. */
  case?: string | null;
}

/** An item of a program, or what it prints. */
export interface Code extends Shown {
  kind: "code";
  file: string;
  item: string;
  part: string;
  /** Which page of the item, as "1 of 2", if it has several. */
  of?: string;
  lines: Line[];
  /** Whether it fits only without the lines that are far from a change. */
  folded?: boolean;
  /** Whether no plan has time for it. */
  extra?: boolean;
}

/** A picture, as far as the presenter has come. */
export interface Picture extends Shown {
  kind: "picture";
  title: string;
  /** The name of its file. */
  picture: string;
  /** The names of the groups that steps before have shown, that this one shows, and that come later. */
  earlier: string[];
  now: string[];
  later: string[];
  /** On the map: the stage that this one begins as a copy of. */
  from?: string | null;
  /** Whether it is the map, and we are at what it shows now. */
  here?: boolean;
  caption: string;
  /** The section of the book. */
  page: string;
}

/** A question with options: one step asks it, and the next one shows the answer. */
export interface Question extends Shown {
  kind: "question";
  title: string;
  /** Paragraphs of HTML. */
  text: string;
  /** HTML, the answer to hands or fingers for A, B, C and D. */
  options: string[];
  /** Which of them is right, once that is shown. */
  right?: number;
  /** A sentence of HTML that says why. */
  because?: string;
  /** The lines of the run that prove it. */
  proof?: string[];
  /** Whether no plan has time for it. */
  extra?: boolean;
}

/** An exercise, with a clock if it is for all. */
export interface Exercise extends Shown {
  kind: "exercise";
  id: string;
  title: string;
  /** Paragraphs of HTML. */
  text: string;
  /** Whether it is for whoever is fast. */
  optional: boolean;
  minutes: number;
  hints: string[];
  /** What the solution changes in the starting point. */
  solution: Code[];
}

/** A text: what to type, a checkpoint, a break. */
export interface Text extends Shown {
  kind: "text";
  /** The slot of the plans. */
  id: string;
  title: string;
  /** Paragraphs of HTML. */
  text: string;
  /** For the clock; 0: none. */
  minutes: number;
  /** The section of the book. */
  page?: string;
  /** At a checkpoint: as in the exercise. */
  solution?: Code[];
}

export type Step = Code | Picture | Question | Exercise | Text;

/** A stage, a case of the clinic, or a part of the theory. */
export interface Part {
  id: string;
  /** How it is called before its title: "Stage 03". */
  name: string;
  title: string;
  /** Its page in the book. */
  page: string;
  idea: string;
  /** What the presenter says before the first step, if it is more than the idea. */
  before?: string;
  adds?: string;
  steps: Step[];
}

export interface Slot {
  name: string;
  title: string;
  at: number;
  minutes: number;
}

export interface Plan {
  minutes: number;
  slots: Slot[];
}

export interface Data {
  parts: Part[];
  /** The pictures, as SVG, by the names of their files. */
  pictures: Record<string, string>;
  plans: Plan[];
}

export const byId = <T extends HTMLElement = HTMLElement>(id: string): T => {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found as T;
};

export const data: Data = JSON.parse(byId("data").textContent ?? "");

export function element(tag: string, name = "", ...children: (Node | string)[]): HTMLElement {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...children);
  return made;
}

export function link(href: string, ...children: (Node | string)[]): HTMLAnchorElement {
  const made = document.createElement("a");
  made.href = href;
  made.append(...children);
  return made;
}
