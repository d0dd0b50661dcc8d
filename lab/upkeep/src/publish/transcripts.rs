//! What commands print that chapters show: how our programs look from outside, with bpftool, strace and the compiler's
//! tools. `cargo upkeep transcripts` records it. Numbers and addresses are those of that run; a test checks that everything
//! else still is as recorded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{Error, OrCause, Result};
use lab::compiler::Compiler;
use machine::kernels::DEFAULT;
use machine::vm::Vm;
use machine::workbook::Workbook;
use verifier::Object;
use wire::command::output;
use wire::measure::PEER_LOADER;

use crate::{measure, packages};

/// Where they are, from the top folder.
const FOLDER: &str = "docs/src/transcripts";

/// How long one may take.
const LIMIT: Duration = Duration::from_secs(60);

/// The Debian packages of the tools, and of the libraries that they need: the guest has this machine's.
const PACKAGES: [&str; 2] = ["bpftool", "strace"];
const TOOLS: [&str; 2] = ["sbin/bpftool", "bin/strace"];

/// Commands, and what happens before that the reader does not see.
#[derive(Clone, Copy, Debug)]
pub struct Transcript {
    /// Its name, for the block `transcript NAME`.
    pub name: &'static str,
    /// What runs before. In a guest, `stage` starts a stage and waits until it is attached.
    pub setup: &'static str,
    /// The commands, which the reader sees.
    pub commands: &'static [&'static str],
    /// What shortens their output, if it is very long.
    through: &'static str,
}

/// Those of a guest, which has our programs.
const IN_GUEST: [Transcript; 9] = [
    Transcript {
        name: "load",
        setup: r#"brief() {
            grep -E 'map_name="(start_map|bio_trac)|prog_name="(submit|bio_end)|perf_event_open|LINK_CREATE' |
            grep -v EBADF |
            sed -E 's/, (max_entries=[0-9]+), .*(map_name="[^"]*").*\}, [0-9]+\)/, \1, ..., \2, ...})/
                    s/(insn_cnt=[0-9]+), .*(license="[^"]*").*(prog_name="[^"]*").*\}, [0-9]+\)/\1, ..., \2, ..., \3, ...})/
                    s/ \/\* PERF[^*]*\*\///; s/(size=PERF[^,]*), .*\.\.\.\}/\1, ...}/; s/attach_type=([A-Z_]*), .*\}, [0-9]+\)/attach_type=\1, ...}})/'
        }"#,
        commands: &["strace -e trace=bpf,perf_event_open stage03 --duration 0.1"],
        through: "| brief",
    },
    Transcript {
        name: "xlated",
        setup: "stage 01 1; measure jited submit_bio_entr > /tmp/jited",
        commands: &["bpftool prog dump xlated name submit_bio_entry"],
        through: "",
    },
    Transcript {
        name: "packet-xlated",
        setup: "mount -t bpf bpf /sys/fs/bpf 2>/dev/null; bpftool prog load /bin/packet.bpf.o /sys/fs/bpf/packet; trap 'rm /sys/fs/bpf/packet' EXIT",
        commands: &["bpftool prog dump xlated name packet"],
        through: "",
    },
    Transcript {
        name: "starts",
        setup: "cd /bin; mount -t bpf bpf /sys/fs/bpf 2>/dev/null; trap 'rm -r /sys/fs/bpf/*' EXIT",
        commands: &[
            "bpftool prog load old.bpf.o /sys/fs/bpf/old autoattach",
            "bpftool prog load new.bpf.o /sys/fs/bpf/new autoattach",
            "io write /dev/scratch --count 3",
            "bpftool map dump name new.bss",
        ],
        through: "",
    },
    Transcript { name: "prog", setup: "stage 03 2", commands: &["bpftool prog"], through: "" },
    Transcript { name: "map", setup: "stage 03 2", commands: &["bpftool map"], through: "" },
    Transcript {
        name: "fdinfo",
        setup: "stage 03 2",
        commands: &[
            "grep -hE '^(map_type|map_id|prog_type|prog_id|link_type)' /proc/$(pidof stage03)/fdinfo/*",
        ],
        through: "",
    },
    Transcript { name: "link", setup: "stage 03 2", commands: &["bpftool link"], through: "" },
    Transcript {
        name: "dump",
        setup: "stage 04 2; io write /dev/scratch --count 4 > /dev/null",
        commands: &[
            "bpftool map dump name slowest_map",
            "bpftool btf dump file /sys/kernel/btf/vmlinux format c | grep -A 5 '^struct bvec_iter {'",
        ],
        through: "",
    },
];

/// Those of this machine, in a folder with our compiled programs.
const HERE: [Transcript; 6] = [
    Transcript {
        name: "machine",
        setup: "",
        commands: &["readelf -h stage03.bpf.o | grep Machine", "readelf -h stage03 | grep Machine"],
        through: "",
    },
    Transcript { name: "instructions", setup: "", commands: &["llvm-objdump -d stage01.bpf.o"], through: "" },
    Transcript {
        name: "jited",
        setup: "",
        commands: &["objdump -D -b binary -m i386:x86-64 --no-show-raw-insn jited | grep '^ '"],
        through: "",
    },
    Transcript {
        name: "sections",
        setup: "",
        commands: &["llvm-readelf -SW stage03.bpf.o | grep '\\['"],
        through: "",
    },
    Transcript {
        name: "symbols",
        setup: "",
        commands: &[
            "llvm-readelf -sW stage03.bpf.o | grep -E 'FUNC|OBJECT'",
            "llvm-readelf -rW stage03.bpf.o",
        ],
        through: "",
    },
    Transcript {
        name: "packet",
        setup: "",
        commands: &["llvm-objdump -dr packet.bpf.o | grep -v '^$'"],
        through: "",
    },
];

