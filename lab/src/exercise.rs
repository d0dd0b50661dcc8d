//! Exercises: a working copy to change, a check that runs it on a real kernel, a hint, a solution.
//!
//! Exercise 03.1 is the folder `exercises/1` of stage 03, and `bitehist.1` that of an example. Its `exercise.md` is what
//! the learner reads, after comments: what the check finds in the starting point (`fails`), and the most lines that the
//! solution may take if that is more than usual (`lines`). `start.patch` turns the stage or the example into the starting point, if the two differ, and
//! `solution.patch` turns the starting point into the solution. What the check looks at is in the crate
//! `guest`. Each stage is also an exercise, called 03: write it yourself, starting from its parent.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use common::events::printable;
use common::report::print_text;
use common::{Error, OrCause, Result};
use machine::executor::Executor;
use machine::signals;
use machine::terminal;
use machine::workbook::copies::{self, Change, Files};
use machine::workbook::diff::{self, Extent};
use machine::workbook::{Program, Workbook};
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use wire::text::wrap;
use wire::verdict::Verdict;

use crate::compiler::Compiler;
use crate::mine;

/// How long a check may take in the guest: usually ten seconds, but longer on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// The file in `mine` that remembers which checks passed.
const DONE: &str = "done.txt";
/// The file in `mine` that lists the exercise of each hint that was shown.
const HINTS: &str = "hints.txt";

pub struct Exercise<'a> {
    /// Its stage or example.
    pub program: &'a Program,
    /// What a learner starts from, before the patch: the program itself, or the parent of a stage to write.
    origin: &'a Program,
    /// Its number within the stage or the example; 0 for the stage itself.
    pub number: u32,
    /// Its name.
    pub title: String,
    /// What to do, and why.
    pub goal: String,
    /// What the starting point is, and where to look first.
    pub start: String,
    /// What the check does.
    pub check: String,
    /// Hints for a learner who is stuck, in the order in which to show them.
    pub hints: Vec<String>,
    /// Its folder, or the stage's folder if it is the stage itself.
    pub folder: PathBuf,
    /// What the check finds in the starting point: any other fault would teach something else.
    pub fails: String,
    /// The most lines that the solution may take, if it is a larger exercise.
    pub lines: Option<usize>,
}

/// All exercises of a stage, without the stage itself, or of an example.
pub fn of(program: &Program) -> Result<Vec<Exercise<'_>>> {
    (1..)
        .map(|number| read(program, number))
        .take_while(|read| !matches!(read, Ok(None)))
        .filter_map(Result::transpose)
        .collect()
}

fn read(program: &Program, number: u32) -> Result<Option<Exercise<'_>>> {
    let folder = program.folder.join("exercises").join(number.to_string());
    if !folder.is_dir() {
        return Ok(None);
    }
    let file = folder.join("exercise.md");
    let text = fs::read_to_string(&file).or_cause(format!("cannot read {}", file.display()))?;
    let broken = |what: &str| Error::new(format!("{} has no {what}", file.display()));
    let (marks, text) = text.split_at(text.find("# ").unwrap_or(text.len()));
    let mark = |name: &str| {
        let marks = marks.lines().filter_map(|line| line.strip_prefix("<!-- ")?.strip_suffix(" -->"));
        marks.filter_map(|mark| mark.strip_prefix(name)?.strip_prefix(": ")).next_back()
    };
    let fails = mark("fails").ok_or_else(|| broken("comment `fails: ...` above its title"))?.to_owned();
    let lines = mark("lines").and_then(|lines| lines.parse().ok());
    let (title, rest) =
        text.strip_prefix("# ").and_then(|text| text.split_once('\n')).ok_or_else(|| broken("title"))?;
    let mut sections = rest.split("\n## ");
    let goal = sections.next().unwrap_or_default().trim().to_owned();
    let mut section = |name: &str| {
        let section = sections.next().and_then(|text| text.strip_prefix(name));
        let text = section.map(str::trim).filter(|text| !text.is_empty());
        text.map(str::to_owned)
            .ok_or_else(|| broken(&format!("section {name:?}, or has it in the wrong place")))
    };
    let (start, check, hints) = (section("Start")?, section("Check")?, section("Hint")?);
    let hints = hints.split("\n---\n").map(|hint| hint.trim().to_owned()).collect();
    let title = title.trim().to_owned();
    let origin = program;
    Ok(Some(Exercise { program, origin, number, title, goal, start, check, hints, folder, fails, lines }))
}

