//! Records which kernel functions one process calls, with ftrace's `function_graph` tracer.
//!
//! On 6.12 and 7.2 the tracer works in a private tracefs instance. On 5.10 and 6.1 instances refuse it, so we use the
//! one for the whole machine, if nobody else does. In both cases it records only the process in `set_ftrace_pid`.

use std::fs;
use std::path::{Path, PathBuf};

use common::kernel_pid::kernel_pid;
use common::tracefs::{self, Instance};
use common::{Error, OrCause, Result};

/// The tracer's name in `available_tracers`, and in the list of what an example needs.
pub const FUNCTION_GRAPH: &str = "function_graph";

/// Settings that apply to every call graph on the machine, even in instances, and how the file begins when nobody uses
/// them.
const OF_ALL: [(&str, &str); 8] = [
    ("max_graph_depth", "0"),
    ("set_graph_function", "#"),
    ("set_graph_notrace", "#"),
    ("tracing_thresh", "0"),
    // Instances share these options with the common buffer, or take them from there when they are made.
    ("options/context-info", "1"),
    ("options/funcgraph-cpu", "1"),
    ("options/funcgraph-duration", "1"),
    ("options/sleep-time", "1"),
];

/// Settings of the buffer that the whole machine shares.
const OF_COMMON: [(&str, &str); 6] = [
    ("current_tracer", "nop"),
    ("set_ftrace_pid", "no pid"),
    ("set_ftrace_notrace_pid", "no pid"),
    ("set_ftrace_filter", "#"),
    ("set_ftrace_notrace", "#"),
    ("tracing_on", "1"),
];

/// Records what one process calls in the kernel. Dropping it switches the tracer off and clears its filters. The shared
/// buffer keeps its size.
#[derive(Debug)]
pub struct FunctionGraph {
    folder: PathBuf,
    /// Removed after the tracer is off.
    _instance: Option<Instance>,
}

impl FunctionGraph {
    /// Prepares to record a process's calls of the functions that `is_wanted` accepts. If we are killed, the tracer
    /// stays on until somebody calls [`clear`].
    ///
    /// # Errors
    /// If somebody else is using the tracer, or the kernel refuses.
    pub fn of(pid: u32, is_wanted: impl Fn(&str) -> bool) -> Result<Self> {
        let (tracefs, pid) = (tracefs::path()?, kernel_pid(pid)?);
        unused(&tracefs, &OF_ALL)?;
        let list = tracefs.join("available_filter_functions");
        let list = fs::read_to_string(&list).or_cause(format!("cannot read {}", list.display()))?;
        let functions = numbers(&list, |name| is_wanted(name) || is_interrupt(name));
        let cause = "cannot start the kernel's function tracer";
        let instance = Instance::create(&tracefs)?;
        let graph = Self { folder: instance.path.clone(), _instance: Some(instance) };
        graph.choose(pid, &functions).or_cause(cause)?;
        // Up to 6.1 an instance refuses this tracer, but none of the settings before.
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
        // This comes first, because clear() recognizes our settings by it.
        self.set("set_ftrace_pid", &pid.to_string())?;
        self.set("tracing_on", "0")?;
        self.set("set_ftrace_filter", functions)?;
        // The shared buffer is tiny before its first use, and before 6.12 this tracer doesn't make it grow. If somebody
        // chose a size, we keep it.
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

    /// Records while `work` makes the process do something. Returns the result of `work`, and the text of the
    /// trace.
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
        // We do this even for an instance: if somebody is reading it, it can't be removed yet.
        if let Err(error) = off(&self.folder) {
            eprintln!("warning: the kernel's tracer may still be on: {error}");
        }
    }
}

/// Whether an interrupt begins with this function, on x86-64. An interrupt has nothing to do with the function that it
/// interrupts.
pub fn is_interrupt(name: &str) -> bool {
    let name = name.trim_start_matches('_');
    let begins = ["irq_enter", "irq_exit", "sysvec_", "common_interrupt", "do_softirq", "handle_softirqs"];
    begins.iter().any(|begin| name.starts_with(begin))
        || name.starts_with("handle_") && name.ends_with("_irq")
}

/// Switches off the tracer if it records the process `pid`. The recorded process calls this when the process that
/// recorded it is gone.
pub fn clear(pid: u32) -> Result<()> {
    let (tracefs, pid) = (tracefs::path()?, kernel_pid(pid)?);
    let _lock = Instance::lock(&tracefs)?;
    for folder in Instance::all(&tracefs).into_iter().chain([tracefs.clone()]) {
        let recorded = fs::read_to_string(folder.join("set_ftrace_pid")).unwrap_or_default();
        if recorded.trim() == pid.to_string() {
            off(&folder).or_cause("cannot switch the kernel's tracer off")?;
            if folder != tracefs {
                // This fails if somebody is reading it; then the next run removes it.
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

/// The line numbers that some functions have in `available_filter_functions`. The kernel finds a function much faster
/// if you write its number to `set_ftrace_filter` instead of its name.
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
            // The kernel prints these two for an empty list. To empty a list, you write nothing.
            let default = if ["#", "no pid"].contains(unused) { String::new() } else { format!("{unused} ") };
            return Err(Error::new("somebody else is using the kernel's function tracer")
                .evidence(format!("{}: {}", path.display(), found.trim_end()))
                .fix(format!(
                    "end that program, or, if nobody needs this setting any more: echo {default}> {}",
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
    fn a_tracer_in_use_is_an_error_that_shows_the_setting() {
        let tracefs = tempfile::tempdir().unwrap();
        let set = |file: &str, text: &str| fs::write(tracefs.path().join(file), text).unwrap();
        let error = |settings: &[(&str, &str)]| {
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
        insta::assert_snapshot!(error(&OF_COMMON), @r"
        somebody else is using the kernel's function tracer
          evidence: [tracefs]/current_tracer: function
          fix:      end that program, or, if nobody needs this setting any more: echo nop > [tracefs]/current_tracer
        ");
        insta::assert_snapshot!(error(&OF_ALL), @r"
        somebody else is using the kernel's function tracer
          evidence: [tracefs]/set_graph_function: vfs_read
                    vfs_write
          fix:      end that program, or, if nobody needs this setting any more: echo > [tracefs]/set_graph_function
        ");
    }
}
