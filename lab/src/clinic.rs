//! The verifier clinic: programs that the kernel refuses, each with what four kernels say about it, and its cure.
//!
//! Case 01 is a folder `lab/clinic/01-KIND`. KIND is what the recognizer calls the mistake, see [`verifier`]. In
//! the folder are a BPF program, `cure.patch`, `case.md`, and `logs`, which `cargo upkeep clinic` writes. A kernel without a log
//! accepts the program.
//!
//! Other forms of the same mistakes, and mistakes that have no page, are in `lab/clinic/variants`. Instead of `case.md`,
//! they have a comment at the top of the program: the kind, and what is wrong. If a kernel needs another cure, that is
//! `cure-KERNEL.patch`.
//!
//! A newer compiler makes other instructions, so some logs differ. `CLANG=clang-19 cargo upkeep clinic` writes them. Keep
//! those that the recognizer must treat differently in `logs/clang-19`, where the tests read them, too.
//!
//! The test in the guests loads each cure, and each program with the change that the explanation advises, and checks what
//! it counts.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use common::report::print_text;
use common::{Error, OrCause, Result};
use machine::executor::{Executor, LocalGuest};
use machine::kernels::{DEFAULT, MATRIX};
use machine::terminal;
use machine::vm::{Machine, Vm};
use machine::workbook::Workbook;
use verifier::Refusal;
use wire::text::wrap;
use wire::verdict::Verdict;

use crate::compiler::Compiler;
use crate::exercise::{self, shown};

/// How long it may take to load programs. The kernel looks at a million instructions before it gives up.
const LIMIT: Duration = Duration::from_secs(600);

/// How the names of cases begin in `mine`.
pub const ID: &str = "clinic-";

/// What we write instead of a kernel's words if it accepts a program.
pub const ACCEPTED: &str = "accepts it";

/// A case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its number and its name, such as `01-null-test`.
    pub name: String,
    folder: PathBuf,
    /// The name of the program's file.
    pub file: String,
    /// The program that is refused.
    pub source: String,
    /// The mistake in a few words.
    pub title: String,
    /// The mistake in a few sentences.
    pub mistake: String,
    /// How to read the log, the rule, and the cures, in Markdown.
    pub text: String,
}

/// All cases, in the order in which learners meet them.
pub fn cases(workbook: &Workbook) -> Result<Vec<Case>> {
    cases_in(&workbook.root.join("lab/clinic"))
}

/// The programs in `lab/clinic/variants`.
pub fn variants(workbook: &Workbook) -> Result<Vec<Case>> {
    cases_in(&workbook.root.join("lab/clinic/variants"))
}

fn cases_in(root: &Path) -> Result<Vec<Case>> {
    let entries = fs::read_dir(root).or_cause(format!("cannot read {}", root.display()))?;
    let folders = entries.flatten().map(|entry| entry.path()).filter(|path| path.join("cure.patch").exists());
    let mut cases = folders.map(Case::read).collect::<Result<Vec<_>>>()?;
    cases.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(cases)
}

impl Case {
    fn read(folder: PathBuf) -> Result<Self> {
        let cannot = || format!("cannot read {}", folder.display());
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let files = fs::read_dir(&folder).or_cause(cannot())?;
        let file = files.flatten().map(|entry| name(&entry.path())).find(|file| file.ends_with(".bpf.c"));
        let file = file.ok_or_else(|| Error::new(cannot()).evidence("it has no BPF program"))?;
        let source = fs::read_to_string(folder.join(&file)).or_cause(cannot())?;
        let page = folder.join("case.md");
        let text =
            if page.exists() { fs::read_to_string(page).or_cause(cannot())? } else { comment(&source) };
        let (title, text) = text.split_once("\n\n").unwrap_or((&text, ""));
        let (mistake, text) = text.split_once("\n## ").unwrap_or((text, ""));
        Ok(Self {
            name: name(&folder),
            title: title.trim_start_matches("# ").to_owned(),
            mistake: mistake.trim().to_owned(),
            text: format!("## {}", text.trim()),
            file,
            source,
            folder,
        })
    }

    /// Its number, such as `01`.
    pub fn number(&self) -> &str {
        self.name.split('-').next().unwrap_or_default()
    }

    /// Whether it is another form of a case's mistake. It has no number.
    pub fn is_variant(&self) -> bool {
        self.number().parse::<u8>().is_err()
    }

