// npm run build made this from cf74467d
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
  function slotOf(plan, name) {
    return plan.slots.find((slot2) => slot2.name === name);
  }
  function behind(slot2, elapsed) {
    if (elapsed < slot2.at) return elapsed - slot2.at;
    return Math.max(elapsed - (slot2.at + slot2.minutes), 0);
  }
  function standing(plan, name, elapsed) {
    const slot2 = slotOf(plan, name);
    if (!slot2) return `Not in the plan of ${plan.minutes} minutes. Skip it, or keep it for pairs who are done.`;
    const late = Math.round(behind(slot2, elapsed));
    const when = `planned from ${slot2.at} to ${slot2.at + slot2.minutes} min`;
    if (late > 0) return `${late} min behind; ${when}`;
    if (late < 0) return `${-late} min ahead; ${when}`;
    return `on time; ${when}`;
  }
  function listPlans() {
    byId("plan").append(element("option", ""));
    for (const plan of data.plans) {
      const option = element("option", "", `${plan.minutes} minutes`);
      option.value = String(plan.minutes);
      byId("plan").append(option);
    }
  }

  // view.ts
  var LONG = 22;
  var CONTEXT = 3;
  var place = (step2) => [step2.file, ...["lesson", "run"].includes(step2.part) ? [] : [step2.part], ...step2.of ? [step2.of] : []].join(", ");
  function nameOf(step2) {
    switch (step2.kind) {
      case "code":
        return step2.of ? `${step2.item}, ${step2.of}` : step2.item;
      case "picture":
        return step2.title;
      case "questions":
        return step2.title;
      case "text":
        return step2.title;
      case "case":
        return `The verifier clinic: ${step2.title}`;
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
  function code(step2, all2) {
    const lines = step2.lines;
    const has = (kind) => lines.some(([other2]) => other2 === kind);
    const whole = all2 || lines.length <= LONG || lines.every(([kind]) => kind === "same");
    const near = (nth) => lines.slice(Math.max(nth - CONTEXT, 0), nth + CONTEXT + 1).some(([kind]) => kind !== "same");
    const shown = element("div", "code");
    for (let nth = 0; nth < lines.length; nth++) {
      let end = nth;
      while (!whole && end < lines.length && !near(end)) end++;
      if (end > nth + 1) {
        const fold = `${end - nth}${has("mark") ? " more lines" : " lines as before"}`;
        shown.append(element("div", "fold", fold));
        nth = end - 1;
        continue;
      }
      const [kind, pieces] = lines[nth];
      const mixed = pieces.some(([changed2]) => !changed2);
      const words = pieces.map(([changed2, text2]) => element("span", changed2 && mixed ? "word" : "", text2));
      const line = element("div", kind, ...words);
      line.dataset.sign = { same: "", mark: "\u2192", new: "+", gone: "\u2212" }[kind];
      if (!pieces.length) line.append("\u200B");
      shown.append(line);
    }
    const heading = element("h2", step2.part, element("code", "item", step2.item), element("span", "file", place(step2)));
    return [heading, shown];
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
      }
    }
    return [element("h2", "", step2.title), frame, element("p", "caption", step2.caption)];
  }
  function questions(step2) {
    const asked = step2.ask.map(({ question }) => element("p", "question", question));
    return [element("h2", "", step2.title), ...asked];
  }
  function clinicCase(step2) {
    const text2 = element("div", "text");
    text2.innerHTML = step2.text;
    const way = element("p", "question", link(`#${step2.id}/1`, "the program"), " ", element("span", "file", "key c"));
    return [element("h2", "", nameOf(step2)), text2, way];
  }
  function text(step2) {
    const text2 = element("div", "text");
    text2.innerHTML = step2.text;
    const clock2 = element("p", "timer");
    clock2.id = "timer";
    const heading = step2.kind === "exercise" ? `Exercise ${step2.id}: ${step2.title}` : step2.title;
    return [element("h2", "", heading), text2, ...step2.minutes ? [clock2] : []];
  }

  // presenter.ts
  var isPresenter = window.name === "presenter";
  var clock = new Clock();
  var CLOCK = "present-clock";
  var PLAN = "present-plan";
  var slot = "";
  function presenter(part2, step2, parts2, from) {
    const at = part2.steps[step2 - 1];
    if (at?.kind === "exercise" || at?.kind === "text") slot = at.id;
    else if (at?.kind !== "case" && !part2.id.startsWith("case-")) slot = part2.id;
    const following = part2.steps[step2];
    const after = from || parts2[parts2.indexOf(part2) + 1];
    const inPart = following?.kind === "picture" ? following.caption : following && nameOf(following);
    const next2 = inPart ?? (after ? `${after.name} ${after.title}` : "the end");
    const asked = (at?.ask ?? []).map(
      ({ question, answer }) => element("div", "ask", element("p", "question", question), element("p", "answer", answer))
    );
    const stuck = at?.kind === "exercise" ? hints(at) : [];
    const solution = at && "solution" in at && at.solution || [];
    byId("notes-now").textContent = at ? nameOf(at) : part2.title;
    byId("notes-next").textContent = next2;
    byId("notes-say").textContent = at ? at.say : part2.before || part2.idea;
    byId("notes-ask").replaceChildren(...asked);
    byId("notes-stuck").replaceChildren(...under("If they are stuck", stuck));
    const changes = solution.flatMap((change) => code(change, false));
    byId("notes-solution").replaceChildren(...under("From the starting point to the solution", changes));
    tick();
  }
  var under = (heading, elements) => elements.length ? [element("h2", "", heading), ...elements] : [];
  function hints(exercise) {
    const minute = (nth) => Math.round(exercise.minutes * (nth + 1) / (exercise.hints.length + 1));
    return exercise.hints.map((hint, nth) => element("p", "hint", element("b", "", `After ${minute(nth)} min: `), hint));
  }
  function tick() {
    const plan = data.plans.find((plan2) => String(plan2.minutes) === byId("plan").value);
    byId("clock").textContent = minutes(clock.elapsed);
    byId("standing").textContent = plan ? standing(plan, slot, clock.elapsed / 6e4) : "Choose your plan.";
    byId("start").textContent = clock.runs ? "pause" : "start";
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
    listPlans();
    try {
      clock.restore(sessionStorage.getItem(CLOCK));
      byId("plan").value = localStorage.getItem(PLAN) ?? "";
    } catch {
    }
    byId("start").addEventListener("click", () => {
      clock.toggle();
      changed();
    });
    byId("reset").addEventListener("click", () => {
      clock.reset();
      changed();
    });
    byId("plan").addEventListener("change", () => {
      try {
        localStorage.setItem(PLAN, byId("plan").value);
      } catch {
      }
      tick();
    });
    setInterval(tick, 500);
  }

  // deck.ts
  var parts = data.parts;
  var part = parts[0];
  var step = 0;
  var all = false;
  var zoom = 1;
  var address = (part2, step2) => `#${part2.id}/${step2}`;
  var now = () => part.steps[step - 1];
  function named2(address2) {
    const [id, nth] = address2.slice(1).split("/");
    const part2 = parts.find((part3) => part3.id === id) ?? parts[0];
    return [part2, Math.min(Math.max(Number(nth) || 0, 0), part2.steps.length)];
  }
  var left;
  var caseOf = (step2) => step2.kind === "case" ? step2.id : step2.case;
  function wayBack(to) {
    const from = now();
    if (from && caseOf(from) === to.id) return address(part, step);
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
    moved = performance.timeOrigin + performance.now();
    arrive(to, nth);
    tell();
  }
  var first = (part2) => part2.steps.length === 1 ? 1 : 0;
  function move(by) {
    const other2 = parts[parts.indexOf(part) + by];
    if (step + by >= first(part) && step + by <= part.steps.length) go(part, step + by);
    else if (left) go(...named2(left));
    else if (other2) go(other2, by > 0 ? first(other2) : other2.steps.length);
  }
  var other = isPresenter ? window.opener : null;
  var moved = 0;
  function tell() {
    const { clock: clock2, toggled } = timed();
    other?.postMessage({ deck: address(part, step), moved, left, toggled, clock: clock2.save() }, "*");
  }
  addEventListener("message", ({ data: said, source }) => {
    if (typeof said?.deck !== "string" || typeof said.moved !== "number") return;
    other = source;
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
    const id = at && caseOf(at);
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
  function time(change) {
    change(timed().clock);
    timed().toggled = performance.timeOrigin + performance.now();
    tell();
    tick2();
  }
  function tick2() {
    const at = now();
    const shown = document.getElementById("timer");
    if (!shown || !at || !("minutes" in at)) return;
    const left2 = at.minutes * 6e4 - timed().clock.elapsed;
    shown.textContent = minutes(left2);
    shown.classList.toggle("runs", timed().clock.runs);
    shown.classList.toggle("over", left2 < 0);
  }
  setInterval(tick2, 250);
  function view() {
    const at = now();
    switch (at?.kind) {
      case "code":
        return code(at, all);
      case "picture":
        return picture(at);
      case "questions":
        return questions(at);
      case "exercise":
      case "text":
        return text(at);
      case "case":
        return clinicCase(at);
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
    byId("page").href = at?.kind === "picture" || at?.kind === "text" ? at.page ?? part.page : part.page;
    byId("view").replaceChildren(...view());
    byId("view").className = `at-${at?.kind ?? "title"}`;
    tick2();
    fit();
    if (isPresenter) presenter(part, step, parts, left && named2(left)[0]);
    const first2 = document.querySelector("main :is(.mark, .new, .gone)");
    window.scrollTo(0, 0);
    if (first2 && first2.getBoundingClientRect().bottom > innerHeight) first2.scrollIntoView({ block: "center" });
  }
  function fit() {
    const least = Math.max(innerWidth * 0.0141, 12);
    const text2 = document.querySelector("main > .text, main > ul");
    if (text2) fitText(text2, least);
    const drawn = document.querySelector(".frame svg");
    if (drawn) drawn.style.width = drawn.style.height = `${100 * zoom}%`;
    const shown = document.querySelector("main .code");
    if (!shown) return;
    const bar = document.querySelector("nav");
    const nav = bar && getComputedStyle(bar).position !== "fixed" ? bar.offsetHeight : 0;
    const height = innerHeight - shown.getBoundingClientRect().top - scrollY - nav - 16;
    let size = 0;
    for (const part2 of [0.028, 0.0215, 0.0165]) {
      size = Math.max(innerWidth * part2, 12);
      shown.style.fontSize = `${size}px`;
      if (shown.offsetHeight <= height) break;
    }
    shown.style.fontSize = `${size * zoom}px`;
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
  dark.addEventListener("change", () => {
    document.documentElement.dataset.theme = system();
  });
  function enlarge(by) {
    zoom *= by;
    fit();
  }
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
    a: () => {
      all = !all;
      show();
    },
    t: () => time((clock2) => clock2.toggle()),
    r: () => time((clock2) => clock2.reset()),
    c: visitCase,
    p: open,
    "+": () => enlarge(1.1),
    "=": () => enlarge(1.1),
    "-": () => enlarge(1 / 1.1),
    d: () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
    f: fullscreen,
    "?": help
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
    const at = event.target;
    if (at.closest("select") || at.closest("button, a") && event.key === " ") return;
    const chosen = parts.find((part2) => part2.id === `0${event.key}`);
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
