// The lesson: a page of the book in a frame. The frame has an origin of its own, because somebody else may answer there: once
// the server has ended, anybody on this machine can take its port. What happens inside is in frame.ts.

import { answers } from "../../../docs/present/questions";
import type { State } from "./api";
import type { Command } from "./commands";
import { byId, h, keep } from "./dom";
import { showPanel } from "./panel";
import { bookTheme, onTheme } from "./theme";
import type { Act, FromLesson, ToLesson } from "./window";

const firstPage = "/book/stages/01.html";
const contents = "/book/stages.html";

export class Lesson {
  private frame = byId<HTMLIFrameElement>("book");
  private state?: State;
  /** Nobody has been here before. */
  readonly isNew: boolean;
  /** The pages of this visit. The last one is shown, unless another one is being loaded. */
  private pages: string[] = [];
  private coming?: string;
  /** The exercise to show in a page. */
  private wanted?: { path: string; exercise: string };
  private isFirst = true;
  onCommand: (command: Command) => void = () => {};
  onOpen: (program: string) => void = () => {};
  onLink: (exercise: string) => void = () => {};
  onAct: (act: Act) => void = () => {};
  onAnswers: (answers: Record<string, number>) => void = () => {};

  constructor() {
    addEventListener("message", (event) => event.source === this.frame.contentWindow && this.heard(event.data));
    byId("lesson-back").addEventListener("click", () => this.back());
    byId("lesson-start").addEventListener("click", () => this.go(contents));
    onTheme(() => this.tell({ theme: bookTheme() }));
    this.isNew = !keep.get<string>("lesson");
  }

  /** Shows where the learner was, in a new frame: nothing is left of the one before. */
  load(): void {
    const frame = this.frame.cloneNode() as HTMLIFrameElement;
    // What the page finds in its storage.
    frame.name = JSON.stringify({ "mdbook-theme": bookTheme() });
    frame.src = keep.get<string>("lesson") ?? firstPage;
    this.frame.replaceWith(frame);
    this.frame = frame;
    this.coming = undefined;
    this.isFirst = true;
  }

  /** Shows this page of the book, or an exercise in it. */
  show(page: string, exercise?: string): void {
    const path = `/book/${page}`;
    this.wanted = exercise === undefined ? undefined : { path, exercise };
    if (path !== (this.coming ?? this.pages.at(-1))) {
      this.coming = path;
      this.go(path);
    } else if (!this.coming) this.toWanted();
  }

  private toWanted(): void {
    if (this.wanted?.path !== this.pages.at(-1)) return;
    this.tell({ exercise: this.wanted?.exercise });
    this.wanted = undefined;
  }

  private back(): void {
    if (this.pages.length < 2) return;
    this.pages.pop();
    this.go(this.pages.pop() ?? firstPage);
  }

  go(path: string): void {
    if (this.frame.contentWindow) this.frame.contentWindow.location.href = path;
  }

  focus(): void {
    this.frame.focus();
    this.frame.contentWindow?.focus();
  }

  update(state: State): void {
    this.state = state;
    this.tellState();
  }

  private tell(what: ToLesson): void {
    this.frame.contentWindow?.postMessage(what, "*");
  }

  private tellState(): void {
    if (!this.state) return;
    const { programs, exercises, guest, kernel } = this.state;
    const state = { programs, exercises, guest, kernel };
    this.tell({ state, theme: bookTheme(), answers: JSON.stringify(answers()) });
  }

  /** What the lesson says. If it is somebody else's, nothing of this may help them. */
  private heard({ ready, path, top, answers, command, act, program, exercise, away }: FromLesson): void {
    if (path?.startsWith("/book/")) keep.set("lesson", path);
    if (path && ready !== undefined) this.ready(path, ready);
    if (path && top !== undefined) keep.set("lesson-top", { path, top });
    if (answers) this.onAnswers(JSON.parse(answers));
    if (command) this.onCommand(command);
    if (act) this.onAct(act);
    if (program) this.onOpen(program);
    if (exercise) this.onLink(exercise);
    if (away) this.open(new URL(away));
  }

  private ready(path: string, title: string): void {
    this.coming = undefined;
    const [page] = path.split("#");
    if (page !== this.pages.at(-1)) this.pages.push(page);
    byId("lesson-title").textContent = title.replace(/ - The BPF storage workbook$/, "");
    this.tellState();
    // After a reload of ours, the page is where it was.
    const last = keep.get<{ path: string; top: number }>("lesson-top");
    if (this.isFirst && last?.path === path) this.tell({ top: last.top });
    this.isFirst = false;
    this.toWanted();
  }

  /** Other sites do not fit into the frame. A page of our own origin would find our secrets in a tab of its own. */
  private open({ href, origin, protocol }: URL): void {
    if (origin === location.origin || !/^https?:$/.test(protocol) || open(href, "_blank")) return;
    const link = h("a", { href, target: "_blank", rel: "noopener" }, href);
    showPanel("news", "The browser did not open this page", [h("p", {}, link)]);
  }
}
