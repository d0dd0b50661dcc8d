// The terminals below the editor. Each has its own socket, which comes back by itself.

import { FitAddon } from "@xterm/addon-fit";
import { type IDecoration, Terminal as Xterm } from "@xterm/xterm";
import { events, Problem, socketTo, type Terminal } from "./api";
import { byId, h, keep, say, type Tab, Tabs } from "./dom";
import { isDark, onTheme } from "./theme";
import { explained } from "./trace";

const light = {
  background: "#ffffff",
  foreground: "#1a1d23",
  cursor: "#1a1d23",
  cursorAccent: "#ffffff",
  selectionBackground: "#b9d4fb",
  black: "#1a1d23",
  red: "#b42318",
  green: "#11652e",
  yellow: "#7a5300",
  blue: "#1d4ed8",
  magenta: "#86198f",
  cyan: "#0e6070",
  white: "#5b6472",
  brightBlack: "#5b6472",
  brightRed: "#c2281c",
  brightGreen: "#157a38",
  brightYellow: "#8a5e00",
  brightBlue: "#2563eb",
  brightMagenta: "#a21caf",
  brightCyan: "#0e7490",
  brightWhite: "#1a1d23",
};
const dark = {
  background: "#12151b",
  foreground: "#e8ebf0",
  cursor: "#e8ebf0",
  cursorAccent: "#12151b",
  selectionBackground: "#2c4a75",
  black: "#343b47",
  red: "#ff9d9d",
  green: "#7ee2a0",
  yellow: "#ffd469",
  blue: "#8ab4ff",
  magenta: "#e6a3f0",
  cyan: "#7fd8e8",
  white: "#e8ebf0",
  brightBlack: "#9aa4b2",
  brightRed: "#ffb8b8",
  brightGreen: "#a6f0bb",
  brightYellow: "#ffe194",
  brightBlue: "#aecbff",
  brightMagenta: "#f0c0f7",
  brightCyan: "#a8e8f3",
  brightWhite: "#ffffff",
};

/** The longest line that a stage prints again and again has so many columns, and a column is so many times the font's
 * size wide. */
const columns = 110;
const columnWidth = 0.602;

/** How many bytes of a pasted text go into a message. */
const longest = 1 << 16;

/** Whether screen readers read the terminals. That is a choice, because what an emoji picker or a dictation inserts does
 * not come through then. */
const isRead = () => keep.get<boolean>("read-terminals") ?? false;

/** One terminal on the screen, and its socket. */
class Screen {
  readonly box = h("div", { class: "screen" });
  readonly xterm = new Xterm({
    fontSize: 12,
    fontFamily: '"DejaVu Sans Mono", Menlo, Consolas, "Liberation Mono", monospace',
    scrollback: 10000,
    // For decorations.
    allowProposedApi: true,
    minimumContrastRatio: 4.5,
    screenReaderMode: isRead(),
    theme: isDark() ? dark : light,
  });
  readonly fit = new FitAddon();
  private socket?: WebSocket;
  private timer?: ReturnType<typeof setTimeout>;
  private tries = 0;
  private gone = false;
  /** The server was away when we wanted to connect. Meanwhile, the program may have said more, and ended. */
  private due = false;
  private replaying = false;
  private waiting: Uint8Array<ArrayBuffer>[] = [];
  /** Lines to light, and those of them that are still to come. */
  private lit: string[] = [];
  private unlit = new Set<string>();
  /** Until when we look for them. */
  private patience = 0;
  private lights: IDecoration[] = [];

  constructor(
    public terminal: Terminal,
    parent: HTMLElement,
  ) {
    parent.append(this.box);
    this.xterm.loadAddon(this.fit);
    this.xterm.open(this.box);
    this.name();
    // If it is read, xterm lets keys through, and this one would leave the terminal.
    this.xterm.attachCustomKeyEventHandler((event) => {
      if (event.key === "Tab") event.preventDefault();
      return true;
    });
    this.xterm.onData((data) => this.send(new TextEncoder().encode(data)));
    this.xterm.onBinary((data) => this.send(Uint8Array.from(data, (sign) => sign.charCodeAt(0))));
    this.connect();
  }

