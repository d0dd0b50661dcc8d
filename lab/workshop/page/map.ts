// The map of the course: what is done of each stage, of the examples, of the clinic and of the mysteries, and where to go
// on.

import type { Exercise, State } from "./api";
import { byId, h, plain, plural } from "./dom";

const states = {
  new: { sign: "", text: "not started" },
  started: { sign: "◐", text: "started" },
  done: { sign: "✓", text: "done" },
};
type Listed = Pick<Exercise, "id" | "title" | "state" | "done">;
export const stateOf = ({ done, state }: Listed) => (done ? "done" : state === "new" ? "new" : "started");
export const isCase = ({ program }: Exercise) => program === "clinic";
const isStage = (name: string) => /^\d/.test(name);

/** How much of the course is done, and how much there is. */
export function progressOf({ exercises, mysteries }: State): [number, number] {
  const all = [...exercises, ...mysteries];
  return [all.filter((one) => stateOf(one) === "done").length, all.length];
}

/** What the learner has begun, or else what follows on the last thing that is done. */
function next<T extends Listed>(exercises: T[]): T | undefined {
  const begun = exercises.find((one) => stateOf(one) === "started");
  const last = exercises.map(stateOf).lastIndexOf("done");
  const isOpen = (one: T) => stateOf(one) !== "done";
  return begun ?? exercises.slice(last + 1).find(isOpen) ?? exercises.find(isOpen);
}

/** Opens the map. `go` opens an exercise, a case or a stage. */
export function showMap(state: State, go: (name: string) => void): void {
  const { programs, exercises, mysteries } = state;
  const dialog = byId<HTMLDialogElement>("map");
  const to = (name: string) => () => {
    dialog.close();
    go(name);
  };
  const chip = (one: Listed & { program?: string }) => {
    const { sign, text } = states[stateOf(one)];
    const { id, title, program = "" } = one;
    // An example has one exercise.
    const name = isStage(program) || /^(clinic|mystery)-/.test(id) ? id.replace(/^.*[.-]/, "") : program;
    const label = `${id} ${plain(title)}: ${text}`;
    const attributes = { type: "button", class: stateOf(one), title: label, "aria-label": label, click: to(id) };
    return h("button", { ...attributes, "data-test": `map-${id}` }, `${name} ${sign}`.trim());
  };
  const row = (head: Node | string, all: Listed[]) =>
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
  const goOn = next<Listed>(exercises.filter((one) => !isCase(one))) ?? next<Listed>(cases) ?? next<Listed>(mysteries);
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
    h(
      "table",
      {},
      h("tbody", {}, ...stages, row("Examples", examples), row("The clinic", cases), row("Mysteries", mysteries)),
    ),
  );
  dialog.showModal();
}
