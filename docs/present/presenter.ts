// What only the instructor sees: where we are and what comes next, what to say and to ask, and the plan's clock.

import { Clock, minutes, standing } from "./clock";
import { byId, data, type Exercise, element, type Part, type Step } from "./data";
import type { Stop } from "./route";
import { code, nameOf } from "./view";

/** Whether this is the instructor's window. A window keeps its name when it is reloaded. */
export const isPresenter = window.name === "presenter";
/** Whether this is the picture of the next step in it. */
export const isThumbnail = window.name === "thumbnail";

// What the picture of the next step shows.
let shown: object | undefined;
const clock = new Clock();
const CLOCK = "present-clock";
let slot = "";
let plan = "";

/** Shows the notes of a step, and the step that comes next. */
export function presenter(part: Part, step: number, chosen: string, following?: Stop): void {
  const at: Step | undefined = part.steps[step - 1];
  if (at?.kind === "exercise" || at?.kind === "text") slot = at.id;
  else if (!part.id.startsWith("case-")) slot = part.id;
  plan = chosen;
  const [other, nth] = following ?? [];
  const after = other?.steps[(nth ?? 0) - 1];
  const inPart = after?.kind === "picture" ? after.caption : after && nameOf(after);
  const next = inPart ?? (other ? `${other.name} ${other.title}` : "the end");
  const look = { theme: document.documentElement.dataset.theme };
  const thumbnail = byId<HTMLIFrameElement>("next-view");
  thumbnail.hidden = !other;
  shown = other ? { deck: `#${other.id}/${nth}`, moved: 0, look } : undefined;
  thumbnail.contentWindow?.postMessage(shown, "*");
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
  const frame = byId("next-frame");
  byId("next-view").style.scale = String(Math.min(frame.clientWidth / 1280, frame.clientHeight / 720));
  const followed = data.plans.find(({ minutes }) => String(minutes) === plan);
  byId("clock").textContent = minutes(clock.elapsed);
  byId("standing").textContent = followed ? standing(followed, slot, clock.elapsed / 60_000) : "Choose your plan.";
  byId("start-clock").textContent = clock.runs ? "pause" : "start";
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
  const thumbnail = element("iframe") as HTMLIFrameElement;
  thumbnail.id = "next-view";
  thumbnail.name = "thumbnail";
  thumbnail.title = "The next step";
  thumbnail.tabIndex = -1;
  thumbnail.src = location.href;
  thumbnail.addEventListener("load", () => thumbnail.contentWindow?.postMessage(shown, "*"));
  byId("next-frame").append(thumbnail);
  try {
    clock.restore(sessionStorage.getItem(CLOCK));
  } catch {
    // As above.
  }
  byId("start-clock").addEventListener("click", () => {
    clock.toggle();
    changed();
  });
  byId("reset").addEventListener("click", () => {
    clock.reset();
    changed();
  });
  setInterval(tick, 500);
}
