//! ctracer: how it attaches, how it ends in every phase, and what it says if it can't go on.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use ctracer::recording::Recording;
use ctracer::tree::Tree;
use guest::system::Setting;
use libbpf_rs::query::LinkInfoIter;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};

use crate::ctracer::{FILE, SOME, end, name, start, tree};
use crate::guest::{AtEnd, Killed, io, programs, quiet, refused, sh, wait_until};
use crate::{Case, cases};

/// `Outer`, as in the other cases of ctracer.
pub const CASES: &[Case] = cases![
    ctracer_ends_in_every_phase(Outer),
    ctracer_keeps_what_it_cannot_write(Once),
    ctracer_records_what_comes_when_all_is_attached(Outer),
    ctracer_attaches_no_more_than_the_kernel_lets(Outer),
    ctracer_goes_on_without_those_that_the_kernel_refuses(Outer),
];

const PIPE: &str = "/tmp/ctracer.pipe";

/// Starts ctracer, and stops it while it attaches.
fn stopped_while_it_attaches(said: &str) -> Killed {
    // We can't control how far it is when it stops.
    let mut child = start_and_stop(said);
    while is_ready(said) {
        eprintln!("it attached too fast");
        drop(child);
        child = start_and_stop(said);
    }
    child
}

/// Starts ctracer, and stops it when it has begun to attach.
fn start_and_stop(said: &str) -> Killed {
    let before = LinkInfoIter::default().count();
    let mut command = Command::new("ctracer");
    let command = command.args(["--output", FILE, "--lines", "3"]).stdout(Stdio::null());
    let mut child = Killed(command.stderr(fs::File::create(said).unwrap()).spawn().unwrap());
    // The programs for a thread's name and for the ends of a life are attached first, each by its own link.
    let first = if has_session() { 3 } else { 5 };
    while LinkInfoIter::default().count() < before + first {
        assert!(child.is_running(), "it ended");
        thread::yield_now();
    }
    kill(child.pid(), Signal::SIGSTOP).unwrap();
    let status = waitpid(child.pid(), Some(WaitPidFlag::WUNTRACED)).unwrap();
    assert_eq!(status, WaitStatus::Stopped(child.pid(), Signal::SIGSTOP));
    child
}

fn is_ready(said: &str) -> bool {
    fs::read_to_string(said).unwrap().contains("Tracing.")
}

fn ctracer_records_what_comes_when_all_is_attached() {
    quiet();
    let said = "/tmp/ctracer.err";
    let mut child = stopped_while_it_attaches(said);
    io("write /dev/scratch --count 5");
    kill(child.pid(), Signal::SIGCONT).unwrap();
    while !is_ready(said) {
        assert!(child.is_running(), "it ended");
        thread::yield_now();
    }
    io("write /dev/scratch --count 6 --size 8192");
    kill(child.pid(), Signal::SIGINT).unwrap();
    assert!(child.0.wait().unwrap().success());
    let tree = Tree::new(Recording::read(Path::new(FILE)).unwrap());
    assert!(tree.lives.iter().all(|life| life.bio.bytes == 8192), "{:?}", tree.lives);
    assert_eq!(tree.lives.len(), 6);

    // If ctracer ends before that, the old file stays.
    let recorded = fs::read(FILE).unwrap();
    let mut child = stopped_while_it_attaches(said);
    kill(child.pid(), Signal::SIGINT).unwrap();
    kill(child.pid(), Signal::SIGCONT).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(1));
    let text = fs::read_to_string(said).unwrap();
    assert!(text.starts_with("Error: nothing was recorded\n") && !text.contains("kept"), "{text}");
    assert_eq!(fs::read(FILE).unwrap(), recorded);
}

