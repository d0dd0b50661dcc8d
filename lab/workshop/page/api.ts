// What the server offers, and the connection by which it reports what changes.

import { h } from "./dom";
import { promise, proof, prove } from "./key";

export type Program = { name: string; title: string; page: string; parent: string | null };
export type Exercise = {
  id: string;
  program: string;
  title: string;
  state: "new" | "started" | "done";
  /** Whether its check has passed, also if the copy was removed since. */
  done: boolean;
  /** How many it has, and the texts of those that were shown. */
  hints: number;
  shown: string[];
  /** Changes whenever a file of the working copy changes. */
  stamp: string | null;
};
export type Terminal = { id: number; title: string; running: boolean; status: number | null };
export type Diagnostic = {
  path: string;
  line: number;
  column: number | null;
  severity: "error" | "warning";
  message: string;
};
/** What the compiler says about a BPF program. */
export type Compiled = { compiles: boolean; diagnostics: Diagnostic[] };
export type Action = {
  what: "run" | "check";
  name: string;
  mine: boolean;
  terminal: number;
  phase: "compiling" | "booting" | "running" | "ended";
  seconds: number;
  status: number | null;
  /** What the driver said when it failed. */
  cause: string | null;
  /** What a check that could judge the program found. */
  verdict: { right: string } | { wrong: Fault } | null;
  /** What has become of the prediction made before the run. */
  outcome: Outcome | null;
  diagnostics: Diagnostic[];
};
/** A question about a program. */
export type Question = {
  /** Such as `03/order`. */
  id: string;
  program: string;
  /** Those of the run that it is about, if it is a prediction. */
  arguments: string | null;
  /** At which try it was answered; 0: it was skipped. */
  tries: number | null;
};
/** What the learner expects of a run. */
export type Prediction = { id: string; answer: string };
/** The same, and the truth, in words. */
export type Outcome = {
  id: string;
  predicted: string;
  /** Whether only the end of the run decides. */
  at_end: boolean;
  /** What the run has shown, and in which lines; null as long as it has not. */
  seen: { value: string; lines: string[] } | null;
  is_right: boolean;
  right: string;
  why: string | null;
  explanation: string;
};
/** Where a program differs from what it should do. */
export type Fault = {
  expected: string;
  seen: string;
  /** A few of the lines that it printed, and how many came before them. */
  lines: string[];
  before: number;
  /** Which of them is the first wrong one, if one line is to blame. */
  wrong: number | null;
};
export type State = {
  /** Names the folder of the working copies. */
  folder: string;
  /** Whether the workshop is in a guest, whose programs run with its own kernel. */
  guest: boolean;
  /** The guest's kernel, and those that its launcher can boot instead; null and none if it can't. */
  kernel: string | null;
  kernels: string[];
  programs: Program[];
  exercises: Exercise[];
  questions: Question[];
  terminals: Terminal[];
  actions: Action[];
  results: string[];
  /** The part of their addresses that nobody can guess. */
  results_key: string;
  /** Why the learner's laptop does not keep the work, if it should. */
  unkept: { cause: string; evidence: string | null; fix: string | null } | null;
};
/** A helper function of the kernel, as libbpf's header describes it. */
export type Helper = {
  name: string;
  declaration: string;
  does: string;
  returns: string;
  /** The kernels that lack it. */
  lacking: string[];
  /** The kinds of programs that may call it; nothing if all may that the server knows. */
  callers: string[] | null;
};
/** A member: its type in C, at which byte it begins, and the kernels that lack it. */
export type Member = { name: string; type: string; at: string; lacking: string[] };
/** A struct or a union. */
export type Layout = { name: string; members: Member[] };
/** A function of the kernel, with C types. */
export type KernelFunction = { name: string; returns: string; parameters: string[] };
export type Source = { path: string; text: string; version?: string };
export type Saved = { work: string; path: string; version: string; by: string | null };
export type Difference = { head?: string; files: { path: string; old: string | null; new: string | null }[] };

/** An error as the server reports it. Status 0: the server did not answer. */
export class Problem extends Error {
  /** Whether it is still so, if that can change without the learner. */
  lasts = () => true;

