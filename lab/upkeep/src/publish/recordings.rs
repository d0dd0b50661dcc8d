//! Everything that pages show of what a command printed: a list of files, each with its command. `cargo upkeep record` runs
//! the commands again in guests of the default kernel: all of them, or those that you name.
//!
//! | name | file | command |
//! |---|---|---|
//! | `03`, `biolatency` | `output.txt` of the stage or the example | the one in its README; see [`fn@record`] |
//! | `load` | `docs/src/transcripts/load.txt` | that of `[load]` in `lab/theory/transcripts.toml` |
//! | `mystery-01-2` | `docs/mysteries/01-2.txt` | the case with seed 2, and then its solution, for the deck |
//! | `ctracer.rec` | itself, and a picture of its page | ctracer, beside I/O |
//!
//! Numbers and addresses are those of that run. Tests compare the names in these files with the sources.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use browser::Chromium;
use common::{Error, OrCause, Result};
use lab::compiler::Compiler;
use lab::prove::adapter::ROOT;
use lab::prove::tool::of_debian;
use machine::kernels::DEFAULT;
use machine::vm::{Machine, Vm};
use machine::workbook::{Program, Workbook};
use serde::Deserialize;
use verifier::Object;
use wire::command::output;
use wire::mystery::{CASES, Case};
use wire::workload::Workload;

use crate::publish::record;

/// How long a command may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);
/// With these seeds, each case has another cause.
pub const SEEDS: [u32; 2] = [1, 2];
/// The recording of ctracer that the book shows as a page, and the picture of this page.
const CTRACER: [&str; 2] = ["ctracer.rec", "ctracer.png"];
/// Reads and writes by several tasks: `io`, ext4's journal, and a worker that writes the page cache.
const IO: &str = "sync --threads 4 --count 16 --stride 4 /mnt/f";
/// The program that starts a program of another Debian release, with that release's libraries.
const LOADER: &str = "ld-linux-x86-64.so.2";
/// The Debian packages of the transcripts' tools, and of the libraries that they need: the guest has this machine's.
const PACKAGES: [&str; 2] = ["bpftool", "strace"];

/// Commands, and what the reader does not see of them; the file explains each key.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transcript {
    /// What the reader sees.
    pub commands: Vec<String>,
    /// What runs before.
    #[serde(default)]
    pub setup: String,
    #[serde(default)]
    through: String,
    #[serde(default)]
    here: bool,
}

/// All transcripts, by their names.
pub fn transcripts(workbook: &Workbook) -> Result<BTreeMap<String, Transcript>> {
    let path = workbook.root.join("lab/theory/transcripts.toml");
    let text = fs::read_to_string(&path).or_cause(format!("cannot read {}", path.display()))?;
    toml::from_str(&text).or_cause(format!("{} is malformed", path.display()))
}

/// What a recorded transcript shows.
pub fn transcript(root: &Path, name: &str) -> Result<String> {
    let file = transcript_file(root, name);
    fs::read_to_string(&file)
        .or_cause(format!("cannot read {}; write it: cargo upkeep record {name}", file.display()))
}

fn transcript_file(root: &Path, name: &str) -> PathBuf {
    root.join("docs/src/transcripts").join(name).with_extension("txt")
}

/// The recording of a case with a seed.
pub fn mystery_file(root: &Path, case: &Case, seed: u32) -> PathBuf {
    root.join("docs/mysteries").join(format!("{}-{seed}.txt", case.number))
}