    /// The kind of its mistake, such as `null-test`.
    pub fn kind(&self) -> &str {
        self.name.split_once('-').map_or("", |(_, kind)| kind)
    }

    /// What a kernel's explanation must be, by its kind. The comment of a variant begins `KIND:`, or, if some kernels refuse
    /// it for another reason, `KIND (5.10: OTHER):`.
    pub fn kind_on(&self, kernel: &str) -> &str {
        if !self.is_variant() {
            return self.kind();
        }
        let (kinds, _) = self.title.split_once(":").unwrap_or((&self.title, ""));
        let Some((kind, rest)) = kinds.split_once(" (") else { return kinds };
        let others = self.title[kind.len()..].split_once("): ").map_or(rest, |(others, _)| others);
        let other = others.trim_start_matches(" (").split("; ").find_map(|other| {
            let (kernels, kind) = other.split_once(": ")?;
            kernels.split(", ").any(|other| other == kernel).then_some(kind)
        });
        other.unwrap_or(kind)
    }

    /// The cured program for a kernel.
    pub fn cured_for(&self, kernel: &str) -> Result<String> {
        match fs::read_to_string(self.folder.join(format!("cure-{kernel}.patch"))) {
            Ok(patch) => self.patched(&patch),
            Err(_) => self.cured(),
        }
    }

    /// The cure, as a patch.
    pub fn cure(&self) -> Result<String> {
        fs::read_to_string(self.folder.join("cure.patch")).or_cause(format!("{} has no cure", self.name))
    }

    /// The cured program.
    pub fn cured(&self) -> Result<String> {
        self.patched(&self.cure()?)
    }

    fn patched(&self, patch: &str) -> Result<String> {
        let cannot = || format!("the cure of {} does not fit its program", self.name);
        let patch = diffy::Patch::from_str(patch).or_cause(cannot())?;
        diffy::apply(&self.source, &patch).or_cause(cannot())
    }

    /// The program with the change that an explanation advises; `None` if the program has not the lines that the change is
    /// about.
    pub fn changed(&self, change: &str) -> Option<String> {
        let mut lines: Vec<_> = self.source.lines().map(str::to_owned).collect();
        let find = |lines: &[String], text: &str| lines.iter().position(|line| line.trim() == text);
        // A new line comes after the one before it, or before the first one that is there already.
        let first = change.lines().find(|line| !line.starts_with('+'))?;
        let mut at = find(&lines, &first[1..])?;
        for line in change.lines() {
            let (mark, text) = line.split_at(1);
            if mark == "+" {
                let near = &lines[at.min(lines.len() - 1)];
                let indent = near[..near.len() - near.trim_start().len()].to_owned();
                lines.insert(at, format!("{indent}{text}"));
                at += 1;
                continue;
            }
            let after = find(&lines[at..], text).map(|more| at + more);
            at = after.or_else(|| find(&lines, text))?;
            match mark {
                "-" => drop(lines.remove(at)),
                _ => at += 1,
            }
        }
        Some(lines.join("\n") + "\n")
    }

    /// What a kernel of the matrix says about the program; `None` if it accepts the program.
    pub fn log(&self, kernel: &str) -> Option<String> {
        fs::read_to_string(self.log_file(kernel)).ok()
    }

    /// The explanation of what a kernel says; `None` if it accepts the program.
    pub fn refusal(&self, kernel: &str) -> Option<Refusal> {
        verifier::explain(&self.log(kernel)?, &[])
    }

    /// The explanation as text, without its last line, which leads here.
    pub fn explanation(&self, kernel: &str) -> Option<String> {
        let mut refusal = self.refusal(kernel)?;
        refusal.case = None;
        Some(Error::from(refusal).to_string())
    }

