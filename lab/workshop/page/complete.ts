// Completion and hover in BPF programs.

import {
  autocompletion,
  type Completion,
  type CompletionContext,
  type CompletionResult,
  completionKeymap,
  pickedCompletion,
} from "@codemirror/autocomplete";
import type { Extension } from "@codemirror/state";
import { type EditorView, hoverTooltip, keymap, type Rect, type Tooltip } from "@codemirror/view";
import type { Helper, KernelFunction, Member } from "./api";
import { h, rich } from "./dom";
import * as know from "./knowledge";

const about = (code: string, ...text: string[]) =>
  h("div", { class: "known" }, h("pre", {}, code), ...text.filter(Boolean).map((one) => h("p", {}, ...rich(one))));

const all = (names: string[]) => new Intl.ListFormat("en").format(names);
const notOn = (lacking: string[]) => (lacking.length ? `Not on ${all(lacking)}.` : "");

function ofHelper({ declaration, does, returns, lacking, callers }: Helper): HTMLElement {
  const result = returns && `Returns: ${returns.charAt(0).toLowerCase()}${returns.slice(1)}`;
  const kinds = callers?.length
    ? `Only in ${all(callers.map((one) => `\`${one}\``))} programs.`
    : "Not in tracing programs.";
  return about(declaration, does, result, callers ? kinds : "", notOn(lacking));
}

const ofMember = ({ name, type, at, lacking }: Member, of: string, before: string) =>
  about(know.declare(type, name), at && `At byte ${at} of \`${of}\`.`, notOn(lacking), inKprobe(at, before));

/** To the verifier, the kernel's pointers are only numbers there. */
const inKprobe = (at: string, before: string) =>
  at &&
  /\b(?!ctx)\w+->(\w+\.)*$/.test(before) &&
  know.programAt(before)?.startsWith("k") &&
  !before.includes(".session/")
    ? "In a kprobe's program, a pointer of the kernel is read with `BPF_CORE_READ()`."
    : "";

/** Writes the name and closes the section. If no program follows, writes that, too, with the function's parameters. */
function writeProgram(probe: know.Probe, found: KernelFunction) {
  return (view: EditorView, completion: Completion, from: number) => {
    const { doc } = view.state;
    const line = doc.lineAt(from);
    const next = line.number < doc.lines ? doc.line(line.number + 1).text : "";
    const head = `${found.name}")`;
    const hasProgram = /^(int|static|void|SEC)\b/.test(next.trim());
    const insert = hasProgram ? head : `${head}\n${know.program(probe, found)}\n{\n\t\n\treturn 0;\n}`;
    const anchor = from + (hasProgram ? head.length : insert.indexOf("\n\treturn"));
    view.dispatch({
      changes: { from, to: line.to, insert },
      selection: { anchor },
      annotations: pickedCompletion.of(completion),
      userEvent: "input.complete",
    });
  };
}

