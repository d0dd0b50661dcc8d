// The workshop's page: a lesson on the left, an editor on the right, terminals below it. This file connects the parts.

import { Actions } from "./actions";
import { type Action, api, events, type Link, Problem, problem, type State } from "./api";
import type { Command } from "./commands";
import { Compiling } from "./compile";
import { Documents } from "./documents";
import { byId, h, inFolder, keep, plain, plural, rich, setFolder } from "./dom";
import { Editor } from "./editor";
import { keepFocus } from "./focus";
import { boot, boots, drawKernels } from "./kernels";
import { forget } from "./knowledge";
import { Lesson } from "./lesson";
import { isCase, progressOf, showMap } from "./map";
import { type Button, explain, hidePanel, hideProblem, shownProblem, showPanel, showProblem } from "./panel";
import { Panes } from "./panes";
import { Questions } from "./questions";
import { Terminals } from "./terminals";
import { applyTheme, isDark, onTheme, toggleTheme } from "./theme";
import { explained, showLine } from "./trace";
import { type Act, actOf, takeFiles } from "./window";

applyTheme();
const lesson = new Lesson();
const editor = new Editor();
const terminals = new Terminals((id) => tried(api.closeTerminal(id)));
const actions = new Actions(editor, terminals, ({ terminal }) => tried(api.interrupt(terminal)));
actions.after = after;
const compiling = new Compiling(editor.documents);
compiling.onChange = drawSaved;
compiling.check = (name) => name === editor.name && tried(check(name));
const questions = new Questions(tried);
const panes = new Panes((pane) => ({ lesson, editor, terminals })[pane].focus());
terminals.onVisit = () => panes.fold("terminals", false);
let state: State | undefined;

/** Shows what went wrong, until something else works. */
async function tried(doing: Promise<unknown>): Promise<void> {
  const before = shownProblem();
  try {
    await doing;
    hideProblem(before);
  } catch (thrown) {
    showProblem(thrown);
  }
}

const exerciseOf = (name: string) => state?.exercises.find(({ id }) => id === name);
const programOf = (name: string) => state?.programs.find((program) => program.name === name);
const open = () => exerciseOf(editor.name);

// What is open.

async function openName(name: string, focus = false): Promise<void> {
  hidePanel();
  const exercise = exerciseOf(name);
  if (exercise?.state === "new") editor.openNothing(name, ...invitation(name, exercise.title));
  else await editor.open(name, Boolean(exercise));
  actions.opened();
  drawOpen();
  if (focus) panes.focus("editor");
}

function invitation(name: string, title: string): HTMLElement[] {
  return [
    h("h3", {}, ...rich(`${name} ${title}`)),
    h("p", {}, "You have not started this exercise. Start it to get your own copy of the program."),
    h(
      "button",
      { type: "button", class: "main", "data-test": "start", click: () => tried(start(name)) },
      `Start ${name}`,
    ),
  ];
}

const pageOfCase = (name: string) => `clinic/${name.replace(/^.*-/, "")}.html`;

/** Shows the lesson of what is open, unless the learner has opened something else meanwhile. */
function showLesson(name: string): void {
  // Without the server, the lesson would only be gone.
  if (name !== editor.name || !byId("banner").hidden) return;
  const exercise = exerciseOf(name);
  const page = exercise && isCase(exercise) ? pageOfCase(name) : programOf(exercise?.program ?? name)?.page;
  if (page) lesson.show(page, exercise?.id);
}

/** Goes to a page of the book, also with the focus: whoever listens hears of nothing that changes elsewhere. */
function read(page: string): void {
  lesson.go(`/book/${page}`);
  panes.focus("lesson");
}

const howTo = "The lesson explains the task. Change the program, then press Check. The workshop saves while you type.";

/** Whether a working copy is being made, which is opened then. */
let making = false;