/// Finds the exercise called `03.1` or `bitehist.1`, or the stage itself by its name, as
/// [`wire::catalog::Catalog::stage`] does. The name of an example alone is its first exercise.
pub fn find<'a>(workbook: &'a Workbook, name: &str) -> Result<Exercise<'a>> {
    let (program, number) = match name.split_once('.') {
        Some((program, number)) => (workbook.catalog.program(program)?, number),
        None => match workbook.catalog.examples.iter().find(|example| example.name() == name) {
            Some(example) => (example, "1"),
            None => return whole_stage(workbook, workbook.catalog.stage(name)?),
        },
    };
    let found =
        number.parse().ok().filter(|number| *number > 0).map_or(Ok(None), |number| read(program, number))?;
    let Some(exercise) = found else {
        let known: Vec<_> = of(program)?.iter().map(Exercise::id).collect();
        let known = match known.is_empty() {
            true => format!("{} has none", program.name()),
            false => format!("the exercises are {}", known.join(", ")),
        };
        return Err(Error::new(format!("there is no exercise {name}"))
            .evidence(known)
            .fix("list them all: cargo lab exercise status"));
    };
    Ok(exercise)
}

/// The exercise of writing this stage yourself.
fn whole_stage<'a>(workbook: &'a Workbook, stage: &'a Program) -> Result<Exercise<'a>> {
    let parent = workbook.catalog.parent(stage).map_err(|error| {
        Error::new(error.cause()).evidence("to write a stage yourself, you start from its parent").fix(
            "write a later one: cargo lab exercise start 02; or do one of its exercises: cargo lab exercise start 01.1",
        )
    })?;
    Ok(Exercise {
        program: stage,
        origin: parent,
        number: 0,
        title: format!("Write stage {:02} yourself", stage.number),
        goal: format!("Its question: {}\n\nIt adds {}.", stage.title, stage.adds),
        start: format!(
            "The copy is stage {:02}. Make it print what stage {:02} prints.",
            parent.number, stage.number
        ),
        check: "As in `cargo lab demo`, what it prints must match what `io` did.".to_owned(),
        hints: vec![format!(
            "The stage's page of the book shows what changes and why, and so does stages/{}/README.md.",
            stage.package()
        )],
        folder: stage.folder.clone(),
        fails: stage.parent_fails.clone().unwrap_or_default(),
        lines: None,
    })
}

