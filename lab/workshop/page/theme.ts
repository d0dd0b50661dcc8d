// Light or dark: as the system has it, until the learner chooses.

import { keep } from "./dom";

const system = matchMedia("(prefers-color-scheme: dark)");
const listeners: (() => void)[] = [];

export const isDark = () => (keep.get<string>("theme") ?? (system.matches ? "dark" : "light")) === "dark";

/** The book's name for what we show. */
export const bookTheme = () => (isDark() ? "navy" : "light");

export function onTheme(listener: () => void): void {
  listeners.push(listener);
}

export function toggleTheme(): void {
  keep.set("theme", isDark() ? "light" : "dark");
  applyTheme();
}

export function applyTheme(): void {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  try {
    localStorage.setItem("mdbook-theme", bookTheme());
  } catch {}
  for (const listener of listeners) listener();
}

system.addEventListener("change", applyTheme);
