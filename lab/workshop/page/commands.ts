// Finds the commands in the book's text that the page has buttons for.

export type Command =
  | { kind: "start"; id: string }
  | { kind: "check"; id: string }
  | { kind: "run"; name: string; mine: boolean; args: string };

/** A command line without its prompt and its comment. Quotes protect a #. */
export function bare(line: string): string {
  const text = line.replace(/^\s*\$\s+/, "").trim();
  let quote = "";
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at];
    if (quote) quote = sign === quote ? "" : quote;
    else if (sign === '"' || sign === "'") quote = sign;
    else if (sign === "#" && /\s/.test(text[at - 1] ?? " ")) return text.slice(0, at).trim();
  }
  return text;
}

/** What a line asks the lab to do, if the page can do it. `known` has the names of programs and exercises. */
export function parse(line: string, known: Set<string>, guest: boolean): Command | undefined {
  const text = bare(line).replace(/\s+/g, " ");
  const exercise = /^cargo lab exercise (start|check) (\S+)$/.exec(text);
  if (exercise) return known.has(exercise[2]) ? { kind: exercise[1] as "start" | "check", id: exercise[2] } : undefined;
  const cure = /^cargo lab clinic (start|check) (\d+)$/.exec(text);
  if (cure && known.has(`clinic-${cure[2]}`)) return { kind: cure[1] as "start" | "check", id: `clinic-${cure[2]}` };
  const run = /^cargo lab run (.+)$/.exec(text)?.[1];
  if (!run || (guest && /(^| )--(kernel|arch)\b/.test(run))) return undefined;
  // Options may come before the name. A name within quotes or after -- is not the program's.
  const words = [...run.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g)];
  let mine = false;
  let name: RegExpExecArray | undefined;
  const rest: string[] = [];
  for (const word of words) {
    if (word[0] === "--") {
      rest.push(run.slice(word.index));
      break;
    }
    if (word[0] === "--mine") mine = true;
    else if (!name && known.has(word[0])) name = word;
    else rest.push(word[0]);
  }
  return name && { kind: "run", name: name[0], mine, args: rest.join(" ") };
}

/** The lines of a block of commands. A backslash at a line's end continues it. */
export function commandLines(block: string): string[] {
  return block.replace(/\\\n\s*/g, " ").split("\n");
}