  constructor(
    readonly status: number,
    readonly cause: string,
    readonly evidence: string | null = null,
    readonly fix: string | null = null,
    readonly body: Record<string, unknown> = {},
  ) {
    super(cause);
  }
}

/** What to show of anything that was thrown. */
export function problem(thrown: unknown): Problem {
  return thrown instanceof Problem ? thrown : new Problem(-1, "This page has a bug.", String(thrown));
}

/** Tells this page's own saves from those of other tabs. */
export const client = Array.from(crypto.getRandomValues(new Uint32Array(2)), (word) => word.toString(36)).join("");

async function request<T>(method: string, path: string, init: RequestInit = {}): Promise<T> {
  return JSON.parse((await (await ask(method, path, init)).text()) || "{}");
}

/** An answer that is not an error. */
async function ask(method: string, path: string, init: RequestInit = {}): Promise<Response> {
  const send = () => fetch(path, { method, ...init, headers: { ...init.headers, "X-Proof": proof() } });
  let answer: Response;
  try {
    if (!proof()) await prove();
    const sent = proof();
    answer = await send();
    // The server, or its key, may be new. Another request may have noticed that first.
    if (answer.status === 401) await prove();
    if (answer.status === 401 && proof() !== sent) answer = await send();
  } catch {
    throw new Problem(0, "the workshop does not answer");
  }
  if (answer.ok) return answer;
  if (answer.status === 401) events.refused();
  const text = await answer.text();
  let body: Record<string, unknown> = {};
  try {
    body = text ? JSON.parse(text) : {};
  } catch {
    body = { cause: text.slice(0, 500) };
  }
  const said = (key: string) => (typeof body[key] === "string" ? (body[key] as string) : null);
  const cause = said("cause") || `The server answered ${answer.status} to ${method} ${path}.`;
  throw new Problem(answer.status, cause, said("evidence"), said("fix"), body);
}

const get = <T>(path: string) => request<T>("GET", path);
const json = (value: unknown) => ({
  body: JSON.stringify(value),
  headers: { "Content-Type": "application/json" },
});
const at = encodeURIComponent;

export const api = {
  helpers: () => get<{ helpers: Helper[] }>("/api/kernel/helpers"),
  layout: (name: string) => get<{ type: Layout | null }>(`/api/kernel/types/${at(name)}`),
  functions: (begin: string) => get<{ functions: KernelFunction[] }>(`/api/kernel/functions?begin=${at(begin)}`),
  programFiles: (name: string) => get<{ files: Source[] }>(`/api/programs/${at(name)}/files`),
  workFiles: (id: string) => get<{ files: Source[] }>(`/api/works/${at(id)}/files`),
  programDiff: (name: string) => get<Difference>(`/api/programs/${at(name)}/diff`),
  workDiff: (id: string) => get<Difference>(`/api/works/${at(id)}/diff`),
  solution: (id: string, peek: boolean, mine: boolean) =>
    get<Difference>(`/api/works/${at(id)}/solution?peek=${peek}&mine=${mine}`),
  start: (id: string, again: boolean) => request<{ text: string }>("POST", `/api/works/${at(id)}/start?again=${again}`),
  hint: (id: string) => request<{ shown: string[] }>("POST", `/api/works/${at(id)}/hint`),
  /** Nothing, if something newer has ended it. */
  compile: async (id: string) =>
    (await request<{ compiled: Compiled | null }>("POST", `/api/works/${at(id)}/compile`)).compiled,
  check: (name: string) => request<Action>("POST", "/api/check", json({ name })),
  run: (name: string, mine: boolean, args: string, prediction?: Prediction) =>
    request<Action>("POST", "/api/run", json({ name, mine, arguments: args, prediction })),
  answered: (id: string, tries: number) => request<unknown>("PUT", `/api/answers/${id}`, json({ tries })),
  boot: (kernel: string) => request<unknown>("POST", "/api/kernel", json({ kernel })),
  newShell: () => request<Terminal>("POST", "/api/terminals"),
  closeTerminal: (id: number) => request<unknown>("DELETE", `/api/terminals/${id}`),
  interrupt: (id: number) => request<unknown>("POST", `/api/terminals/${id}/interrupt`),
  /** Gives the learner a file of the server. */
  download: async (path: string) => {
    const answer = await ask("GET", path);
    const href = URL.createObjectURL(await answer.blob());
    const [, name] = /"(.*)"/.exec(answer.headers.get("Content-Disposition") ?? "") ?? [];
    h("a", { href, download: name }).click();
    // The browser reads it after this.
    setTimeout(() => URL.revokeObjectURL(href), 60000);
  },
  upload: (zip: Blob, replace: boolean) =>
    request<{ restored: string[] }>("POST", `/api/work?replace=${replace}`, { body: zip }),
  save: (id: string, path: string, text: string, version: string, keepalive: boolean) =>
    request<{ version: string }>("PUT", `/api/works/${at(id)}/file?path=${at(path)}`, {
      body: text,
      headers: { "Content-Type": "text/plain; charset=utf-8", "If-Match": version, "X-Client": client },
      // A browser lets a page that is closing send no more than this.
      keepalive: keepalive && text.length < 20000,
    }),
};

