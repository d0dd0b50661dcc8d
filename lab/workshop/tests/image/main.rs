//! The workshop in a kit, on a machine that has only an emulator: `make workshop-test`. `WORKSHOP_KIT` names the kit, and
//! `WORKSHOP_KERNEL` the kernel, by default the kit's own.
//!
//! The kit is mounted read-only in an empty Debian, in a folder with a blank in its name. An ordinary user starts it there.
//! The tests, and the browser, are outside, without a network: the Makefile has them run in a network namespace.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/learner.rs"]
mod learner;
#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../../../../docs/tests/browser/reader.rs"]
mod reader;
#[path = "../common/socket.rs"]
mod socket;

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use lab::exercise;
use machine::workbook::Workbook;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tungstenite::WebSocket;

use crate::common::Server;
use crate::learner::{open, start};
use crate::socket::{socket, type_in, until, until_it};

/// Mounts the kit in the empty Debian, and starts it there.
const INSIDE: &str = r#"
    kit=$1 system=$2 cache=$3; shift 3
    mount --bind "$kit" "$system/mnt/USB stick" && mount -o remount,bind,ro "$system/mnt/USB stick" &&
    mount --bind "$cache" "$system/mnt/cache" &&
    mount -t proc proc "$system/proc" && mount --bind /dev "$system/dev" &&
    exec chroot --userspec=1000:1000 "$system" env -i PATH=/usr/bin:/bin XDG_CACHE_HOME=/mnt/cache \
        sh "/mnt/USB stick/lab" "$@""#;

/// The workshop of the kit, in a Debian with its smallest system and the emulator. The learner's work is in `cache`.
fn workshop(cache: &Path) -> Server {
    let kit = std::env::var_os("WORKSHOP_KIT").expect("WORKSHOP_KIT names a kit: make workshop-test");
    let (kit, folder) = (PathBuf::from(kit), cache.to_owned());
    let system = PathBuf::from(format!("{}-debian", kit.display()));
    for folder in ["mnt/USB stick", "mnt/cache"] {
        fs::create_dir_all(system.join(folder)).expect("the Makefile makes it: make workshop-test");
    }
    nix::unistd::chown(cache, Some(1000.into()), Some(1000.into())).unwrap();
    Server::with(move || {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", INSIDE, "sh"]).arg(&kit).arg(&system).arg(&folder);
        if let Some(kernel) = std::env::var_os("WORKSHOP_KERNEL") {
            command.arg("--kernel").arg(kernel);
        }
        command.arg("workshop");
        command
    })
}

/// Runs a program, or checks an exercise; returns the action.
fn act(server: &Server, path: &str, body: &Value) -> Value {
    let answer = server.send("POST", path, body);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Waits until the action in this terminal has ended, and returns it.
fn ended(server: &Server, terminal: &Value) -> Value {
    socket::ended(server, |action| action["terminal"] == *terminal)
}

/// A shell's socket.
fn shell(server: &Server) -> WebSocket<TcpStream> {
    let id = server.post("/api/terminals").json()["id"].clone();
    socket(server, &format!("/api/terminals/{id}"))
}

#[test]
fn a_learner_does_an_exercise_and_runs_a_stage() {
    let (start_time, cache) = (Instant::now(), tempfile::tempdir().unwrap());
    let server = workshop(cache.path());
    println!("up after {:.1} s", start_time.elapsed().as_secs_f64());
    start(&server, "03.1").does_exercise_03_1(&server);

    // The guest can't boot another kernel, so no button offers that.
    let mut page = open(&server);
    page.eval("document.querySelector('#book').contentWindow.location.href = '/book/install.html'");
    page.poll_frame(
        "(() => {
            const others = [...document.querySelectorAll('code')].filter((code) => /^cargo lab run 03 --(kernel|arch) /.test(code.textContent));
            return location.pathname === '/book/install.html' && document.querySelector('.workshop-button') !== null
                && others.length > 0 && others.every((code) => !code.nextElementSibling?.matches('.workshop-button'));
        })()",
    );

    // Stage 03 in one terminal, and the workload in another.
    let mut stage = shell(&server);
    type_in(&mut stage, "run 03 --io none\n");
    until(&mut stage, "Tracing.");
    let mut workload = shell(&server);
    type_in(&mut workload, "io write /dev/scratch --count 8 && echo written-$((1+1))\n");
    until(&mut workload, "written-2");
    until_it(&mut stage, |seen| seen.matches("time duration: ").count() == 8);
    type_in(&mut stage, "\u{3}");
    until(&mut stage, "Durations missing or too short: 0");

    // The guest's kernel judges a case of the clinic.
    type_in(&mut workload, "cargo lab clinic start 02 && cargo lab clinic check 02\n");
    until(&mut workload, "the kernel's verifier refused a BPF program");
    let cure = "cargo lab clinic solution 02 --peek | patch mine/clinic-02/bytes.bpf.c";
    type_in(&mut workload, &format!("{cure} && cargo lab clinic check 02\n"));
    until(&mut workload, "Case 02 is cured");

    // ctracer's page.
    page.click_in_lesson("stages/03.html", "lesson-run", " 03");
    page.predict("0");
    page.prints("submit_bio() -> bio_endio() time duration: ");
    page.sees(&[("status", "running")]);
    page.click("stop");
    page.sees(&[("status", "Run of 03"), ("verdict", "predicted")]);
    act(&server, "/api/run", &json!({ "name": "ctracer", "arguments": "-- --duration 3 --html bio.html" }));
    page.until("document.querySelector('[data-test=\"results\"] a[href$=\"bio.html\"]')");
    let link = page.eval("document.querySelector('[data-test=\"results\"] a').href");
    page.visit(link.as_str().unwrap());
    page.until("document.body.textContent.includes('submit_bio')");
    page.is_well();
}