fn ctracer_attaches_no_more_than_the_kernel_lets() {
    quiet();
    let _limit = Setting::new("/proc/sys/fs/nr_open", "1024").unwrap();
    let output = Command::new("ctracer").args(["--class", "inode", "--duration", "0.1"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    if has_session() {
        // One link holds all of them.
        assert!(output.status.success() && said.contains("Tracing."), "{said}");
    } else {
        assert!(said.starts_with("Error: cannot open as many probes as there are functions\n"), "{said}");
        assert!(said.contains("fix:      choose fewer functions: --functions GLOB"), "{said}");
    }
}

fn ctracer_goes_on_without_those_that_the_kernel_refuses() {
    // An fentry program can't follow the `...` of a function, and a session does not look at the arguments. The other
    // function follows it in the list, and comes first where it is refused.
    let (bad, good) = ("seq_printf", "seq_putc");
    let stage = start(&format!("--class seq_file --functions {bad} --functions {good}"));
    sh("cat /proc/mounts");
    let seen = stage.end(Signal::SIGINT).unwrap();
    let (tree, said) = (tree(&seen), seen.stderr);
    let all = has_session();
    let names: Vec<_> = tree.header.functions.iter().map(|function| &*function.name).collect();
    assert_eq!((names.contains(&bad), names.contains(&good)), (all, true), "{names:?}");
    assert!(tree.calls.iter().any(|call| name(&tree, call) == good), "{said}");
    assert!(said.contains(&format!("Tracing. {} functions", if all { 2 } else { 1 })), "{said}");
    assert_eq!(said.contains(&format!("warning: {bad} is not traced: ")), !all, "{said}");
}

/// Whether a link can hold all functions.
pub fn has_session() -> bool {
    let kallsyms = fs::read_to_string("/proc/kallsyms").unwrap();
    [" bpf_session_is_return\n", " register_fprobe_ips\n"].iter().all(|name| kallsyms.contains(name))
}

fn ctracer_ends_in_every_phase() {
    quiet();
    let before = programs();
    let nothing_stays = || wait_until("its programs are gone", || programs() == before);
    let at_once = |signal| {
        sh(&format!("rm -f {FILE}"));
        let mut command = Command::new("ctracer");
        let command = command.args(["--output", FILE, "--lines", "3"]).stderr(Stdio::null());
        let mut child = Killed(command.spawn().unwrap());
        wait_until("its programs are loaded", || programs() != before);
        kill(child.pid(), signal).unwrap();
        child.0.wait().unwrap()
    };
    // While it attaches, or right after.
    let status = at_once(Signal::SIGINT);
    nothing_stays();
    assert_eq!(status.success(), Recording::read(Path::new(FILE)).is_ok(), "{status}");
    at_once(Signal::SIGKILL);
    nothing_stays();
    if let (true, Err(error)) = (Path::new(FILE).exists(), Recording::read(Path::new(FILE))) {
        assert!(error.cause().ends_with("is cut short before its first event"), "{error}");
    }

    // While it records.
    let stage = start(SOME);
    io("write /dev/scratch --count 5");
    let tree = end(stage);
    nothing_stays();
    assert_eq!(tree.lives.len(), 5);

    // While it writes, first the recording and then a page, into a full pipe: it finishes writing.
    sh(&format!("rm -f {PIPE} && mkfifo {PIPE}"));
    let mut page = fs::File::options().read(true).write(true).open(PIPE).unwrap();
    // Smaller than any page.
    fcntl(&page, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    let stage = start(&format!("{SOME} --html {PIPE}"));
    io("write /dev/scratch --count 5");
    let pid = stage.pid();
    kill(pid, Signal::SIGINT).unwrap();
    let ended = thread::spawn(|| stage.end(Signal::SIGINT).unwrap());
    let mut text = vec![0; 4096];
    page.read_exact(&mut text).unwrap();
    kill(pid, Signal::SIGINT).unwrap();
    nothing_stays();
    assert_eq!(Tree::new(Recording::read(Path::new(FILE)).unwrap()).lives.len(), 5);
    while !text.ends_with(b"</html>\n") {
        let at = text.len();
        text.resize(at + 4096, 0);
        let read = page.read(&mut text[at..]).unwrap();
        text.truncate(at + read);
    }
    assert!(ended.join().unwrap().status.success());

    // Killed while it records. The part that it has written can be opened.
    let stage = start(SOME);
    io("write /dev/scratch --count 5");
    wait_until("the last of them is in the file", || {
        let recording = Recording::read(Path::new(FILE)).unwrap();
        Tree::new(recording).lives.iter().filter(|life| life.end.is_some()).count() == 5
    });
    stage.end(Signal::SIGKILL).unwrap();
    nothing_stays();
    assert!(
        sh(&format!("ctracer show {FILE} 2>&1"))
            .contains("lives: 5, without an end: 0, what was lost is not known")
    );
    // Wherever the file is cut.
    let whole = fs::read(FILE).unwrap();
    for length in (whole.len() / 2..whole.len()).step_by(whole.len() / 20) {
        let cut = Recording::parse(&whole[..length], FILE).unwrap();
        assert!(!cut.records.is_empty());
    }
    // An old recording is not taken for the output of a run that can't begin.
    let text = refused(&format!("ctracer --output {FILE} --class bioo"));
    assert!(!text.contains("kept") && fs::read(FILE).unwrap() == whole, "{text}");
}

fn ctracer_keeps_what_it_cannot_write() {
    quiet();
    sh("mkdir -p /tmp/small && mount -t tmpfs -o size=16k small /tmp/small");
    let _unmount = AtEnd("umount /tmp/small");
    for (option, file) in [("--output", "/tmp/small/x.rec"), ("--html", "/tmp/small/x.html")] {
        let stage = crate::guest::start(&format!("ctracer {option} {file} --lines 3 {SOME}"));
        io("write /dev/scratch --count 50");
        let seen = stage.end(Signal::SIGINT).unwrap();
        assert_eq!(seen.status.code(), Some(1), "{seen:?}");
        assert!(seen.stderr.contains("No space left"), "{seen:?}");
        let show = seen.stderr.lines().find_map(|line| line.strip_prefix("The recording is kept. Show it: "));
        assert!(show.unwrap().starts_with("ctracer show /tmp/"), "{seen:?}");
        let text = sh(&format!("{} 2>&1", show.unwrap()));
        // Either the page was too large, but everything is in the recording; or the recording is cut where the disk
        // was full, perhaps between two events.
        assert_eq!(text.contains("lives: 50,"), option == "--html", "{text}");
        let is_cut = text.contains("cut short") || text.contains("what was lost is not known");
        assert_eq!(is_cut, option == "--output", "{text}");
        fs::remove_file(file).unwrap();
    }
}