async function start(name: string): Promise<void> {
  const isNew = exerciseOf(name)?.state === "new";
  making = true;
  try {
    if (isNew) {
      try {
        await api.start(name, false);
      } catch (thrown) {
        // Another tab was faster: it is started, and that is what we want.
        if (problem(thrown).status !== 409) throw thrown;
      }
      const exercise = exerciseOf(name);
      if (exercise?.state === "new") exercise.state = "started";
    }
    await openName(name, true);
  } finally {
    making = false;
  }
  showLesson(name);
  if (isNew) showPanel("news", `You have started ${name}`, rich(`This is your copy. ${howTo}`));
  draw();
}

async function reset(name: string): Promise<void> {
  making = true;
  try {
    await editor.discard();
    await api.start(name, true);
    // The learner may have opened the old files meanwhile.
    await editor.documents.forget(name);
    await openName(name);
    showPanel("news", `${name} has been reset`, rich(`This is a fresh copy. ${howTo}`));
  } catch (thrown) {
    await openName(name);
    throw thrown;
  } finally {
    making = false;
  }
}

// What to do with it.

async function run(name: string, mine: boolean, args: string): Promise<void> {
  hidePanel();
  actions.closeVerdict();
  const what = mine ? { args } : await questions.ask(name, args);
  if (what.args !== args) {
    keep.set(inFolder(`arguments:${name}`), what.args);
    drawOpen();
  }
  await actions.start("run", name, mine, what.args, what.prediction);
}

async function check(name: string): Promise<void> {
  hidePanel();
  await actions.start("check", name, true);
}

/** What a learner may want to do after a check. */
function after({ name, status, diagnostics }: Action): Button[] {
  /** The buttons are about this exercise, which may no longer be the open one. */
  const there = (act: () => void) => () => tried((name === editor.name ? Promise.resolve() : openName(name)).then(act));
  const checked = exerciseOf(name);
  if (status !== 0) {
    const buttons = [
      { label: "Hint", test: "verdict-hint", act: there(() => hint(name)) },
      { label: "What I changed", test: "verdict-diff", act: there(() => tried(diff())) },
    ];
    const line = { label: "Show the line", act: there(() => editor.toFirstError(true)) };
    const toLog = () => read(`${pageOfCase(name)}#step-by-step`);
    if (checked && isCase(checked))
      buttons.push({ label: "The log, step by step", test: "verdict-log", act: there(toLog) });
    return diagnostics.some(({ severity }) => severity === "error") ? [line, ...buttons] : buttons;
  }
  const all = state?.exercises.filter((other) => checked && isCase(other) === isCase(checked)) ?? [];
  const next = all[all.findIndex(({ id }) => id === name) + 1];
  const compare = { label: "Compare with our solution", act: there(() => tried(solution(name, false, true))) };
  const go = () => tried(openName(next.id, true).then(() => showLesson(next.id)));
  return next ? [compare, { label: `Next: ${next.id}`, act: go }] : [compare];
}

function runOpen(): void {
  const { name } = editor;
  const exercise = open();
  if (!name || exercise?.state === "new") return;
  // A case is a BPF program alone.
  if (exercise && isCase(exercise)) checkOpen();
  else tried(run(name, Boolean(open()), byId<HTMLInputElement>("arguments").value.trim()));
}

function checkOpen(): void {
  if (open() && open()?.state !== "new") tried(check(editor.name));
}

async function diff(): Promise<void> {
  const { name } = editor;
  hidePanel();
  if (open()) await editor.documents.flush(name);
  const difference = await (open() ? api.workDiff(name) : api.programDiff(name));
  const unchanged = "You have not changed anything yet.";
  if (name === editor.name) editor.compare("diff", `Diff of ${name}`, difference, open() ? unchanged : undefined);
}