  /** Names it for who listens. */
  name(): void {
    const how = isRead() ? "" : ". A button before it lets a screen reader read it";
    this.xterm.textarea?.setAttribute("aria-label", `Terminal: ${this.terminal.title}${how}`);
    this.xterm.options.screenReaderMode = isRead();
  }

  private connect(): void {
    clearTimeout(this.timer);
    // When the server is back, the state comes, and with it `update`.
    this.due = !events.isOpen;
    if (this.due) return;
    const socket = socketTo(`/api/terminals/${this.terminal.id}`);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    socket.onopen = () => {
      this.tries = 0;
      this.reset();
      this.resized();
      for (const keys of this.waiting.splice(0)) socket.send(keys);
    };
    socket.onmessage = ({ data }) => {
      if (typeof data === "string") {
        // Another program begins.
        if (JSON.parse(data).reset) {
          this.lit = [];
          this.reset();
        }
        return;
      }
      this.xterm.write(new Uint8Array(data), () => {
        this.replaying = false;
        this.lightUp();
      });
    };
    socket.onclose = () => {
      if (socket !== this.socket) return;
      this.socket = undefined;
      // What has ended will not say more. It may be run again: then `update` connects.
      if (this.gone || !this.terminal.running) return;
      this.tries += 1;
      this.timer = setTimeout(() => this.connect(), Math.min(100 * 2 ** this.tries, 3000));
    };
  }

  /** The scrollback comes next. A program's old questions in it must not be answered again. */
  private reset(): void {
    this.xterm.reset();
    this.replaying = true;
    this.light(this.lit);
  }

  /** Lights these lines, also if they are still to come. */
  light(lines: string[]): void {
    for (const light of this.lights.splice(0)) light.dispose();
    this.lit = lines;
    this.unlit = new Set(lines);
    this.patience = performance.now() + 10000;
    this.lightUp();
  }

  /** In the colors of now. */
  relight(): void {
    this.light(this.lit);
  }

  /** Goes to the first line that is lit, and selects it, so that F9 explains it if it is one of the trace pipe. */
  toLight(): void {
    const line = this.lights[0]?.marker.line ?? -1;
    if (line < 0) return;
    this.xterm.scrollToLine(line);
    this.xterm.selectLines(line, line);
    this.xterm.focus();
    say(this.lit[0]);
  }

  private lightUp(): void {
    if (!this.unlit.size || performance.now() > this.patience) return;
    const { buffer, cols } = this.xterm;
    const { baseY, cursorY } = buffer.normal;
    const backgroundColor = getComputedStyle(document.documentElement).getPropertyValue("--match").trim();
    for (const { text, at, height } of this.lines()) {
      if (!this.unlit.delete(text)) continue;
      const marker = this.xterm.registerMarker(at - baseY - cursorY);
      const light = this.xterm.registerDecoration({ marker, width: cols, height, backgroundColor });
      if (light) this.lights.push(light);
    }
  }

  /** The lines of the buffer, each with the row at which it begins, and how many rows it has. */
  private *lines(): Generator<{ text: string; at: number; height: number }> {
    const buffer = this.xterm.buffer.normal;
    for (let at = 0, height = 1; at < buffer.length; at += height, height = 1) {
      while (buffer.getLine(at + height)?.isWrapped) height += 1;
      const row = (nth: number) => buffer.getLine(at + nth)?.translateToString(nth + 1 === height) ?? "";
      yield { text: Array.from({ length: height }, (_, nth) => row(nth)).join(""), at, height };
    }
  }

