// What runs: the line that reports it, its terminal, and what its compiler found.

import { type Action, api, type Diagnostic, type Prediction } from "./api";
import { byId, h, plain, plural, rich } from "./dom";
import type { Editor } from "./editor";
import type { Button } from "./panel";
import { showOutcome, showWaiting } from "./questions";
import type { Terminals } from "./terminals";
import { hideVerdict, showVerdict } from "./verdict";

const phases = { compiling: "compiling", booting: "booting the guest", running: "running", ended: "ended" };
const whats = { run: "Run of ", check: "Check of " };

/** An action, when we heard of it, which of its diagnostics are on the screen, how often it was started, and which of
 * its verdicts the learner has closed. */
type Known = { action: Action; at: number; shown: string; round: number; closed: string };
const keyOf = (action: Action) => `${action.what} ${action.name}`;
/** Whether only the end of this run decides the learner's prediction. */
const isWaiting = ({ outcome, phase }: Action) => Boolean(outcome?.at_end && !outcome.seen && phase === "running");
const isError = ({ severity }: Diagnostic) => severity === "error";

/** Whether the learner ended it: with Ctrl-C, which the lab reports as an error of its own, or as the shell does. */
const wasStopped = ({ status, cause }: Action) => status === null || status === 130 || cause === "interrupted";

export class Actions {
  private known = new Map<string, Known>();
  private last?: Action;
  private first = true;
  private shown = "";
  private verdict = "";
  /** What a learner may want to do after a check. */
  after: (action: Action) => Button[] = () => [];

  constructor(
    readonly editor: Editor,
    readonly terminals: Terminals,
    readonly stop: (action: Action) => void,
  ) {
    setInterval(() => this.draw(), 250);
    terminals.onSelect = () => this.drawVerdict();
  }

  /** What is on the screen is saved first. */
  async start(what: "run" | "check", name: string, mine: boolean, args = "", prediction?: Prediction): Promise<void> {
    await this.editor.documents.flush(name);
    // Two stages that run would trace the same I/O, and each other.
    if (what === "run") {
      const others = [...this.known.values()].map(({ action }) => action).filter((other) => other.name !== name);
      for (const other of others) if (other.what === "run" && other.phase === "running") this.stop(other);
    }
    await this.begin(what, name, () => (what === "check" ? api.check(name) : api.run(name, mine, args, prediction)));
  }

  /** Lets the server start it, and shows its terminal. */
  async begin(what: Action["what"], name: string, ask: () => Promise<Action>): Promise<void> {
    const round = this.known.get(`${what} ${name}`)?.round;
    const action = await ask();
    // The events may have been faster than this answer.
    if (this.known.get(keyOf(action))?.round === round) {
      const others = [...this.known.values()].map(({ action }) => action);
      this.update([...others.filter((one) => keyOf(one) !== keyOf(action)), action]);
    }
    this.terminals.select(action.terminal);
    // Somebody may have read what an earlier run said.
    this.terminals.toEnd(action.terminal);
  }

  update(actions: Action[]): void {
    const before = this.known;
    this.known = new Map();
    for (const action of actions) {
      const old = before.get(keyOf(action));
      const { shown = "[]", round = 1, closed = "" } = old ?? {};
      const known = { action, at: performance.now(), shown, round, closed };
      this.known.set(keyOf(action), known);
      if (!old || this.isNew(old, action)) {
        known.shown = "[]";
        known.round += 1;
        known.closed = "";
        this.editor.diagnose(action.name, []);
        // Somebody may have closed its terminal.
        if (!this.first && this.terminals.has(action.terminal)) this.terminals.select(action.terminal);
      }
      const ended = action.phase === "ended" && (old?.action.phase !== "ended" || this.isNew(old, action));
      if (ended) this.last = action;
      this.diagnose(known);
    }
    if (this.last && !this.known.has(keyOf(this.last))) this.last = undefined;
    this.first = false;
    this.draw();
  }

  /** Whether it is another run of the same, and not the same one a little later. */
  private isNew({ action: old }: Known, action: Action): boolean {
    if (action.seconds < old.seconds) return true;
    return old.phase === "ended" && (action.phase !== "ended" || action.seconds !== old.seconds);
  }

  /** The server repeats what it found. We show it once, because it disappears when the learner edits the file. */
  private diagnose(known: Known): void {
    const { name, diagnostics } = known.action;
    const now = JSON.stringify(diagnostics);
    if (now === known.shown || !this.editor.documents.of(name).length) return;
    known.shown = now;
    this.editor.diagnose(name, diagnostics);
    if (name === this.editor.name && diagnostics.some(isError)) this.editor.toFirstError();
  }

  /** What the last action said of the program that is open is no longer true of its text. */
  edited(): void {
    const isDirty = this.editor.docs.some(({ dirty }) => dirty);
    if (!isDirty || this.last?.name !== this.editor.name || this.last.status === 0) return;
    this.last = undefined;
    this.draw();
  }

