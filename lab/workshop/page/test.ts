// The concept test, before and after the course. It shows no answers and gives no hints, as in a terminal.

import { api, problem, type State, type TestQuestion } from "./api";
import { byId, h, inFolder, keep, rich } from "./dom";
import { explain } from "./panel";

type When = State["tests"][number];

/** Below the map: the halves that can be taken, and the learner's answers. */
export function drawTests({ tests }: State, tried: (doing: Promise<unknown>) => void): void {
  const box = byId("tests");
  if (box.dataset.now === tests.join()) return;
  box.dataset.now = tests.join();
  const half = (when: When) => {
    const click = () => tried(take(when));
    return h("button", { type: "button", "data-test": `test-${when}`, click }, `${when} the course`);
  };
  const left = (["before", "after"] as const).filter((when) => !tests.includes(when));
  const click = () => tried(api.download("/api/test.tsv"));
  const file = h("button", { type: "button", "data-test": "test-export", click }, "your answers, for your instructor");
  box.replaceChildren("Concept test, 15 minutes: ", ...left.map(half), ...(tests.length ? [file] : []));
}

/** A test that was begun. It stays in the browser until the server has it. */
type Begun = {
  form: string;
  questions: TestQuestion[];
  answers: { question: string; answer: string; seconds: number }[];
};

async function take(when: When): Promise<void> {
  const dialog = byId<HTMLDialogElement>("test");
  byId<HTMLDialogElement>("map").close();
  const key = inFolder(`test:${when}`);
  const begun = keep.get<Begun>(key) ?? { ...(await api.test(when)), answers: [] };
  const { form, questions, answers } = begun;
  byId("test-title").textContent = `The concept test, ${when} the course`;
  byId("test-stop").hidden = false;
  dialog.showModal();
  for (const question of questions.slice(answers.length)) {
    const start = performance.now();
    const answer = await ask(dialog, question, `Question ${answers.length + 1} of ${questions.length}`);
    if (answer === undefined) return;
    answers.push({ question: question.id, answer, seconds: Math.floor((performance.now() - start) / 1000) });
    keep.set(key, begun);
  }
  const end = (...said: Node[]) => {
    keep.remove(key);
    byId("test-stop").hidden = true;
    show(said, "Close", () => dialog.close());
  };
  const send = async () => {
    try {
      const { said } = await api.tested(when, form, answers);
      end(h("p", { "data-test": "test-said" }, ...rich(said)));
    } catch (thrown) {
      const refused = problem(thrown);
      // 409: this test never takes these answers, because it was taken elsewhere.
      if (refused.status === 409) end(...explain(refused));
      else show(explain(refused), "Send my answers again", send);
    }
  };
  await send();
}

/** Shows what has become of the answers. */
function show(said: Node[], label: string, act: () => void): void {
  // Whoever listens hears the text with the button that gets the focus.
  const about = { class: "main", "aria-describedby": "test-told", "data-test": "test-end" };
  const button = h("button", { type: "button", ...about, click: act }, label);
  byId("test-text").replaceChildren(h("div", { id: "test-told" }, ...said), button);
  button.focus();
}

/** The letter that is chosen, or `-`; nothing if the learner closes the test. */
function ask(dialog: HTMLDialogElement, { text, options }: TestQuestion, title: string): Promise<string | undefined> {
  return new Promise((done) => {
    const option = (text: string, nth: number) => {
      const input = h("input", { type: "radio", name: "answer", value: String.fromCharCode(65 + nth) });
      return h("li", {}, h("label", {}, input, h("span", {}, ...rich(text))));
    };
    const form = h(
      "form",
      { class: "question", role: "group", "aria-labelledby": "test-question" },
      h(
        "div",
        { id: "test-question" },
        h("h3", {}, title),
        ...text.split("\n\n").map((paragraph) => h("p", {}, ...rich(paragraph))),
      ),
      h("ol", {}, ...options.map(option)),
      h("button", { class: "main", "data-test": "test-next" }, "Next"),
      h("p", {}, "Nobody sees your name, and nothing is sent. If you don't know, guess, or choose nothing."),
    );
    const closed = () => done(undefined);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      dialog.removeEventListener("close", closed);
      done(form.querySelector<HTMLInputElement>("input:checked")?.value ?? "-");
    });
    dialog.addEventListener("close", closed, { once: true });
    byId("test-text").replaceChildren(form);
    form.querySelector("input")?.focus();
  });
}