  /** What the selected line of the trace pipe means, or the last one's; or that of the one before or after it. It is
   * selected then. */
  explain(by: -1 | 0 | 1): string | undefined {
    const all = [...this.lines()].map((line) => ({ ...line, means: explained(line.text) }));
    const row = this.xterm.getSelectionPosition()?.start.y;
    const isThere = ({ at, height }: { at: number; height: number }) =>
      row !== undefined && at <= row && row < at + height;
    const traced = all.filter((line) => line.means !== undefined);
    const here = row === undefined ? traced.length - 1 : traced.findIndex(isThere);
    const line = here < 0 ? undefined : (traced[here + by] ?? traced[here]);
    if (!line) return undefined;
    this.xterm.selectLines(line.at, line.at + line.height - 1);
    const { viewportY } = this.xterm.buffer.active;
    if (line.at < viewportY || line.at + line.height > viewportY + this.xterm.rows) this.xterm.scrollToLine(line.at);
    return line.means;
  }

  send(keys: Uint8Array<ArrayBuffer>): void {
    if (this.replaying && keys[0] === 0x1b) return;
    // The server takes no longer messages.
    if (keys.length > longest) {
      for (let at = 0; at < keys.length; at += longest) this.send(keys.subarray(at, at + longest));
    } else if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(keys);
    else if (this.socket?.readyState === WebSocket.CONNECTING) this.waiting.push(keys);
  }

  resized(): void {
    const { cols, rows } = this.xterm;
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ cols, rows }));
  }

  update(terminal: Terminal): void {
    this.terminal = terminal;
    this.name();
    if ((terminal.running || this.due) && !this.socket) this.connect();
  }

  close(): void {
    this.gone = true;
    clearTimeout(this.timer);
    this.socket?.close();
    this.xterm.dispose();
    this.box.remove();
  }

  get text(): string {
    return [...this.lines()]
      .map(({ text }) => text)
      .join("\n")
      .trimEnd();
  }
}

export class Terminals {
  private list: Terminal[] = [];
  private readonly screens = new Map<number, Screen>();
  private selected?: number;
  /** What to select as soon as the server reports it. */
  private wanted?: { id: number; focus: boolean };
  private readonly box = byId("screens");
  private readonly tabs: Tabs;
  onSelect: () => void = () => {};
  /** Before somebody goes to a terminal. */
  onVisit: () => void = () => {};

  constructor(readonly end: (id: number) => void) {
    this.tabs = new Tabs(byId("terminal-tabs"), this.box, "terminal-tab", (key, focus) =>
      this.select(Number(key), focus),
    );
    const reader = byId("read-terminals");
    const draw = () => {
      reader.setAttribute("aria-pressed", String(isRead()));
      for (const screen of this.screens.values()) screen.name();
    };
    reader.addEventListener("click", () => {
      keep.set("read-terminals", !isRead());
      draw();
    });
    draw();
    new ResizeObserver(() => this.fit()).observe(this.box);
    onTheme(() => {
      for (const screen of this.screens.values()) {
        screen.xterm.options.theme = isDark() ? dark : light;
        screen.relight();
      }
    });
  }

  update(list: Terminal[]): void {
    const ended = list.filter(({ id, running }) => !running && this.list.find((one) => one.id === id)?.running);
    this.list = list;
    // The end of another program is that of its action.
    const shells = ended.filter(({ title }) => title.startsWith("Shell "));
    if (shells.length) say(shells.map(({ title }) => `${title} ended`).join(". "));
    for (const [id, screen] of this.screens) {
      const terminal = list.find((one) => one.id === id);
      if (terminal) screen.update(terminal);
      else {
        screen.close();
        this.screens.delete(id);
      }
    }
    if (this.wanted && this.has(this.wanted.id)) this.select(this.wanted.id, this.wanted.focus);
    else if (!this.has(this.selected)) this.select(list.at(-1)?.id);
    else this.draw();
  }

  has(id: number | undefined): boolean {
    return this.list.some((one) => one.id === id);
  }

  /** Whether this one is on the screen. */
  shows(id: number): boolean {
    return id === this.selected;
  }

  /** Lights these lines of a terminal. */
  light(id: number, lines: string[]): void {
    this.screens.get(id)?.light(lines);
  }

  toEnd(id: number): void {
    this.screens.get(id)?.xterm.scrollToBottom();
  }

