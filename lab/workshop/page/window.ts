// What all windows of the page do. The lesson's frame is one of its own, and both of its sides use this.

import type { State } from "./api";
import type { Command } from "./commands";
import type { Pane } from "./panes";

/** What the lesson is told. Somebody else may read it, so it has no secret. */
export type ToLesson = {
  state?: Pick<State, "programs" | "exercises" | "guest" | "kernel">;
  theme?: string;
  /** At which try the questions were answered, as the book keeps it. */
  answers?: string;
  /** Where to go in the page. */
  top?: number;
  exercise?: string;
};

/** What happens in the lesson. */
export type FromLesson = {
  /** The title of a page that is complete. */
  ready?: string;
  /** Where the reader is. */
  path?: string;
  top?: number;
  answers?: string;
  command?: Command;
  act?: Act;
  /** A program to open, an exercise to go to, and another site. */
  program?: string;
  exercise?: string;
  away?: string;
};

export type Act =
  | Pane
  | "next"
  | "previous"
  | "keys"
  | "explain"
  | "error"
  | "run"
  | "check"
  | "save"
  | "left"
  | "right";

const isMac = /^Mac/.test(navigator.platform);

/** What a key does in this pane. Those of the browser and of a shell stay theirs. */
export function actOf(event: KeyboardEvent, pane: Pane | undefined): Act | undefined {
  // While an input method composes, all keys are its own: Enter ends a word, and F6 to F10 choose another script.
  if (event.isComposing || event.keyCode === 229) return undefined;
  const { key, code, shiftKey: shift, altKey: alt, metaKey: meta } = event;
  // On a Mac, the Command key does what Ctrl does elsewhere, and people write signs such as # with Alt and a digit.
  if (isMac ? alt : meta) return undefined;
  const ctrl = event.ctrlKey || meta;
  const digit = /^(?:Digit|Numpad)([123])$/.exec(code)?.[1];
  if (key === "F6" && !ctrl && !alt) return shift ? "previous" : "next";
  if (key === "F8" && pane === "editor") return "error";
  if (/^F[19]$/.test(key) && !ctrl && !alt && !shift) return key === "F1" ? "keys" : "explain";
  if (digit && alt && !ctrl && !shift) return (["lesson", "editor", "terminals"] as const)[Number(digit) - 1];
  if (key === "Enter" && ctrl && !alt) return shift ? "check" : "run";
  if (code === "KeyS" && ctrl && !alt && !shift && (pane !== "terminals" || meta)) return "save";
  if (/^Arrow(Left|Right)$/.test(key) && alt && !ctrl && !shift && pane === "editor") {
    return key === "ArrowLeft" ? "left" : "right";
  }
  return undefined;
}

const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;

/** Takes files only where `onDrop` does. Anywhere else, the browser would leave the page and show the file. */
export function takeFiles(place?: Element, onDrop: (files: FileList) => void = () => {}): void {
  const on = (event: DragEvent, isDrop: boolean) => {
    if (!hasFiles(event) || !event.dataTransfer) return;
    event.preventDefault();
    // CodeMirror would insert it.
    event.stopPropagation();
    const takes = Boolean(place?.contains(event.target as Node));
    event.dataTransfer.dropEffect = takes ? "copy" : "none";
    if (isDrop && takes) onDrop(event.dataTransfer.files);
  };
  addEventListener("dragover", (event) => on(event, false), true);
  addEventListener("drop", (event) => on(event, true), true);
}
