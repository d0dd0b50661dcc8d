//! The kernel's own tracer of calls, ftrace's `function_graph`: what one process calls in the kernel.
//!
//! It works in a tracefs instance of our own on 6.12 and 7.2. On 5.10 and 6.1 an instance refuses it, and there is one for the
//! whole machine, which we take if nobody else uses it. In both cases it records the process that is in `set_ftrace_pid`,
//! and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use crate::tracefs::{self, Instance};
use crate::{Error, OrCause, Result, call_graph};

/// Its name in `available_tracers`, and in the list of what an example needs.
pub const FUNCTION_GRAPH: &str = "function_graph";

/// Settings that hold for every call graph of the machine, also in instances, and how they begin when nobody uses them.
const OF_ALL: [(&str, &str); 4] = [
    ("max_graph_depth", "0"),
    ("set_graph_function", "#"),
    ("set_graph_notrace", "#"),
    ("tracing_thresh", "0"),
];

/// Those of the machine's common buffer.
const OF_COMMON: [(&str, &str); 6] = [
    ("current_tracer", "nop"),
    ("set_ftrace_pid", "no pid"),
    ("set_ftrace_notrace_pid", "no pid"),
    ("set_ftrace_filter", "#"),
    ("set_ftrace_notrace", "#"),
    ("tracing_on", "1"),
];

/// Records what one process calls in the kernel. When dropped, the tracer is off again, and chooses nothing; the common
/// buffer keeps its room.
#[derive(Debug)]
pub struct FunctionGraph {
    folder: PathBuf,
    /// Removed after the tracer is off.
    _instance: Option<Instance>,
}

impl FunctionGraph {
    /// Makes ready to record which of the functions that `is_wanted` a process calls. If we are killed, the tracer stays on
    /// until somebody calls [`clear`].
    ///
    /// # Errors
    /// If somebody else uses the tracer, or the kernel refuses.
    pub fn of(pid: u32, is_wanted: impl Fn(&str) -> bool) -> Result<Self> {
        let tracefs = tracefs::path()?;
        unused(&tracefs, &OF_ALL)?;
        let list = tracefs.join("available_filter_functions");
        let list = fs::read_to_string(&list).or_cause(format!("cannot read {}", list.display()))?;
        let functions = numbers(&list, |name| is_wanted(name) || call_graph::is_interrupt(name));
        let cause = "the kernel does not record what it calls";
        let instance = Instance::create(&tracefs)?;
        let graph = Self { folder: instance.path.clone(), _instance: Some(instance) };
        graph.choose(pid, &functions).or_cause(cause)?;
        // Up to 6.1 an instance refuses this, and this alone.
        if graph.start().is_ok() {
            return Ok(graph);
        }
        drop(graph);
        unused(&tracefs, &OF_COMMON)?;
        let graph = Self { folder: tracefs, _instance: None };
        graph.choose(pid, &functions).and_then(|()| graph.start()).or_cause(cause)?;
        Ok(graph)
    }

    fn choose(&self, pid: u32, functions: &str) -> Result<(), String> {
        // First, since clear() knows by it what is ours.
        self.set("set_ftrace_pid", &pid.to_string())?;
        self.set("tracing_on", "0")?;
        self.set("set_ftrace_filter", functions)?;
        // The common buffer has hardly any room before its first use, and this tracer does not make it grow before 6.12. A size
        // that somebody chose stays.
        let size = fs::read_to_string(self.folder.join("buffer_size_kb")).unwrap_or_default();
        if size.split_whitespace().next().and_then(|size| size.parse().ok()).is_some_and(|size: u64| size < 8)
        {
            self.set("buffer_size_kb", "1408")?;
        }
        Ok(())
    }

    fn start(&self) -> Result<(), String> {
        self.set("current_tracer", FUNCTION_GRAPH)
    }

    fn set(&self, file: &str, text: &str) -> Result<(), String> {
        tracefs::write(&self.folder.join(file), text)
    }

    /// Records while `work` makes the process do something. Gives what came of it, and the text of the trace, which
    /// [`crate::call_graph::parse`] reads.
    ///
    /// # Errors
    /// Those of `work`, or if the trace can't be read.
    pub fn record<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, String)> {
        let cause = "cannot record what the kernel calls";
        self.set("trace", "").and_then(|()| self.set("tracing_on", "1")).or_cause(cause)?;
        let done = work()?;
        self.set("tracing_on", "0").or_cause(cause)?;
        Ok((done, fs::read_to_string(self.folder.join("trace")).or_cause(cause)?))
    }
}