async function solution(name: string, peek = false, mine = false): Promise<void> {
  hidePanel();
  try {
    if (mine) await editor.documents.flush(name);
    const difference = await api.solution(name, peek, mine);
    const label = mine ? "Compare with the starting point" : "Compare with yours";
    const click = () => tried(solution(name, peek, !mine));
    const toggle = h("button", { type: "button", "data-test": "toggle", click }, label);
    const same = mine ? "Yours and ours are the same." : undefined;
    if (name === editor.name) editor.compare("solution", `Solution of ${name}`, difference, same, toggle);
  } catch (thrown) {
    if (problem(thrown).status !== 403) throw thrown;
    const shows = { label: "Show the solution", test: "peek", act: () => tried(solution(name, true, mine)) };
    const hints = { label: "Show a hint", act: () => byId("hint").click() };
    const text = "Its check has not passed yet. A hint may be enough.";
    showPanel("hint", `Show the solution of ${name}?`, [h("p", {}, text)], [shows, hints]);
  }
}

function showHint(name: string, shown: string[], at: number): void {
  const all = exerciseOf(name)?.hints ?? shown.length;
  const buttons = [];
  if (at > 0) buttons.push({ label: "Previous hint", act: () => showHint(name, shown, at - 1) });
  if (at + 1 < shown.length) {
    buttons.push({ label: "Next hint", test: "next-hint", act: () => showHint(name, shown, at + 1) });
  } else if (at + 1 < all) buttons.push({ label: "Next hint", test: "next-hint", act: () => tried(nextHint(name)) });
  showPanel("hint", `Hint ${at + 1} of ${all} for ${name}`, rich(shown[at]), buttons);
}

async function nextHint(name: string): Promise<void> {
  const { shown } = await api.hint(name);
  const exercise = exerciseOf(name);
  if (exercise) exercise.shown = shown;
  showHint(name, shown, shown.length - 1);
}

function hint(name: string): void {
  const shown = exerciseOf(name)?.shown ?? [];
  if (shown.length) showHint(name, shown, shown.length - 1);
  else tried(nextHint(name));
}

async function saveAll(): Promise<void> {
  let failure: unknown;
  for (const name of new Set(editor.documents.all.map(({ name }) => name))) {
    await editor.documents.flush(name).catch((thrown) => {
      failure = thrown;
    });
  }
  if (failure) throw failure;
}

async function download(): Promise<void> {
  const failure = await saveAll().catch((thrown) => thrown);
  await api.download("/api/work.zip");
  if (failure) showPanel("bad", "The download may lack your latest changes", explain(problem(failure)));
}

async function upload(file: File, replace = false): Promise<void> {
  if (file.size > 8 << 20) {
    throw new Problem(413, "The file is larger than 8 MB.", file.name, "Choose a zip file that you downloaded here.");
  }
  let restored: string[];
  try {
    restored = (await api.upload(file, replace)).restored;
  } catch (thrown) {
    if (problem(thrown).status !== 409 || replace) throw thrown;
    askToReplace(problem(thrown), file);
    return;
  }
  for (const name of restored) await editor.documents.refresh(name);
  if (restored.includes(editor.name) && !editor.docs.length) await openName(editor.name);
  showPanel("news", "Upload complete", [h("p", {}, `Restored: ${restored.join(", ")}.`)]);
}

function askToReplace(problem: Problem, file: File): void {
  const dialog = byId<HTMLDialogElement>("replace-dialog");
  byId("replace-text").replaceChildren(...explain(problem));
  byId("replace-yes").onclick = () => {
    dialog.close();
    tried(upload(file, true));
  };
  dialog.showModal();
}

// What the lesson's buttons do.
lesson.onCommand = (command: Command) => {
  if (command.kind === "start") return tried(start(command.id));
  if (command.kind === "check") return tried(openName(command.id).then(() => check(command.id)));
  return runCommand(command);
};

function runCommand(command: Extract<Command, { kind: "run" }>): Promise<void> {
  const { name, args } = command;
  const mine = command.mine || Boolean(exerciseOf(name));
  keep.set(inFolder(`arguments:${name}`), args);
  // A stage that is only read is replaced by what runs. An exercise that the learner works on stays.
  const isOther = name !== editor.name && (mine || programOf(editor.name));
  const opened = isOther ? openName(name) : Promise.resolve(drawOpen());
  return tried(opened.then(() => run(name, mine, args)));
}
lesson.onOpen = (name) => tried(openName(name, true));
lesson.onLink = (name) => {
  if (isKnown(name)) location.hash = name;
};
lesson.onAnswers = (answers) => questions.fromLesson(answers);