impl Exercise<'_> {
    /// `03.1` or `bitehist.1`, or `03` for the stage itself.
    pub fn id(&self) -> String {
        match self.number {
            0 => self.program.name(),
            number => format!("{}.{number}", self.program.name()),
        }
    }

    /// The name of the learner's package and binary.
    pub fn binary(&self) -> String {
        format!("my{}", self.id().replace('.', "-"))
    }

    /// Where the learner's working copy is.
    pub fn copy(&self, workbook: &Workbook) -> PathBuf {
        workbook.mine.join(self.id())
    }

    /// The learner's working copy, which must exist.
    pub fn started(&self, workbook: &Workbook) -> Result<PathBuf> {
        let copy = self.copy(workbook);
        if copy.is_dir() {
            return Ok(copy);
        }
        Err(Error::new(format!("there is no working copy for {} yet", self.id()))
            .evidence(format!("there is no folder {}", shown(workbook, &copy)))
            .fix(format!("make one: cargo lab exercise start {}", self.id())))
    }

    /// The files that a learner starts with, for a program of this name.
    pub fn starting_point(&self, name: &str) -> Result<Files> {
        let mut files = copies::files(self.origin)?;
        let patch = self.folder.join("start.patch");
        if self.number > 0 && patch.exists() {
            apply(&mut files, &patch)?;
        }
        copies::rename(&mut files, self.origin, name);
        Ok(files)
    }

    /// The files of a program of this name that passes the check.
    pub fn solved(&self, name: &str) -> Result<Files> {
        if self.number == 0 {
            let mut files = copies::files(self.program)?;
            copies::rename(&mut files, self.program, name);
            return Ok(files);
        }
        let mut files = self.starting_point(name)?;
        apply(&mut files, &self.folder.join("solution.patch"))?;
        Ok(files)
    }

    /// What the learner reads before starting, wrapped for a terminal.
    pub fn text(&self, columns: usize) -> String {
        let Self { title, goal, start, check, .. } = self;
        wrap(&format!("{} {title}\n\n{goal}\n\n{start}\n\nCheck: {check}", self.id()), columns)
    }

    /// The section for the README.
    pub fn markdown(&self) -> String {
        let Self { title, goal, start, check, hints, .. } = self;
        let id = self.id();
        let hint = |(hint, nth): (&String, usize)| {
            format!(
                "<details class=\"hint\">\n<summary>Hint {nth} of {}</summary>\n\n{hint}\n\n</details>\n",
                hints.len()
            )
        };
        let hints: String = hints.iter().zip(1..).map(hint).collect();
        format!(
            "### {id} {title}\n\n*Start:* `cargo lab exercise start {id}`. {start}\n\n{goal}\n\n\
             *Check:* `cargo lab exercise check {id}`. {check}\n\n\
             {hints}"
        )
    }
}

/// Applies a patch to one or more of these files.
fn apply(files: &mut Files, patch: &Path) -> Result<()> {
    let cannot = || format!("{} does not fit the original", patch.display());
    let text = fs::read_to_string(patch).or_cause(format!("cannot read {}", patch.display()))?;
    for part in text.split_inclusive('\n').fold(Vec::<String>::new(), |mut parts, line| {
        match parts.last_mut() {
            Some(part) if !line.starts_with("--- ") => part.push_str(line),
            _ => parts.push(line.to_owned()),
        }
        parts
    }) {
        let parsed = diffy::Patch::from_str(&part)
            .map_err(|error| Error::new(cannot()).evidence(error.to_string()))?;
        let name = parsed.modified().and_then(|name| name.strip_prefix("b/")).unwrap_or_default();
        let file = files.iter_mut().find(|(path, _)| path == Path::new(name));
        let Some((_, old)) = file else {
            return Err(Error::new(cannot())
                .evidence(format!("it changes {name:?}, which the original doesn't have")));
        };
        *old = diffy::apply(old, &parsed)
            .map_err(|error| Error::new(cannot()).evidence(format!("{name}: {error}")))?;
    }
    Ok(())
}

/// Makes the learner's working copy.
pub fn start(workbook: &Workbook, exercise: &Exercise<'_>, again: bool) -> Result<String> {
    let folder = exercise.copy(workbook);
    let shown = shown(workbook, &folder);
    if folder.exists() && !again {
        return Err(Error::new(format!("you have started {} already", exercise.id()))
            .evidence(format!("{shown} is there"))
            .fix(format!(
                "continue with it, or discard it and start over: cargo lab exercise start {} --again",
                exercise.id()
            )));
    }
    let files = exercise.starting_point(&exercise.binary())?;
    if again {
        forget(workbook, &exercise.id())?;
    }
    copies::replace(workbook, &workbook.mine, &exercise.id(), &files)?;
    let mut text = exercise.text(terminal::columns());
    let id = exercise.id();
    let _ = write!(text, "\nYour working copy:\n");
    for (path, _) in files.iter().filter(|(path, _)| path.starts_with("src")) {
        let _ = writeln!(text, "  {shown}/{}", path.display());
    }
    let _ = write!(
        text,
        "\n  cargo lab run --mine {id}           run it\n  cargo lab exercise check {id}       is it right?\n  \
         cargo lab exercise watch {id}       check it each time that you save\n  \
         cargo lab exercise hint {id}        when you are stuck\n"
    );
    Ok(text)
}

