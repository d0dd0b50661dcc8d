// Errors while you type: as soon as the server has a new text of a BPF program, it compiles that, and we mark the lines.
// With *on save*, it also checks what compiles.

import { api, type Diagnostic } from "./api";
import type { Doc, Documents } from "./documents";
import { keep } from "./dom";

type Said = "compiling" | "compiles" | "fails";

/** How long a learner pauses before we check what they wrote, in milliseconds. */
const pause = 1000;
const isBpf = ({ path }: Doc) => /\.bpf\.c$|\.h$/.test(path);

export class Compiling {
  /** What is known of the program that was edited last. */
  private name = "";
  private said?: Said;
  private round = 0;
  private timer?: ReturnType<typeof setTimeout>;
  onChange: () => void = () => {};
  /** Checks the exercise. */
  check: (name: string) => void = () => {};

  constructor(private readonly documents: Documents) {
    documents.onEdited = () => this.edited();
    documents.onSaved = (doc) => this.saved(doc);
  }

  get checksOnSave(): boolean {
    return keep.get<boolean>("check-on-save") ?? false;
  }

  set checksOnSave(on: boolean) {
    keep.set("check-on-save", on);
  }

  of(name: string): Said | undefined {
    return name === this.name ? this.said : undefined;
  }

  /** What we know is about an older text. */
  private edited(): void {
    this.round += 1;
    this.said = undefined;
    clearTimeout(this.timer);
  }

  private async saved(doc: Doc): Promise<void> {
    this.edited();
    const { round } = this;
    this.name = doc.name;
    if (isBpf(doc)) {
      this.said = "compiling";
      this.onChange();
      // Without the server, the page says so elsewhere.
      const compiled = await api.compile(doc.name).catch(() => null);
      if (round !== this.round) return;
      this.said = compiled ? (compiled.compiles ? "compiles" : "fails") : undefined;
      if (compiled) this.mark(doc.name, compiled.diagnostics);
      this.onChange();
      if (!compiled?.compiles) return;
    }
    if (this.checksOnSave) this.timer = setTimeout(() => this.check(doc.name), pause);
  }

  private mark(name: string, diagnostics: Diagnostic[]): void {
    for (const doc of this.documents.of(name).filter(isBpf)) {
      this.documents.diagnose(
        doc,
        diagnostics.filter(({ path }) => path === doc.path),
      );
    }
  }
}
