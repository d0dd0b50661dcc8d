// The files that are open, and how they are saved: as you type, and never lost. Until the server has a text, the browser
// keeps it as a draft, which survives a reload of the page and a restart of the server.

import { isolateHistory } from "@codemirror/commands";
import { Annotation, EditorState, type StateEffect, type TransactionSpec } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { api, client, type Diagnostic, Problem, problem, type Saved, type Source } from "./api";
import { diagnose, editing, readOnly } from "./codemirror";
import { inFolder, keep } from "./dom";

/** A change that did not come from the learner's hands. */
const fromServer = Annotation.define<boolean>();

export class Doc {
  state: EditorState;
  /** What the server has, as far as we know. */
  saved: string;
  version?: string;
  conflict?: { text: string; version: string };
  failure?: Problem;
  diagnostics: Diagnostic[] = [];
  scroll?: StateEffect<unknown>;
  timer?: ReturnType<typeof setTimeout>;
  saving?: Promise<void>;
  /** How often the server has told us what the file has. What we asked before that is old. */
  heard = 0;
  /** Where the text came from, if it is not the server's. */
  restored?: { key: string; text: string };
  /** The browser has no room for the draft. */
  unkept = false;
  /** Texts that we sent without getting an answer. The server may have them. */
  unsure: string[] = [];

  constructor(
    readonly name: string,
    { path, text, version }: Source,
    onUpdate: (doc: Doc, byHand: boolean) => void,
  ) {
    this.path = path;
    this.version = version;
    const label = version === undefined ? `${path} of ${name}, read only` : `${path} of ${name}`;
    this.state = EditorState.create({
      doc: text,
      extensions: [
        editing(path, label),
        version === undefined ? readOnly : [],
        EditorView.updateListener.of((update) => {
          this.state = update.state;
          if (update.docChanged) onUpdate(this, !update.transactions.some((one) => one.annotation(fromServer)));
        }),
      ],
    });
    this.saved = this.text;
  }

  readonly path: string;

  get text(): string {
    return this.state.doc.toString();
  }

  get dirty(): boolean {
    return this.version !== undefined && this.text !== this.saved;
  }

  get errors(): number {
    return this.diagnostics.filter(({ severity }) => severity === "error").length;
  }
}

type Draft = { text: string; version: string; sent: string[] };
/** Each tab keeps its own drafts, because two tabs may have different texts. */
const draftsOf = (doc: Doc) => inFolder(`draft:${doc.name}:${doc.path}:`);
const draftKey = (doc: Doc) => draftsOf(doc) + client;

/** The smallest change from one text to another, so that cursor and scroll position stay. */
function change(old: string, text: string) {
  let from = 0;
  while (from < old.length && from < text.length && old[from] === text[from]) from += 1;
  let end = 0;
  while (end < old.length - from && end < text.length - from && old.at(-1 - end) === text.at(-1 - end)) end += 1;
  return { from, to: old.length - end, insert: text.slice(from, text.length - end) };
}

export class Documents {
  private readonly open = new Map<string, Doc[]>();
  private forgotten = 0;
  /** The view that shows a document, if it is on the screen. */
  viewOf: (doc: Doc) => EditorView | undefined = () => undefined;
  /** Something changed in what the page shows around the texts. */
  onChange: () => void = () => {};
  onFailure: (doc: Doc, failure: Problem) => void = () => {};
  /** The learner changed a text, and later: the server has it. */
  onEdited: (doc: Doc) => void = () => {};
  onSaved: (doc: Doc) => void = () => {};

  of(name: string): Doc[] {
    return this.open.get(name) ?? [];
  }

  get all(): Doc[] {
    return [...this.open.values()].flat();
  }

  /** The files of an exercise's working copy, or of a program. */
  async load(name: string, isWork: boolean): Promise<Doc[]> {
    if (this.open.has(name)) return this.of(name);
    const { forgotten } = this;
    const { files } = await (isWork ? api.workFiles(name) : api.programFiles(name));
    // These may be the files before a reset.
    if (forgotten !== this.forgotten) return this.load(name, isWork);
    // Somebody else may have asked for the same.
    if (this.open.has(name)) return this.of(name);
    const docs = files.map((file) => this.create(name, isWork ? file : { ...file, version: undefined }));
    this.open.set(name, docs);
    return docs;
  }

  private create(name: string, file: Source): Doc {
    const doc = new Doc(name, file, (doc, byHand) => this.updated(doc, byHand));
    if (doc.version === undefined) return doc;
    for (const key of keep.keys(draftsOf(doc))) {
      const draft = keep.get<Draft>(key);
      if (draft?.text === doc.saved) keep.remove(key);
      else if (draft && !doc.restored) this.restore(doc, key, draft);
    }
    return doc;
  }