// What the page shows around the panes' contents.

function drawChoice(): void {
  if (!state) return;
  const select = byId<HTMLSelectElement>("open");
  const states = { new: "not started", started: "started", done: "done" };
  const programs = (stages: boolean) =>
    (state?.programs ?? [])
      .filter(({ name }) => /^\d/.test(name) === stages)
      .map(({ name, title }) => [name, `${name} ${title} (read only)`]);
  const exercises = (cases: boolean) =>
    (state?.exercises ?? [])
      .filter((exercise) => isCase(exercise) === cases)
      .map(({ id, title, state }) => [id, `${id} ${title} (${states[state]})`]);
  const groups = [
    ["Exercises", exercises(false)],
    ["Stages", programs(true)],
    ["Examples", programs(false)],
    ["Clinic", exercises(true)],
  ] as [string, [string, string][]][];
  const now = JSON.stringify(groups);
  if (select.dataset.now !== now) {
    select.dataset.now = now;
    const option = ([value, text]: [string, string]) => h("option", { value }, plain(text));
    select.replaceChildren(...groups.map(([label, all]) => h("optgroup", { label }, ...all.map(option))));
  }
  select.value = editor.name;
}

function draw(): void {
  if (!state) return;
  drawChoice();
  const [done, all] = progressOf(state);
  const [answered, asked] = questions.progress;
  byId("progress").textContent =
    `${done} of ${plural(all, "exercise")} and cases done, ${answered} of ${plural(asked, "question")}`;
  const bar = byId<HTMLProgressElement>("progress-bar");
  bar.max = all || 1;
  bar.value = done;

  const exercise = open();
  const program = programOf(editor.name);
  for (const id of ["check", "on-save", "reset", "hint", "solution"]) byId(id).hidden = !exercise;
  for (const id of ["run", "arguments"]) byId(id).hidden = exercise !== undefined && isCase(exercise);
  for (const id of ["run", "check", "hint", "diff", "solution", "reset"]) {
    byId<HTMLButtonElement>(id).disabled = !editor.name || exercise?.state === "new";
  }
  // The lesson may be another stage's.
  byId("run").textContent = `Run ${exercise ? "" : editor.name}`.trim();
  byId("diff").hidden = !exercise && !program?.parent;
  byId("diff").title = program?.parent ? `What is new in ${program.name} since ${program.parent}` : "What you changed";
  drawStarts();
  drawSaved();
  drawUnkept();

  const { results_key: key } = state;
  const results = state.results.map((name) =>
    h("a", { href: `/results/${key}/${encodeURIComponent(name)}`, target: "_blank", rel: "noopener" }, name),
  );
  const box = byId("results");
  const now = [key, ...state.results].join("\n");
  if (box.dataset.now === now) return;
  box.dataset.now = now;
  box.replaceChildren(...(results.length ? ["Results: ", ...results.flatMap((link) => [link, " "])] : []));
}

/** A program that is read only leads to its exercises. */
function drawStarts(): void {
  const exercises = state?.exercises.filter(({ program }) => program === editor.name) ?? [];
  const texts = { new: "Start", started: "Continue", done: "Open" };
  const box = byId("starts");
  const now = JSON.stringify(exercises.map(({ id, state }) => [id, state]));
  if (box.dataset.now === now) return;
  box.dataset.now = now;
  box.replaceChildren(
    ...exercises.map(({ id, title, state }) =>
      h(
        "button",
        { type: "button", "data-test": `start-${id}`, title: plain(title), click: () => tried(start(id)) },
        `${texts[state]}: ${id}`,
      ),
    ),
  );
}

const savedAs = {
  saved: "Saved",
  compiling: "Saved, compiling…",
  waiting: "Saved. It compiles when nothing runs.",
  compiles: "Saved, compiles",
  fails: "Saved, does not compile",
  rust: "Saved. Run or Check compiles it.",
};