/** A socket of the server. A browser sends no header with it, except for the names of protocols. */
export const socketTo = (path: string) =>
  new WebSocket(`${location.origin.replace(/^http/, "ws")}${path}`, ["workshop", proof()]);

export type Link = "up" | "down" | "refused";

/** How long the server may be silent, in milliseconds. It sends something every two seconds. */
const patience = 15000;

/** The events' socket. It comes back by itself, and knows whether the server is there. */
class Events {
  onState: (state: State) => void = () => {};
  onSaved: (saved: Saved) => void = () => {};
  onProblem: (problem: Problem) => void = () => {};
  onLink: (link: Link) => void = () => {};
  /** There is a new connection, to a server that knows our key. */
  onOpen: () => void = () => {};
  private socket?: WebSocket;
  private link?: Link;
  // Since when there is no socket (0: there is one), when the last one was made, and when we last heard something.
  private closed = 0;
  private made = 0;
  private heard = 0;
  private tries = 0;

  start(): void {
    this.heard = this.closed = performance.now();
    this.probe();
    setInterval(() => this.watch(), 500);
  }

  refused(): void {
    this.become("refused");
  }

  /** Whether the events' socket is open. */
  get isOpen(): boolean {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  private async connect(): Promise<void> {
    // Somebody else may listen there now. Nothing of theirs is believed, such as that the page is to be loaded again.
    const nonce = crypto.randomUUID();
    const promised = await promise(nonce);
    const socket = socketTo(`/api/events?nonce=${nonce}`);
    let isProven = false;
    this.socket = socket;
    this.made = performance.now();
    socket.onmessage = ({ data }) => {
      if (socket !== this.socket) return;
      const event = JSON.parse(data);
      if (!isProven) {
        isProven = event.kind === "hello" && event.proof === promised;
        if (isProven) this.onOpen();
        else {
          socket.close();
          this.refused();
        }
        return;
      }
      this.heard = performance.now();
      this.closed = 0;
      this.tries = 0;
      this.become("up");
      if (event.kind === "state") this.onState(event.state);
      if (event.kind === "saved") this.onSaved(event);
      if (event.kind === "problem") this.onProblem(new Problem(-1, event.cause, event.evidence, event.fix));
    };
    socket.onclose = () => socket === this.socket && this.again();
  }

  private again(): void {
    this.socket = undefined;
    this.closed ||= performance.now();
    this.tries += 1;
    setTimeout(() => this.probe(), Math.min(200 * 2 ** this.tries, 2000));
  }

  /** After many failed WebSockets, Chromium delays new ones by seconds, so we ask with a plain request first. Its answer
   * also shows whether the page is refused, and there is a proof then. */
  private probe(): void {
    request("GET", "/api/state", { signal: AbortSignal.timeout(patience) }).then(
      () => this.connect(),
      () => this.again(),
    );
  }

  private watch(): void {
    const now = performance.now();
    const silent = now - this.heard > patience;
    if (this.link !== "refused" && (silent || (this.closed && now - this.closed > 2000))) this.become("down");
    if (!silent || !this.socket || now - this.made < patience) return;
    // It may be half open, after a sleep for example.
    const old = this.socket;
    this.again();
    old.close();
  }

  private become(link: Link): void {
    if (link === this.link) return;
    this.link = link;
    this.onLink(link);
  }
}

export const events = new Events();