/// A path as the learner would type it.
pub fn shown(workbook: &Workbook, path: &Path) -> String {
    path.strip_prefix(&workbook.root).unwrap_or(path).display().to_string()
}

/// Builds the learner's working copy.
pub fn build(workbook: &Workbook, exercise: &Exercise<'_>) -> Result<PathBuf> {
    let copy = exercise.started(workbook)?;
    let name = exercise.binary();
    let built = copies::build(workbook, &workbook.mine, &[&name]).map_err(|error| {
        if !error.cause().ends_with(copies::DOES_NOT_COMPILE) {
            return error;
        }
        // The compiler's error names the package; ours names the exercise.
        let cause = error.cause().replace(&name, &format!("your {}", exercise.id()));
        Error::new(cause).evidence("the compiler's errors above").fix(format!(
            "fix it in {}; or discard it and start over: cargo lab exercise start {} --again",
            shown(workbook, &copy.join("src")),
            exercise.id()
        ))
    });
    Ok(built?.remove(0))
}

/// Compiles only the BPF program of the learner's working copy, and keeps nothing.
pub fn compile(workbook: &Workbook, exercise: &Exercise<'_>) -> Result<()> {
    let copy = exercise.started(workbook)?;
    let Some(source) = copies::bpf_source(&copy) else { return Ok(()) };
    let folder = machine::host::folders::temporary().or_cause("cannot make a folder for the object")?;
    Compiler::built(workbook, folder.path()).compile_file(&exercise.binary(), &source).map(drop)
}

/// Checks the learner's program in a guest that has it, and remembers a success.
pub fn check(workbook: &Workbook, exercise: &Exercise<'_>, guest: &mut dyn Executor) -> Result<Verdict> {
    let verdict = verdict(guest, exercise, &exercise.binary())?;
    if let Verdict::Right(_) = verdict {
        remember(workbook, &exercise.id())?;
    }
    Ok(verdict)
}

/// Prints a verdict, and also writes it into `file` as JSON, if there is one. The exit status says whether it is right.
pub fn deliver(exercise: &Exercise<'_>, verdict: &Verdict, file: Option<&Path>) -> Result<ExitCode> {
    write_verdict(verdict, file)?;
    let text = text(&exercise.id(), verdict, terminal::columns());
    if let Verdict::Right(_) = verdict {
        return terminal::print(&text);
    }
    anstream::stderr().write_all(text.as_bytes()).or_cause("cannot print the verdict")?;
    Ok(ExitCode::FAILURE)
}

/// Writes a verdict into a file as JSON, if there is one.
pub(crate) fn write_verdict(verdict: &Verdict, file: Option<&Path>) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let cannot = || format!("cannot write {}", file.display());
    fs::write(file, serde_json::to_vec(verdict).or_cause(cannot())?).or_cause(cannot())
}

/// A verdict for a terminal of this width: first what shows it, then what was expected and seen.
fn text(id: &str, verdict: &Verdict, columns: usize) -> String {
    let fault = match verdict {
        Verdict::Right(seen) => {
            return format!("{id} is right: {seen}.\nTo compare with ours: cargo lab diff mine {id}\n");
        }
        Verdict::Wrong(fault) => fault,
    };
    let (first, last) = (fault.before + 1, fault.before + fault.lines.len());
    let mut text = match fault.printed {
        0 => "Your program printed nothing.\n".to_owned(),
        all if all == fault.lines.len() => "Your program printed:\n".to_owned(),
        all => format!("Your program printed {all} lines. These are lines {first} to {last}:\n"),
    };
    for (nth, line) in fault.lines.iter().enumerate() {
        let style = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        let line = printable(line);
        let _ = match fault.wrong {
            Some(wrong) if wrong == nth => writeln!(text, "{style}> {line}{style:#}"),
            _ => writeln!(text, "  {line}"),
        };
    }
    let _ = writeln!(text, "\n{id} is not right yet");
    let next = format!("cargo lab exercise hint {id}");
    for (name, said) in [("expected", &fault.expected), ("seen", &fault.seen), ("hint", &next)] {
        let said = wrap(&printable(said), columns.saturating_sub(12).max(40));
        let _ =
            writeln!(text, "  {:<10}{}", format!("{name}:"), said.trim_end().replace('\n', "\n            "));
    }
    text
}

