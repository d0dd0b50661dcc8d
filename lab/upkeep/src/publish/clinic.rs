//! The clinic in the book, and the recorder of what each kernel says about its programs.

use std::fmt::Write;
use std::fs;

use common::{Error, OrCause, Result};
use lab::clinic::{ACCEPTED, Case, cases, logs, variants};
use lab::compiler::Compiler;
use machine::kernels::{MATRIX, PREVIEWS, Series};
use machine::vm::Machine;
use machine::workbook::Workbook;

/// The page of a case in the book.
pub fn page(case: &Case) -> Result<String> {
    let number = case.number();
    let mut text = format!(
        "# {number} {}\n\n{}\n\n```c\n{}```\n\nTo cure it yourself, type `cargo lab clinic start {number}`.\n\n",
        case.title, case.mistake, case.source
    );
    text += "| kernel | what it says |\n|---|---|\n";
    for (kernel, words) in case.words() {
        let words = match words.as_str() {
            ACCEPTED => words,
            words => format!("`{}`", words.replace('\n', "`<br>`").replace('|', "\\|")),
        };
        let _ = writeln!(text, "| {kernel} | {words} |");
    }
    let _ = writeln!(text, "\n{}\n", case.text.replacen("## Log", "## How to read the log", 1));
    text += &folded("Our cure", "diff", &case.cure()?);
    for kernel in case.refused_by().into_iter().rev() {
        let log = case.log(kernel).unwrap_or_default();
        text += &folded(&format!("The log of Linux {kernel}"), "text", &log);
    }
    if let Some(explanation) = case.kernel().and_then(|kernel| case.explanation(kernel)) {
        text += &folded("What the workbook prints", "text", &(explanation + "\n"));
    }
    Ok(text)
}

/// A part of a page that a reader opens, and that is not on paper.
fn folded(title: &str, language: &str, code: &str) -> String {
    format!(
        "<details class=\"screen\">\n<summary>{title}</summary>\n\n```{language}\n{code}```\n\n</details>\n\n"
    )
}

/// What a message is about, and the kinds of these mistakes.
const SYMPTOMS: [(&str, &[&str]); 5] = [
    (
        "A pointer",
        &[
            "null-test",
            "kernel-pointer",
            "helper-argument",
            "pointer-arithmetic",
            "kernel-write",
            "read-only",
            "global-function",
        ],
    ),
    (
        "A size, an index or an offset",
        &["value-size", "array-index", "buffer-too-small", "size-unbounded", "misaligned", "map-too-large"],
    ),
    ("A record of a ring buffer", &["record-not-released", "record-used-after", "record-released-twice"]),
    (
        "The kind of program",
        &[
            "helper-not-allowed",
            "gpl-only",
            "spin-lock",
            "argument-missing",
            "context-access",
            "return-value",
            "map-helper",
            "section-unknown",
            "endless-loop",
            "stack-size",
            "recursion",
            "too-complex",
        ],
    ),
    (
        "What this kernel lacks",
        &[
            "helper-missing",
            "function-missing",
            "field-missing",
            "kfunc-missing",
            "map-type-missing",
            "instruction-missing",
        ],
    ),
];

/// The tables of all cases in Markdown, by what the message is about.
pub fn tables(workbook: &Workbook) -> Result<String> {
    let cases = cases(workbook)?;
    let is_placed = |case: &&Case| !SYMPTOMS.iter().any(|(_, kinds)| kinds.contains(&case.kind()));
    if let Some(case) = cases.iter().find(is_placed) {
        return Err(Error::new(format!("no table has the clinic's case {}", case.name))
            .fix("add its kind to SYMPTOMS in lab/upkeep/src/publish/clinic.rs"));
    }
    // A kernel without a log of a case accepts it, but none accepts all of them.
    let is_missing = |series: &&Series| cases.iter().all(|case| case.log(series.name).is_none());
    if let Some(series) = MATRIX.iter().find(is_missing) {
        return Err(Error::new(format!("the clinic has no log of Linux {}", series.name))
            .fix("record them: cargo upkeep clinic"));
    }
    let mut text = String::new();
    for (symptom, kinds) in SYMPTOMS {
        let _ = write!(text, "### {symptom}\n\n| message | case |\n|---|---|\n");
        for case in cases.iter().filter(|case| kinds.contains(&case.kind())) {
            let number = case.number();
            let link = format!("[{number} {}](../../lab/clinic/{})", case.title, case.name);
            let _ = writeln!(text, "| {} | {link} |", messages_of(case));
        }
        text.push('\n');
    }
    Ok(text)
}