  private restore(doc: Doc, key: string, { text, version, sent }: Draft): void {
    doc.restored = { key, text };
    doc.unsure = sent;
    doc.version = version;
    this.change(doc, { changes: change(doc.text, text), annotations: fromServer.of(true) });
    // The server knows whether it has had this text since that version.
    doc.timer = setTimeout(() => this.save(doc), 0);
  }

  /** Changes a text, whether it is on the screen or not. */
  change(doc: Doc, spec: TransactionSpec): void {
    const view = this.viewOf(doc);
    if (view) view.dispatch(spec);
    else doc.state = doc.state.update(spec).state;
  }

  /** Replaces a text for the learner, who can undo that in one step. */
  paste(doc: Doc, text: string): void {
    this.change(doc, {
      changes: change(doc.text, text.replace(/\r\n?/g, "\n")),
      annotations: isolateHistory.of("full"),
      userEvent: "input.drop",
    });
  }

  private updated(doc: Doc, byHand: boolean): void {
    if (!byHand || doc.version === undefined) return;
    if (doc.diagnostics.length) queueMicrotask(() => this.diagnose(doc, []));
    this.onEdited(doc);
    this.draft(doc);
    clearTimeout(doc.timer);
    doc.timer = setTimeout(() => this.save(doc), 300);
    this.onChange();
  }

  private draft(doc: Doc): void {
    const draft: Draft = { text: doc.text, version: doc.version as string, sent: doc.unsure };
    doc.unkept = doc.dirty && !keep.set(draftKey(doc), draft);
    if (!doc.dirty) keep.remove(draftKey(doc));
    const { restored } = doc;
    if (!restored || doc.unkept) return;
    doc.restored = undefined;
    // Its tab may still be open and have a newer text.
    if (keep.get<Draft>(restored.key)?.text === restored.text) keep.remove(restored.key);
  }

  diagnose(doc: Doc, diagnostics: Diagnostic[]): void {
    if (!doc.diagnostics.length && !diagnostics.length) return;
    doc.diagnostics = diagnostics;
    this.change(doc, diagnose(doc.state, diagnostics));
    this.onChange();
  }

  /** Saves now. A page that is closing has no time for an answer. */
  save(doc: Doc, closing = false): Promise<void> {
    clearTimeout(doc.timer);
    doc.timer = undefined;
    doc.saving ??= this.put(doc, closing).finally(() => {
      doc.saving = undefined;
      this.onChange();
    });
    return doc.saving;
  }

  private async put(doc: Doc, closing: boolean): Promise<void> {
    const { dirty } = doc;
    while (doc.dirty && !doc.conflict) {
      const text = doc.text;
      doc.unsure = [...doc.unsure.slice(-4), text];
      this.draft(doc);
      if (!doc.failure) this.onChange();
      try {
        const { version } = await api.save(doc.name, doc.path, text, doc.version as string, closing);
        this.settle(doc, text, version);
      } catch (thrown) {
        const failure = problem(thrown);
        const { text: theirs, version } = failure.body;
        if (failure.status !== 409 || typeof theirs !== "string" || typeof version !== "string") {
          this.failed(doc, failure);
          return;
        }
        if (doc.unsure.includes(theirs)) this.settle(doc, theirs, version);
        else {
          this.collide(doc, theirs, version);
          // It was saved by a tab that did not hear of it any more.
          if (failure.body.was_saved === true && doc.text === text) this.takeOther(doc);
        }
      }
    }
    doc.failure = undefined;
    // The learner has taken the own change back, or made the same as the other.
    if (doc.conflict && (!doc.dirty || doc.text === doc.conflict.text)) this.takeOther(doc);
    if (dirty && !doc.dirty) this.onSaved(doc);
  }

  /** The server has this text. */
  private settle(doc: Doc, text: string, version: string): void {
    doc.heard += 1;
    doc.saved = text;
    doc.version = version;
    doc.conflict = undefined;
    doc.failure = undefined;
    doc.unsure = [];
    this.draft(doc);
  }

  /** The server has a text from elsewhere. */
  private collide(doc: Doc, text: string, version: string): void {
    doc.heard += 1;
    doc.conflict = { text, version };
  }