/// Checks the learner's program now and whenever a file of it is saved, until Ctrl-C, in a guest that stays up. Prints
/// what each check says.
pub fn watch(workbook: &Workbook, exercise: &Exercise<'_>, guest: &mut dyn Executor) -> Result<()> {
    let sources = exercise.started(workbook)?.join("src");
    let cannot = "cannot watch your files";
    let saved = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).or_cause(cannot)?;
    // An editor writes a file, or writes another one and renames it.
    let changes = AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVED_TO;
    for folder in [sources.join("bpf"), sources.clone()].iter().filter(|folder| folder.exists()) {
        saved.add_watch(folder, changes).or_cause(cannot)?;
    }
    loop {
        let start = Instant::now();
        let checked = build(workbook, exercise)
            .and_then(|binary| guest.install(&binary))
            .and_then(|()| check(workbook, exercise, guest));
        if signals::check().is_err() {
            return Ok(());
        }
        match checked {
            Ok(verdict) => drop(terminal::print(&text(&exercise.id(), &verdict, terminal::columns()))?),
            Err(error) => print_text(error)?,
        }
        let took = start.elapsed().as_secs_f64();
        print_text(format_args!("\n({took:.1} s) Waiting for you to save a file. Ctrl-C ends this."))?;
        while !is_saved(&saved, &sources).or_cause(cannot)? {
            let rested = guest.rest(Duration::from_millis(100));
            if signals::check().is_err() {
                return Ok(());
            }
            rested?;
        }
    }
}

/// Whether one of the sources was saved since the last call. An editor's backups and temporary files do not count.
fn is_saved(saved: &Inotify, sources: &Path) -> nix::Result<bool> {
    let events = match saved.read_events() {
        Err(Errno::EAGAIN) => return Ok(false),
        events => events?,
    };
    let is_source = |name: &OsString| {
        [sources.join(name), sources.join("bpf").join(name)].iter().any(|path| path.exists())
            && [".rs", ".c", ".h"].iter().any(|end| name.to_string_lossy().ends_with(end))
    };
    Ok(events.iter().any(|event| event.name.as_ref().is_some_and(is_source)))
}

/// Remembers that the check of an exercise, or of a case of the clinic, has passed.
pub fn remember(workbook: &Workbook, id: &str) -> Result<()> {
    mine::change_lines(workbook, DONE, |lines| {
        lines.extend(["# The exercises whose check has passed.".to_owned(), id.to_owned()]);
        lines.sort();
        lines.dedup();
    })
}

/// Forgets it again.
pub fn forget(workbook: &Workbook, id: &str) -> Result<()> {
    mine::change_lines(workbook, DONE, |lines| lines.retain(|line| line != id))
}

/// Runs the check of an exercise on a program in a guest.
pub fn verdict(guest: &mut dyn Executor, exercise: &Exercise<'_>, binary: &str) -> Result<Verdict> {
    let id = exercise.id();
    let printed = guest.output(&["guest", "check", &id, binary], LIMIT)?;
    let verdict: Result<Verdict> = serde_json::from_slice(&printed.stdout)
        .map_err(|_| Error::new(format!("the check of {id} did not finish")).evidence(&printed.stderr))?;
    verdict.map_err(|error| {
        let cause = format!("{id} is not right yet: {}", error.cause());
        error.with_cause(cause).fix(format!(
            "see what it prints: cargo lab run --mine {id} (add -- --verbose if it does not start); or get a hint: cargo lab exercise hint {id}"
        ))
    })
}

/// The next hint; after the last one, all of them.
pub fn next_hint(workbook: &Workbook, exercise: &Exercise<'_>, columns: usize) -> Result<String> {
    let id = exercise.id();
    next_of(workbook, &id, &exercise.hints, &format!("cargo lab exercise solution {id} --peek"), columns)
}