/// What makes a recording.
enum Made<'a> {
    OfProgram(&'a Program),
    OfCase(&'a Case, u32),
    Transcript,
    Ctracer,
}

/// Runs the commands of the recordings that are named so, or begin so, such as `mystery-01`, and saves what they print.
pub fn record(workbook: &Workbook, names: &[String]) -> Result<()> {
    let transcripts = transcripts(workbook)?;
    let mut all: Vec<(String, PathBuf, Made<'_>)> = Vec::new();
    for program in workbook.catalog.programs() {
        all.push((program.name(), program.folder.join("output.txt"), Made::OfProgram(program)));
    }
    for name in transcripts.keys() {
        all.push((name.clone(), transcript_file(&workbook.root, name), Made::Transcript));
    }
    for (case, seed) in CASES.iter().flat_map(|case| SEEDS.map(|seed| (case, seed))) {
        let file = mystery_file(&workbook.root, case, seed);
        all.push((format!("mystery-{}-{seed}", case.number), file, Made::OfCase(case, seed)));
    }
    all.push((CTRACER[0].to_owned(), workbook.root.join("docs/src").join(CTRACER[0]), Made::Ctracer));
    let is_called = |name: &str, wanted: &str| {
        name.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
    };
    if let Some(wanted) = names.iter().find(|wanted| !all.iter().any(|(name, ..)| is_called(name, wanted))) {
        let known: Vec<_> = all.iter().map(|(name, ..)| name.as_str()).collect();
        return Err(Error::new(format!("there is no recording {wanted}"))
            .evidence(format!("there are: {}", known.join(", "))));
    }
    all.retain(|(name, ..)| names.is_empty() || names.iter().any(|wanted| is_called(name, wanted)));

    // Each command but those of the transcripts gets a fresh guest, as a reader's does.
    let machine = machine(workbook, DEFAULT)?;
    let mut shown = None;
    for (name, file, made) in all {
        eprintln!("Recording {name} ...");
        let text = match made {
            Made::OfProgram(program) => record::recorded(&mut machine.boot()?, program)?,
            // The slides compare what was measured with what the case has set up.
            Made::OfCase(case, seed) => solution(&mut machine.clone().counting().boot()?, case, seed)?,
            Made::Transcript => {
                let shown = match &mut shown {
                    Some(shown) => shown,
                    none => none.insert(run(workbook, machine.clone(), &transcripts)?),
                };
                shown.remove(&name).unwrap_or_default()
            }
            Made::Ctracer => {
                ctracer(&mut machine.boot()?, workbook)?;
                continue;
            }
        };
        fs::write(&file, text).or_cause(format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// A kernel with all programs, which may take long to boot on a busy machine.
pub(crate) fn machine(workbook: &Workbook, kernel: &str) -> Result<Machine> {
    Ok(Machine { limit: LIMIT, ..Machine::new(workbook, kernel)? })
}

/// Runs a script in a guest, and returns what it prints.
fn in_guest(guest: &mut Vm, script: &str) -> Result<String> {
    let seen = guest.output(&["sh", "-c", script], LIMIT)?;
    if seen.status != 0 || !seen.stderr.is_empty() {
        return Err(
            Error::new(format!("a script fails with {}: {script}", seen.status)).evidence(seen.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&seen.stdout).into_owned())
}

/// What a player of a case sees who asks for the solution.
fn solution(guest: &mut Vm, case: &Case, seed: u32) -> Result<String> {
    let script = format!(
        "echo 'solution --peek' | mystery start {} --seed {seed} 2>/tmp/said || cat /tmp/said >&2",
        case.number
    );
    let text = in_guest(guest, &script)?;
    Ok(text.trim().lines().map(|line| format!("{}\n", line.trim_end())).collect())
}

/// Makes the recording of ctracer, and the picture of its page.
fn ctracer(guest: &mut Vm, workbook: &Workbook) -> Result<()> {
    let [recording, picture] = CTRACER;
    let example = workbook.catalog.program("ctracer")?;
    let arguments = ["--duration", "1", "--output", recording].map(str::to_owned);
    let io = Workload::Io(IO.split(' ').map(str::to_owned).collect());
    record::beside(guest, example, Some(&io), &arguments, false)?;
    let folder = workbook.root.join("docs/src");
    guest.fetch(vec![recording.to_owned()], &folder)?;
    let scratch = tempfile::tempdir().or_cause("cannot make a folder for the page")?;
    let page = scratch.path().join("ctracer.html");
    let mut show = Command::new(workbook.binaries().join(example.binary()));
    output(show.arg("show").arg(folder.join(recording)).arg("--html").arg(&page))?;
    let mut browser = Chromium::start(&["--hide-scrollbars"])?;
    browser.size(1200, 720)?;
    browser.open(&page, "")?;
    browser.picture(&folder.join(picture))
}

/// Runs the commands of all transcripts, in one guest and here, and returns what they print.
fn run(
    workbook: &Workbook,
    mut machine: Machine,
    transcripts: &BTreeMap<String, Transcript>,
) -> Result<BTreeMap<String, String>> {
    let folder = tempfile::tempdir().or_cause("cannot make a folder")?;
    machine.copies = of_debian(workbook, &["sid"], &PACKAGES)?.0;
    let compiler = Compiler::new(workbook, &workbook.state_dir().join("clinic"))?;
    let mut object = |name: &str, file: &str, edit: fn(&str) -> String| {
        let source = workbook.root.join("lab/theory").join(file);
        let source = fs::read_to_string(&source).or_cause(format!("cannot read {}", source.display()))?;
        let object = compiler.compile(name, file, &edit(&source))?;
        machine.binaries.push(object.clone());
        Ok::<_, Error>(object)
    };
    let packet = object("packet", "packet.bpf.c", str::to_owned)?;
    object("old", "starts.bpf.c", str::to_owned)?;
    object("new", "starts.bpf.c", |source| source.replace("blk_start_request", "blk_mq_start_request"))?;
    let mut guest = machine.boot()?;
    let mut shown = BTreeMap::new();
    for (name, transcript) in transcripts.iter().filter(|(_, transcript)| !transcript.here) {
        shown.insert(name.clone(), in_guest(&mut guest, &guest_script(transcript))?);
    }

    let put = |name: &str, bytes: &[u8]| {
        fs::write(folder.path().join(name), bytes).or_cause("cannot copy a program")
    };
    put("packet.bpf.o", &fs::read(packet).or_cause("cannot read a program")?)?;
    for stage in ["stage01", "stage03"] {
        let binary = fs::read(workbook.binaries().join(stage)).or_cause("cannot read a program")?;
        let object = Object::find(&binary).next().ok_or_else(|| Error::new("a stage has no object"))?.0;
        put(&format!("{stage}.bpf.o"), object)?;
        put(stage, &binary)?;
    }
    for (name, transcript) in transcripts.iter().filter(|(_, transcript)| transcript.here) {
        let done = output(Command::new("sh").args(["-c", &script(transcript)]).current_dir(folder.path()))?;
        shown.insert(name.clone(), String::from_utf8_lossy(&done.stdout).into_owned());
    }
    Ok(shown)
}

/// The script of a transcript, with what it calls in the guest.
fn guest_script(transcript: &Transcript) -> String {
    let loader = format!("{ROOT}/lib64/{LOADER} --library-path {ROOT}/lib/x86_64-linux-gnu {ROOT}");
    format!(
        "bpftool() {{ {loader}/sbin/bpftool \"$@\" 2> /tmp/said; grep -v ^skipping /tmp/said >&2; }}\n\
         strace() {{ {loader}/bin/strace \"$@\"; }}\n\
         bpffs() {{ mount -t bpf bpf /sys/fs/bpf 2>/dev/null; trap 'rm -r /sys/fs/bpf/*' EXIT; }}\n\
         stage() {{ stage$1 > /tmp/lines 2>&1 & pid=$!; until [ $(bpftool link 2>/dev/null | grep -c ^[0-9]) = $2 ]; do :; done; }}\n\
         {}\n[ -z \"$pid\" ] || kill -INT $pid; wait",
        script(transcript)
    )
}

/// Prints each command, and then what it prints.
fn script(Transcript { commands, setup, through, .. }: &Transcript) -> String {
    let command = |command: &String| {
        let shown = shlex::try_quote(command).unwrap_or_default();
        format!("printf '$ %s\\n' {shown}\n{command} 2>&1 {through}\n")
    };
    format!("{setup}\n{}", commands.iter().map(command).collect::<String>())
}