  private failed(doc: Doc, failure: Problem): void {
    const news = doc.failure?.cause !== failure.cause;
    doc.failure = failure;
    failure.lasts = () => Boolean(doc.failure);
    if (news && failure.status > 0) this.onFailure(doc, failure);
    clearTimeout(doc.timer);
    doc.timer = setTimeout(() => this.save(doc), 3000);
  }

  /** Before the server compiles something, it must have what is on the screen. */
  async flush(name: string): Promise<void> {
    for (const doc of this.of(name)) {
      // A save that is under way may have an older text; its loop goes on with the newest.
      await this.save(doc);
      if (!doc.dirty) continue;
      const fix = doc.conflict
        ? "Choose in the editor which text to keep. Then try again."
        : (doc.failure?.fix ?? "Wait until it is saved. Then try again.");
      const evidence = doc.conflict ? "Another tab or editor changed the file." : (doc.failure?.cause ?? null);
      const unsaved = new Problem(-1, `Your latest changes to ${doc.path} are not saved.`, evidence, fix);
      unsaved.lasts = () => doc.dirty;
      throw unsaved;
    }
    // The screen shows what the server is going to compile.
    await this.refresh(name);
  }

  /** What is not saved yet is sent now, because the page closes or the server came back. */
  saveAll(closing = false): void {
    for (const doc of this.all) if (doc.dirty && !doc.conflict) this.save(doc, closing);
  }

  /** Another tab, another editor or a restart may have changed files. */
  async refresh(name: string): Promise<void> {
    const docs = this.of(name);
    if (docs[0]?.version === undefined) return;
    const heard = new Map(docs.map((doc) => [doc, doc.heard]));
    const { files } = await api.workFiles(name);
    let isOld = false;
    for (const file of files) {
      const doc = docs.find(({ path }) => path === file.path);
      await doc?.saving;
      // Reset meanwhile.
      if (this.of(name) !== docs) return;
      if (!doc) docs.push(this.create(name, file));
      // A save has ended since we asked, so this may be the text before it.
      else if (doc.heard !== heard.get(doc)) isOld = true;
      else this.adopt(doc, file);
    }
    // A text that is not saved yet makes its file anew.
    const isGone = (doc: Doc) =>
      heard.get(doc) === doc.heard && !doc.dirty && !files.some(({ path }) => path === doc.path);
    for (const doc of docs.filter(isGone)) docs.splice(docs.indexOf(doc), 1);
    this.onChange();
    if (isOld) await this.refresh(name);
  }

  private adopt(doc: Doc, { text, version = "" }: Source): void {
    if (version === doc.version) {
      doc.conflict = undefined;
      if (doc.dirty && !doc.timer) this.save(doc);
      return;
    }
    if (!doc.dirty) this.replace(doc, text, version);
    else if (text === doc.text) this.settle(doc, text, version);
    else if (doc.unsure.includes(text)) {
      this.settle(doc, text, version);
      this.save(doc);
    } else this.collide(doc, text, version);
  }

  private replace(doc: Doc, text: string, version: string): void {
    this.change(doc, { changes: change(doc.text, text), annotations: fromServer.of(true) });
    this.settle(doc, doc.text, version);
    this.diagnose(doc, []);
  }

  saved({ work, path, version, by }: Saved): void {
    const doc = this.of(work).find((doc) => doc.path === path);
    if (!this.open.has(work) || by === client || doc?.version === version) return;
    this.refresh(work).catch(() => {});
  }

  keepMine(doc: Doc): void {
    if (!doc.conflict) return;
    doc.version = doc.conflict.version;
    doc.saved = doc.conflict.text;
    doc.conflict = undefined;
    this.draft(doc);
    this.save(doc);
  }

  /** Ctrl-Z brings the learner's own text back. */
  takeOther(doc: Doc): void {
    if (!doc.conflict) return;
    const { text, version } = doc.conflict;
    this.replace(doc, text, version);
    this.onChange();
  }

  /** The working copy is discarded or replaced: nothing of the old one may come back. */
  async forget(name: string): Promise<void> {
    const docs = this.of(name);
    this.forgotten += 1;
    this.open.delete(name);
    for (const doc of docs) {
      clearTimeout(doc.timer);
      await doc.saving;
      clearTimeout(doc.timer);
      keep.remove(draftKey(doc));
    }
  }

  /** Saves nothing any more, and keeps the drafts. */
  drop(): void {
    for (const doc of this.all) clearTimeout(doc.timer);
    this.open.clear();
  }

  /** The works of which the browser has drafts from an earlier visit. */
  static drafted(): Set<string> {
    const start = inFolder("draft:");
    return new Set(keep.keys(start).map((key) => key.slice(start.length).split(":")[0]));
  }
}