  toLight(id: number): void {
    this.onVisit();
    this.screens.get(id)?.toLight();
  }

  /** Selects a terminal, now or as soon as we hear of it. */
  select(id: number | undefined, focus = false): void {
    this.wanted = undefined;
    const terminal = this.list.find((one) => one.id === id);
    if (focus) this.onVisit();
    if (id !== undefined && !terminal) {
      this.wanted = { id, focus };
      return;
    }
    this.selected = id;
    if (terminal) this.screen(terminal);
    for (const [nth, { box }] of this.screens) box.classList.toggle("shown", nth === id);
    this.fit();
    this.draw();
    this.onSelect();
    if (focus) this.focus();
  }

  private screen(terminal: Terminal): Screen {
    const old = this.screens.get(terminal.id);
    if (old) return old;
    const screen = new Screen(terminal, this.box);
    this.screens.set(terminal.id, screen);
    return screen;
  }

  /** What a line of the trace pipe means. */
  explain(by: -1 | 0 | 1): string {
    const means = this.screens.get(this.selected ?? -1)?.explain(by);
    if (means !== undefined) return means;
    const fix =
      "Run a stage such as 01. Then select a line that begins like `io-158 [000]`, or none, for the last one.";
    throw new Problem(-1, "This is not a line of the trace pipe.", null, fix);
  }

  focus(): void {
    const screen = this.screens.get(this.selected ?? -1);
    // It would be gone with the one that is shown until then.
    if (this.wanted) this.wanted.focus = true;
    else if (screen) screen.xterm.focus();
    else byId("new-shell").focus();
  }

  /** The size of the text: the learner's choice, or the largest common one at which the stages' lines fit. */
  private get fontSize(): number {
    // The rest is padding and the scroll bar.
    const largest = (this.box.clientWidth - 22) / (columns * columnWidth);
    return keep.get<number>("terminal-font") ?? Math.min(Math.max(Math.floor(largest), 10), 12);
  }

  /** Makes the text larger or smaller from now on. */
  zoom(by: 1 | -1): void {
    keep.set("terminal-font", Math.min(Math.max(this.fontSize + by, 8), 24));
    this.fit();
  }

  /** All terminals are as large as the pane, also those that we do not see. */
  private fit(): void {
    for (const { xterm } of this.screens.values()) xterm.options.fontSize = this.fontSize;
    const shown = this.screens.get(this.selected ?? -1);
    const size = this.box.offsetHeight > 20 ? shown?.fit.proposeDimensions() : undefined;
    if (!size || !(size.cols > 1) || !(size.rows > 1)) return;
    for (const screen of this.screens.values()) {
      if (screen.xterm.cols === size.cols && screen.xterm.rows === size.rows) continue;
      screen.xterm.resize(size.cols, size.rows);
      screen.resized();
    }
  }

  private draw(): void {
    const tabs = this.list.map(({ id, title, running, status }): Tab => {
      const ended = status === null ? "ended" : status === 0 ? "ended well" : `ended with exit status ${status}`;
      const sign = status === null ? "–" : status === 0 ? "✓" : String(status);
      const kind = status === 0 ? "good" : status === null || status === 130 ? "off" : "bad";
      const badge = running ? { text: "●", kind: "live", title: "running" } : { text: sign, kind, title: ended };
      return { key: String(id), label: title, badge, close: () => this.end(id) };
    });
    this.tabs.show(tabs, this.selected === undefined ? undefined : String(this.selected));
    byId("no-terminal").hidden = this.list.length > 0;
  }

  // For tests.

  get text(): string {
    return this.screens.get(this.selected ?? -1)?.text ?? "";
  }

  get columns(): number {
    return this.screens.get(this.selected ?? -1)?.xterm.cols ?? 0;
  }

  get isAtEnd(): boolean {
    const buffer = this.screens.get(this.selected ?? -1)?.xterm.buffer.active;
    return buffer?.viewportY === buffer?.baseY;
  }

  scrollUp(): void {
    this.screens.get(this.selected ?? -1)?.xterm.scrollToTop();
  }
}
