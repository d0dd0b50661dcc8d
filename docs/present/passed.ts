// Who has passed which exercise: the presenter's window counts the codes that the class calls out. They are made in
// lab/wire/src/passed.rs.

import { byId, data, element } from "./data";

const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/** The values of the parts of a code. */
const [NUMBERS, MINUTES, SEATS] = [2 ** 3, 2 ** 11, 2 ** 17];
const STORED = "present-passed";

interface Passed {
  exercise: string;
  /** Of the day, in UTC. */
  minute: number;
  seat: number;
}

/** What a code says, or what is wrong with it. */
function decode(typed: string): Passed | string {
  const code = typed.toUpperCase().replace(/[\s-]/g, "").replaceAll("O", "0").replace(/[IL]/g, "1");
  const digits = [...code].map((letter) => ALPHABET.indexOf(letter));
  if (digits.length !== 8) return `A code has 8 characters, and this one has ${digits.length}. Ask for it again.`;
  const double = (digit: number) => (digit < 16 ? digit << 1 : (digit << 1) ^ 0b10_0101);
  if (digits.includes(-1) || digits.reduce((sum, digit) => double(sum) ^ digit, 0) !== 0) {
    return "A character is wrong. Ask for the code again, letter by letter.";
  }
  let value = digits.slice(0, -1).reduce((sum, digit) => sum * 32 + digit, 0);
  const next = (values: number) => {
    const part = value % values;
    value = (value - part) / values;
    return part;
  };
  const [seat, minute, number] = [next(SEATS), next(MINUTES), next(NUMBERS)];
  const exercise = `${String(value).padStart(2, "0")}.${number}`;
  const isKnown = data.parts.some(({ steps }) =>
    steps.some((step) => step.kind === "exercise" && step.id === exercise),
  );
  if (!isKnown) return `This is a code of ${exercise}, which this deck doesn't have. Give everybody the same version.`;
  return { exercise, minute, seat };
}

/** A minute of the day in UTC as this room's clocks show it. */
function clock(minute: number): string {
  const at = new Date();
  at.setUTCHours(0, minute, 0, 0);
  return at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

/** How many pairs there are, and for each exercise its seats, each with its minute. What was counted last is last. */
interface Counted {
  pairs: number | null;
  passed: [exercise: string, seats: [seat: number, minute: number][]][];
}

let counted: Counted = { pairs: null, passed: [] };

/** Counts a code, and says what has become of it. */
function count(code: string): [isCounted: boolean, said: string] {
  const passed = decode(code);
  if (typeof passed === "string") return [false, passed];
  const { exercise, minute, seat } = passed;
  const seats = counted.passed.find(([id]) => id === exercise)?.[1] ?? [];
  if (seats.some(([other]) => other === seat)) return [true, `This pair was counted for ${exercise} before.`];
  const others = counted.passed.filter(([id]) => id !== exercise);
  counted.passed = [...others, [exercise, [...seats, [seat, minute]]]];
  return [true, `Counted: ${exercise}, at ${clock(minute)}.`];
}

function row([exercise, seats]: Counted["passed"][number]): HTMLElement {
  const [first, last] = [Math.min, Math.max].map((of) => clock(of(...seats.map(([, minute]) => minute))));
  const of = counted.pairs ? `${seats.length} of ${counted.pairs}` : `${seats.length}`;
  const said = `${of} ${seats.length === 1 && !counted.pairs ? "pair has" : "pairs have"} passed ${exercise}`;
  return element("li", "", element("b", "", said), first === last ? `, at ${first}` : `, from ${first} to ${last}`);
}

function draw(): void {
  byId<HTMLInputElement>("pairs").value = String(counted.pairs ?? "");
  byId("passed").replaceChildren(...[...counted.passed].reverse().map(row));
}

function changed(): void {
  draw();
  try {
    localStorage.setItem(STORED, JSON.stringify(counted));
  } catch {
    // Then a new window begins anew.
  }
}

/** Lets the presenter type codes. A scanner types, too. */
export function collect(): void {
  try {
    counted = JSON.parse(localStorage.getItem(STORED) ?? "null") ?? counted;
  } catch {
    // As above.
  }
  const field = byId<HTMLInputElement>("pair-code");
  byId("pair-codes").addEventListener("submit", (event) => {
    event.preventDefault();
    const [isCounted, said] = count(field.value);
    byId("pair-code-said").textContent = said;
    byId("pair-code-said").classList.toggle("wrong", !isCounted);
    if (isCounted) field.value = "";
    else field.select();
    changed();
  });
  byId("pairs").addEventListener("change", () => {
    counted.pairs = Number(byId<HTMLInputElement>("pairs").value) || null;
    changed();
  });
  byId("forget").addEventListener("click", () => {
    if (!confirm("Forget all that was counted?")) return;
    counted = { pairs: null, passed: [] };
    byId("pair-code-said").textContent = "";
    changed();
  });
  draw();
}