/// The next of these hints for an exercise or a case of the clinic; after the last one, all of them.
pub fn next_of(
    workbook: &Workbook,
    id: &str,
    hints: &[String],
    solution: &str,
    columns: usize,
) -> Result<String> {
    let text = |nth: usize| {
        let title = format!("Hint {} of {}", nth + 1, hints.len());
        format!("{title}\n\n{}", wrap(&hints[nth], columns))
    };
    let before = mine::change_lines(workbook, HINTS, |shown| {
        let before = shown.iter().filter(|line| **line == id).count();
        shown.extend((before < hints.len()).then(|| id.to_owned()));
        before
    })?;
    if before >= hints.len() {
        let all: Vec<_> = (0..hints.len()).map(text).collect();
        return Ok(format!("{}\nThese are all. Our solution: {solution}\n", all.join("\n")));
    }
    let more = if before + 1 < hints.len() { "\nThe next one: the same command again\n" } else { "" };
    Ok(text(before) + more)
}

/// The exercise or the case of each hint that was shown, one entry for each hint.
pub fn shown_hints(workbook: &Workbook) -> Result<Vec<String>> {
    mine::read_lines(workbook, HINTS)
}

/// The exercises whose check has passed.
pub fn done(workbook: &Workbook) -> Result<BTreeSet<String>> {
    let lines = mine::read_lines(workbook, DONE)?;
    Ok(lines.into_iter().filter(|line| !line.starts_with('#')).collect())
}

/// All exercises: each stage that can be written as a whole, followed by its smaller ones, then those of the examples.
pub fn all(workbook: &Workbook) -> Result<Vec<Exercise<'_>>> {
    let mut exercises = Vec::new();
    for stage in &workbook.catalog.stages {
        exercises.extend(whole_stage(workbook, stage).ok());
        exercises.extend(of(stage)?);
    }
    for example in &workbook.catalog.examples {
        exercises.extend(of(example)?);
    }
    Ok(exercises)
}

/// All exercises, and how far the learner is with each. Shows whole stages only if they were started.
pub fn status(workbook: &Workbook) -> Result<String> {
    let done = done(workbook)?;
    let (mut text, mut counts, mut next) = (String::new(), (0, 0), None);
    let mut exercises = all(workbook)?;
    exercises.retain(|exercise| exercise.number > 0 || exercise.copy(workbook).exists());
    let width = exercises.iter().map(|exercise| exercise.id().len()).max().unwrap_or_default();
    for exercise in exercises {
        let id = exercise.id();
        let state = state(done.contains(&id), &exercise.copy(workbook));
        counts.0 += u32::from(state == "done");
        counts.1 += 1;
        let line = format!("{id:<width$} {state:<8} {}", exercise.title);
        let _ = writeln!(text, "{}", line.trim_end());
        if state != "done" {
            next.get_or_insert(format!("{} {id}", if state.is_empty() { "start" } else { "check" }));
        }
    }
    let next = next.map(|next| format!(" Next: cargo lab exercise {next}")).unwrap_or_default();
    let _ = writeln!(text, "\n{} of {} done.{next}", counts.0, counts.1);
    Ok(text)
}

/// What a solution changes in the starting point, for learners who have passed the check or want to peek.
pub fn solution(workbook: &Workbook, exercise: &Exercise<'_>, peek: bool) -> Result<String> {
    let solved = our_solution(workbook, exercise, peek, "exercise solution")?;
    Ok(diff::terminal(
        &diff::of_files(&exercise.starting_point(&exercise.binary())?, &solved),
        Extent::Folded,
    ))
}

/// Our own solution, for learners who have passed the check or use this command to peek. A stage itself is no secret.
pub fn our_solution(
    workbook: &Workbook,
    exercise: &Exercise<'_>,
    peek: bool,
    command: &str,
) -> Result<Files> {
    let id = exercise.id();
    if exercise.number == 0 || peek || done(workbook)?.contains(&id) {
        return exercise.solved(&exercise.binary());
    }
    Err(too_early(&id, &format!("exercise hint {id}"), &format!("{command} {id}")))
}