    /// The kernels that refuse the program, from the oldest to the newest.
    pub fn refused_by(&self) -> Vec<&'static str> {
        MATRIX.iter().map(|series| series.name).filter(|kernel| self.log_file(kernel).exists()).collect()
    }

    /// The newest kernel of the matrix that refuses the program.
    pub fn kernel(&self) -> Option<&'static str> {
        self.refused_by().last().copied()
    }

    /// What each kernel says, in a few words.
    pub fn words(&self) -> Vec<(&'static str, String)> {
        let words = |kernel| match (self.refusal(kernel), self.log(kernel)) {
            (Some(refusal), _) => refusal.words.join("\n"),
            (None, Some(log)) => log,
            (None, None) => ACCEPTED.to_owned(),
        };
        MATRIX.iter().map(|series| (series.name, words(series.name))).collect()
    }

    /// What `mine` calls it.
    pub fn id(&self) -> String {
        format!("{ID}{}", self.number())
    }

    /// What to show a learner who is stuck and has seen the explanation: the sections of its page.
    pub fn hints(&self) -> Vec<String> {
        let sections = self.text.split("## ").skip(1).filter_map(|section| section.split_once('\n'));
        sections.map(|(_, text)| text.trim().to_owned()).collect()
    }

    /// The learner's working copy.
    pub fn copy(&self, workbook: &Workbook) -> PathBuf {
        workbook.mine.join(self.id()).join(&self.file)
    }

    /// The object of the learner's working copy.
    fn compiled(&self, workbook: &Workbook, folder: &Path) -> Result<PathBuf> {
        let copy = self.copy(workbook);
        if !copy.exists() {
            return Err(Error::new(format!("there is no working copy of case {} yet", self.number()))
                .evidence(format!("there is no {}", shown(workbook, &copy)))
                .fix(format!("make one: cargo lab clinic start {}", self.number())));
        }
        Compiler::new(workbook, folder)?.compile_file(&self.id(), &copy)
    }

    /// What a kernel says about the program as newer compilers make it, each with its compiler's name.
    pub fn logs_of_newer_compilers(&self, kernel: &str) -> Vec<(String, String)> {
        let folders = fs::read_dir(self.folder.join("logs")).into_iter().flatten().flatten();
        let logs = folders.filter_map(|folder| {
            let log = fs::read_to_string(folder.path().join(format!("{kernel}.log"))).ok()?;
            Some((folder.file_name().to_string_lossy().into_owned(), log))
        });
        let mut logs: Vec<_> = logs.collect();
        logs.sort_unstable();
        logs
    }

    /// The file of [`Case::log`].
    pub fn log_file(&self, kernel: &str) -> PathBuf {
        self.folder.join("logs").join(format!("{kernel}.log"))
    }
}

/// The first comment of a program, as one line.
fn comment(source: &str) -> String {
    let text =
        source.split_once("/*").and_then(|(_, rest)| rest.split_once("*/")).map_or("", |(text, _)| text);
    text.lines()
        .map(|line| line.trim_start_matches([' ', '*']))
        .collect::<Vec<_>>()
        .join(" ")
        .trim()
        .to_owned()
}

/// What a guest's kernel says about each of these objects, which the guest has; `None` if it accepts the object.
pub fn logs(guest: &mut Vm, objects: &[PathBuf]) -> Result<Vec<Option<String>>> {
    let names = objects.iter().map(|object| in_guest(object));
    let argv: Vec<_> = ["guest", "refused"].map(str::to_owned).into_iter().chain(names).collect();
    let said = guest.output(&argv.iter().map(String::as_str).collect::<Vec<_>>(), LIMIT)?;
    serde_json::from_slice(&said.stdout).map_err(|_| {
        Error::new("the guest could not load the programs")
            .evidence(format!("exit status {}\n{}", said.status, said.stderr))
    })
}

/// Checks that a guest's kernel loads an object, and that it counts right. Returns what it counted.
pub fn verdict(guest: &mut Vm, object: &Path) -> Result<String> {
    judge(guest, &in_guest(object))
}

/// The same for an object that is there.
fn judge(guest: &mut dyn Executor, object: &str) -> Result<String> {
    let said = guest.output(&["guest", "cured", object], LIMIT)?;
    serde_json::from_slice(&said.stdout)
        .map_err(|_| Error::new("the check did not finish").evidence(&said.stderr))?
}

/// Where a guest has a file that is one of its `binaries`.
fn in_guest(object: &Path) -> String {
    format!("/bin/{}", object.file_name().unwrap_or_default().display())
}

/// The case of this number.
pub fn find(workbook: &Workbook, number: &str) -> Result<Case> {
    let mut cases = cases(workbook)?;
    let last = cases.last().map(|case| case.number().to_owned()).unwrap_or_default();
    let is_it = |case: &Case| case.number().trim_start_matches('0') == number.trim_start_matches('0');
    let found = cases.iter().position(is_it).map(|nth| cases.swap_remove(nth));
    found.ok_or_else(|| {
        Error::new(format!("the clinic has no case {number}"))
            .evidence(format!("it has 01 to {last}"))
            .fix("list them all: cargo lab clinic list")
    })
}

