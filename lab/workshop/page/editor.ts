// The editor pane: the tabs of the open program or exercise, its texts, and the views that compare.

import { nextDiagnostic } from "@codemirror/lint";
import { unifiedMergeView } from "@codemirror/merge";
import { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import type { Diagnostic, Difference } from "./api";
import { reading, readOnly } from "./codemirror";
import { type Doc, Documents } from "./documents";
import { byId, h, keep, plural, rich, type Tab, Tabs } from "./dom";
import { replace } from "./drop";

/** A comparison. Its button `toggle` shows another one in its place. */
type Comparison = {
  key: string;
  label: string;
  difference: Difference;
  unchanged: string;
  toggle?: HTMLElement;
  /** Of which two texts it compares, to choose one. */
  disputed?: Doc;
};

export class Editor {
  readonly documents = new Documents();
  /** What is open: a program or an exercise. */
  name = "";
  private doc?: Doc;
  private comparisons: Comparison[] = [];
  private shown?: string;
  private views: EditorView[] = [];
  private opened = 0;
  private readonly host = byId("code");
  private readonly compared = byId("compared");
  private readonly placeholder = byId("placeholder");
  private readonly conflict = byId("conflict");
  private readonly view: EditorView;
  private readonly tabs: Tabs;
  onChange: () => void = () => {};

  constructor() {
    this.view = new EditorView({ parent: this.host });
    this.tabs = new Tabs(byId("files"), byId("text"), "tab", (key, focus) => this.show(key, focus));
    this.documents.viewOf = (doc) => (doc === this.doc ? this.view : undefined);
    this.documents.onChange = () => this.draw();
    byId("keep-mine").addEventListener("click", () => this.settle((doc) => this.documents.keepMine(doc)));
    byId("take-other").addEventListener("click", () => this.settle((doc) => this.documents.takeOther(doc)));
    byId("compare").addEventListener("click", () => {
      const { doc } = this;
      if (!doc?.conflict) return;
      const head = "From the other text to yours";
      const files = [{ path: doc.path, old: doc.conflict.text, new: doc.text }];
      this.put({
        key: "other",
        label: "The other and mine",
        difference: { head, files },
        unchanged: "",
        disputed: doc,
      });
    });
  }

  /** Whether the errors are only in files that are not shown. */
  get errsElsewhere(): boolean {
    return !this.doc?.diagnostics.length && this.docs.some(({ errors }) => errors);
  }

  /** The file that is shown. */
  get path(): string | undefined {
    return this.doc?.path;
  }

  /** The file with two texts, if it is shown, or their comparison. */
  private get disputed(): Doc | undefined {
    const doc = this.doc ?? this.comparisons.find(({ key }) => key === this.shown)?.disputed;
    return doc?.conflict && doc;
  }

  /** The learner chose between two texts. */
  private settle(choose: (doc: Doc) => void): void {
    const { disputed } = this;
    if (disputed) choose(disputed);
    this.closeComparison("other");
    this.view.focus();
  }

  get docs(): Doc[] {
    return this.documents.of(this.name);
  }

  /** Whether the learner is typing in a text of theirs. */
  get typing(): boolean {
    return this.view.hasFocus && !this.view.state.readOnly;
  }

  async open(name: string, isWork: boolean): Promise<void> {
    this.opened += 1;
    const nth = this.opened;
    await this.documents.load(name, isWork);
    // The learner may have opened something else meanwhile.
    if (nth !== this.opened) return;
    if (name !== this.name) this.comparisons = [];
    this.name = name;
    keep.set("open", name);
    const last = keep.get<string>(`file:${name}`);
    const first = this.docs.find(({ path }) => path === last) ?? this.docs.find(({ path }) => path.endsWith(".c"));
    const doc = first ?? this.docs[0];
    this.placeholder.replaceChildren(doc ? "" : h("p", {}, `${name} has no files.`));
    this.show(doc?.path);
  }

  /** An exercise that nobody started has no files yet. */
  openNothing(name: string, ...content: HTMLElement[]): void {
    this.opened += 1;
    this.name = name;
    this.comparisons = [];
    keep.set("open", name);
    this.placeholder.replaceChildren(...content);
    this.show(undefined);
  }

  /** Before the open working copy is replaced: from here on, nothing of the old one is saved. */
  async discard(): Promise<void> {
    const { name } = this;
    this.openNothing(name);
    await this.documents.forget(name);
    this.show(undefined);
  }

  show(key: string | undefined, focus = false): void {
    if (this.doc) this.doc.scroll = this.view.scrollSnapshot();
    for (const view of this.views.splice(0)) view.destroy();
    this.shown = key;
    this.doc = this.docs.find(({ path }) => path === key);
    const comparison = this.comparisons.find((one) => one.key === key);
    this.host.hidden = !this.doc;
    this.compared.hidden = !comparison;
    this.placeholder.hidden = key !== undefined;
    const hadFocus = this.compared.contains(document.activeElement);
    this.compared.replaceChildren();
    if (this.doc) {
      keep.set(`file:${this.name}`, this.doc.path);
      this.view.setState(this.doc.state);
      if (this.doc.scroll) this.view.dispatch({ effects: this.doc.scroll as never });
      else this.view.dispatch({ effects: EditorView.scrollIntoView(0, { y: "start" }) });
      if (focus) this.view.focus();
    } else if (comparison) {
      this.drawComparison(comparison);
      if (hadFocus) comparison.toggle?.focus();
    } else this.view.setState(EditorState.create());
    this.draw();
  }

  /** The tab to the left or to the right of this one. */
  step(by: 1 | -1): void {
    const keys = this.tabList().map(({ key }) => key);
    if (keys.length) this.show(keys[(keys.indexOf(this.shown ?? "") + by + keys.length) % keys.length], true);
  }

  focus(): void {
    if (this.doc) this.view.focus();
    else (this.compared.querySelector<HTMLElement>(".cm-content") ?? byId("open")).focus();
  }

  /** Replaces the open file with one from the desktop. */
  async drop(files: FileList): Promise<void> {
    await replace(this.documents, this.doc, files);
    this.focus();
  }

  saveNow(): void {
    this.documents.saveAll();
  }

  // What comes from a compiler.

  diagnose(name: string, diagnostics: Diagnostic[]): void {
    for (const doc of this.documents.of(name)) {
      const mine = diagnostics.filter(({ path }) => path === doc.path || path.endsWith(`/${doc.path}`));
      this.documents.diagnose(doc, mine);
    }
  }

  /** Shows the first error, but takes nobody's cursor away, unless they ask for it. */
  toFirstError(asked = false): void {
    const doc = this.docs.find(({ errors }) => errors);
    if (!doc || (this.typing && !asked)) return;
    if (doc !== this.doc) this.show(doc.path);
    const error = doc.diagnostics.find(({ severity }) => severity === "error");
    const line = this.view.state.doc.line(Math.min(Math.max(error?.line ?? 1, 1), this.view.state.doc.lines));
    const at = error?.column ? Math.min(line.from + error.column - 1, line.to) : line.from + line.text.search(/\S|$/);
    this.view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
    if (!asked) return;
    this.view.focus();
    nextDiagnostic(this.view);
  }

  // Comparing.

  compare(
    key: string,
    label: string,
    difference: Difference,
    unchanged = "No differences.",
    toggle?: HTMLElement,
  ): void {
    this.put({ key, label, difference, unchanged, toggle });
  }

  private put(comparison: Comparison): void {
    const at = this.comparisons.findIndex(({ key }) => key === comparison.key);
    if (at < 0) this.comparisons.push(comparison);
    else this.comparisons[at] = comparison;
    const hadFocus = this.compared.contains(document.activeElement);
    this.show(comparison.key);
    // Whoever listens hears its name.
    if (!hadFocus) byId("files").querySelector<HTMLElement>("[aria-selected=true]")?.focus();
  }

  private closeComparison(key: string): void {
    this.comparisons = this.comparisons.filter((one) => one.key !== key);
    if (this.shown === key) this.show(keep.get<string>(`file:${this.name}`) ?? this.docs[0]?.path);
    else this.draw();
  }

  private drawComparison({ label, difference, unchanged, toggle }: Comparison): void {
    const files = difference.files.filter((file) => file.old !== file.new);
    const head = [...rich(difference.head ?? ""), " ", toggle];
    if (difference.head || toggle) this.compared.append(h("p", { class: "about" }, ...head));
    if (!files.length) this.compared.append(h("p", { class: "about" }, unchanged));
    for (const file of files) {
      const host = h("div", { class: "merge" });
      const what = file.old === null ? " (a new file)" : file.new === null ? " (removed)" : "";
      this.compared.append(h("section", { "aria-label": file.path }, h("h3", {}, file.path, what), host));
      const view = new EditorView({
        parent: host,
        doc: file.new ?? "",
        extensions: [
          reading(file.path, `${label}: ${file.path}`),
          readOnly,
          unifiedMergeView({
            original: file.old ?? "",
            mergeControls: false,
            collapseUnchanged: { margin: 3, minSize: 5 },
          }),
        ],
      });
      this.views.push(view);
    }
    this.compared.scrollTop = 0;
  }

  // What is around the text.

  private tabList(): Tab[] {
    const files = this.docs.map((doc): Tab => {
      const { errors } = doc;
      const warnings = doc.diagnostics.length - errors;
      const error = errors ? { text: String(errors), kind: "bad", title: plural(errors, "error") } : undefined;
      const warning = warnings
        ? { text: String(warnings), kind: "warn", title: plural(warnings, "warning") }
        : undefined;
      const conflict = doc.conflict && { text: "!", kind: "bad", title: "changed by another tab or editor" };
      return { key: doc.path, label: doc.path, badge: conflict ?? error ?? warning };
    });
    const close = (key: string) => () => this.closeComparison(key);
    return [...files, ...this.comparisons.map(({ key, label }): Tab => ({ key, label, close: close(key) }))];
  }

  draw(): void {
    // Somebody may have removed or renamed the file.
    if (this.doc && !this.docs.includes(this.doc)) {
      this.show(this.docs[0]?.path);
      return;
    }
    this.tabs.show(this.tabList(), this.shown);
    // It was settled elsewhere.
    if (this.comparisons.some(({ disputed }) => disputed && !disputed.conflict)) {
      this.closeComparison("other");
      return;
    }
    this.conflict.hidden = !this.disputed;
    byId("compare").hidden = !this.doc;
    this.onChange();
  }

  // For tests.

  get text(): string {
    return this.view.state.doc.toString();
  }
}
