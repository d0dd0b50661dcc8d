//! The process ids that BPF programs see.
//!
//! A process has an id in its PID namespace, such as a container's, and another one in each namespace around it.
//! `bpf_get_current_pid_tgid()` and everything else in the kernel that traces use the outermost, which no file shows
//! to a process inside.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::tracefs::{self, Instance};
use crate::{Error, OrCause, Result};

/// The link to the outermost namespace; its number is `PROC_PID_INIT_INO` in the kernel.
const OUTERMOST: &str = "pid:[4026531836]";

fn namespace() -> PathBuf {
    fs::read_link("/proc/self/ns/pid").unwrap_or_default()
}

/// Whether we are in a container's namespace. If nothing says so, we are in the outermost.
pub(crate) fn is_inside() -> bool {
    ![Path::new(OUTERMOST), Path::new("")].contains(&&*namespace())
}

/// The id that BPF programs see for the process that has this id here.
///
/// Outside of containers it is the same. Inside, we let the kernel say it: when somebody waits for a process, it
/// reports that process's outermost id in the tracepoint `sched_process_wait`, even if the process is no child of ours
/// and the wait therefore fails at once.
pub fn kernel_pid(pid: u32) -> Result<u32> {
    if !is_inside() {
        return Ok(pid);
    }
    let cannot = format!("cannot find out which id process {pid} has outside of this PID namespace");
    let instance = Instance::create(&tracefs::path()?)?;
    let set = |file: &str, text: &str| {
        tracefs::write(&instance.path.join(file), text).or_cause(&cannot).map_err(in_namespace)
    };
    set("events/sched/sched_process_wait/enable", "1")?;
    // With this line, the trace shows which thread we are.
    set("trace_marker", MARK)?;
    let _ = waitid(
        Id::Pid(Pid::from_raw(pid as i32)),
        WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT,
    );
    set("events/sched/sched_process_wait/enable", "0")?;
    let trace = fs::read_to_string(instance.path.join("trace")).or_cause(&cannot)?;
    match waited_for(&trace) {
        Some(found) if found > 0 => Ok(found),
        Some(_) => Err(Error::new(format!("there is no process {pid}"))
            .evidence(format!("it is not in this PID namespace, {}", namespace().display()))
            .fix("list the running processes: ps -e")),
        None => Err(in_namespace(Error::new(cannot).evidence(trace.trim()))),
    }
}

fn in_namespace(error: Error) -> Error {
    error.fix("run it outside of the container, with the id that the process has there")
}

const MARK: &str = "workbook: which id?";

/// For whom the thread waited that wrote the mark.
fn waited_for(trace: &str) -> Option<u32> {
    let mut lines = trace.lines().skip_while(|line| !line.ends_with(MARK));
    // NAME-ID [CPU] FLAGS TIME: EVENT. A name can contain anything.
    let thread = |line: &str, event: &str| {
        let head = line.rsplit_once(event)?.0.rsplit_once(" [")?.0.trim_end();
        // The id of the process, if somebody has set the option record-tgid.
        let head = if head.ends_with(')') { head.rsplit_once('(')?.0 } else { head };
        head.rsplit_once('-')?.1.trim().parse::<u32>().ok()
    };
    let ours = thread(lines.next()?, ": tracing_mark_write: ")?;
    let wait = lines.find(|line| thread(line, ": sched_process_wait: ") == Some(ours))?;
    wait.rsplit_once(" prio=")?.0.rsplit_once(" pid=")?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_shows_for_whom_we_waited() {
        let trace = format!(
            "# tracer: nop\n#\n\
             \x20         stage09-71      [001] .....     1.5: sched_process_wait: comm=stage09 pid=1 prio=120\n\
             \x20         stage09-70      [001] .....     2.5: tracing_mark_write: {MARK}\n\
             \x20          [x] - y-72      [000] .....     3.5: sched_process_wait: comm=[x] - y pid=2 prio=120\n\
             \x20         stage09-70      [001] .....     4.5: sched_process_wait: comm=a pid=3 prio=1 pid=4711 prio=120\n"
        );
        assert_eq!(waited_for(&trace), Some(4711));
        let with_processes =
            trace.replace("-70  ", "-70      (     70)").replace("-71  ", "-71      (-------)");
        assert_eq!(waited_for(&with_processes), Some(4711));
        assert_eq!(waited_for(trace.split_once("[x]").unwrap().0), None);
        assert_eq!(waited_for(""), None);
    }

    #[test]
    fn outside_of_containers_an_id_is_what_it_is() {
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap();
        if namespace == Path::new(OUTERMOST) {
            assert_eq!(kernel_pid(7), Ok(7));
        }
    }
}
