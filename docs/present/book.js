// npm run build made this from 1470195f
"use strict";
(() => {
  // questions.ts
  var STORAGE = "workbook-answers";
  function answers() {
    try {
      return JSON.parse(localStorage.getItem(STORAGE) ?? "{}");
    } catch {
      return {};
    }
  }
  function keep(change) {
    const all = answers();
    change(all);
    try {
      localStorage.setItem(STORAGE, JSON.stringify(all));
    } catch {
    }
  }
  function element(tag, className, ...children) {
    const made = document.createElement(tag);
    made.className = className;
    made.append(...children);
    return made;
  }
  function button(text, className, act) {
    const made = element("button", className, text);
    made.type = "button";
    made.addEventListener("click", act);
    return made;
  }
  function given(card) {
    const cards = [...card.querySelectorAll(".cards li")];
    if (cards.length > 0) return cards.map((item) => item.dataset.letter).join("");
    const field = card.querySelector(".number input");
    return field ? field.value.trim() : card.querySelector("input:checked")?.value ?? "";
  }
  function missing(card, answer) {
    if (card.querySelector(".number")) return /^[0-9]+$/.test(answer) ? "" : "Type a number, such as 3.";
    return answer === "" ? "Choose one first." : "";
  }
  function isRight(card, answer) {
    const { right = "", within = "0" } = card.dataset;
    if (!card.querySelector(".number")) return answer === right;
    return Math.abs(Number(answer) - Number(right)) <= Number(within);
  }
  function note(card, of) {
    const found = card.querySelector(of);
    return found ? [...found.cloneNode(true).childNodes] : [];
  }
  function why(card, answer) {
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
  function makeMovable(card, moved) {
    for (const item of card.querySelectorAll(".cards li")) {
      const move = (by, name, sign) => {
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
  function fill(card) {
    const right = card.dataset.right ?? "";
    for (const field of card.querySelectorAll("input")) {
      if (field.type === "radio") field.checked = field.value === right;
      else if (!field.value) field.value = right;
    }
    const list = card.querySelector(".cards");
    for (const letter of list ? right : "") list?.append(list.querySelector(`[data-letter="${letter}"]`) ?? "");
  }
  function enliven(card) {
    const name = card.dataset.name ?? "";
    const said = element("output", "said");
    const say = (kind, word, nodes) => {
      said.replaceChildren(...word ? [element("p", "word", word)] : [], ...nodes);
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
      card.querySelector("input, .move")?.focus();
    });
    const skip = button("Show the output without an answer", "skip", () => {
      card.classList.add("skipped");
      reveal();
    });
    const bar = element("p", "actions", check, help, again);
    const rest = card.dataset.before === void 0 ? null : element("div", "rest");
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
      else rest.setAttribute("hidden", "until-found");
      skip.hidden = isShown;
    };
    const settle = (head) => {
      card.classList.add("answered");
      say("right", head, note(card, ".explanation"));
      fill(card);
      lock(true);
      reveal();
    };
    const lock = (isLocked) => {
      for (const field of card.querySelectorAll("input")) field.disabled = isLocked;
      for (const mover of card.querySelectorAll(".move")) mover.hidden = isLocked;
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
    card.addEventListener("keydown", (event) => event.stopPropagation());
    const show = () => {
      const tries2 = answers()[name];
      if (tries2) settle(tries2 > 1 ? "The answer:" : "Right.");
      else open();
    };
    addEventListener("storage", ({ key }) => {
      if (key === STORAGE && Boolean(answers()[name]) !== card.classList.contains("answered")) show();
    });
    show();
  }
  function enlivenAll() {
    for (const card of document.querySelectorAll("form.question")) enliven(card);
    document.documentElement.classList.add("with-questions");
  }

  // log.ts
  var svgNames = "http://www.w3.org/2000/svg";
  function origins(steps, at) {
    const arrows = [];
    const left = [at];
    const seen = new Set(left);
    for (let step = left.pop(); step !== void 0; step = left.pop()) {
      for (const [, from] of steps[step].reads) {
        if (from === null) continue;
        arrows.push([from, step]);
        if (!seen.has(from)) left.push(from);
        seen.add(from);
      }
    }
    return arrows;
  }
  var LogView = class {
    constructor(box, all) {
      this.all = all;
      this.told = all[0];
      this.list.tabIndex = 0;
      this.list.setAttribute("role", "listbox");
      this.list.setAttribute("aria-label", "Instructions");
      this.list.addEventListener("keydown", (event) => this.key(event));
      this.state.setAttribute("aria-live", "polite");
      this.arrows.setAttribute("aria-hidden", "true");
      box.append(this.kernels, this.list, this.state);
      box.hidden = false;
      this.open(this.told);
      addEventListener("resize", () => this.draw());
    }
    all;
    told;
    at = 0;
    rows = [];
    kernels = element("div", "kernels");
    list = element("div", "steps");
    state = element("div", "state");
    arrows = document.createElementNS(svgNames, "svg");
    open(told) {
      this.told = told;
      const { steps, is_cut } = told.walk;
      const isChosen = this.kernels.contains(document.activeElement);
      this.kernels.replaceChildren(
        ...this.all.map((other) => {
          const choice = button(`Linux ${other.kernel}`, "", () => this.open(other));
          choice.setAttribute("aria-pressed", `${other === told}`);
          return choice;
        })
      );
      if (isChosen) this.kernels.querySelector("[aria-pressed=true]")?.focus({ preventScroll: true });
      this.list.replaceChildren(this.arrows);
      if (is_cut) this.list.append(element("div", "source", "The middle of this log is left out."));
      this.rows = steps.map(({ instruction, text, source, location }, nth) => {
        if (source) {
          const place = element("span", "place", location?.line ? `${location.line}` : "");
          this.list.append(element("div", "source", place, source));
        }
        const row = element("div", "step", element("span", "place", `${instruction}`), text);
        row.id = `step-${nth}`;
        row.setAttribute("role", "option");
        row.addEventListener("click", () => this.go(nth));
        this.list.append(row);
        return row;
      });
      this.go(steps.length - 1);
    }
    go(at) {
      this.at = Math.min(Math.max(at, 0), this.rows.length - 1);
      const row = this.rows[this.at];
      const margin = this.list.clientHeight / 3;
      const { scrollTop, clientHeight } = this.list;
      if (row.offsetTop < scrollTop + 30 || row.offsetTop + row.offsetHeight > scrollTop + clientHeight) {
        this.list.scrollTop = row.offsetTop - 2 * margin;
      }
      this.draw();
    }
    key(event) {
      const [, from] = this.told.walk.steps[this.at].reads.find(([, from2]) => from2 !== null) ?? [];
      const to = {
        ArrowUp: this.at - 1,
        ArrowDown: this.at + 1,
        ArrowLeft: from ?? this.at,
        Home: 0,
        End: this.rows.length - 1
      }[event.key];
      if (to === void 0 || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      this.go(to);
    }
    draw() {
      const { steps } = this.told.walk;
      const arrows = origins(steps, this.at);
      const found = new Set(arrows.map(([from]) => from));
      this.rows.forEach((row, nth) => {
        row.classList.toggle("origin", found.has(nth));
        row.classList.toggle("refused", nth === steps.length - 1);
        row.setAttribute("aria-selected", `${nth === this.at}`);
      });
      this.list.setAttribute("aria-activedescendant", this.rows[this.at].id);
      const middle = (nth) => this.rows[nth].offsetTop + this.rows[nth].offsetHeight / 2;
      this.arrows.setAttribute("height", `${this.list.scrollHeight}`);
      this.arrows.replaceChildren(
        ...arrows.map(([from, to]) => {
          const path = document.createElementNS(svgNames, "path");
          const [start, end] = [middle(to), middle(from)];
          const bend = Math.max(2, 22 - (start - end) / 8);
          path.setAttribute("d", `M26 ${start}C${bend} ${start} ${bend} ${end} 26 ${end}m-5 -3.5l5 3.5l-5 3.5`);
          path.setAttribute("class", to === this.at ? "direct" : "");
          return path;
        })
      );
      this.drawState(steps[this.at]);
    }
    drawState({ text, reads }) {
      const { steps, start, words } = this.told.walk;
      const before = steps[this.at - 1]?.after ?? start;
      const isLast = this.at === steps.length - 1;
      const entry = (name, from) => {
        const value = element("dd", "", element("code", "", before[name] ?? "not shown in this log"));
        const isSet = from !== void 0 && from !== null;
        if (isSet) value.append(button(`set at ${steps[from].instruction}`, "", () => this.go(from)));
        return [element("dt", "", name), value];
      };
      const isRead = (name) => reads.some(([read]) => read === name);
      const others = Object.keys(before).filter((name) => !isRead(name) && name !== "r10");
      const buttons = () => [...this.state.querySelectorAll("button")];
      const pressed = buttons().indexOf(document.activeElement);
      this.state.replaceChildren(
        element(
          "div",
          "moves",
          button("\u2190 Back", "", () => this.go(this.at - 1)),
          button("Forward \u2192", "", () => this.go(this.at + 1))
        ),
        ...isLast ? words.map((line) => element("p", "words", line)) : [],
        element("p", "", "Before ", element("code", "", text), ", as far as the log shows it:"),
        element("dl", "read", ...reads.flatMap(([name, from]) => entry(name, from))),
        element("dl", "", ...others.flatMap((name) => entry(name)))
      );
      if (pressed >= 0) (pressed < 2 ? buttons()[pressed] : this.list).focus({ preventScroll: true });
    }
  };
  for (const box of document.querySelectorAll(".log-view")) {
    const data = box.querySelector("script")?.textContent;
    if (data) new LogView(box, JSON.parse(data));
  }

  // book.ts
  enlivenAll();
  addEventListener(
    "keydown",
    (event) => {
      if (event.isComposing || event.keyCode === 229) event.stopPropagation();
    },
    true
  );
  function match(pattern, text) {
    const [first = "", ...rest] = pattern.split("{");
    if (!text.startsWith(first)) return void 0;
    const values = /* @__PURE__ */ new Map();
    let left = text.slice(first.length);
    for (const part of rest) {
      const [name = "", literal = ""] = part.split("}");
      const end = literal === "" ? left.length : left.indexOf(literal);
      if (end < 0) return void 0;
      values.set(name, left.slice(0, end));
      left = left.slice(end + literal.length);
    }
    return left === "" ? values : void 0;
  }
  function explained(known, lines) {
    for (const says of known.says) {
      const height = says.split("\n").length;
      for (let nth = 0; nth + height <= lines.length; nth++) {
        const values = match(says, lines.slice(nth, nth + height).join("\n"));
        if (!values) continue;
        const room = Number(values.get("size") ?? 0) - Number(values.get("offset"));
        if (room >= 0) values.set("room", `${room}`);
        const fill2 = (text) => text.replace(/\{(\w+)\}/g, (all, name) => values.get(name) ?? all);
        const filled = { ...known, cause: fill2(known.cause), why: fill2(known.why), cure: fill2(known.cure) };
        if (!`${filled.cause}${filled.why}${filled.cure}`.includes("{")) return filled;
      }
    }
    return void 0;
  }
  function paragraph(text, parent, name = "p") {
    const element2 = parent.appendChild(document.createElement(name));
    text.split("`").forEach((part, nth) => {
      if (nth % 2 === 0) element2.append(part);
      else element2.appendChild(document.createElement("code")).textContent = part;
    });
    return element2;
  }
  var sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.;)]$/.test(text) ? "" : "."}`;
  function lookUp(box) {
    const [text, data, answer] = [
      box.querySelector("textarea"),
      box.querySelector("script"),
      box.querySelector("output")
    ];
    if (!text || !data?.textContent || !answer) return;
    const all = JSON.parse(data.textContent);
    box.hidden = false;
    text.addEventListener("input", () => {
      const lines = text.value.split("\n").map((line) => line.trim().replace(/^libbpf: /, ""));
      const found = all.flatMap((known) => explained(known, lines) ?? []);
      const causes = found.filter(({ cause }, nth) => found.findIndex((other) => other.cause === cause) === nth);
      answer.replaceChildren();
      if (lines.every((line) => line === "")) return;
      if (causes.length === 0) {
        paragraph(
          "The workbook does not know these words. Did you paste the last lines, before `processed ... insns`?",
          answer
        );
        return;
      }
      if (causes.length > 1) paragraph("This message has several causes. Which of them fits your line?", answer);
      for (const { cause, why: why2, cure, case: number } of causes) {
        const entry = answer.appendChild(document.createElement("section"));
        paragraph(sentence(cause), entry).className = "cause";
        paragraph(sentence(why2), entry);
        const end = paragraph(`${sentence(cure.replace(/,? for example:$/, ""))} `, entry);
        if (!number) continue;
        const link = end.appendChild(document.createElement("a"));
        link.href = `clinic/${number}.html`;
        link.textContent = `Case ${number}`;
      }
    });
  }
  for (const box of document.querySelectorAll(".look-up")) lookUp(box);
  var toggle = document.getElementById("mdbook-sidebar-toggle");
  toggle?.setAttribute("role", "button");
  toggle?.setAttribute("tabindex", "0");
  toggle?.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    toggle.click();
  });
  function makeScrollable() {
    for (const box of document.querySelectorAll("pre, pre > code, .table-wrapper")) {
      if (box.scrollWidth > box.clientWidth && getComputedStyle(box).overflowX !== "visible") box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  }
  makeScrollable();
  addEventListener("resize", makeScrollable);
  addEventListener("load", () => {
    for (const list of document.querySelectorAll(".on-this-page ol > ol")) list.parentElement?.replaceWith(list);
  });
  for (const head of document.querySelectorAll("th:empty")) head.replaceWith(document.createElement("td"));
  for (const table of document.querySelectorAll(".content table")) {
    const heads = [...table.querySelectorAll("thead :is(td, th)")].map((head) => head.textContent ?? "");
    for (const row of table.querySelectorAll("tbody tr")) {
      for (const [nth, cell] of [...row.children].entries()) cell.setAttribute("data-column", heads[nth] ?? "");
    }
  }
})();
