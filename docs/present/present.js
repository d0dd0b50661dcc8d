// npm run build made this from 1470195f
"use strict";
(() => {
  // data.ts
  var byId = (id) => {
    const found = document.getElementById(id);
    if (!found) throw new Error(`the page has no element ${id}`);
    return found;
  };
  var data = JSON.parse(byId("data").textContent ?? "");
  function element(tag, name = "", ...children) {
    const made = document.createElement(tag);
    if (name) made.className = name;
    made.append(...children);
    return made;
  }
  function link(href, ...children) {
    const made = document.createElement("a");
    made.href = href;
    made.append(...children);
    return made;
  }

  // clock.ts
  var Clock = class {
    passed = 0;
    since = null;
    get elapsed() {
      return this.passed + (this.since === null ? 0 : Date.now() - this.since);
    }
    get runs() {
      return this.since !== null;
    }
    toggle() {
      this.passed = this.elapsed;
      this.since = this.runs ? null : Date.now();
    }
    reset() {
      this.passed = 0;
      this.since = null;
    }
    /** What a reload needs. */
    save() {
      return JSON.stringify([this.passed, this.since]);
    }
    restore(saved) {
      if (saved) [this.passed, this.since] = JSON.parse(saved);
    }
  };
  function minutes(time2) {
    const seconds = Math.round(Math.abs(time2) / 1e3);
    return `${time2 < 0 ? "\u2212" : ""}${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  }
  function slotOf(plan3, name) {
    return plan3.slots.find((slot2) => slot2.name === name);
  }
  function behind(slot2, elapsed) {
    if (elapsed < slot2.at) return elapsed - slot2.at;
    return Math.max(elapsed - (slot2.at + slot2.minutes), 0);
  }
  function standing(plan3, name, elapsed) {
    const slot2 = slotOf(plan3, name);
    if (!slot2) return `Not in the plan of ${plan3.minutes} minutes. Skip it, or keep it for pairs who are done.`;
    const late = Math.round(behind(slot2, elapsed));
    const when = `planned from ${slot2.at} to ${slot2.at + slot2.minutes} min`;
    if (late > 0) return `${late} min behind; ${when}`;
    if (late < 0) return `${-late} min ahead; ${when}`;
    return `on time; ${when}`;
  }
  function listPlans() {
    byId("plan").append(new Option("no plan: everything", ""));
    for (const plan3 of data.plans) {
      byId("plan").append(new Option(`${plan3.minutes} minutes`, String(plan3.minutes)));
    }
  }

  // view.ts
  var CONTEXT = 3;
  var SHORT = 24;
  var LONG_QUOTE = 48;
  var COMMAND = 56;
  var TAB = 4;
  var place = (step2) => [
    step2.file,
    ...["lesson", "run", "table", "evidence"].includes(step2.part) ? [] : [step2.part],
    ...step2.of ? [step2.of] : []
  ].join(", ");
  function nameOf(step2) {
    switch (step2.kind) {
      case "code":
        return step2.of ? `${step2.item}, ${step2.of}` : step2.item;
      case "picture":
        return step2.title;
      case "text":
        return step2.title;
      case "question":
        return step2.right === void 0 ? step2.title : `${step2.title}: the answer`;
      case "exercise":
        return `${step2.id} ${step2.title}`;
    }
  }
  function title(part2) {
    const isStage = /^\d+$/.test(part2.id);
    const isQuestion = part2.title.endsWith("?");
    const slides = part2.steps.flatMap((step2, nth) => {
      const before = part2.steps[nth - 1];
      const isNew = step2.kind === "picture" && !(before?.kind === "picture" && step2.title === before.title);
      return isNew && !isStage && !isQuestion ? [element("li", "", link(`#${part2.id}/${nth + 1}`, step2.title))] : [];
    });
    return [
      ...isStage ? [element("p", "number", part2.id)] : [],
      element("h1", "", !part2.name || isStage ? part2.title : `${part2.name}: ${part2.title}`),
      element("p", "idea", part2.idea),
      ...slides.length > 1 ? [element("ul", "", ...slides)] : []
    ];
  }
  var unbroken = (text2) => text2.split(/(->|::<|(?<= )--?[a-z][\w-]*)/i).map((part2, nth) => nth % 2 ? element("span", "whole", part2) : part2);
  var isInComment = ([, pieces]) => /^\s*\*[\s/]/.test(pieces.map(([, text2]) => text2).join(""));
  function code(step2, all2) {
    const lines = step2.lines;
    const has = (kind) => lines.some(([other2]) => other2 === kind);
    const whole = all2 || !step2.folded || lines.every(([kind]) => kind === "same");
    const near = (nth) => lines.slice(Math.max(nth - CONTEXT, 0), nth + CONTEXT + 1).some(([kind]) => kind !== "same");
    const shown2 = element("div", "code");
    for (let nth = 0; nth < lines.length; nth++) {
      let end = nth;
      while (!whole && end < lines.length && !near(end)) end++;
      while (end > nth && end < lines.length && lines[end][0] === "same" && isInComment(lines[end])) end++;
      if (end > nth + 1) {
        const fold = `${end - nth}${has("mark") ? " more lines" : " lines as before"}`;
        shown2.append(element("div", "fold", fold));
        nth = end - 1;
        continue;
      }
      const [kind, pieces] = lines[nth];
      const mixed = pieces.some(([changed3]) => !changed3);
      const words = pieces.map(
        ([changed3, text2]) => element("span", changed3 && mixed && text2.trim() ? "word" : "", ...unbroken(text2))
      );
      const line = element("div", kind, ...words);
      const [blank] = /^\s*/.exec(line.textContent) ?? [""];
      line.style.setProperty("--tabs", `${Math.floor(blank.replaceAll("	", "    ").length / TAB)}`);
      line.dataset.sign = { same: "", mark: "\u2192", new: "+", gone: "\u2212" }[kind];
      if (!pieces.length) line.append("\u200B");
      shown2.append(line);
    }
    const way = step2.case ? [", ", link(`#${step2.case}/1`, `clinic ${step2.case.replace("-", " ")}`)] : [];
    const heading = step2.part === "evidence" ? [element("span", "item", step2.item), element("code", "file", ...unbroken(place(step2)))] : [element("code", "item", ...unbroken(step2.item)), element("span", "file", place(step2), ...way)];
    return [element("h2", step2.part, ...heading), shown2];
  }
  var named = (svg, names) => names.map((name) => svg.querySelector(`#${name}`)).filter((group) => group !== null);
  function picture(step2) {
    const frame = element("div", "frame");
    frame.innerHTML = data.pictures[step2.picture];
    const svg = frame.querySelector("svg");
    if (svg) {
      for (const group of named(svg, step2.earlier)) group.classList.add("earlier");
      for (const group of named(svg, step2.later)) group.classList.add("later");
      if (step2.here) {
        svg.classList.add("map");
        for (const group of named(svg, step2.now)) group.classList.add("here");
        for (const group of named(svg, step2.from ? [step2.from] : [])) group.classList.add("from");
      }
    }
    return [element("h2", "", step2.title), frame, element("p", "caption", step2.caption)];
  }
  function question(step2) {
    const asked = element("div", "asked");
    asked.innerHTML = step2.text;
    const options = step2.options.map((option, nth) => {
      const item = element("li", step2.right === void 0 ? "" : nth === step2.right ? "right" : "wrong");
      item.innerHTML = option;
      return item;
    });
    const because = element("div", "because");
    because.innerHTML = step2.because ?? "";
    const proof = element("div", "proof", ...(step2.proof ?? []).map((line) => element("div", "mark", line)));
    asked.append(element("ol", "options", ...options), ...[because, proof].filter((part2) => part2.hasChildNodes()));
    keepWhole(asked);
    return [element("h2", "", step2.title), asked];
  }
  function keepWhole(text2) {
    for (const code2 of text2.querySelectorAll("code")) {
      const text3 = code2.textContent;
      const limit = text3.startsWith("cargo lab") ? COMMAND : SHORT;
      const parts2 = text3.length < limit ? [text3] : text3.split(/ (?=(?:[^"]*"[^"]*")*[^"]*$)/);
      const short = parts2.flatMap((part2) => part2.length > LONG_QUOTE ? part2.split(" ") : [part2]);
      const words = short.map((word) => element("span", "whole", word));
      code2.replaceChildren(...words.flatMap((word, nth) => nth ? [" ", word] : [word]));
      if (text3.startsWith("cargo lab") && text3.length >= COMMAND) alone(code2);
    }
  }
  function alone(code2) {
    code2.classList.add("alone");
    const after = code2.nextSibling;
    if (after?.nodeType === Node.TEXT_NODE) after.textContent = after.textContent?.replace(/^[.,]\s*/, "") ?? "";
  }
  function text(step2) {
    const text2 = element("div", "text");
    text2.innerHTML = step2.text;
    keepWhole(text2);
    const clock2 = element("p", "timer");
    clock2.id = "timer";
    const isOptional = step2.kind === "exercise" && step2.optional;
    const heading = step2.kind === "exercise" ? `Exercise ${step2.id}: ${step2.title}` : step2.title;
    const whole = `${heading}${isOptional ? " (optional)" : ""}`;
    return [element("h2", "", whole), text2, ...step2.minutes && !isOptional ? [clock2] : []];
  }

  // presenter.ts
  var isPresenter = window.name === "presenter";
  var isThumbnail = window.name === "thumbnail";
  var shown;
  var clock = new Clock();
  var CLOCK = "present-clock";
  var slot = "";
  var plan = "";
  function presenter(part2, step2, chosen, following) {
    const at = part2.steps[step2 - 1];
    if (at?.kind === "exercise" || at?.kind === "text") slot = at.id;
    else if (!part2.id.startsWith("case-")) slot = part2.id;
    plan = chosen;
    const [other2, nth] = following ?? [];
    const after = other2?.steps[(nth ?? 0) - 1];
    const inPart = after?.kind === "picture" ? after.caption : after && nameOf(after);
    const next2 = inPart ?? (other2 ? `${other2.name} ${other2.title}` : "the end");
    const look = { theme: document.documentElement.dataset.theme };
    const thumbnail = byId("next-view");
    thumbnail.hidden = !other2;
    shown = other2 ? { deck: `#${other2.id}/${nth}`, moved: 0, look } : void 0;
    thumbnail.contentWindow?.postMessage(shown, "*");
    const asked = (at?.ask ?? []).map(
      ({ question: question2, answer }) => element("div", "ask", element("p", "question", question2), element("p", "answer", answer))
    );
    const stuck = at?.kind === "exercise" ? hints(at) : [];
    const solution = at && "solution" in at && at.solution || [];
    byId("notes-now").textContent = at ? nameOf(at) : part2.title;
    byId("notes-next").textContent = next2;
    byId("notes-say").textContent = at ? at.say : part2.before || part2.idea;
    byId("notes-ask").replaceChildren(...asked);
    byId("notes-stuck").replaceChildren(...under("If they are stuck", stuck));
    const changes = solution.flatMap((change2) => code(change2, false));
    byId("notes-solution").replaceChildren(...under("From the starting point to the solution", changes));
    tick();
  }
  var under = (heading, elements) => elements.length ? [element("h2", "", heading), ...elements] : [];
  function hints(exercise) {
    const minute = (nth) => Math.round(exercise.minutes * (nth + 1) / (exercise.hints.length + 1));
    return exercise.hints.map((hint, nth) => element("p", "hint", element("b", "", `After ${minute(nth)} min: `), hint));
  }
  function tick() {
    const frame = byId("next-frame");
    byId("next-view").style.scale = String(Math.min(frame.clientWidth / 1280, frame.clientHeight / 720));
    const followed = data.plans.find(({ minutes: minutes2 }) => String(minutes2) === plan);
    byId("clock").textContent = minutes(clock.elapsed);
    byId("standing").textContent = followed ? standing(followed, slot, clock.elapsed / 6e4) : "Choose your plan.";
    byId("start-clock").textContent = clock.runs ? "pause" : "start";
  }
  function changed() {
    try {
      sessionStorage.setItem(CLOCK, clock.save());
    } catch {
    }
    tick();
  }
  if (isPresenter) {
    document.body.classList.add("presenter");
    const thumbnail = element("iframe");
    thumbnail.id = "next-view";
    thumbnail.name = "thumbnail";
    thumbnail.title = "The next step";
    thumbnail.tabIndex = -1;
    thumbnail.src = location.href;
    thumbnail.addEventListener("load", () => thumbnail.contentWindow?.postMessage(shown, "*"));
    byId("next-frame").append(thumbnail);
    try {
      clock.restore(sessionStorage.getItem(CLOCK));
    } catch {
    }
    byId("start-clock").addEventListener("click", () => {
      clock.toggle();
      changed();
    });
    byId("reset").addEventListener("click", () => {
      clock.reset();
      changed();
    });
    setInterval(tick, 500);
  }

  // route.ts
  var first = (part2) => part2.steps.length === 1 ? 1 : 0;
  var END = "end";
  function route(parts2, plan3) {
    const all2 = (part2) => {
      const steps = Array.from({ length: part2.steps.length + 1 }, (_, step2) => [part2, step2]);
      return steps.slice(first(part2));
    };
    if (!plan3) return parts2.slice(0, parts2.findIndex((part2) => part2.id === END) + 1).flatMap(all2);
    const isTold = ([part2, step2]) => {
      const shown2 = part2.steps[step2 - 1];
      if (!shown2) return true;
      return "id" in shown2 ? shown2.id === part2.id : !("extra" in shown2);
    };
    return plan3.slots.flatMap(({ name }) => {
      const part2 = parts2.find((part3) => part3.id === name);
      if (part2) return all2(part2).filter(isTold);
      const steps = parts2.flatMap(all2);
      return steps.filter(([part3, step2]) => {
        const shown2 = part3.steps[step2 - 1];
        return shown2 && "id" in shown2 && shown2.id === name;
      });
    });
  }
  function neighbor(parts2, stops, [part2, step2], by) {
    const at = stops.findIndex(([other3, nth]) => other3 === part2 && nth === step2);
    if (at >= 0) return stops[at + by];
    if (step2 + by >= first(part2) && step2 + by <= part2.steps.length) return [part2, step2 + by];
    const isHere = stops.map(([other3]) => other3 === part2);
    const edge = by > 0 ? isHere.lastIndexOf(true) : isHere.indexOf(true);
    if (edge >= 0) return stops[edge + by];
    const other2 = parts2[parts2.indexOf(part2) + by];
    return other2 && [other2, by > 0 ? first(other2) : other2.steps.length];
  }

  // deck.ts
  var parts = data.parts;
  var part = parts[0];
  var step = 0;
  var all = false;
  var zoom = 1;
  var plan2 = "";
  var address = (part2, step2) => `#${part2.id}/${step2}`;
  var now = () => part.steps[step - 1];
  function named2(address2) {
    const [id, nth] = address2.slice(1).split("/");
    const part2 = parts.find((part3) => part3.id === id) ?? parts[0];
    return [part2, Math.min(Math.max(Number(nth) || 0, 0), part2.steps.length)];
  }
  var left;
  function wayBack(to) {
    const from = now();
    if (from && from.case === to.id) return address(part, step);
    return to === part ? left : void 0;
  }
  function arrive(at, nth, back2 = wayBack(at)) {
    left = back2;
    part = at;
    step = nth;
    all = false;
    location.replace(address(part, step));
    show();
  }
  function go(to, nth) {
    moved = time();
    arrive(to, nth);
    tell();
  }
  function beside(by) {
    const isInside = step + by >= first(part) && step + by <= part.steps.length;
    if (left && !isInside) return named2(left);
    const stops = route(
      parts,
      data.plans.find(({ minutes: minutes2 }) => String(minutes2) === plan2)
    );
    return neighbor(parts, stops, [part, step], by);
  }
  function move(by) {
    const to = beside(by);
    if (to) go(...to);
  }
  var other = isPresenter ? window.opener : null;
  var moved = 0;
  var changed2 = 0;
  var time = () => performance.timeOrigin + performance.now();
  function tell() {
    const { clock: clock2, toggled } = timed();
    const look = { plan: plan2, all, zoom, theme: document.documentElement.dataset.theme, changed: changed2 };
    other?.postMessage({ deck: address(part, step), moved, left, toggled, clock: clock2.save(), look }, "*");
  }
  function change(what) {
    what();
    changed2 = time();
    show();
    tell();
  }
  addEventListener("message", ({ data: said, source }) => {
    if (typeof said?.deck !== "string" || typeof said.moved !== "number") return;
    if (isThumbnail) {
      theme(said.look.theme);
      arrive(...named2(said.deck), void 0);
      return;
    }
    other = source;
    const { look } = said;
    if (look && look.changed > changed2) {
      [plan2, zoom, all, changed2] = [look.plan, look.zoom, look.all, look.changed];
      theme(look.theme);
      show();
    }
    if (said.moved > moved) {
      moved = said.moved;
      arrive(...named2(said.deck), said.left);
    }
    const ours = timed();
    if (said.moved === moved && said.toggled > ours.toggled) {
      ours.clock.restore(said.clock);
      ours.toggled = said.toggled;
      tick2();
    } else if (said.moved < moved || said.toggled < ours.toggled) tell();
  });
  function visitCase() {
    const at = now();
    const id = at?.case;
    if (id) go(...named2(`#${id}/1`));
    else if (left) go(...named2(left));
  }
  function open() {
    if (isPresenter) return;
    other = window.open(location.href, "presenter", "popup,width=1100,height=800");
  }
  var timers = /* @__PURE__ */ new Map();
  function timed() {
    const found = timers.get(now()) ?? { clock: new Clock(), toggled: 0 };
    timers.set(now(), found);
    return found;
  }
  function clocks(change2) {
    change2(timed().clock);
    timed().toggled = time();
    tell();
    tick2();
  }
  function tick2() {
    const at = now();
    const shown2 = document.getElementById("timer");
    if (!shown2 || !at || !("minutes" in at)) return;
    const left2 = at.minutes * 6e4 - timed().clock.elapsed;
    shown2.textContent = minutes(left2);
    shown2.classList.toggle("runs", timed().clock.runs);
    shown2.classList.toggle("over", left2 < 0);
  }
  setInterval(tick2, 250);
  function view() {
    const at = now();
    switch (at?.kind) {
      case "code":
        return code(at, all);
      case "picture":
        return picture(at);
      case "question":
        return question(at);
      case "exercise":
      case "text":
        return text(at);
      default:
        return title(part);
    }
  }
  function show() {
    const at = now();
    document.title = `${part.id} ${part.title}`;
    byId("stage").value = part.id;
    byId("about").replaceChildren(element("b", "", part.title), " ", element("span", "", part.adds ?? ""));
    byId("about").style.visibility = step ? "visible" : "hidden";
    byId("count").textContent = `${step} / ${part.steps.length}`;
    byId("plan").value = plan2;
    listSteps();
    byId("page").href = at?.kind === "picture" || at?.kind === "text" ? at.page ?? part.page : part.page;
    byId("view").replaceChildren(...view());
    byId("view").className = `at-${at?.kind ?? "title"}`;
    tick2();
    fit();
    if (isPresenter) presenter(part, step, plan2, beside(1));
    const first2 = document.querySelector("main :is(.mark, .new, .gone)");
    window.scrollTo(0, 0);
    if (first2 && first2.getBoundingClientRect().bottom > innerHeight) first2.scrollIntoView({ block: "center" });
  }
  var listed;
  function listSteps() {
    const list = byId("jump");
    if (listed !== part) {
      const option = (name, nth) => new Option(`${nth}  ${name}`, String(nth));
      list.replaceChildren(...["title", ...part.steps.map(nameOf)].map(option));
      listed = part;
    }
    list.value = String(step);
  }
  var LONGEST = 80;
  function fit() {
    const least = Math.max(innerWidth * 0.0141, 12);
    const text2 = document.querySelector("main > .text, main > .asked, main > ul");
    if (text2) fitText(text2, least);
    const drawn = document.querySelector(".frame svg");
    if (drawn) drawn.style.width = drawn.style.height = `${100 * zoom}%`;
    const shown2 = document.querySelector("main .code");
    if (!shown2) return;
    const bar = document.querySelector("nav");
    const nav = bar && getComputedStyle(bar).position !== "fixed" ? bar.offsetHeight : 0;
    const height = innerHeight - shown2.getBoundingClientRect().top - scrollY - nav - 16;
    const lines = [...shown2.querySelectorAll("div")];
    let size = 0;
    for (const part2 of [0.03, 0.026, 0.0225, 0.0195, 0.0165]) {
      size = Math.max(innerWidth * part2, 12);
      shown2.style.fontSize = `${size}px`;
      const isOne = (line) => line.offsetHeight < 2 * size || line.textContent.length > LONGEST;
      const isWhole = !document.querySelector("h2.table, h2.run, h2.evidence") || lines.every(isOne);
      if (shown2.offsetHeight <= height && isWhole) break;
    }
    shown2.style.fontSize = `${size * zoom}px`;
  }
  function fitText(text2, least) {
    text2.style.fontSize = "";
    let size = parseFloat(getComputedStyle(text2).fontSize) * zoom;
    text2.style.fontSize = `${size}px`;
    while (document.documentElement.scrollHeight > innerHeight && size > least) {
      size = Math.max(size - 1, least);
      text2.style.fontSize = `${size}px`;
    }
  }
  function theme(name) {
    document.documentElement.dataset.theme = name;
    try {
      localStorage.setItem("present-theme", name);
    } catch {
    }
  }
  var dark = matchMedia("(prefers-color-scheme: dark)");
  var system = () => dark.matches ? "dark" : "light";
  var remembered = null;
  try {
    remembered = localStorage.getItem("present-theme");
  } catch {
  }
  document.documentElement.dataset.theme = remembered ?? system();
  var PLAN = "present-plan";
  try {
    plan2 = localStorage.getItem(PLAN) ?? "";
  } catch {
  }
  listPlans();
  if (isThumbnail) document.body.classList.add("thumbnail");
  dark.addEventListener("change", () => {
    document.documentElement.dataset.theme = system();
  });
  var enlarge = (by) => change(() => {
    zoom *= by;
  });
  function fullscreen() {
    const done = document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen();
    done.catch(() => {
    });
  }
  var next = () => move(1);
  var back = () => move(-1);
  var help = () => byId("keys").showModal();
  var keys = {
    ArrowRight: next,
    PageDown: next,
    " ": next,
    ArrowLeft: back,
    PageUp: back,
    Home: () => go(part, 0),
    End: () => go(part, part.steps.length),
    a: () => change(() => {
      all = !all;
    }),
    t: () => clocks((clock2) => clock2.toggle()),
    r: () => clocks((clock2) => clock2.reset()),
    c: visitCase,
    p: open,
    "+": () => enlarge(1.1),
    "=": () => enlarge(1.1),
    "-": () => enlarge(1 / 1.1),
    d: () => change(() => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark")),
    f: fullscreen,
    "?": help
  };
  addEventListener("keydown", (event) => {
    if (event.isComposing || event.keyCode === 229) return;
    if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
    const at = event.target;
    if (at.closest("input") && !event.key.startsWith("Page")) return;
    if (at.closest("select") || at.closest("button, a") && event.key === " ") return;
    const stages = parts.filter(({ id }) => /^\d\d$/.test(id) && id[1] === event.key);
    const chosen = stages[(stages.indexOf(part) + 1) % stages.length];
    const act = chosen ? () => go(chosen, 0) : Object.hasOwn(keys, event.key) && keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  var touched = null;
  addEventListener(
    "touchstart",
    (event) => {
      touched = event.touches.length === 1 ? event.touches[0] : null;
    },
    { passive: true }
  );
  addEventListener(
    "touchend",
    (event) => {
      if (!touched) return;
      const end = event.changedTouches[0];
      const across = end.clientX - touched.clientX;
      const down = end.clientY - touched.clientY;
      if (Math.abs(across) > 60 && Math.abs(across) > 2 * Math.abs(down)) move(across < 0 ? 1 : -1);
    },
    { passive: true }
  );
  for (const part2 of parts) {
    const option = element("option", "", [part2.name, part2.title].filter(Boolean).join(": "));
    option.value = part2.id;
    byId("stage").append(option);
  }
  byId("stage").addEventListener("change", (event) => {
    const select = event.target;
    select.blur();
    go(parts.find((part2) => part2.id === select.value) ?? parts[0], 0);
  });
  byId("jump").addEventListener("change", (event) => {
    const select = event.target;
    select.blur();
    go(part, Number(select.value));
  });
  byId("plan").addEventListener("change", (event) => {
    const select = event.target;
    select.blur();
    change(() => {
      plan2 = select.value;
    });
    try {
      localStorage.setItem(PLAN, plan2);
    } catch {
    }
  });
  byId("next").addEventListener("click", next);
  byId("back").addEventListener("click", back);
  byId("help").addEventListener("click", help);
  byId("notes").addEventListener("click", open);
  addEventListener("hashchange", () => {
    if (location.hash !== address(part, step)) go(...named2(location.hash));
  });
  addEventListener("resize", fit);
  var still = 0;
  addEventListener("mousemove", ({ clientY }) => {
    clearTimeout(still);
    const near = innerHeight / 8;
    document.body.classList.toggle("at-top", clientY < near);
    document.body.classList.toggle("at-bottom", clientY > innerHeight - near);
    still = setTimeout(() => document.body.classList.remove("at-top", "at-bottom"), 2e3);
  });
  arrive(...named2(location.hash));
  if (isPresenter) {
    tell();
    setInterval(tell, 1e3);
  }
})();