/// The last words of the kernels that refuse a case, and which of them say so if they differ in more than numbers.
fn messages_of(case: &Case) -> String {
    let said = case.words();
    let same = |one: &str, other: &str| {
        let words = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
        words(one) == words(other)
    };
    let last: Vec<_> =
        said.iter().map(|(kernel, words)| (*kernel, words.lines().last().unwrap_or_default())).collect();
    let runs: Vec<_> = last.chunk_by(|(_, one), (_, other)| same(one, other)).collect();
    let messages = runs.iter().filter(|run| run[0].1 != ACCEPTED).map(|run| {
        let kernels = run.iter().map(|(kernel, _)| *kernel).collect::<Vec<_>>().join(", ");
        let code = format!("`{}`", run[run.len() - 1].1.replace('|', "\\|"));
        if runs.len() == 1 { code } else { format!("{kernels}: {code}") }
    });
    messages.collect::<Vec<_>>().join("<br>")
}

/// The kernel whose own explanations [`compared`] shows. It is not in the matrix yet.
pub const EXPLAINS: &str = "7.3";

/// What Linux 7.3 explains itself and what the workbook explains, side by side in Markdown, for each variant whose log of 7.3
/// has an explanation.
pub fn compared(workbook: &Workbook) -> Result<String> {
    let mut text = format!("| the line | Linux {EXPLAINS} | the workbook |\n|---|---|---|\n");
    for case in variants(workbook)? {
        let Some(refusal) = case.refusal(EXPLAINS) else { continue };
        let reason = refusal.words.iter().find_map(|words| words.strip_prefix(verifier::REPORT));
        let (Some(reason), Some(place)) = (reason, refusal.place) else { continue };
        let _ = writeln!(text, "| `{}` | {reason} | {}. {} |", place.source, refusal.cause, refusal.cure);
    }
    Ok(text)
}

/// The table of messages that others have collected, `lab/clinic/messages.tsv`, in Markdown, and for which of them the
/// workbook has an explanation. `\n` stands for the end of a line of a message.
pub fn messages(workbook: &Workbook) -> Result<String> {
    let file = workbook.root.join("lab/clinic/messages.tsv");
    let rows = fs::read_to_string(&file).or_cause(format!("cannot read {}", file.display()))?;
    let (mut known, mut unknown, mut table) = (0, Vec::new(), String::new());
    for row in rows.lines() {
        let (message, from) = row.split_once('\t').unwrap_or((row, ""));
        let kinds = verifier::kinds_with(&message.replace("\\n", "\n"));
        let code = format!("`{}`", message.replace('|', "\\|").replace("\\n", "`<br>`"));
        if kinds.is_empty() {
            unknown.push(format!("{} ({from})", code.replace("\\|", "|")));
        } else {
            known += 1;
            let _ = writeln!(table, "| {code} | {from} | {} |", kinds.join(", "));
        }
    }
    Ok(format!(
        "Of {} messages, {known} are recognized:\n\n| message | in | what the workbook calls it |\n|---|---|---|\n{table}\n\
         {} are *unknown*, and you see the log's last lines:\n\n{}\n",
        known + unknown.len(),
        unknown.len(),
        unknown.iter().map(|message| format!("- {message}\n")).collect::<String>()
    ))
}

/// Records what each kernel of the matrix says about each case and variant, or about the case of this number; and what
/// kernels that are not released yet say about variants that have a log of them.
pub fn record(workbook: &Workbook, number: Option<&str>) -> Result<()> {
    let mut cases = cases(workbook)?;
    cases.extend(variants(workbook)?);
    cases.retain(|case| number.is_none_or(|number| case.number() == number || case.name == number));
    let compiler = Compiler::new(workbook, &workbook.state_dir().join("clinic"))?;
    let compile = |case: &Case| compiler.compile(&case.name, &case.file, &case.source);
    let compiled = cases.iter().map(|case| Ok((case, compile(case)?))).collect::<Result<Vec<_>>>()?;
    for series in Series::all() {
        let is_preview = PREVIEWS.contains(&series);
        let here = compiled.iter().filter(|(case, _)| !is_preview || case.is_variant());
        let (cases, objects): (Vec<_>, Vec<_>) = here.cloned().unzip();
        eprintln!("Booting Linux {} ...", series.name);
        let mut machine = Machine::with(workbook, series.name, workbook.build_tools()?)?;
        machine.binaries.extend(objects.iter().cloned());
        let logs = logs(&mut machine.boot()?, &objects)?;
        for (case, log) in cases.iter().zip(logs) {
            let file = case.log_file(series.name);
            let cannot = || format!("cannot write {}", file.display());
            fs::create_dir_all(file.parent().unwrap_or(&file)).or_cause(cannot())?;
            // Of a kernel that is not released yet, the book compares some reports. Make an empty file to add one.
            match log.filter(|_| !is_preview || file.exists()) {
                Some(log) => fs::write(&file, log).or_cause(cannot())?,
                None if file.exists() => fs::remove_file(&file).or_cause(cannot())?,
                None => {}
            }
        }
    }
    Ok(())
}