/** What is known of the open text. The guest does not compile while a program runs in it. */
function said(): keyof typeof savedAs {
  const said = compiling.of(editor.name) ?? "saved";
  if (said !== "fails" && editor.path?.endsWith(".rs")) return "rust";
  const waits = said === "compiling" && state?.guest && state.actions.some(({ phase }) => phase !== "ended");
  return waits ? "waiting" : said;
}

function drawSaved(): void {
  if (!shownProblem()?.lasts()) hideProblem(shownProblem());
  const saved = byId("saved");
  const docs = editor.documents.all;
  const failed = docs.find(({ failure }) => failure);
  const conflict = docs.find(({ conflict }) => conflict);
  let text = "";
  if (failed) text = `Not saved: ${failed.failure?.cause}`;
  else if (conflict) text = `Not saved: ${conflict.path} was changed by another tab or editor`;
  else if (docs.some(({ dirty }) => dirty)) text = "Saving…";
  else if (editor.docs.length) text = open() ? savedAs[said()] : "Read only";
  const isUnkept = docs.some(({ unkept }) => unkept);
  if (isUnkept) {
    const unkept = "The browser's storage is full, so it has no backup of this. Keep this tab open.";
    text = failed || conflict ? `${text}. ${unkept}` : unkept;
  }
  if (saved.dataset.now !== text) saved.replaceChildren(...rich(text));
  saved.dataset.now = text;
  const isBad = failed || conflict || isUnkept;
  saved.className = isBad ? "bad" : "";
  // Whoever listens hears nothing of each save that works.
  const heard = isBad ? plain(text) : text === savedAs.fails ? `${text}. F8 goes to the error.` : "";
  if (byId("trouble").textContent !== heard) byId("trouble").textContent = heard;
}

/** After another program or exercise was opened. */
function drawOpen(): void {
  const field = byId<HTMLInputElement>("arguments");
  field.value = keep.get<string>(inFolder(`arguments:${editor.name}`)) ?? "";
  field.title = field.value;
  document.title = editor.name ? `${editor.name}: the workshop` : "The workshop";
  drawAddress();
  draw();
}

function drawUnkept(): void {
  const box = byId("unkept");
  const now = JSON.stringify(state?.unkept ?? null);
  if (box.dataset.now === now) return;
  box.dataset.now = now;
  box.hidden = !state?.unkept;
  if (state?.unkept) box.replaceChildren(...explain(state.unkept));
}

function drawLink(link: Link): void {
  const banner = byId("banner");
  banner.hidden = link === "up";
  banner.classList.toggle("calm", link === "down" && boots() !== "");
  if (link === "down") {
    banner.replaceChildren(
      boots() ||
        "The workshop does not answer. If its window is gone, start it again as before. Keep this tab open: it has your work.",
    );
  } else if (link === "refused") {
    banner.replaceChildren(
      "This tab is not connected. Open the address that the workshop printed when you last started it, all of it. If you " +
        `forwarded its port to ${location.port || "another one"}, open ${location.origin}/ and after it what the printed ` +
        "address has from the # on.",
    );
  }
}

// What the server reports.

let cameBack = false;
events.onLink = (link) => {
  drawLink(link);
  if (link !== "up") cameBack = true;
};
// Until then, somebody else may have filled the lesson's frame.
events.onOpen = () => lesson.load();
events.onSaved = (saved) => editor.documents.saved(saved);
/** Why the server can't tell its state. */
let broken: Problem | undefined;
events.onProblem = (problem) => {
  broken = problem;
  problem.lasts = () => problem === broken;
  showProblem(problem);
};
events.onState = (now) => {
  broken = undefined;
  // It answers, and it knows us.
  if ([0, 401].includes(shownProblem()?.status ?? -1)) hidePanel();
  const before = state;
  if (before && before.folder !== now.folder) {
    // Another workshop has this address now. The drafts wait for the one that they belong to.
    editor.documents.drop();
    location.reload();
    return;
  }
  state = now;
  setFolder(now.folder);
  terminals.update(now.terminals);
  actions.update(now.actions);
  questions.update(now);
  lesson.update(now);
  drawKernels(now, cameBack);
  if (before && before.kernel !== now.kernel) forget();
  if (!before) tried(begin());
  else {
    if (cameBack) tried(resume());
    // Somebody else started what we only announce.
    if (!making && !editor.docs.length && open() && open()?.state !== "new") tried(openName(editor.name));
    // Another editor or a command in a terminal may have changed files.
    for (const { id, stamp } of now.exercises) {
      const old = before.exercises.find((exercise) => exercise.id === id)?.stamp;
      if (stamp && stamp !== old) editor.documents.refresh(id).catch(() => {});
    }
  }
  draw();
};

