// What the editor knows: the kernel's helpers, types and functions, which the server computes from its BTF, and what the
// open file itself declares. Pure functions find what the text before the cursor asks for.

import { api, type KernelFunction, type Layout } from "./api";

const all: Map<string, unknown>[] = [];
/** Forgets what another kernel has answered. */
export const forget = () => {
  for (const known of all) known.clear();
};

/** Asks once for each key. What failed may be asked again. */
function once<T>(ask: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const known = new Map<string, Promise<T>>();
  all.push(known);
  return (key) => {
    const old = known.get(key);
    if (old) return old;
    const answer = ask(key);
    known.set(key, answer);
    answer.catch(() => known.delete(key));
    return answer;
  };
}

const allHelpers = once(async () => (await api.helpers()).helpers);
export const helpers = () => allHelpers("");
export const functions = once(async (begin: string) => (await api.functions(begin)).functions);
const layout = once(async (name: string) => (await api.layout(name)).type);

/** A name that a file declares: a map, a variable, a function or a type. */
export type Declared = { name: string; kind: "map" | "variable" | "function" | "type"; text: string };

const escaped = (name: string) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** The maps, globals, functions and types in a BPF program's text. */
export function declared(text: string): Declared[] {
  const found: Declared[] = [];
  const add = (kind: Declared["kind"], name: string, text: string) => {
    if (!found.some((one) => one.name === name)) found.push({ kind, name, text: text.trim() });
  };
  for (const [all, name] of text.matchAll(/^struct \{\n(?:.*\n)*?\} (\w+) SEC\("\.maps"\);/gm)) add("map", name, all);
  for (const [all, name] of text.matchAll(/^(?:struct|union|enum) (\w+) \{\n(?:.*\n)*?\};/gm)) add("type", name, all);
  for (const [all, name] of text.matchAll(/^(?:[a-z_]\w*[ *]+)+(\w+)(?:\[\w+\])?(?: SEC\(.*\))?(?: = .*)?;/gm)) {
    add("variable", name, all);
  }
  for (const [all, name] of text.matchAll(/^(?:[a-z_]\w*[ *]+)+(\w+)\([^)]*\)(?=\n\{)/gm)) {
    if (!/^BPF_/.test(name)) add("function", name, all);
  }
  return found;
}

/** The type that a struct's own text in this file gives its members. */
function ownLayout(text: string, name: string): Layout | undefined {
  const own = declared(text).find((one) => one.kind === "type" && one.name === name);
  if (!own) return undefined;
  const members = [...own.text.matchAll(/^\s+([\w ]+?[ *]+)(\w+)(\[.*\])?;/gm)].map(([, type, member, array]) => ({
    name: member,
    type: type.trim() + (array ?? ""),
    at: "",
    lacking: [],
  }));
  return { name: own.text.split(" {")[0], members };
}

/** The struct in a type such as `const struct bio *`. */
const structOf = (type: string) => /^(?:const )?(?:struct|union) (\w+)/.exec(type)?.[1];

/** The struct that a variable points to or is, by the last declaration before this place. */
function variable(before: string, name: string): string | undefined {
  const all = [...before.matchAll(new RegExp(`\\b(?:struct|union) (\\w+) \\**${escaped(name)}\\b`, "g"))];
  return all.at(-1)?.[1];
}

/** What may come after `bio->bi_iter.`, or `BPF_CORE_READ(bio, bi_bdev, `. */
export async function membersOf(text: string, before: string, path: string[]): Promise<Layout | undefined> {
  const [root, ...names] = path;
  let type = variable(before, root);
  for (let at = 0; type; at += 1) {
    const found: Layout | null | undefined = ownLayout(text, type) ?? (await layout(type));
    if (!found || at === names.length) return found ?? undefined;
    const next: string | undefined = found.members.find(({ name }) => name === names[at])?.type;
    type = next && structOf(next);
  }
  return undefined;
}

/** The names before the member that is being written at the end of this text, and what is there of it. */
export function memberAt(before: string): { path: string[]; begin: string } | undefined {
  const read = /BPF_(?:CORE_)?(?:READ|PROBE_READ)\(\s*(\w+)((?:,\s*[\w.]+)*),\s*((?:\w+\.)*)(\w*)$/.exec(before);
  const parts = (text: string) => text.split(/\W+/).filter(Boolean);
  if (read) return { path: [read[1], ...parts(read[2]), ...parts(read[3])], begin: read[4] };
  const chain = /(\w+(?:\[\w*\])?(?:->|\.)(?:\w+(?:->|\.))*)(\w*)$/.exec(before);
  return chain ? { path: parts(chain[1].replace(/\[\w*\]/g, "")), begin: chain[2] } : undefined;
}

/** How the programs of a section begin, by the section's kind. */
const macros = { fentry: "BPF_PROG", fexit: "BPF_PROG", kprobe: "BPF_KPROBE", kretprobe: "BPF_KRETPROBE" };
export type Probe = keyof typeof macros;

/** The section that is being written at the end of this text: its kind, and what is there of the function's name. */
export function sectionAt(before: string): { probe: Probe; begin: string } | undefined {
  const section = /SEC\("(fentry|fexit|kprobe|kretprobe)\/(\w*)$/.exec(before);
  return section ? { probe: section[1] as Probe, begin: section[2] } : undefined;
}

/** The kinds of programs that a helper can be limited to, and how their sections begin. */
const sections = {
  kprobe: "k(ret)?(probe|syscall)|u(ret)?probe|usdt",
  fentry: "fentry",
  fexit: "fexit",
  tp_btf: "tp_btf",
  tracepoint: "tracepoint|tp",
  raw_tracepoint: "raw_tracepoint|raw_tp",
  perf_event: "perf_event",
};

/** The kind of the program in which this text ends; nothing if it ends outside of one, or we don't know its section. */
export function programAt(before: string): string | undefined {
  const section = [...before.matchAll(/^SEC\("([^"]*)"\)/gm)].at(-1);
  if (!section || /^\}/m.test(before.slice(section.index))) return undefined;
  const kinds = Object.entries(sections);
  return kinds.find(([, begin]) => new RegExp(`^\\??(${begin})(\\.multi|\\.session)?(/|$)`).test(section[1]))?.[0];
}

/** A name as C declares it with this type. */
export const declare = (type: string, name: string) => `${type}${type.endsWith("*") ? "" : " "}${name}`;

/** A function as C declares it. */
export const prototype = ({ name, returns, parameters }: KernelFunction) =>
  `${declare(returns, name)}(${parameters.join(", ") || "void"})`;

/** The first line of a program that is called at this function. */
export function program(probe: Probe, { name, returns, parameters }: KernelFunction): string {
  const result = returns === "void" ? [] : [declare(returns, "ret")];
  const all = { fentry: parameters, kprobe: parameters, fexit: [...parameters, ...result], kretprobe: result }[probe];
  const end = probe === "fexit" || probe === "kretprobe" ? "exit" : "entry";
  return `int ${macros[probe]}(${[`${name}_${end}`, ...all].join(", ")})`;
}
