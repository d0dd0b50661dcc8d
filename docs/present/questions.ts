// Makes the cards with questions work. Without this script, a card is a question on paper, and its answer is at the
// page's end. What was answered stays in the browser's storage, where the workshop finds it, too.

/** At which try each question was answered. */
export type Answers = Record<string, number>;

export const STORAGE = "workbook-answers";

export function answers(): Answers {
  try {
    return JSON.parse(localStorage.getItem(STORAGE) ?? "{}");
  } catch {
    // There may be no storage, as in a private window.
    return {};
  }
}

export function keep(change: (all: Answers) => void) {
  const all = answers();
  change(all);
  try {
    localStorage.setItem(STORAGE, JSON.stringify(all));
  } catch {
    // Then the answers last as long as the page.
  }
}

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className: string,
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  made.className = className;
  made.append(...children);
  return made;
}

export function button(text: string, className: string, act: () => void): HTMLButtonElement {
  const made = element("button", className, text);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

/** What a reader has answered: a letter, a number, or the letters of all cards in order. */
export function given(card: HTMLFormElement): string {
  const cards = [...card.querySelectorAll<HTMLElement>(".cards li")];
  if (cards.length > 0) return cards.map((item) => item.dataset.letter).join("");
  const field = card.querySelector<HTMLInputElement>(".number input");
  return field ? field.value.trim() : (card.querySelector<HTMLInputElement>("input:checked")?.value ?? "");
}

/** What to do first, if this is no answer. */
export function missing(card: HTMLFormElement, answer: string): string {
  if (card.querySelector(".number")) return /^[0-9]+$/.test(answer) ? "" : "Type a number, such as 3.";
  return answer === "" ? "Choose one first." : "";
}

function isRight(card: HTMLFormElement, answer: string): boolean {
  const { right = "", within = "0" } = card.dataset;
  if (!card.querySelector(".number")) return answer === right;
  return Math.abs(Number(answer) - Number(right)) <= Number(within);
}

/** What the card has to say, such as why somebody believes an answer. */
function note(card: HTMLFormElement, of: string): Node[] {
  const found = card.querySelector(of);
  return found ? [...found.cloneNode(true).childNodes] : [];
}

function why(card: HTMLFormElement, answer: string): Node[] {
  if (!card.querySelector(".cards")) {
    const known = note(card, `.why[data-of="${CSS.escape(answer)}"]`);
    return known.length > 0 ? known : note(card, ".hint");
  }
  const right = card.dataset.right ?? "";
  const place = [...right].findIndex((letter, nth) => letter !== answer[nth]);
  const first = place === 1 ? "The first card is" : `The first ${place} cards are`;
  const text = place === 0 ? "Another card comes first." : `${first} right. The next one comes later.`;
  return [element("p", "", text)];
}

/** Puts buttons beside each card that move it. */
function makeMovable(card: HTMLFormElement, moved: () => void) {
  for (const item of card.querySelectorAll<HTMLElement>(".cards li")) {
    const move = (by: number, name: string, sign: string) => {
      const mover = button(sign, "move", () => {
        const other = by < 0 ? item.previousElementSibling : item.nextElementSibling;
        if (by < 0) other?.before(item);
        else other?.after(item);
        mover.focus();
        moved();
      });
      mover.setAttribute("aria-label", `${name}: ${item.querySelector("code")?.textContent}`);
      return mover;
    };
    item.append(element("span", "moves", move(-1, "Up", "\u2191"), move(1, "Down", "\u2193")));
  }
}

/** Shows the right answer in the card. */
function fill(card: HTMLFormElement) {
  const right = card.dataset.right ?? "";
  for (const field of card.querySelectorAll<HTMLInputElement>("input")) {
    if (field.type === "radio") field.checked = field.value === right;
    else if (!field.value) field.value = right;
  }
  const list = card.querySelector(".cards");
  for (const letter of list ? right : "") list?.append(list.querySelector(`[data-letter="${letter}"]`) ?? "");
}

function enliven(card: HTMLFormElement) {
  const name = card.dataset.name ?? "";
  const said = element("output", "said");
  const say = (kind: string, word: string, nodes: Node[]) => {
    said.replaceChildren(...(word ? [element("p", "word", word)] : []), ...nodes);
    said.dataset.kind = kind;
  };
  const quiet = () => say("", "", []);
  let tries = 0;

  const check = element("button", "check", "Check");
  const help = button("Hint", "help", () => say("hint", "", note(card, ".hint")));
  const again = button("Answer it again", "again", () => {
    keep((all) => delete all[name]);
    card.reset();
    open();
    card.querySelector<HTMLElement>("input, .move")?.focus();
  });
  const skip = button("Show the output without an answer", "skip", () => {
    card.classList.add("skipped");
    reveal();
  });
  const bar = element("p", "actions", check, help, again);

  // A prediction hides what would answer it: the rest of its section.
  const rest = card.dataset.before === undefined ? null : element("div", "rest");
  if (rest) {
    bar.append(skip);
    let next = card.nextElementSibling;
    card.after(rest);
    while (next && !next.matches("h2, form, .nav-wrapper")) {
      const following = next.nextElementSibling;
      rest.append(next);
      next = following;
    }
  }
  const reveal = () => {
    if (!rest) return;
    const isShown = card.classList.contains("answered") || card.classList.contains("skipped");
    if (isShown) rest.removeAttribute("hidden");
    // What is found by the browser's own search becomes visible.
    else rest.setAttribute("hidden", "until-found");
    skip.hidden = isShown;
  };

  const settle = (head: string) => {
    card.classList.add("answered");
    say("right", head, note(card, ".explanation"));
    fill(card);
    lock(true);
    reveal();
  };
  const lock = (isLocked: boolean) => {
    for (const field of card.querySelectorAll<HTMLInputElement>("input")) field.disabled = isLocked;
    for (const mover of card.querySelectorAll<HTMLButtonElement>(".move")) mover.hidden = isLocked;
    check.hidden = isLocked;
    help.hidden = isLocked;
    again.hidden = !isLocked;
  };
  const open = () => {
    tries = 0;
    card.classList.remove("answered");
    quiet();
    lock(false);
    reveal();
  };

  makeMovable(card, quiet);
  card.append(bar, said);
  card.noValidate = true;
  card.addEventListener("submit", (event) => {
    event.preventDefault();
    const answer = given(card);
    const what = missing(card, answer);
    if (what) return say("hint", "", [element("p", "", what)]);
    tries += 1;
    if (!isRight(card, answer)) return say("wrong", "No.", why(card, answer));
    keep((all) => {
      all[name] = tries;
    });
    settle("Right.");
    again.focus();
  });
  card.addEventListener("change", quiet);
  // The book goes to another page with the arrow keys.
  card.addEventListener("keydown", (event) => event.stopPropagation());

  const show = () => {
    const tries = answers()[name];
    // A wrong prediction is answered, too, by the run.
    if (tries) settle(tries > 1 ? "The answer:" : "Right.");
    else open();
  };
  // It was answered in another tab, or in the workshop.
  addEventListener("storage", ({ key }) => {
    if (key === STORAGE && Boolean(answers()[name]) !== card.classList.contains("answered")) show();
  });
  show();
}

/** Makes the page's cards work. */
export function enlivenAll(): void {
  for (const card of document.querySelectorAll<HTMLFormElement>("form.question")) enliven(card);
  document.documentElement.classList.add("with-questions");
}
