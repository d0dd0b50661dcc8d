// Small helpers for elements, and for what the browser keeps for us.

type Attributes = Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>;

/** An element. Attributes that are functions are listeners; those that are false, null or undefined are left out. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string | null | undefined)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const element = document.getElementById(id);
  if (!element) throw new Error(`index.html has no element ${id}`);
  return element as T;
}

/** Tells who listens what only who looks would notice. */
export function say(text: string): void {
  byId("heard").textContent = plain(text);
}

/** Text in which `code` is set as code. */
export const coded = (text: string): Node[] =>
  text.split(/`([^`\n]+)`/).map((part, nth) => (nth % 2 ? h("code", {}, part) : document.createTextNode(part)));

/** The same. Lines that belong to one paragraph are joined: the page wraps by itself. */
export const rich = (text: string) => coded(text.trim().replace(/([^\n])\n(?=[^\s\-*+$>])/g, "$1 "));

/** For where a browser shows nothing but letters, or reads them aloud. */
export const plain = (text: string) => text.replaceAll("`", "");

export const plural = (count: number, word: string) => `${count} ${word}${count === 1 ? "" : "s"}`;

/** What the browser keeps. A full or forbidden storage must not stop anybody. */
export const keep = {
  get<T>(key: string): T | null {
    try {
      return JSON.parse(localStorage.getItem(`workshop:${key}`) ?? "null");
    } catch {
      return null;
    }
  },
  set(key: string, value: unknown): boolean {
    try {
      localStorage.setItem(`workshop:${key}`, JSON.stringify(value));
      return true;
    } catch {
      return false;
    }
  },
  remove(key: string): void {
    try {
      localStorage.removeItem(`workshop:${key}`);
    } catch {}
  },
  keys(start: string): string[] {
    try {
      const all = Object.keys(localStorage).filter((key) => key.startsWith(`workshop:${start}`));
      return all.map((key) => key.slice("workshop:".length));
    } catch {
      return [];
    }
  },
};

let folder = "";
export function setFolder(id: string): void {
  folder = id;
}

/** The key of what belongs to the learner's folder: another workshop may have used this address before. */
export const inFolder = (key: string) => `${folder}:${key}`;

export type Tab = {
  key: string;
  label: string;
  /** A few characters after the label, and what they mean. */
  badge?: { text: string; kind: string; title: string };
  close?: () => void;
};

/** A row of tabs: one Tab stop, arrow keys between them, Enter goes into what the tab shows, Delete closes. */
export class Tabs {
  private shown = "";

  constructor(
    readonly list: HTMLElement,
    readonly panel: HTMLElement,
    readonly test: string,
    readonly choose: (key: string, focus: boolean) => void,
  ) {
    list.setAttribute("role", "tablist");
    panel.setAttribute("role", "tabpanel");
    list.addEventListener("keydown", (event) => this.key(event));
  }

  show(tabs: Tab[], selected: string | undefined): void {
    // Nothing is touched that did not change: a redrawn tab would lose the focus and a click on it.
    const now = JSON.stringify([tabs, selected]);
    if (now === this.shown) return;
    this.shown = now;
    const focused = this.list.contains(document.activeElement);
    this.list.replaceChildren(...tabs.map((tab) => this.tab(tab, tab.key === selected)));
    const current = this.list.querySelector<HTMLElement>("[aria-selected=true]");
    if (current) {
      this.panel.setAttribute("aria-labelledby", current.id);
      // With its cross.
      (current.closest(".tab") ?? current).scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    if (focused) (current ?? this.list.querySelector<HTMLElement>("[role=tab]"))?.focus();
  }

  private tab(tab: Tab, selected: boolean): HTMLElement {
    const button = h(
      "button",
      {
        type: "button",
        role: "tab",
        id: `${this.test}-${tab.key.replace(/[^\w.-]/g, "_")}`,
        "aria-selected": selected ? "true" : "false",
        "aria-controls": this.panel.id,
        tabindex: selected ? 0 : -1,
        "data-test": this.test,
        "data-key": tab.key,
        click: () => this.choose(tab.key, true),
      },
      tab.label,
      tab.badge &&
        h(
          "span",
          { class: `badge ${tab.badge.kind}`, role: "img", title: tab.badge.title, "aria-label": tab.badge.title },
          tab.badge.text,
        ),
    );
    const close = tab.close;
    if (!close) return h("div", { class: "tab", role: "presentation" }, button);
    button.setAttribute("aria-keyshortcuts", "Delete");
    // A list of tabs has nothing but tabs, so the cross is for the mouse only.
    const cross = h(
      "button",
      {
        type: "button",
        class: "close",
        "aria-hidden": "true",
        title: `Close ${tab.label}`,
        "data-test": `close-${this.test}`,
        tabindex: -1,
        click: close,
      },
      "×",
    );
    return h("div", { class: "tab", role: "presentation" }, button, cross);
  }

  private key(event: KeyboardEvent): void {
    const tabs = [...this.list.querySelectorAll<HTMLElement>("[role=tab]")];
    const at = tabs.indexOf(event.target as HTMLElement);
    if (at < 0 || event.altKey || event.ctrlKey) return;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to !== undefined) this.choose(tabs.at(to % tabs.length)?.dataset.key ?? "", false);
    else if (event.key === "Delete") tabs[at].parentElement?.querySelector<HTMLElement>(".close")?.click();
    else return;
    event.preventDefault();
  }
}