const isKnown = (name: string | null) => Boolean(name && (programOf(name) || exerciseOf(name)));
const linked = () => location.hash.slice(1);
/** The address names what is open, so that it can be copied. */
const drawAddress = () => editor.name && history.replaceState(null, "", `#${editor.name}`);

/** Opens what the address names, and its lesson. */
async function follow(): Promise<void> {
  const name = linked();
  if (name === editor.name) return;
  if (!isKnown(name)) {
    drawAddress();
    throw unknown(name);
  }
  await openName(name);
  showLesson(name);
}

function unknown(name: string): Problem {
  const fix = "Choose an exercise in the list above. The address then links to it.";
  return new Problem(404, `Nothing in this course is called \`${name}\`.`, null, fix);
}

async function begin(): Promise<void> {
  const name = linked();
  const [arrived] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  // After a reload, the lesson is where it was.
  const isLink = !editor.name && arrived?.type === "navigate" && isKnown(name);
  const first = [name, keep.get<string>("open")].find(isKnown) ?? state?.programs[0]?.name;
  if (first) await openName(first);
  if (isLink) showLesson(name);
  else if (name && !isKnown(name)) showProblem(unknown(name));
  else if (lesson.isNew) welcome();
  for (const name of Documents.drafted()) {
    if (exerciseOf(name) && exerciseOf(name)?.state !== "new") await editor.documents.load(name, true);
  }
  draw();
}

function welcome(): void {
  const text =
    "On the left is the first lesson. Read it, and press its buttons. On the right is the lesson's program. Its output " +
    "appears below. Each lesson ends with exercises, in which you change the program. " +
    "Nothing that you do here can hurt your machine.";
  const more = { label: "What is where", act: () => read("workshop.html#what-is-where") };
  showPanel("hint", "Welcome", rich(text), [more]);
}

async function resume(): Promise<void> {
  cameBack = false;
  editor.documents.saveAll();
  for (const name of new Set(editor.documents.all.map(({ name }) => name))) await editor.documents.refresh(name);
  if (!editor.docs.length) await begin();
}

// Buttons and keys.