/// Why nobody sees a solution yet, with the commands that show a hint and the solution.
pub(crate) fn too_early(what: &str, hint: &str, solution: &str) -> Error {
    Error::new(format!("the check of {what} has not passed yet"))
        .evidence("it is more fun to find out yourself")
        .fix(format!("get a hint: cargo lab {hint}; or see it anyway: cargo lab {solution} --peek"))
}

/// How far a learner is with something whose working copy is this.
pub(crate) fn state(is_done: bool, copy: &Path) -> &'static str {
    match is_done {
        true => "done",
        false if copy.exists() => "started",
        false => "",
    }
}

/// The files of the learner's working copy.
pub fn working_copy(workbook: &Workbook, exercise: &Exercise<'_>) -> Result<Files> {
    copies::files_in(&exercise.started(workbook)?)
}

/// What the learner has changed since the start: a title, and the files.
pub fn changes(workbook: &Workbook, exercise: &Exercise<'_>) -> Result<(String, Vec<Change>)> {
    let mine = working_copy(workbook, exercise)?;
    let head = format!("From the starting point of {} to yours", exercise.id());
    Ok((head, copies::changes(exercise.starting_point(&exercise.binary())?, mine)))
}

/// The same for a terminal.
pub fn changes_shown(workbook: &Workbook, exercise: &Exercise<'_>) -> Result<String> {
    let (head, changes) = changes(workbook, exercise)?;
    if changes.is_empty() {
        return Ok(format!("You have not changed anything in {} yet.\n", exercise.id()));
    }
    Ok(format!("{head}\n{}", diff::terminal(&diff::of_changes(&changes), Extent::Folded)))
}

#[cfg(test)]
mod tests {
    use wire::verdict::Fault;

    use super::*;

    #[test]
    fn checks_that_pass_at_the_same_moment_are_all_remembered() {
        const CHECKS: usize = 8;
        const ROUNDS: usize = 50;
        let mine = tempfile::tempdir().unwrap();
        let workbook = Workbook { mine: mine.path().to_owned(), ..Workbook::read().unwrap() };
        let hints = vec!["a hint".to_owned(); ROUNDS];
        std::thread::scope(|scope| {
            for check in 0..CHECKS {
                let (workbook, hints) = (&workbook, &hints);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        remember(workbook, &format!("{check}.{round}")).unwrap();
                        assert!(done(workbook).unwrap().len() > round, "what was remembered is there");
                        next_of(workbook, &check.to_string(), hints, "", 80).unwrap();
                        forget(workbook, "nothing").unwrap();
                    }
                });
            }
        });
        assert_eq!(done(&workbook).unwrap().len(), CHECKS * ROUNDS);
        assert_eq!(shown_hints(&workbook).unwrap().len(), CHECKS * ROUNDS);
    }

    #[test]
    fn the_verdict_is_last() {
        let lines: String =
            (1..=9).map(|nth| format!("io-155 [000] ..... 7.00000{nth}: took {nth} ns\n")).collect();
        let fault = Fault::new(
            "8 lines that end in `submitted by 155`, the pid of io",
            "9 durations, none of them with a pid",
        );
        let text = |verdict| anstream::adapter::strip_str(&text("03.2", &verdict, 60)).to_string();
        insta::assert_snapshot!(text(Verdict::Wrong(fault.clone().shown_by(&lines, Some(2)))));
        insta::assert_snapshot!(text(Verdict::Wrong(fault.clone().shown_by("one line\n", None))));
        insta::assert_snapshot!(text(Verdict::Wrong(fault.shown_by("", None))));
        insta::assert_snapshot!(text(Verdict::Right("all 8 bios are reported as those of io".to_owned())));
    }

    #[test]
    fn output_is_not_wrapped() {
        let text = "We\ngot:\n\n```\n one\n\n  two\n```\n\nSee `a b`.";
        assert_eq!(wrap(text, 80), "We got:\n\n one\n\n  two\n\nSee `a b`.\n");
    }
}