/// All cases, and how far the learner is with each.
pub fn list(workbook: &Workbook) -> Result<String> {
    let (cases, done) = (cases(workbook)?, exercise::done(workbook)?);
    let mut text = String::new();
    for case in &cases {
        let state = exercise::state(done.contains(&case.id()), &case.copy(workbook));
        let _ = writeln!(text, "{:<4} {state:<8} {}", case.number(), case.title);
    }
    let count = cases.iter().filter(|case| done.contains(&case.id())).count();
    let _ = write!(text, "\n{count} of {} done. To read one: cargo lab clinic show 01\n", cases.len());
    Ok(text)
}

/// The page of a case for a terminal, with the log of this kernel or else of the newest that refuses the program. With
/// `log_only`, it ends after the log.
pub fn show(
    workbook: &Workbook,
    case: &Case,
    kernel: Option<&str>,
    log_only: bool,
    columns: usize,
) -> Result<String> {
    let number = case.number();
    let kernel = kernel.or_else(|| case.kernel()).unwrap_or_default();
    let log = case.log(kernel).ok_or_else(|| {
        Error::new(format!("there is no log of Linux {kernel} for case {number}"))
            .evidence("these kernels refuse the program: ".to_owned() + &case.refused_by().join(", "))
            .fix(format!("see the log of the newest of them: cargo lab clinic show {number}"))
    })?;
    let mut text = format!("{number} {}\n\n{}\n", case.title, wrap(&case.mistake, columns));
    let _ = write!(text, "{}\nLinux {kernel} says:\n\n{log}\n", case.source);
    if log_only {
        return Ok(text);
    }
    if let Some(explanation) = case.explanation(kernel) {
        let _ = write!(text, "The workbook explains:\n\n{explanation}\n\n");
    }
    let _ = writeln!(text, "{}", wrap(&case.text.replace("## ", ""), columns));
    for (kernel, words) in case.words() {
        let _ = writeln!(text, "Linux {kernel}: {}", words.replace('\n', "; "));
    }
    if can_check(case, kernel_here(workbook)).is_ok() {
        let _ = write!(text, "\nTo cure it yourself: cargo lab clinic start {number}\n");
    }
    Ok(text)
}

/// Refuses to judge a program in the workshop's guest if its kernel has nothing against it.
fn can_check(case: &Case, here: Option<&str>) -> Result<()> {
    let Some(here) = here.filter(|here| case.log(here).is_none()) else { return Ok(()) };
    let number = case.number();
    Err(Error::new(format!("case {number} can't be cured here, because Linux {here} accepts the program"))
        .evidence(format!("these kernels refuse it: {}", case.refused_by().join(", ")))
        .fix(format!("read the case: cargo lab clinic show {number}; or cure it in a clone of the workbook")))
}

/// The kernel of the workshop's guest, if this is in it, and the clinic has logs of that kernel.
fn kernel_here(workbook: &Workbook) -> Option<&'static str> {
    let release = common::preflight::release();
    let here = MATRIX.into_iter().find(|series| series.is(&release)).filter(|_| workbook.is_in_guest());
    here.map(|series| series.name)
}

/// Makes the learner's working copy.
pub fn start(workbook: &Workbook, case: &Case, again: bool) -> Result<String> {
    can_check(case, kernel_here(workbook))?;
    let (copy, number) = (case.copy(workbook), case.number());
    let shown = shown(workbook, &copy);
    if copy.exists() && !again {
        return Err(Error::new(format!("you have started case {number} already"))
            .evidence(format!("{shown} is there"))
            .fix(format!(
                "continue with it, or discard it and start over: cargo lab clinic start {number} --again"
            )));
    }
    let folder = copy.parent().unwrap_or(&copy);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&copy, &case.source));
    written.or_cause(format!("cannot write {shown}"))?;
    if again {
        exercise::forget(workbook, &case.id())?;
    }
    Ok(format!(
        "{number} {}\n\n{}\nYour working copy:\n  {shown}\n\n  cargo lab clinic check {number}       \
         does each kernel accept it, and does it count right?\n  cargo lab clinic hint {number}        \
         when you are stuck\n",
        case.title,
        wrap(&case.mistake, terminal::columns())
    ))
}