  /** A program was opened: it may have been compiled before. */
  opened(): void {
    for (const known of this.known.values()) if (known.action.name === this.editor.name) this.diagnose(known);
  }

  private text({ action, at }: Known): string {
    const { what, name, phase, status, cause, diagnostics } = action;
    const of = `${whats[what]}${name}`;
    if (phase !== "ended") {
      const waits = isWaiting(action) ? ", and your answer waits for its end" : "";
      return `${of}: ${phases[phase]}, ${Math.floor(action.seconds + (performance.now() - at) / 1000)} s${waits}`;
    }
    const seconds = `${Math.round(action.seconds)} s`;
    if (action.verdict && "wrong" in action.verdict) return `${name} is not right yet`;
    const [first, ...others] = diagnostics.filter(isError);
    if (status === 0) return what === "check" ? `${of} passed in ${seconds}` : `${of} ended after ${seconds}`;
    if (first) {
      const more = others.length ? `, and ${plural(others.length, "other error")}` : "";
      // The verifier's next line is what to do about it.
      const message = first.message.split("\n")[0];
      return `${of} failed at ${first.path.split("/").pop()}:${first.line}: ${message}${more}`;
    }
    if (wasStopped(action)) return `${of} was stopped after ${seconds}`;
    // A check's verdict names the exercise itself.
    return cause?.startsWith(`${name} `) ? cause : `${of} failed: ${cause ?? "see the terminal"}`;
  }

  /** Closes the verdict that is shown. */
  closeVerdict(): void {
    if (!this.verdict) return;
    const known = this.shownAction();
    if (known) known.closed = this.verdict;
    this.drawVerdict();
  }

  /** The action whose terminal is shown. */
  private shownAction(): Known | undefined {
    return [...this.known.values()].find(({ action }) => this.terminals.shows(action.terminal));
  }

  /** The verdict of the check whose terminal is shown, or what has become of the prediction made before the run. */
  drawVerdict(): void {
    const known = this.shownAction();
    const { outcome = null, phase, what } = known?.action ?? {};
    const isOver = known && phase === "ended" && !wasStopped(known.action);
    const waits = known !== undefined && isWaiting(known.action);
    const content =
      what === "check" ? isOver && known?.action : (outcome?.seen || phase === "ended" || waits) && outcome;
    const drawn = known && content ? JSON.stringify([content, waits, known.action.terminal, known.round]) : "";
    const now = drawn === known?.closed ? "" : drawn;
    if (now === this.verdict) return;
    this.verdict = now;
    const close = () => {
      this.closeVerdict();
      this.terminals.focus();
    };
    if (!known || !content || !now) hideVerdict();
    else if (outcome && waits) showWaiting(outcome, () => this.stop(known.action), close);
    else if (outcome) {
      const { terminal } = known.action;
      showOutcome(outcome, () => this.terminals.toLight(terminal), close);
      this.terminals.light(terminal, outcome.seen?.lines ?? []);
    } else showVerdict(known.action, this.after(known.action), close);
  }

  private draw(): void {
    this.drawVerdict();
    const all = [...this.known.values()];
    const running = all.filter(({ action }) => action.phase !== "ended");
    const last = all.find(({ action }) => action === this.last || (this.last && keyOf(action) === keyOf(this.last)));
    const lines = running.length ? running : last ? [last] : [];
    const texts = lines.map((known) => this.text(known));
    const now = JSON.stringify([texts, lines.map(({ action }) => action.phase)]);
    if (now === this.shown) return;
    this.shown = now;
    const status = byId("status");
    // The clock ticks within its element, so that nobody's click on Stop gets lost.
    const keys = lines.map(({ action }) => `${keyOf(action)} ${action.phase === "ended"}`).join();
    if (status.dataset.keys !== keys) {
      status.dataset.keys = keys;
      status.replaceChildren(...lines.map((known) => this.line(known)));
    }
    lines.forEach(({ action }, nth) => {
      const line = status.children[nth];
      line.firstElementChild?.replaceChildren(...rich(texts[nth]));
      line.className = action.phase !== "ended" ? "live" : action.status === 0 ? "good" : "bad";
    });
    // Who listens hears each phase once, not each second.
    const said = lines.map((known, nth) =>
      known.action.phase === "ended" ? texts[nth] : texts[nth].replace(/, \d+ s/, ""),
    );
    const live = byId("said");
    const words = plain(said.join(". "));
    if (live.textContent !== words) live.textContent = words;
  }

  private line({ action }: Known): HTMLElement {
    if (action.phase === "ended") return h("span", {}, h("span"));
    const stop = h("button", { type: "button", "data-test": "stop" }, "Stop");
    stop.setAttribute("aria-label", `Stop the ${action.what} of ${action.name}`);
    stop.addEventListener("click", () => this.stop(action));
    return h("span", {}, h("span"), " ", stop);
  }
}
