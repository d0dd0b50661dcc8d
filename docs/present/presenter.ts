// What only the instructor sees: where we are and what comes next, what to say and to ask, and the plan's clock.

import { Clock, listPlans, minutes, standing } from "./clock";
import { byId, data, type Exercise, element, type Part, type Step } from "./data";
import { code, nameOf } from "./view";

/** Whether this is the instructor's window. A window keeps its name when it is reloaded. */
export const isPresenter = window.name === "presenter";

const clock = new Clock();
const CLOCK = "present-clock";
const PLAN = "present-plan";
let slot = "";

/** Shows the notes of a step. A case that a stage led to ends in that stage. */
export function presenter(part: Part, step: number, parts: Part[], from?: Part | ""): void {
  const at: Step | undefined = part.steps[step - 1];
  // A case takes a minute of the stage that leads to it.
  if (at?.kind === "exercise" || at?.kind === "text") slot = at.id;
  else if (at?.kind !== "case" && !part.id.startsWith("case-")) slot = part.id;
  const following = part.steps[step];
  const after = from || parts[parts.indexOf(part) + 1];
  const inPart = following?.kind === "picture" ? following.caption : following && nameOf(following);
  const next = inPart ?? (after ? `${after.name} ${after.title}` : "the end");
  const asked = (at?.ask ?? []).map(({ question, answer }) =>
    element("div", "ask", element("p", "question", question), element("p", "answer", answer)),
  );
  const stuck = at?.kind === "exercise" ? hints(at) : [];
  const solution = (at && "solution" in at && at.solution) || [];
  byId("notes-now").textContent = at ? nameOf(at) : part.title;
  byId("notes-next").textContent = next;
  byId("notes-say").textContent = at ? at.say : part.before || part.idea;
  byId("notes-ask").replaceChildren(...asked);
  byId("notes-stuck").replaceChildren(...under("If they are stuck", stuck));
  const changes = solution.flatMap((change) => code(change, false));
  byId("notes-solution").replaceChildren(...under("From the starting point to the solution", changes));
  tick();
}

const under = (heading: string, elements: HTMLElement[]) =>
  elements.length ? [element("h2", "", heading), ...elements] : [];

/** The hints, each with the minute of the exercise in which to give it. */
function hints(exercise: Exercise): HTMLElement[] {
  const minute = (nth: number) => Math.round((exercise.minutes * (nth + 1)) / (exercise.hints.length + 1));
  return exercise.hints.map((hint, nth) => element("p", "hint", element("b", "", `After ${minute(nth)} min: `), hint));
}

function tick(): void {
  const plan = data.plans.find((plan) => String(plan.minutes) === byId<HTMLSelectElement>("plan").value);
  byId("clock").textContent = minutes(clock.elapsed);
  byId("standing").textContent = plan ? standing(plan, slot, clock.elapsed / 60_000) : "Choose your plan.";
  byId("start").textContent = clock.runs ? "pause" : "start";
}

function changed(): void {
  try {
    sessionStorage.setItem(CLOCK, clock.save());
  } catch {
    // Then a reload begins anew.
  }
  tick();
}

if (isPresenter) {
  document.body.classList.add("presenter");
  listPlans();
  try {
    clock.restore(sessionStorage.getItem(CLOCK));
    byId<HTMLSelectElement>("plan").value = localStorage.getItem(PLAN) ?? "";
  } catch {
    // As above.
  }
  byId("start").addEventListener("click", () => {
    clock.toggle();
    changed();
  });
  byId("reset").addEventListener("click", () => {
    clock.reset();
    changed();
  });
  byId("plan").addEventListener("change", () => {
    try {
      localStorage.setItem(PLAN, byId<HTMLSelectElement>("plan").value);
    } catch {
      // Then it is chosen again the next time.
    }
    tick();
  });
  setInterval(tick, 500);
}
