// Run asks first what the learner expects, and the run then answers. The lesson has the book's own cards. What is answered
// there is kept with the learner's work, and what is answered here is answered there, too.

import { answers, given, keep, missing, STORAGE } from "../../../docs/present/questions";
import { type Action, api, type Outcome, type Prediction, type Question, type State } from "./api";
import { h, rich } from "./dom";
import { hidePanel, showPanel } from "./panel";
import { card } from "./verdict";

/** What to run. */
type Choice = { args: string; prediction?: Prediction };

export class Questions {
  private state?: State;
  /** At which try each question was answered, as far as this page and the server agree. */
  private known = new Map<string, number>();

  constructor(readonly tried: (doing: Promise<unknown>) => void) {
    addEventListener("storage", ({ key }) => key === STORAGE && this.adopt());
  }

  /** What the server knows, the cards in the lesson know, too. */
  update(state: State): void {
    const isFirst = !this.state;
    this.state = state;
    // As long as a run may still show it, no card shows the answer.
    const waiting = new Set(state.actions.filter(isOpen).map(({ outcome }) => outcome?.id));
    const news = state.questions.filter(
      ({ id, tries }) => tries && !waiting.has(id) && (isFirst || this.known.get(id) !== tries),
    );
    if (!isFirst && !news.length) return;
    keep((all) => {
      // Another workshop may have had this address before.
      if (isFirst) for (const id of Object.keys(all)) delete all[id];
      for (const { id, tries } of news) {
        all[id] = tries ?? 0;
        this.known.set(id, tries ?? 0);
      }
    });
  }

  /** These were answered in the lesson. */
  fromLesson(given: Record<string, number>): void {
    keep((all) => {
      for (const id of Object.keys(all)) delete all[id];
      Object.assign(all, given);
    });
    this.adopt();
  }

  private adopt(): void {
    const asked = new Set(this.state?.questions.map(({ id }) => id));
    for (const [id, tries] of Object.entries(answers())) {
      if (this.known.get(id) === tries || !asked.has(id)) continue;
      this.known.set(id, tries);
      this.tried(api.answered(id, tries));
    }
  }

  /** How many there are, and how many are answered. */
  get progress(): [number, number] {
    const all = this.state?.questions ?? [];
    return [all.filter(({ tries }) => tries).length, all.length];
  }

  /** What to run, after asking what the learner expects of it. Nobody is asked twice. */
  async ask(name: string, args: string): Promise<Choice> {
    const question = this.state?.questions.find((one) => one.program === name && fits(one, args));
    const page = this.state?.programs.find((program) => program.name === name)?.page;
    const form = question && page ? await formOf(page, question.id).catch(() => undefined) : undefined;
    if (!question || !form) return { args };
    return new Promise((go) => this.show(name, question, form, go));
  }

  private show(
    name: string,
    { id, arguments: about }: Question,
    form: HTMLFormElement,
    go: (what: Choice) => void,
  ): void {
    const args = about ?? "";
    const note = h("p", { class: "note" });
    const done = (prediction?: Prediction) => {
      hidePanel();
      go({ args, prediction });
    };
    const predict = () => {
      const answer = given(form);
      note.textContent = missing(form, answer);
      if (note.textContent) form.querySelector("input")?.focus();
      else done({ id, answer });
    };
    const skip = () => {
      this.tried(api.answered(id, 0));
      done();
    };
    // With it, Enter on a radio button submits.
    form.append(note, h("button", { hidden: true }));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      predict();
    });
    showPanel(
      "hint",
      `What do you expect of ${[name, args].filter(Boolean).join(" ")}?`,
      [form],
      [
        { label: "Run it, and compare", test: "predict", act: predict },
        { label: "Run it without an answer", test: "skip", act: skip },
      ],
    );
    form.querySelector("input")?.focus();
  }
}

const isOpen = ({ outcome, phase }: Action) => outcome && !outcome.seen && phase !== "ended";

/** Whether to ask this before a run with these arguments: it is about this run, and was neither answered nor skipped. */
function fits({ arguments: about, tries }: Question, args: string): boolean {
  if (about === null || tries !== null) return false;
  return about ? !args || args.startsWith(about) : !/(^| )--io\b/.test(args);
}

/** What a card consists of. Anything else, such as a frame, is not the book's: somebody else may have taken our port. */
const parts = "b, code, div, em, input, label, li, ol, p, pre, span, strong, ul";

/** The card of a question in a page of the book, without what belongs only there. */
async function formOf(page: string, id: string): Promise<HTMLFormElement | undefined> {
  const html = await (await fetch(`/book/${page}`)).text();
  const cards = new DOMParser().parseFromString(html, "text/html").querySelectorAll<HTMLFormElement>("form.question");
  const form = [...cards].find(({ dataset }) => dataset.name === id);
  for (const part of form?.querySelectorAll(`.which, [hidden], :not(${parts})`) ?? []) part.remove();
  if (form) form.noValidate = true;
  return form && document.adoptNode(form);
}

/** Above a run that has to end first. */
export function showWaiting({ predicted }: Outcome, stop: () => void, close: () => void): void {
  const button = h("button", { type: "button", "data-test": "stop-compare", click: stop }, "Stop the run, and compare");
  card("wait", "The end of this run shows whether your answer is right", close, [
    h("dl", {}, h("dt", {}, "predicted"), h("dd", {}, ...rich(predicted))),
    h("p", {}, "Let it run for some seconds, then stop it."),
    h("div", { class: "buttons" }, button),
  ]);
}

/** Above the run's terminal: what the learner expected, and what the run shows. */
export function showOutcome(outcome: Outcome, toLines: () => void, close: () => void): void {
  const { predicted, seen, is_right: isRight, right, why, explanation } = outcome;
  const row = (name: string, text: string) => [h("dt", {}, name), h("dd", {}, ...rich(text))];
  const shown = seen ? row("you got", seen.value) : [];
  // Other programs may do I/O, too, and a run may end too soon.
  const usual = seen?.value === right ? [] : row(seen ? "usually" : "you would have got", right);
  const title = isRight ? "You expected the right thing" : "You expected something else";
  const button = h("button", { type: "button", "data-test": "to-lines", click: toLines }, "Show the lines");
  card(isRight ? "good" : "bad", title, close, [
    h("dl", {}, ...row("predicted", predicted), ...shown, ...usual),
    ...[why, explanation].filter((text) => text !== null).map((text) => h("p", {}, ...rich(text))),
    ...(seen?.lines.length ? [h("div", { class: "buttons" }, button)] : []),
  ]);
}
