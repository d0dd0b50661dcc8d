// The clocks: of an exercise, and of a plan.

import { byId, data, type Plan, type Slot } from "./data";

/** A clock that can be stopped. Times are in milliseconds. */
export class Clock {
  private passed = 0;
  private since: number | null = null;

  get elapsed(): number {
    return this.passed + (this.since === null ? 0 : Date.now() - this.since);
  }

  get runs(): boolean {
    return this.since !== null;
  }

  toggle(): void {
    this.passed = this.elapsed;
    this.since = this.runs ? null : Date.now();
  }

  reset(): void {
    this.passed = 0;
    this.since = null;
  }

  /** What a reload needs. */
  save(): string {
    return JSON.stringify([this.passed, this.since]);
  }

  restore(saved: string | null): void {
    if (saved) [this.passed, this.since] = JSON.parse(saved);
  }
}

/** Minutes and seconds, such as `7:05`; less than nothing with a minus. */
export function minutes(time: number): string {
  const seconds = Math.round(Math.abs(time) / 1000);
  return `${time < 0 ? "\u2212" : ""}${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

/** The slot of a plan in which a part is told, or an exercise is done. */
export function slotOf(plan: Plan, name: string): Slot | undefined {
  return plan.slots.find((slot) => slot.name === name);
}

/** By how many minutes a class is behind its plan, if it is in this slot now: less than 0 if it is ahead. */
export function behind(slot: Slot, elapsed: number): number {
  if (elapsed < slot.at) return elapsed - slot.at;
  return Math.max(elapsed - (slot.at + slot.minutes), 0);
}

/** How a class stands, in words. */
export function standing(plan: Plan, name: string, elapsed: number): string {
  const slot = slotOf(plan, name);
  if (!slot) return `Not in the plan of ${plan.minutes} minutes. Skip it, or keep it for pairs who are done.`;
  const late = Math.round(behind(slot, elapsed));
  const when = `planned from ${slot.at} to ${slot.at + slot.minutes} min`;
  if (late > 0) return `${late} min behind; ${when}`;
  if (late < 0) return `${-late} min ahead; ${when}`;
  return `on time; ${when}`;
}

/** Fills the list of plans. At first, none is chosen, and the deck has everything. */
export function listPlans(): void {
  byId("plan").append(new Option("no plan: everything", ""));
  for (const plan of data.plans) {
    byId("plan").append(new Option(`${plan.minutes} minutes`, String(plan.minutes)));
  }
}