async function complete(context: CompletionContext): Promise<CompletionResult | null> {
  const text = context.state.doc.toString();
  const before = text.slice(0, context.pos);
  const section = know.sectionAt(before.slice(-200));
  if (section) {
    const found = await know.functions(section.begin);
    return {
      from: context.pos - section.begin.length,
      options: found.map((one) => ({
        label: one.name,
        type: "function",
        info: () => about(know.prototype(one)),
        apply: writeProgram(section.probe, one),
      })),
      // The server names the first ones only, so another letter may bring others.
      validFor: found.length < 50 ? /^\w*$/ : undefined,
    };
  }
  if (isProse(before)) return null;
  const member = know.memberAt(before.slice(-400));
  if (member) {
    const of = await know.membersOf(text, before, member.path);
    if (!of) return null;
    return {
      from: context.pos - member.begin.length,
      options: of.members
        .filter(({ name }) => name !== "sizeof")
        .map((one) => ({
          label: one.name,
          type: "property",
          detail: one.type,
          info: one.at ? () => ofMember(one, of.name, before.slice(0, before.length - member.begin.length)) : undefined,
        })),
      validFor: /^\w*$/,
    };
  }
  const word = context.matchBefore(/\b[A-Za-z_]\w*$/);
  if (!word || (word.to - word.from < 2 && !context.explicit)) return null;
  const own = know.declared(text).map(
    ({ name, kind, text }): Completion => ({
      label: name,
      type: kind === "map" ? "class" : kind,
      detail: kind,
      info: () => about(text),
      boost: 1,
    }),
  );
  // What the file declares inside of its functions, or names in another way; no words of comments and strings.
  const near = (text.slice(0, word.from) + text.slice(word.to)).replace(
    /\/\*[\s\S]*?\*\/|\/\/.*|"(?:\\.|[^"\\\n])*"/g,
    " ",
  );
  const taken = new Set(own.map(({ label }) => label));
  const words = [...new Set(near.match(/\b[A-Za-z_]\w{2,}\b/g))].filter(
    (one) => !taken.has(one) && !one.startsWith("bpf_"),
  );
  const locals = words.map((label): Completion => ({ label, type: "variable", boost: -1 }));
  const program = know.programAt(before);
  const isAllowed = ({ callers }: Helper) => !program || !callers || callers.includes(program);
  const allowed = (await know.helpers()).filter(isAllowed);
  const helpers = allowed.map(
    (helper): Completion => ({ label: helper.name, type: "function", detail: "helper", info: () => ofHelper(helper) }),
  );
  return { from: word.from, options: [...own, ...locals, ...helpers], validFor: /^\w*$/ };
}

/** Whether this ends within a comment or a string. */
function isProse(before: string): boolean {
  const line = before.slice(before.lastIndexOf("\n") + 1);
  const isString = (line.replace(/\\./g, "").split('"').length - 1) % 2 === 1;
  return isString || line.includes("//") || before.lastIndexOf("/*") > before.lastIndexOf("*/");
}

/** What we know of the word at this place. */
async function known(text: string, from: number, word: string): Promise<HTMLElement | undefined> {
  const before = text.slice(0, from);
  const section = know.sectionAt(before.slice(-200) + word);
  if (section) {
    const found = (await know.functions(word)).find(({ name }) => name === word);
    return found && about(know.prototype(found));
  }
  const member = know.memberAt(before.slice(-400));
  if (member) {
    const of = await know.membersOf(text, before, member.path);
    const found = of?.members.find(({ name }) => name === word);
    return of && found && ofMember(found, of.name, before);
  }
  const own = know.declared(text).find(({ name }) => name === word);
  if (own) return about(own.text);
  if (!word.startsWith("bpf_")) return undefined;
  const helper = (await know.helpers()).find(({ name }) => name === word);
  return helper && ofHelper(helper);
}

async function hover(view: EditorView, pos: number): Promise<Tooltip | null> {
  const range = view.state.wordAt(pos);
  if (!range) return null;
  const { from, to } = range;
  // Without an answer of the server, there is nothing to show.
  const dom = await known(view.state.doc.toString(), from, view.state.sliceDoc(from, to)).catch(() => undefined);
  return dom ? { pos: from, end: to, above: true, create: () => ({ dom }) } : null;
}

/** Right of the list, or below or above it: it covers no other choice. */
function beside(_: EditorView, list: Rect, __: Rect, info: Rect, space: Rect) {
  const [wide, high] = [info.right - info.left, info.bottom - info.top];
  if (list.right + wide <= space.right) return { style: "left: 100%; top: 0" };
  const left = Math.min(0, space.right - list.left - wide);
  const side = list.bottom + high <= space.bottom ? "top" : "bottom";
  return { style: `${side}: 100%; left: ${left}px` };
}

/** For the texts of BPF programs. */
export const completing: Extension = [
  autocompletion({
    override: [(context) => complete(context).catch(() => null)],
    icons: false,
    defaultKeymap: false,
    activateOnCompletion: () => false,
    positionInfo: beside,
  }),
  keymap.of(completionKeymap),
];
export const explaining: Extension = hoverTooltip(hover, { hideOnChange: true });
