// Whoever works with keys alone must always have the focus somewhere.

/** What has the focus or had it last, and the ids of what it is in, from the inside to the outside. */
let last: Element | undefined;
let places: string[] = [];

const isThere = (element: Element) => element.isConnected && element.checkVisibility() && !element.matches(":disabled");

/** A button that goes or is turned off when it is pressed leaves the focus to one of the places in which it was. */
export function keepFocus(leaveTo: (places: string[]) => void): void {
  addEventListener("focusin", ({ target }) => {
    last = target as Element;
    places = [];
    for (let at: Element | null = last; at; at = at.parentElement) places.push(at.id);
  });
  new MutationObserver(() => {
    const { activeElement, body } = document;
    if (!last || (activeElement !== last && activeElement !== body) || isThere(last)) return;
    last = undefined;
    const dialog = document.querySelector("dialog[open]");
    if (dialog) dialog.querySelector<HTMLElement>("button:enabled")?.focus();
    else leaveTo(places);
  }).observe(document.body, { subtree: true, childList: true, attributeFilter: ["class", "disabled", "hidden"] });
}
