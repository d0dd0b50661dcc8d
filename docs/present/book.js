// npm run build made this from ef1540e8
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
    const settle = () => {
      card.classList.add("answered");
      say("right", "Right.", note(card, ".explanation"));
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
      const isNumber = card.querySelector(".number") !== null;
      if (answer === "" || isNumber && !/^[0-9]+$/.test(answer)) {
        const what = isNumber ? "Type a number, such as 3." : "Choose one first.";
        return say("hint", "", [element("p", "", what)]);
      }
      tries += 1;
      if (!isRight(card, answer)) return say("wrong", "No.", why(card, answer));
      keep((all) => {
        all[name] = tries;
      });
      settle();
      again.focus();
    });
    card.addEventListener("change", quiet);
    card.addEventListener("keydown", (event) => event.stopPropagation());
    if (answers()[name]) settle();
    else open();
  }
  for (const card of document.querySelectorAll("form.question")) enliven(card);
  document.documentElement.classList.add("with-questions");

  // book.ts
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
  for (const table of document.querySelectorAll(".content table")) {
    const heads = [...table.querySelectorAll("th")].map((head) => head.textContent ?? "");
    for (const row of table.querySelectorAll("tbody tr")) {
      for (const [nth, cell] of [...row.children].entries()) cell.setAttribute("data-column", heads[nth] ?? "");
    }
  }
})();