/// Loads the learner's program on each kernel of the matrix, or in the workshop's guest on its own, checks what it counts,
/// and remembers a success. Prints what each kernel says.
///
/// # Errors
/// If a kernel refuses the program, or if it counts something else. The explanation is that of the oldest such kernel.
pub fn check(workbook: &Workbook, case: &Case) -> Result<Verdict> {
    can_check(case, kernel_here(workbook))?;
    // Another check may run at the same time, of another text.
    let folder = machine::host::folders::temporary().or_cause("cannot make a folder for the object")?;
    let object = case.compiled(workbook, folder.path())?;
    if let Some(mut here) = LocalGuest::find(workbook, DEFAULT)? {
        here.announce();
        let seen = judge(&mut here, &object.display().to_string())?;
        exercise::remember(workbook, &case.id())?;
        return Ok(Verdict::Right(format!(
            "this kernel accepts it, and it counts {seen}. {}",
            at_home(kernel_here(workbook))
        )));
    }
    let (mut wrong, mut counted) = (None, String::new());
    for series in MATRIX {
        eprintln!("Booting Linux {} ...", series.name);
        let mut machine = Machine::with(workbook, series.name, workbook.build_tools()?)?;
        machine.binaries.push(object.clone());
        match verdict(&mut machine.boot()?, &object) {
            Ok(seen) => {
                print_text(format_args!("Linux {}: right, it counts {seen}", series.name))?;
                counted = seen;
            }
            Err(error) => {
                print_text(format_args!("Linux {}: {}", series.name, error.cause()))?;
                wrong.get_or_insert_with(|| {
                    let cause = format!("on Linux {}: {}", series.name, error.cause());
                    error.with_cause(cause)
                });
            }
        }
    }
    if let Some(error) = wrong {
        return Err(error);
    }
    exercise::remember(workbook, &case.id())?;
    Ok(Verdict::Right(format!("each kernel accepts it, and it counts {counted}")))
}

/// Compiles only the learner's working copy, and keeps nothing.
pub fn compile(workbook: &Workbook, case: &Case) -> Result<()> {
    let folder = machine::host::folders::temporary().or_cause("cannot make a folder for the object")?;
    Compiler::built(workbook, folder.path()).compile_file(&case.id(), &case.copy(workbook)).map(drop)
}

/// Prints the verdict about a case, and also writes it into `file` as JSON, if there is one.
pub fn deliver(case: &Case, verdict: &Verdict, file: Option<&Path>) -> Result<ExitCode> {
    exercise::write_verdict(verdict, file)?;
    let number = case.number();
    if let Verdict::Right(seen) = verdict {
        print_text(format_args!(
            "Case {number} is cured: {seen}.\nTo compare with ours: cargo lab clinic solution {number}"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Which kernels the workshop's guest has not tried.
fn at_home(here: Option<&str>) -> String {
    let others = MATRIX.iter().map(|series| series.name).filter(|name| Some(*name) != here);
    format!(
        "At home, in a clone of the workbook, the check also tries Linux {}",
        others.collect::<Vec<_>>().join(", ")
    )
}

/// The next hint.
pub fn hint(workbook: &Workbook, case: &Case, columns: usize) -> Result<String> {
    let solution = format!("cargo lab clinic solution {} --peek", case.number());
    exercise::next_of(workbook, &case.id(), &case.hints(), &solution, columns)
}

/// Our cure, for learners who have passed the check or want to peek.
pub fn solution(workbook: &Workbook, case: &Case, peek: bool) -> Result<String> {
    if peek || exercise::done(workbook)?.contains(&case.id()) {
        return case.cure();
    }
    let number = case.number();
    Err(exercise::too_early(
        &format!("case {number}"),
        &format!("clinic hint {number}"),
        &format!("clinic solution {number}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workshop_cures_what_its_kernel_refuses() {
        let workbook = Workbook::read().unwrap();
        let helper = find(&workbook, "20").unwrap();
        assert_eq!(helper.refused_by(), ["5.10"]);
        assert!(can_check(&helper, Some("5.10")).is_ok() && can_check(&helper, None).is_ok());
        let error = can_check(&helper, Some("6.12")).unwrap_err();
        assert_eq!(error.cause(), "case 20 can't be cured here, because Linux 6.12 accepts the program");
        let others: Vec<_> = MATRIX.iter().map(|series| series.name).filter(|name| *name != "6.12").collect();
        let others = others.join(", ");
        assert_eq!(
            at_home(Some("6.12")),
            format!("At home, in a clone of the workbook, the check also tries Linux {others}")
        );
    }
}
