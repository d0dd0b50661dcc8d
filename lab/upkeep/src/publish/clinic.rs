//! The clinic in the book, and the recorder of what each kernel says about its programs.

use std::fmt::Write;
use std::fs;

use common::{OrCause, Result};
use lab::clinic::{ACCEPTED, Case, Compiler, cases, logs, variants};
use machine::kernels::{MATRIX, Series};
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

/// A part of a page that a reader opens.
fn folded(title: &str, language: &str, code: &str) -> String {
    format!("<details>\n<summary>{title}</summary>\n\n```{language}\n{code}```\n\n</details>\n\n")
}

/// The table of all cases in Markdown, with the last words of the newest kernel that refuses each.
pub fn table(workbook: &Workbook) -> Result<String> {
    let heads = MATRIX.map(|series| series.name);
    let mut text = format!("| case | {} |\n|---|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    for case in cases(workbook)? {
        let number = case.number();
        let _ = write!(text, "| [{number} {}](../../lab/clinic/{}) |", case.title, case.name);
        let mut before = String::new();
        for (_, words) in case.words() {
            let first = beginning(words.lines().last().unwrap_or_default());
            let _ = match first.as_str() {
                ACCEPTED => write!(text, " {first} |"),
                _ if first == before => write!(text, " same |"),
                _ => write!(text, " `{}` |", first.replace('|', "\\|")),
            };
            before = first;
        }
        text.push('\n');
    }
    Ok(text)
}

/// The whole words at the beginning of a line that fit into a cell.
fn beginning(line: &str) -> String {
    match line.char_indices().nth(52) {
        Some((end, _)) => {
            format!("{} …", line[..end].rsplit_once(' ').map_or(&line[..end], |(words, _)| words))
        }
        None => line.to_owned(),
    }
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
///
/// # Errors
/// If a guest fails, or a file can't be written.
pub fn record(workbook: &Workbook, number: Option<&str>) -> Result<()> {
    let mut cases = cases(workbook)?;
    cases.extend(variants(workbook)?);
    cases.retain(|case| number.is_none_or(|number| case.number() == number || case.name == number));
    let compiler = Compiler::new(workbook)?;
    let compile = |case: &Case| compiler.compile(&case.name, &case.file, &case.source);
    let compiled = cases.iter().map(|case| Ok((case, compile(case)?))).collect::<Result<Vec<_>>>()?;
    for series in MATRIX.into_iter().chain(Series::previews()) {
        let here = compiled.iter().filter(|(case, _)| !series.is_preview || case.is_variant());
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
            match log.filter(|_| !series.is_preview || file.exists()) {
                Some(log) => fs::write(&file, log).or_cause(cannot())?,
                None if file.exists() => fs::remove_file(&file).or_cause(cannot())?,
                None => {}
            }
        }
    }
    Ok(())
}
