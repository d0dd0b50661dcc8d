//! `cargo lab doctor`: what this machine has and lacks.

use std::fs;
use std::process::ExitCode;

use common::preflight::{self, Need, release};
use common::report::print_text;
use common::{Error, OrCause, Result, tracefs};
use machine::host::tools;
use machine::kernels::{DEFAULT, Kernel, MATRIX};
use machine::workbook::{Program, Workbook};
use machine::{fetch, vm};
use wire::arch::Arch;

use crate::exercise;

/// One thing that we looked for: its name and what we found.
type Finding = (String, Result<String>);

/// Prints what this machine has for the lab, and for running without it. Given a stage or an example, also checks for
/// its probes. Fails only if stages can't run in the lab, because the lab is the way that works everywhere.
pub fn run(workbook: &Workbook, program: Option<&str>) -> Result<ExitCode> {
    let program = program.map(|name| workbook.catalog.program(name)).transpose()?;
    let [name, binary] = program
        .map_or_else(|| ["01", "stage01"].map(str::to_owned), |program| [program.name(), program.binary()]);
    // As the reader would type it.
    let built = workbook.binaries().join(binary);
    let built = exercise::shown(workbook, &built);
    let lab = for_the_lab(workbook);
    let native = natively(program)?;

    let works = |findings: &[Finding]| findings.iter().all(|(_, found)| found.is_ok());
    let verdict = match (works(&lab), works(&native)) {
        (true, true) => format!("Both ways work: cargo lab run {name}, or sudo {built}"),
        (true, false) => format!("The lab works: cargo lab run {name}"),
        (false, true) => {
            format!("The lab lacks something (see above); this machine itself works: sudo {built}")
        }
        (false, false) => "Neither way works yet. Start with the first fix above.".to_owned(),
    };
    print_text(format_args!(
        "For the lab (cargo lab run STAGE), which needs no root:\n{}\n\
         For running on this machine itself (sudo {built}), kernel {}:\n{}\n{verdict}",
        text(&lab),
        release(),
        text(&native)
    ))?;
    Ok(if works(&lab) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn for_the_lab(workbook: &Workbook) -> Vec<Finding> {
    let here = MATRIX.map(|series| (series.name, series.here(Arch::HERE)));
    let has_default = here.iter().any(|(name, found)| *name == DEFAULT && found.is_ok());
    // Nobody needs to fetch a kernel that is here.
    let to_fetch = if has_default { &[] } else { &tools::TO_FETCH[..] };
    let look = |tool: &tools::Tool| tool.find().map(|path| format!("{} ({})", tool.purpose, path.display()));
    let tools = tools::TO_RUN.iter().chain(to_fetch);
    let mut findings: Vec<Finding> = tools.map(|tool| (tool.name.to_owned(), look(tool))).collect();
    for (series, found) in here {
        let name = format!("kernel {series}");
        let release = |kernel: Kernel| kernel.package.map(|package| package.release).unwrap_or_default();
        match found.map(release) {
            // Only the default kernel is required, and `cargo lab run` fetches it.
            Err(_) if series != DEFAULT => {}
            Err(_) if !fetch::is_offline() => {
                findings.push((name, Ok("not here yet; the first run downloads it".to_owned())));
            }
            found => findings.push((name, found)),
        }
    }
    findings.push((
        "room".to_owned(),
        vm::free_space().map(|free| format!("{} MiB for the guest's disks", free >> 20)),
    ));
    findings.push(("acceleration".to_owned(), Ok(acceleration(workbook))));
    findings
}

fn acceleration(workbook: &Workbook) -> String {
    if fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_err() {
        return "emulation, because you have no access to /dev/kvm".to_owned();
    }
    match vm::kvm_has_failed(&workbook.state_dir()) {
        true => "emulation, because KVM has failed in the last hour".to_owned(),
        false => "KVM, or emulation if KVM fails".to_owned(),
    }
}

fn natively(program: Option<&Program>) -> Result<Vec<Finding>> {
    let sections = match program {
        Some(program) => sections(program)?,
        None => vec!["kprobe/submit_bio".to_owned()],
    };
    let mut needs = preflight::needs(sections);
    // For the trace pipe, which the stages that print lines read.
    if !needs.contains(&Need::Tracefs) {
        needs.insert(needs.len().min(3), Need::Tracefs);
    }
    let mut findings = Vec::new();
    for need in needs {
        let found = match (need.look(), &need) {
            (Some(Ok(())), Need::Tracefs) if tracefs::mounted().is_none() => {
                Ok("not mounted yet; stages mount it when they run".to_owned())
            }
            (Some(found), _) => found.map(|()| String::new()),
            (None, _) => Ok("unknown until tracefs can be read".to_owned()),
        };
        // Without root and kprobes, we can't look at the rest.
        let stop = [Need::Root, Need::Kprobes].contains(&need) && found.is_err();
        findings.push((need.to_string(), found));
        if stop {
            break;
        }
    }
    Ok(findings)
}

/// The sections of a program's BPF programs, such as `kprobe/submit_bio`, as its source names them. For an example
/// without BPF, what its `Cargo.toml` names instead.
pub fn sections(program: &Program) -> Result<Vec<String>> {
    if !program.needs.is_empty() {
        return Ok(program.needs.clone());
    }
    let [bpf, _] = program.sources()?;
    let source = fs::read_to_string(&bpf).or_cause(format!("cannot read {}", bpf.display()))?;
    let section = |line: &str| Some(line.strip_prefix("SEC(\"")?.strip_suffix("\")")?.to_owned());
    Ok(source.lines().filter_map(section).collect())
}

/// One line for each thing that is there; cause, evidence and fix for each that is missing.
fn text(findings: &[Finding]) -> String {
    let line = |(name, found): &Finding| match found {
        Ok(what) => format!("  ok       {name:<22} {what}").trim_end().to_owned() + "\n",
        Err(error) => format!("  MISSING  {name:<22} {}\n", indented(error)),
    };
    findings.iter().map(line).collect()
}

fn indented(error: &Error) -> String {
    error.to_string().replace('\n', "\n         ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_has_its_fix() {
        let missing = Error::new("qemu is missing").evidence("it is not in PATH").fix("make setup");
        let findings = [
            ("busybox".to_owned(), Ok("the guest's shell".to_owned())),
            ("root".to_owned(), Ok(String::new())),
            ("qemu".to_owned(), Err(missing)),
        ];
        insta::assert_snapshot!(text(&findings));
    }
}
