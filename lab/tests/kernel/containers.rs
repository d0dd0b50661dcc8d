//! In a PID namespace, such as a container's, a process has another id than BPF programs see.

use std::process::Command;

use guest::running::Running;
use guest::truth::{histogram, page_cache};

use crate::guest::{AtEnd, quiet, sh};
use crate::pagecache::{EXACT, files};
use crate::{Case, cases};

pub const CASES: &[Case] =
    cases![stage09_counts_a_command_in_a_container, tools_follow_a_process_by_its_id_in_a_container(Outer),];

/// A new PID namespace, whose first process is this program.
const CONTAINER: [&str; 4] = ["unshare", "-p", "-f", "--mount-proc"];

fn stage09_counts_a_command_in_a_container() {
    files();
    sh(&format!("cat {EXACT} > /dev/null"));
    let io = ["io", "read", EXACT, "--count", "256"];
    // A container in a container, too.
    for inner in [&[][..], &CONTAINER] {
        let seen =
            Running::start(&[&CONTAINER, inner, &["stage09", "--"], &io].concat()).unwrap().wait().unwrap();
        assert_eq!(page_cache(&seen).unwrap(), [256, 256, 0, 0], "{seen:?}");
    }
}

/// The process writes nine times, and another one of the same container five times.
fn tools_follow_a_process_by_its_id_in_a_container() {
    quiet();
    // The second is in a container within the container.
    for (start, find) in [
        ("", "pid=$!"),
        ("unshare -p -f ", "until pid=$(cat /proc/$!/task/$!/children) && [ $pid ]; do sleep 0.1; done"),
    ] {
        let bitesize = follow("bitesize", start, find);
        assert_eq!(histogram(&bitesize).count(), 9, "{bitesize}");
        let (asked, shown) = bitesize.split_once("PID: ").unwrap();
        assert_ne!(asked.lines().next(), shown.split(' ').next(), "{bitesize}");
        assert!(
            bitesize.contains("processes are printed with the ids that they have outside.\n"),
            "{bitesize}"
        );
        let lives = follow("ctracer", start, find);
        assert!(lives.contains(", lives: 9, without an end: 0, "), "{lives}");
    }
}

/// What a tool prints in a container with a process that `start` starts, and whose id `find` finds.
fn follow(tool: &str, start: &str, find: &str) -> String {
    let script = format!(
        "cd /tmp && mkfifo go || exit 1
        {start}sh -c 'read go < go; exec io write /dev/scratch --count 9' > /dev/null &
        {find}
        echo $pid
        {tool} --pid $pid > out 2> err & tool=$!
        until grep -q ^Tracing err; do kill -0 $tool || {{ cat err; exit 1; }}; sleep 0.1; done
        io write /dev/scratch --count 5 > io
        echo > go; while kill -0 $pid 2> err2; do sleep 0.1; done
        kill -TERM $tool; wait $tool; cat out err"
    );
    let _removed = AtEnd("cd /tmp; rm -f go out err err2 io");
    let container = Command::new(CONTAINER[0]).args(&CONTAINER[1..]).args(["sh", "-c", &script]).output();
    let output = container.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    stdout
}