/// The emulators that this process has started.
fn emulators() -> Vec<Pid> {
    let pids =
        fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let net = fs::read_link("/proc/self/ns/net").unwrap();
    let is_emulator = |pid: &i32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.starts_with("qemu-system")
            && fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|its| its == net)
    };
    pids.filter(is_emulator).map(Pid::from_raw).collect()
}

#[test]
fn neither_a_full_disk_nor_a_killed_emulator_loses_work() {
    let cache = tempfile::tempdir().unwrap();
    let mut mount = Command::new("mount");
    let status = mount.args(["-t", "tmpfs", "-o", "size=256m", "tmpfs"]).arg(cache.path()).status();
    assert!(status.unwrap().success());
    let mut server = workshop(cache.path());
    let first = server.url.clone();
    let mut page = start(&server, "03.2");
    page.write("/* before */\n");
    // Somebody else fills the disk, whose room the launcher has checked.
    let other = cache.path().join("other");
    fs::write(&other, vec![0; 300 << 20]).unwrap_err();
    // It is long, because the last block of a file may have room.
    page.replace(&format!("/* {} */\n", "long ".repeat(4000)));
    page.sees(&[("saved", "Not saved: your laptop has not stored your work")]);
    page.sees(&[("unkept", "Your laptop has not stored your work")]);
    // It has room again.
    fs::remove_file(&other).unwrap();
    page.write("/* after */\n");
    page.until("document.querySelector('#unkept').hidden");

    // What was done in a terminal is kept, too, at the latest when something is saved in the page after it.
    let mut terminal = shell(&server);
    type_in(&mut terminal, "exercise start bitehist.1 && echo started-$((1+1))\n");
    until(&mut terminal, "started-2");
    page.write("/* typed */\n");
    for pid in emulators() {
        kill(pid, Signal::SIGKILL).unwrap();
    }
    page.replace("/* while nobody listened */\n");
    page.sees(&[("banner", "The workshop does not answer")]);
    server.wait();
    server.again();
    assert_ne!(server.url, first, "each start has its own key");
    let source = "src/bpf/bio_trace.bpf.c";
    assert_eq!(server.file("03.2", source), "/* typed */\n");
    assert!(server.file("bitehist.1", "Cargo.toml").contains("bitehist"));
    // The open tab continues when the address is open in its browser.
    page.eval(&format!("location.href = '{}'", server.url));
    page.until("document.querySelector('#banner').hidden");
    page.sees(&[("saved", "Saved")]);
    assert_eq!(server.file("03.2", source), "/* while nobody listened */\n");

    // Nothing is left when it ends.
    server.end(Signal::SIGTERM);
    assert_eq!(emulators(), []);
    assert!(Command::new("umount").arg(cache.path()).status().unwrap().success());
}

