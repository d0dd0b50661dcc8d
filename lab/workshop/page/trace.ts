// A line of the trace pipe, part by part, in plain words. `common::trace_pipe` takes the same lines apart, and the flags are
// those of the kernel's `trace_print_lat_fmt()`.

import { byId } from "./dom";

/** As the kernel prints a line, or as our programs shorten it. No task's name looks like what follows it. */
const line = /^\s*(.+?)-(\d+)\s+(?:\(\s*[\d-]+\)\s+)?\[(\d{3,})\] (\S+)\s+(\d+\.\d{6}): (?:bpf_trace_printk: )?(.*)$/;

const interrupts: Record<string, string> = {
  ".": "interrupts were on",
  d: "interrupts were off",
  b: "soft interrupts (bottom halves) were off",
  D: "interrupts and soft interrupts (bottom halves) were off",
  X: "the kernel does not know whether interrupts were off",
};
const reschedule: Record<string, string> = {
  ".": "the task did not have to make room for another one",
  N: "the task had to make room for another one (TIF_NEED_RESCHED, PREEMPT_NEED_RESCHED)",
  n: "the task had to make room for another one (TIF_NEED_RESCHED)",
  p: "the task had to make room for another one (PREEMPT_NEED_RESCHED)",
  B: "the task had to make room for another one (TIF_NEED_RESCHED, PREEMPT_NEED_RESCHED, TIF_NEED_RESCHED_LAZY)",
  L: "the task had to make room for another one (PREEMPT_NEED_RESCHED, TIF_NEED_RESCHED_LAZY)",
  b: "the task had to make room for another one (TIF_NEED_RESCHED, TIF_NEED_RESCHED_LAZY)",
  l: "the task had to make room for another one, but not soon (TIF_NEED_RESCHED_LAZY)",
};
const context: Record<string, string> = {
  ".": "in the task itself, not in an interrupt",
  h: "in a hard interrupt, which may have nothing to do with the task that it interrupted",
  H: "in a hard interrupt that came during a soft interrupt",
  s: "in a soft interrupt, which may have nothing to do with the task that it interrupted",
  z: "in a non-maskable interrupt (NMI)",
  Z: "in a non-maskable interrupt (NMI) that came during a hard interrupt",
};

/** A hexadecimal digit counts how often something was turned off; the kernel writes f for more, too. */
const depth = (what: string) => (flag: string) => {
  if (flag === ".") return `nobody had turned ${what} off`;
  if (!/^[1-9a-f]$/.test(flag)) return undefined;
  return `${what} was turned off, ${flag === "f" ? "15 or more" : Number.parseInt(flag, 16)} deep`;
};

/** What each flag means, in their order. Before Linux 5.15, there is no fifth. */
const flagsInOrder = [
  (flag: string) => interrupts[flag],
  (flag: string) => reschedule[flag],
  (flag: string) => context[flag],
  depth("preemption"),
  depth("migration to another CPU"),
];

function meaning(flags: string): [string, string][] {
  if (flags.length !== 4 && flags.length !== 5) return [["", "unknown: this kernel writes other flags than we know"]];
  return [...flags].map((flag, nth) => [`  ${flag}`, flagsInOrder[nth](flag) ?? "unknown to the workshop"]);
}

/** A line of the trace pipe, and what its parts mean; undefined if it is another line. */
export function explained(text: string): string | undefined {
  const parts = line.exec(text);
  if (!parts) return undefined;
  const [, task, id, cpu, flags, time, message] = parts;
  const who =
    id === "0"
      ? "the idle task: the CPU had nothing else to do"
      : task === "<...>"
        ? `a task whose name the tracer did not know, thread id ${id}`
        : `the task ${task}, thread id ${id}`;
  const rows: [string, string][] = [
    [`${task}-${id}`, who],
    [`[${cpu}]`, `ran on CPU ${Number(cpu)}`],
    [flags, "flags, when the line was written:"],
    ...meaning(flags),
    [time, "when the line was written, in seconds since boot"],
    ["the rest", `the program's own text: ${message}`],
  ];
  const width = Math.max(...rows.map(([part]) => part.length));
  return [text.trim(), "", ...rows.map(([part, what]) => `${part.padEnd(width)}  ${what}`)].join("\n");
}

/** Shows a line and its meaning, to read and to copy. `step` chooses this line, or the one before or after it. */
export function showLine(step: (by: -1 | 0 | 1) => string): void {
  const [dialog, copy, text] = [byId<HTMLDialogElement>("line-dialog"), byId("line-copy"), byId("line-text")];
  const show = (by: -1 | 0 | 1) => {
    text.textContent = step(by);
    copy.textContent = "Copy";
  };
  show(0);
  byId("line-before").onclick = () => show(-1);
  byId("line-after").onclick = () => show(1);
  copy.onclick = async () => {
    try {
      await navigator.clipboard.writeText(text.textContent ?? "");
      copy.textContent = "Copied";
    } catch {
      // Some browsers ask, or forbid it.
      getSelection()?.selectAllChildren(text);
      copy.textContent = "Press Ctrl-C to copy";
    }
  };
  dialog.showModal();
}