impl Drop for FunctionGraph {
    fn drop(&mut self) {
        // An instance, too: somebody may be reading it, so that it can't be removed now.
        if let Err(error) = off(&self.folder) {
            eprintln!("warning: the kernel's tracer may still be on: {error}");
        }
    }
}

/// Switches off what records the process `pid`, if anything does: for the process itself, when the one that wanted it
/// recorded is gone.
///
/// # Errors
/// If the kernel refuses.
pub fn clear(pid: u32) -> Result<()> {
    let tracefs = tracefs::path()?;
    for folder in Instance::all(&tracefs).into_iter().chain([tracefs.clone()]) {
        let recorded = fs::read_to_string(folder.join("set_ftrace_pid")).unwrap_or_default();
        if recorded.trim() == pid.to_string() {
            off(&folder).or_cause("cannot switch the kernel's tracer off")?;
            if folder != tracefs {
                // Somebody may be reading it; then the next run removes it.
                let _ = fs::remove_dir(folder);
            }
        }
    }
    Ok(())
}

fn off(folder: &Path) -> Result<(), String> {
    [
        ("current_tracer", "nop"),
        ("set_ftrace_filter", ""),
        ("trace", ""),
        ("tracing_on", "1"),
        ("set_ftrace_pid", ""),
    ]
    .into_iter()
    .try_for_each(|(file, text)| tracefs::write(&folder.join(file), text))
}

/// The numbers of some of the kernel's functions in its list, `available_filter_functions`: written to `set_ftrace_filter`, it
/// finds them by these much faster than by their names.
pub fn numbers(list: &str, is_wanted: impl Fn(&str) -> bool) -> String {
    let functions = list.lines().zip(1..);
    let wanted = functions.filter(|(line, _)| line.split_whitespace().next().is_some_and(&is_wanted));
    wanted.map(|(_, number): (_, u32)| format!("{number}\n")).collect()
}

/// Checks that nobody else has changed these settings.
fn unused(tracefs: &Path, settings: &[(&str, &str)]) -> Result<()> {
    for (file, unused) in settings {
        let path = tracefs.join(file);
        let found = fs::read_to_string(&path).unwrap_or_else(|_| (*unused).to_owned());
        if !found.starts_with(unused) {
            // So the kernel shows a list that is empty.
            let default = if ["#", "no pid"].contains(unused) { String::new() } else { format!("{unused} ") };
            return Err(Error::new("somebody else uses the kernel's tracer of calls")
                .evidence(format!("{}: {}", path.display(), found.trim_end()))
                .fix(format!(
                    "end that, or if nobody needs it any more: echo {default}> {}",
                    path.display()
                )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_chosen_by_their_number() {
        let list = "vfs_write\nvfs_read\nnvme_queue_rq [nvme]\nnvme_irq [nvme]\n";
        assert_eq!(numbers(list, |name| ["vfs_read", "nvme_irq"].contains(&name)), "2\n4\n");
    }

    #[test]
    fn who_uses_the_tracer_is_told() {
        let tracefs = tempfile::tempdir().unwrap();
        let set = |file: &str, text: &str| fs::write(tracefs.path().join(file), text).unwrap();
        let told = |settings: &[(&str, &str)]| {
            let error = unused(tracefs.path(), settings).unwrap_err().to_string();
            error.replace(tracefs.path().to_str().unwrap(), "[tracefs]")
        };
        set("current_tracer", "nop\n");
        set("set_ftrace_pid", "no pid\n");
        set("set_graph_function", "#### all functions enabled ####\n");
        assert_eq!(unused(tracefs.path(), &OF_ALL), Ok(()));
        assert_eq!(unused(tracefs.path(), &OF_COMMON), Ok(()));
        set("current_tracer", "function\n");
        set("set_graph_function", "vfs_read\nvfs_write\n");
        insta::assert_snapshot!(told(&OF_COMMON), @r"
        somebody else uses the kernel's tracer of calls
          evidence: [tracefs]/current_tracer: function
          fix:      end that, or if nobody needs it any more: echo nop > [tracefs]/current_tracer
        ");
        insta::assert_snapshot!(told(&OF_ALL), @r"
        somebody else uses the kernel's tracer of calls
          evidence: [tracefs]/set_graph_function: vfs_read
                    vfs_write
          fix:      end that, or if nobody needs it any more: echo > [tracefs]/set_graph_function
        ");
    }
}