#[test]
fn each_exercise_fails_and_passes_as_in_the_lab() {
    let cache = tempfile::tempdir().unwrap();
    let (server, workbook) = (workshop(cache.path()), Workbook::read().unwrap());
    let mut wrong = Vec::new();
    for exercise in exercise::all(&workbook).unwrap().iter().filter(|exercise| exercise.number > 0) {
        let id = exercise.id();
        server.post(&format!("/api/works/{id}/start"));
        let check = || {
            let action = act(&server, "/api/check", &json!({ "name": id }));
            ended(&server, &action["terminal"])
        };
        let start = Instant::now();
        let fails = check();
        let took = start.elapsed().as_secs_f64();
        let fault = &fails["verdict"]["wrong"];
        let said = |part: &str| fault[part].as_str().unwrap_or_default().to_owned();
        let cause = match fault.is_object() {
            true => format!("expected: {}; seen: {}", said("expected"), said("seen")),
            false => fails["cause"].as_str().unwrap_or_default().to_owned(),
        };
        if fails["status"] == 0 || !cause.contains(&exercise.fails) {
            wrong.push(format!("{id}: starts with {cause:?} and not with {:?}", exercise.fails));
        }
        for (path, text) in exercise.solved(&exercise.binary()).unwrap() {
            if path.starts_with("src") {
                server.save(&id, path.to_str().unwrap(), &text);
            }
        }
        let passes = check();
        if passes["status"] != 0 {
            wrong
                .push(format!("{id}: its solution does not pass: {} {}", passes["cause"], passes["verdict"]));
        }
        println!("{id}: {took:.1} s to the first verdict");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_workshop_does_not_trace_itself() {
    let cache = tempfile::tempdir().unwrap();
    let server = workshop(cache.path());
    server.post("/api/works/03.2/start");
    let source = "src/bpf/bio_trace.bpf.c";
    let text = server.file("03.2", source);
    let compiles = |text: &str| {
        server.save("03.2", source, text);
        let arguments = json!({ "name": "03.2", "mine": true, "arguments": "--io none -- --help" });
        ended(&server, &act(&server, "/api/run", &arguments)["terminal"])["status"] == 0
    };
    for (name, io, line) in [
        ("01", "write /dev/scratch --count 1", "submit_bio("),
        ("07", "write /dev/scratch --count 1", "time duration: "),
        ("08", "read-cold /mnt/f", "mm_filemap_add_to_page_cache ("),
    ] {
        let run = act(&server, "/api/run", &json!({ "name": name, "arguments": "--io none" }));
        let path = format!("/api/terminals/{}", run["terminal"]);
        let mut terminal = socket(&server, &path);
        until(&mut terminal, "Tracing.");
        // Somebody types, and compiles.
        for nth in 0..20 {
            server.save("03.2", source, &format!("{text}/* {nth} */\n"));
        }
        assert!(!compiles(&text.replacen("u64 end_time", "u65 end_time", 1)), "it has an error");
        assert!(compiles(&text));
        // The workload, which must be the only thing that the stage has seen.
        let mut workload = shell(&server);
        type_in(&mut workload, &format!("sh -c 'echo pid $$ is here; exec io {io}' && echo done-$((1+1))\n"));
        let said = until(&mut workload, "done-2");
        let pid = said.split("pid ").find_map(|rest| rest.split_once(" is here")?.0.parse::<u32>().ok());
        let seen = until_it(&mut terminal, |seen| seen.contains(line));
        server.post(&format!("{path}/interrupt"));
        ended(&server, &run["terminal"]);
        let seen = until(&mut socket(&server, &path), seen.lines().last().unwrap_or_default());
        if name != "08" {
            assert_eq!(seen.matches(line).count(), 1, "{seen}");
            continue;
        }
        // It reads more than once, and first writes the file, which concerns ext4's journal. Each line begins with a task's
        // name and its ID.
        let lines = seen.lines().filter(|line| line.contains("filemap") && !line.starts_with("jbd2/"));
        let by = lines.filter_map(|line| line.split_whitespace().next()?.rsplit_once('-')?.1.parse().ok());
        let by: BTreeSet<u32> = by.collect();
        assert_eq!(by.into_iter().collect::<Vec<_>>(), pid.into_iter().collect::<Vec<_>>(), "{seen}");
    }
}
