// Where the keys lead: through the steps of the chosen plan, in its order. Without a plan, through all parts up to the end.

import type { Part, Plan } from "./data";

/** A step of a part. Step 0 is the part's title. */
export type Stop = [part: Part, step: number];

/** A break has no title page: it would say the same. */
export const first = (part: Part): number => (part.steps.length === 1 ? 1 : 0);

/** The part after which a class goes home. */
const END = "end";

/** All steps that a class sees, in order. */
export function route(parts: Part[], plan?: Plan): Stop[] {
  const all = (part: Part): Stop[] => {
    const steps = Array.from({ length: part.steps.length + 1 }, (_, step): Stop => [part, step]);
    return steps.slice(first(part));
  };
  if (!plan) return parts.slice(0, parts.findIndex((part) => part.id === END) + 1).flatMap(all);
  // Exercises and checkpoints have slots of their own, and a case of the clinic is for those who ask.
  const isTold = ([part, step]: Stop) => {
    const shown = part.steps[step - 1];
    if (!shown) return true;
    return "id" in shown ? shown.id === part.id : !("extra" in shown);
  };
  return plan.slots.flatMap(({ name }) => {
    const part = parts.find((part) => part.id === name);
    if (part) return all(part).filter(isTold);
    const steps = parts.flatMap(all);
    return steps.filter(([part, step]) => {
      const shown = part.steps[step - 1];
      return shown && "id" in shown && shown.id === name;
    });
  });
}

/** Where a key leads from this step; whoever is not on the route comes back to it at the end of the part. */
export function neighbor(parts: Part[], stops: Stop[], [part, step]: Stop, by: 1 | -1): Stop | undefined {
  const at = stops.findIndex(([other, nth]) => other === part && nth === step);
  if (at >= 0) return stops[at + by];
  if (step + by >= first(part) && step + by <= part.steps.length) return [part, step + by];
  const isHere = stops.map(([other]) => other === part);
  const edge = by > 0 ? isHere.lastIndexOf(true) : isHere.indexOf(true);
  if (edge >= 0) return stops[edge + by];
  const other = parts[parts.indexOf(part) + by];
  return other && [other, by > 0 ? first(other) : other.steps.length];
}
