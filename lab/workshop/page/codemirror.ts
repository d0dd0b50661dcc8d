// How CodeMirror is set up: the same for the editor and for the views that compare.

import { defaultKeymap, history, historyKeymap, indentLess, indentMore } from "@codemirror/commands";
import { cppLanguage } from "@codemirror/lang-cpp";
import { rustLanguage } from "@codemirror/lang-rust";
import {
  bracketMatching,
  foldGutter,
  foldKeymap,
  indentOnInput,
  indentUnit,
  LanguageSupport,
  syntaxHighlighting,
} from "@codemirror/language";
import { type Diagnostic as Lint, linter, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension, type Text } from "@codemirror/state";
import {
  drawSelection,
  dropCursor,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  tooltips,
} from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";
import type { Diagnostic } from "./api";
import { completing, explaining } from "./complete";
import { byId, coded, h, plain } from "./dom";

function language(path: string): Extension {
  if (/\.[ch]$/.test(path)) return [new LanguageSupport(cppLanguage), indentUnit.of("\t")];
  if (/\.rs$/.test(path)) return [new LanguageSupport(rustLanguage), indentUnit.of("    ")];
  return indentUnit.of("    ");
}

/** Tab indents what is selected, and otherwise goes on by one unit of the language. */
const tab = {
  key: "Tab",
  run: (view: EditorView) => {
    if (view.state.readOnly) return false;
    if (view.state.selection.ranges.some((range) => !range.empty)) return indentMore(view);
    view.dispatch(view.state.replaceSelection(view.state.facet(indentUnit)), {
      scrollIntoView: true,
      userEvent: "input.indent",
    });
    return true;
  },
  shift: (view: EditorView) => !view.state.readOnly && indentLess(view),
};

/** What every text has, whether somebody edits or only reads it. */
export function reading(path: string, label: string): Extension {
  return [
    language(path),
    EditorState.tabSize.of(4),
    lineNumbers(),
    highlightSpecialChars(),
    syntaxHighlighting(classHighlighter),
    search({ top: true }),
    EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
  ];
}

export const readOnly: Extension = [EditorState.readOnly.of(true), EditorView.editorAttributes.of({ class: "read" })];

export function editing(path: string, label: string): Extension {
  return [
    reading(path, label),
    /\.[ch]$/.test(path) ? [completing, explaining] : [],
    // Not within the editor's pane, which would cut them off.
    tooltips({
      parent: byId("tooltips"),
      // Not over the lesson, which the learner works from.
      tooltipSpace: ({ dom }) => ({
        left: dom.getBoundingClientRect().left,
        right: innerWidth,
        top: 0,
        bottom: innerHeight,
      }),
    }),
    lintGutter(),
    linter(null),
    foldGutter(),
    history(),
    drawSelection(),
    dropCursor(),
    indentOnInput(),
    bracketMatching(),
    highlightActiveLine(),
    highlightActiveLineGutter(),
    highlightSelectionMatches(),
    keymap.of([tab, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...foldKeymap, ...lintKeymap]),
  ];
}

/** From a compiler's line and column to a place in the text. Without a column, the whole line is marked. */
function lint(text: Text, { line: number, column, severity, message }: Diagnostic): Lint {
  const line = text.line(Math.min(Math.max(number, 1), text.lines));
  const start = column === null ? line.text.search(/\S|$/) : Math.min(column - 1, line.length);
  const word = column === null ? line.length - start : (/^(\w+|\S)/.exec(line.text.slice(start))?.[0].length ?? 0);
  // F8 shows it: whoever listens hears it then.
  const renderMessage = () => h("span", { role: "alert" }, ...coded(message));
  return { from: line.from + start, to: line.from + start + word, severity, message: plain(message), renderMessage };
}

export function diagnose(state: EditorState, diagnostics: Diagnostic[]) {
  const marks = diagnostics.map((diagnostic) => lint(state.doc, diagnostic));
  return setDiagnostics(
    state,
    marks.sort((a, b) => a.from - b.from),
  );
}
