// Steps through a verifier's log on the page of a clinic's case: backwards from what was refused, with what the verifier
// knew about the registers, and arrows to the instructions that set them. All that is known about the log comes from
// `verifier::walk()`.

import { button, element } from "./questions";

/** What is known about registers and places on the stack. */
type Registers = Record<string, string>;

interface Step {
  instruction: number;
  text: string;
  source: string | null;
  location: { file: string; line: number } | null;
  reads: [string, number | null][];
  after: Registers;
}

interface Walk {
  is_cut: boolean;
  start: Registers;
  steps: Step[];
  words: string[];
}

interface Told {
  kernel: string;
  walk: Walk;
}

const svgNames = "http://www.w3.org/2000/svg";

/** The steps from which the values come that a step reads, and those before them. */
function origins(steps: Step[], at: number): [number, number][] {
  const arrows: [number, number][] = [];
  const left = [at];
  const seen = new Set(left);
  for (let step = left.pop(); step !== undefined; step = left.pop()) {
    for (const [, from] of steps[step].reads) {
      if (from === null) continue;
      arrows.push([from, step]);
      if (!seen.has(from)) left.push(from);
      seen.add(from);
    }
  }
  return arrows;
}

class LogView {
  private told: Told;
  private at = 0;
  private rows: HTMLElement[] = [];
  private readonly kernels = element("div", "kernels");
  private readonly list = element("div", "steps");
  private readonly state = element("div", "state");
  private readonly arrows = document.createElementNS(svgNames, "svg");

  constructor(
    box: HTMLElement,
    private readonly all: Told[],
  ) {
    this.told = all[0];
    this.list.tabIndex = 0;
    this.list.setAttribute("role", "listbox");
    this.list.setAttribute("aria-label", "Instructions");
    this.list.addEventListener("keydown", (event) => this.key(event));
    this.state.setAttribute("aria-live", "polite");
    this.arrows.setAttribute("aria-hidden", "true");
    box.append(this.kernels, this.list, this.state);
    box.hidden = false;
    this.open(this.told);
    addEventListener("resize", () => this.draw());
  }

  private open(told: Told): void {
    this.told = told;
    const { steps, is_cut } = told.walk;
    const isChosen = this.kernels.contains(document.activeElement);
    this.kernels.replaceChildren(
      ...this.all.map((other) => {
        const choice = button(`Linux ${other.kernel}`, "", () => this.open(other));
        choice.setAttribute("aria-pressed", `${other === told}`);
        return choice;
      }),
    );
    // Whoever has pressed a button of these with a key stays there.
    if (isChosen) this.kernels.querySelector<HTMLElement>("[aria-pressed=true]")?.focus({ preventScroll: true });
    this.list.replaceChildren(this.arrows);
    if (is_cut) this.list.append(element("div", "source", "The middle of this log is left out."));
    this.rows = steps.map(({ instruction, text, source, location }, nth) => {
      if (source) {
        const place = element("span", "place", location?.line ? `${location.line}` : "");
        this.list.append(element("div", "source", place, source));
      }
      const row = element("div", "step", element("span", "place", `${instruction}`), text);
      row.id = `step-${nth}`;
      row.setAttribute("role", "option");
      row.addEventListener("click", () => this.go(nth));
      this.list.append(row);
      return row;
    });
    this.go(steps.length - 1);
  }

  private go(at: number): void {
    this.at = Math.min(Math.max(at, 0), this.rows.length - 1);
    const row = this.rows[this.at];
    const margin = this.list.clientHeight / 3;
    const { scrollTop, clientHeight } = this.list;
    if (row.offsetTop < scrollTop + 30 || row.offsetTop + row.offsetHeight > scrollTop + clientHeight) {
      this.list.scrollTop = row.offsetTop - 2 * margin;
    }
    this.draw();
  }

  private key(event: KeyboardEvent): void {
    const [, from] = this.told.walk.steps[this.at].reads.find(([, from]) => from !== null) ?? [];
    const to = {
      ArrowUp: this.at - 1,
      ArrowDown: this.at + 1,
      ArrowLeft: from ?? this.at,
      Home: 0,
      End: this.rows.length - 1,
    }[event.key];
    if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    this.go(to);
  }

  private draw(): void {
    const { steps } = this.told.walk;
    const arrows = origins(steps, this.at);
    const found = new Set(arrows.map(([from]) => from));
    this.rows.forEach((row, nth) => {
      row.classList.toggle("origin", found.has(nth));
      row.classList.toggle("refused", nth === steps.length - 1);
      row.setAttribute("aria-selected", `${nth === this.at}`);
    });
    this.list.setAttribute("aria-activedescendant", this.rows[this.at].id);
    const middle = (nth: number) => this.rows[nth].offsetTop + this.rows[nth].offsetHeight / 2;
    this.arrows.setAttribute("height", `${this.list.scrollHeight}`);
    this.arrows.replaceChildren(
      ...arrows.map(([from, to]) => {
        const path = document.createElementNS(svgNames, "path");
        const [start, end] = [middle(to), middle(from)];
        const bend = Math.max(2, 22 - (start - end) / 8);
        path.setAttribute("d", `M26 ${start}C${bend} ${start} ${bend} ${end} 26 ${end}m-5 -3.5l5 3.5l-5 3.5`);
        path.setAttribute("class", to === this.at ? "direct" : "");
        return path;
      }),
    );
    this.drawState(steps[this.at]);
  }

  private drawState({ text, reads }: Step): void {
    const { steps, start, words } = this.told.walk;
    const before = steps[this.at - 1]?.after ?? start;
    const isLast = this.at === steps.length - 1;
    const entry = (name: string, from?: number | null): HTMLElement[] => {
      const value = element("dd", "", element("code", "", before[name] ?? "not shown in this log"));
      const isSet = from !== undefined && from !== null;
      if (isSet) value.append(button(`set at ${steps[from].instruction}`, "", () => this.go(from)));
      return [element("dt", "", name), value];
    };
    const isRead = (name: string) => reads.some(([read]) => read === name);
    const others = Object.keys(before).filter((name) => !isRead(name) && name !== "r10");
    const buttons = () => [...this.state.querySelectorAll("button")];
    const pressed = buttons().indexOf(document.activeElement as HTMLButtonElement);
    this.state.replaceChildren(
      element(
        "div",
        "moves",
        button("← Back", "", () => this.go(this.at - 1)),
        button("Forward →", "", () => this.go(this.at + 1)),
      ),
      ...(isLast ? words.map((line) => element("p", "words", line)) : []),
      element("p", "", "Before ", element("code", "", text), ", as far as the log shows it:"),
      element("dl", "read", ...reads.flatMap(([name, from]) => entry(name, from))),
      element("dl", "", ...others.flatMap((name) => entry(name))),
    );
    // Back and forward stay. A way to another instruction ends there.
    if (pressed >= 0) (pressed < 2 ? buttons()[pressed] : this.list).focus({ preventScroll: true });
  }
}

for (const box of document.querySelectorAll<HTMLElement>(".log-view")) {
  const data = box.querySelector("script")?.textContent;
  if (data) new LogView(box, JSON.parse(data));
}