/// All of them.
pub fn all() -> impl Iterator<Item = Transcript> {
    IN_GUEST.into_iter().chain(HERE)
}

/// A recorded one.
///
/// # Errors
/// If there is none.
pub fn of(root: &Path, name: &str) -> Result<String> {
    let file = root.join(FOLDER).join(name).with_extension("txt");
    fs::read_to_string(&file)
        .or_cause(format!("cannot read {}; write it: cargo upkeep transcripts", file.display()))
}

/// Runs all commands, and saves what they print.
///
/// # Errors
/// Those of [`run`], or if a file can't be written.
pub fn record(workbook: &Workbook) -> Result<()> {
    for (transcript, text) in run(workbook)? {
        let file = workbook.root.join(FOLDER).join(transcript.name).with_extension("txt");
        fs::write(&file, text).or_cause(format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// Runs all commands, in a guest and here, and returns what they print.
///
/// # Errors
/// If a tool can't be fetched, a program doesn't compile, or a command can't run.
pub fn run(workbook: &Workbook) -> Result<Vec<(Transcript, String)>> {
    let folder = tempfile::tempdir().or_cause("cannot make a folder")?;
    let mut machine = measure::machine(workbook, DEFAULT)?;
    machine.binaries.extend(tools(folder.path())?);
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
    let mut texts = Vec::new();
    for transcript in IN_GUEST {
        texts.push((transcript, in_guest(&mut guest, transcript)?));
    }

    let put = |name: &str, bytes: &[u8]| {
        fs::write(folder.path().join(name), bytes).or_cause("cannot copy a program")
    };
    put("jited", &guest.output(&["cat", "/tmp/jited"], LIMIT)?.stdout)?;
    put("packet.bpf.o", &fs::read(packet).or_cause("cannot read a program")?)?;
    for stage in ["stage01", "stage03"] {
        let binary = fs::read(workbook.binaries().join(stage)).or_cause("cannot read a program")?;
        let object = Object::find(&binary).next().ok_or_else(|| Error::new("a stage has no object"))?.0;
        put(&format!("{stage}.bpf.o"), object)?;
        put(stage, &binary)?;
    }
    for transcript in HERE {
        let done = output(Command::new("sh").args(["-c", &script(transcript)]).current_dir(folder.path()))?;
        texts.push((transcript, String::from_utf8_lossy(&done.stdout).into_owned()));
    }
    Ok(texts)
}

/// The tools and their libraries.
fn tools(folder: &Path) -> Result<Vec<PathBuf>> {
    packages::unpack_whole("sid", &PACKAGES, folder)?;
    let usr = folder.join("usr");
    let libraries = usr.join("lib/x86_64-linux-gnu");
    let loader = libraries.join(PEER_LOADER);
    let mut files: Vec<_> = TOOLS.iter().map(|name| usr.join(name)).chain([loader.clone()]).collect();
    for tool in TOOLS {
        let mut list = Command::new(&loader);
        let list = output(list.arg("--library-path").arg(&libraries).arg("--list").arg(usr.join(tool)))?;
        // NAME => PATH (0xADDRESS)
        let list = String::from_utf8_lossy(&list.stdout).into_owned();
        let names = list
            .lines()
            .filter_map(|line| line.split_once(" => "))
            .map(|(name, _)| libraries.join(name.trim()));
        files.extend(names.filter(|file| !file.ends_with(PEER_LOADER)));
    }
    files.sort();
    files.dedup();
    Ok(files)
}

fn in_guest(guest: &mut Vm, transcript: Transcript) -> Result<String> {
    let loader = format!("/bin/{PEER_LOADER} --library-path /bin");
    let script = format!(
        "bpftool() {{ {loader} /bin/bpftool \"$@\" 2> /tmp/said; grep -v ^skipping /tmp/said >&2; }}\n\
         strace() {{ {loader} /bin/strace \"$@\"; }}\n\
         stage() {{ stage$1 > /tmp/lines 2>&1 & pid=$!; until [ $(bpftool link 2>/dev/null | grep -c ^[0-9]) = $2 ]; do :; done; }}\n\
         {}\n[ -z \"$pid\" ] || kill -INT $pid; wait",
        script(transcript)
    );
    let seen = guest.output(&["sh", "-c", &script], LIMIT)?;
    if !seen.stderr.is_empty() {
        return Err(Error::new(format!("the transcript {:?} fails", transcript.name)).evidence(seen.stderr));
    }
    Ok(String::from_utf8_lossy(&seen.stdout).into_owned())
}

/// Prints each command, and then what it prints.
fn script(transcript: Transcript) -> String {
    let command = |command: &&str| {
        let shown = shlex::try_quote(command).unwrap_or_default();
        format!("printf '$ %s\\n' {shown}\n{command} 2>&1 {}\n", transcript.through)
    };
    format!("{}\n{}", transcript.setup, transcript.commands.iter().map(command).collect::<String>())
}