const click = (id: string, act: () => void) => byId(id).addEventListener("click", act);
byId("run-form").addEventListener("submit", (event) => {
  event.preventDefault();
  runOpen();
});
click("check", checkOpen);
click("hint", () => hint(editor.name));
const onSave = byId<HTMLInputElement>("check-on-save");
onSave.checked = compiling.checksOnSave;
onSave.addEventListener("change", () => {
  compiling.checksOnSave = onSave.checked;
  if (onSave.checked) checkOpen();
});
click("diff", () => tried(diff()));
click("solution", () => tried(solution(editor.name)));
click("reset", () => {
  byId("reset-title").textContent = `Reset ${editor.name}?`;
  byId<HTMLDialogElement>("reset-dialog").showModal();
});
click("reset-yes", () => {
  byId<HTMLDialogElement>("reset-dialog").close();
  tried(reset(editor.name));
});
click("done", () => state && showMap(state, (name) => tried(openName(name, true).then(() => showLesson(name)))));
click("download", () => tried(download()));
click("upload", () => byId("upload-file").click());
const kernel = byId<HTMLSelectElement>("kernel");
const kernelNow = () => state && drawKernels(state, false);
kernel.addEventListener("change", () => {
  const { value } = kernel;
  if (value === state?.kernel) {
    hidePanel();
    return;
  }
  const act = () => {
    hidePanel();
    tried(boot(value, saveAll)).then(kernelNow);
  };
  const text = "It boots into this page. Your work is kept, and what runs ends.";
  showPanel("hint", `Boot Linux ${value}?`, [h("p", {}, text)], [{ label: "Boot it", test: "boot", act }]);
});
kernel.addEventListener("blur", kernelNow);
click("theme", toggleTheme);
const explainLine = () => tried(Promise.resolve().then(() => showLine((by) => terminals.explain(by))));
click("explain", explainLine);
click("smaller", () => terminals.zoom(-1));
click("larger", () => terminals.zoom(1));
click("keys-button", () => byId<HTMLDialogElement>("keys").showModal());
click("new-shell", () => tried(api.newShell().then(({ id }) => terminals.select(id, true))));
for (const button of document.querySelectorAll("[data-close]")) {
  button.addEventListener("click", () => button.closest("dialog")?.close());
}
byId("open").addEventListener("change", (event) => {
  const name = (event.target as HTMLSelectElement).value;
  tried(openName(name).then(() => showLesson(name))).then(draw);
});
byId("upload-file").addEventListener("change", (event) => {
  const input = event.target as HTMLInputElement;
  const file = input.files?.[0];
  input.value = "";
  if (file) tried(upload(file));
});
byId("arguments").addEventListener("change", (event) => {
  const field = event.target as HTMLInputElement;
  keep.set(inFolder(`arguments:${editor.name}`), field.value.trim());
  field.title = field.value;
});
editor.onChange = () => {
  drawSaved();
  actions.edited();
};
keepFocus((places) => panes.leaveTo(places));
editor.documents.onFailure = (_doc, failure) => showProblem(failure);

function drawTheme(): void {
  const label = isDark() ? "Light colors" : "Dark colors";
  byId("theme").textContent = isDark() ? "☀" : "☾";
  byId("theme").setAttribute("aria-label", label);
  byId("theme").title = label;
}
onTheme(drawTheme);
drawTheme();

/** What the keys do that work in every pane. */
const acts: Record<Act, () => void> = {
  next: () => panes.step(1),
  previous: () => panes.step(-1),
  lesson: () => panes.focus("lesson"),
  editor: () => panes.focus("editor"),
  terminals: () => panes.focus("terminals"),
  keys: () => byId<HTMLDialogElement>("keys").showModal(),
  explain: explainLine,
  error: () => editor.toFirstError(true),
  run: runOpen,
  check: checkOpen,
  save: () => editor.saveNow(),
  left: () => editor.step(-1),
  right: () => editor.step(1),
};
lesson.onAct = (act) => acts[act]?.();

takeFiles(byId("editor"), (files) => tried(editor.drop(files)));
addEventListener("hashchange", () => tried(follow()));

// Before CodeMirror and xterm see a key.
addEventListener(
  "keydown",
  (event) => {
    const target = event.target as Element;
    // The editor's panels would close at the Escape that ends a composition.
    if ((event.isComposing || event.keyCode === 229) && target.closest?.(".cm-panel")) event.stopPropagation();
    const id = target.closest?.("section[id]")?.id;
    const act = actOf(event, id === "editor" || id === "terminals" || id === "lesson" ? id : undefined);
    if (!act || document.querySelector("dialog[open]") || (act === "error" && !editor.errsElsewhere)) return;
    event.preventDefault();
    event.stopPropagation();
    acts[act]();
  },
  true,
);
addEventListener("beforeunload", (event) => {
  if (editor.documents.all.some(({ dirty, conflict }) => dirty || conflict)) event.preventDefault();
});
addEventListener("pagehide", () => editor.documents.saveAll(true));
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "hidden") editor.documents.saveAll(true);
});

events.start();

// For tests.
Object.assign(window, {
  workshop: {
    text: () => editor.text,
    terminalText: () => terminals.text,
    explained,
    terminalColumns: () => terminals.columns,
    terminalIsAtEnd: () => terminals.isAtEnd,
    scrollUp: () => terminals.scrollUp(),
  },
});
