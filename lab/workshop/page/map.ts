// The map of the course: what is done of each stage, of the examples and of the clinic, and where to go on.

import type { Exercise, State } from "./api";
import { byId, h, plain, plural } from "./dom";

const states = {
  new: { sign: "", text: "not started" },
  started: { sign: "◐", text: "started" },
  done: { sign: "✓", text: "done" },
};
const stateOf = ({ done, state }: Exercise) => (done ? "done" : state === "new" ? "new" : "started");
export const isCase = ({ program }: Exercise) => program === "clinic";
const isStage = (name: string) => /^\d/.test(name);

/** How much of the course is done, and how much there is. */
export function progressOf({ exercises }: State): [number, number] {
  return [exercises.filter((one) => stateOf(one) === "done").length, exercises.length];
}

/** What the learner has begun, or else what follows on the last thing that is done. */
function next(exercises: Exercise[]): Exercise | undefined {
  const begun = exercises.find((one) => stateOf(one) === "started");
  const last = exercises.map(stateOf).lastIndexOf("done");
  const isOpen = (one: Exercise) => stateOf(one) !== "done";
  return begun ?? exercises.slice(last + 1).find(isOpen) ?? exercises.find(isOpen);
}

/** Opens the map. `go` opens an exercise, a case or a stage. */
export function showMap(state: State, go: (name: string) => void): void {
  const { programs, exercises } = state;
  const dialog = byId<HTMLDialogElement>("map");
  const to = (name: string) => () => {
    dialog.close();
    go(name);
  };
  const chip = (one: Exercise) => {
    const { sign, text } = states[stateOf(one)];
    const { id, title, program } = one;
    // An example has one exercise.
    const name = isStage(program) || isCase(one) ? id.replace(/^.*[.-]/, "") : program;
    const label = `${id} ${plain(title)}: ${text}`;
    const attributes = { type: "button", class: stateOf(one), title: label, "aria-label": label, click: to(id) };
    return h("button", { ...attributes, "data-test": `map-${id}` }, `${name} ${sign}`.trim());
  };
  const row = (head: Node | string, all: Exercise[]) =>
    h("tr", {}, h("th", { scope: "row" }, head), h("td", {}, ...all.map(chip)));
  const open = (name: string, title: string) => h("button", { type: "button", class: "link", click: to(name) }, title);
  const stages = programs
    .filter(({ name }) => isStage(name))
    .map(({ name, title }) =>
      row(
        open(name, `${name} ${title.split("?")[0]}?`),
        exercises.filter(({ program }) => program === name),
      ),
    );
  const examples = exercises.filter((one) => !isCase(one) && !isStage(one.program));
  const cases = exercises.filter(isCase);
  const goOn = next(exercises.filter((one) => !isCase(one))) ?? next(cases);
  const [done, all] = progressOf(state);
  byId("map-text").replaceChildren(
    h(
      "p",
      {},
      `${done} of ${plural(all, "exercise")} and cases done. `,
      goOn &&
        h(
          "button",
          { type: "button", class: "main", autofocus: true, "data-test": "map-next", click: to(goOn.id) },
          `Go on: ${goOn.id}`,
        ),
    ),
    h("table", {}, h("tbody", {}, ...stages, row("Examples", examples), row("The clinic", cases))),
  );
  dialog.showModal();
}
