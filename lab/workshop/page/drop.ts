// A file from the desktop that somebody drops onto the editor replaces the text of the open file.

import { Problem } from "./api";
import type { Doc, Documents } from "./documents";
import { h } from "./dom";
import { showPanel } from "./panel";

/** The server's limit for a file, in bytes. */
const largest = 1 << 20;

const kind = (name: string) => /\.(c|h|rs)$/.exec(name)?.[1];

/** The text of what was dropped onto an open file, if that can take it. */
async function textFor(doc: Doc | undefined, files: FileList): Promise<string> {
  const [file] = files;
  const fails = (cause: string, evidence: string | null, fix: string) => new Problem(-1, cause, evidence, fix);
  if (files.length !== 1) throw fails(`These are ${files.length} files.`, null, "Drop one file.");
  if (doc?.version === undefined) {
    const fix = "Open one of your exercises, and the tab of the file that it shall replace. Then drop it again.";
    throw fails("Nothing that you can change is open.", file.name, fix);
  }
  if (kind(file.name) !== kind(doc.path)) {
    const fix = `Open the tab of the file that it shall replace, or rename it so that it ends like \`${doc.path}\`.`;
    throw fails("This file is of another kind than the open one.", `${file.name} and ${doc.path}`, fix);
  }
  if (file.size > largest) {
    const evidence = `It has ${file.size} bytes, and a file may have ${largest}.`;
    throw fails("This file is too large.", evidence, "Drop a file of a program.");
  }
  const bytes = await file.arrayBuffer().catch((error) => {
    throw fails("The browser cannot read this file.", String(error), "Drop a file, and not a folder.");
  });
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    if (!text.includes("\0")) return text;
  } catch {}
  throw fails("This file is not text.", file.name, "Drop a source file, in UTF-8.");
}

/** Replaces the text of an open file. */
export async function replace(documents: Documents, doc: Doc | undefined, files: FileList): Promise<void> {
  const text = await textFor(doc, files);
  if (!doc) return;
  documents.paste(doc, text);
  const said = `${doc.path} of ${doc.name} now has the text of ${files[0].name}. Ctrl-Z brings yours back.`;
  showPanel("news", "Your file was replaced", [h("p", {}, said)]);
}
