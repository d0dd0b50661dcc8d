//! libbpf's log. We keep its warnings, and show them as evidence when something fails.

use std::fs;
use std::mem;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use libbpf_rs::{ErrorKind, PrintLevel, set_print};

use crate::lab::in_the_lab;
use crate::{Error, kernel_types, preflight, section};
use verifier::Object;

static VERBOSE: AtomicBool = AtomicBool::new(false);
/// libbpf's warnings since the last call of [`take`].
static WARNINGS: Mutex<String> = Mutex::new(String::new());

/// From now on, keeps libbpf's warnings, and with `verbose` shows its whole log.
pub fn capture(verbose: bool) {
    VERBOSE.store(verbose, Ordering::Relaxed);
    set_print(Some((PrintLevel::Debug, log)));
}

fn log(level: PrintLevel, text: String) {
    if VERBOSE.load(Ordering::Relaxed) {
        eprint!("{text}");
    }
    if level == PrintLevel::Warn
        && let Ok(mut warnings) = WARNINGS.lock()
    {
        warnings.push_str(&text);
    }
}

/// Takes the warnings out: what libbpf logged since the last call, and what this kernel's types are where libbpf only says
/// that they don't fit. They don't explain a later error.
pub fn take() -> String {
    let warnings = WARNINGS.lock().map(|mut warnings| mem::take(&mut *warnings)).unwrap_or_default();
    let types = kernel_types::about(&warnings).unwrap_or_default();
    warnings + &types
}

/// Forgets the warnings. Call it when a step of libbpf failed and the run goes on without it: these warnings don't
/// explain a later error.
pub fn forget() {
    if let Ok(mut warnings) = WARNINGS.lock() {
        warnings.clear();
    }
}

impl From<libbpf_rs::Error> for Error {
    /// Explains libbpf's error with the warnings that libbpf logged before it.
    fn from(error: libbpf_rs::Error) -> Self {
        // Only a failure costs the time to read the file of this program, which contains the BPF objects.
        let explained = explain(&error, &fs::read("/proc/self/exe").unwrap_or_default());
        preflight::missing().unwrap_or(explained)
    }
}

/// Finds a cause and a fix for an error of libbpf, as far as we can know them. The BPF object that was loaded is `file`,
/// or somewhere in it.
pub fn explain(error: &libbpf_rs::Error, file: &[u8]) -> Error {
    let (text, verbose) = (format!("{error:#}"), VERBOSE.load(Ordering::Relaxed));
    let mut objects = Object::find_all(file);
    if let Ok(ours) = preflight::SECTIONS.lock()
        && !ours.is_empty()
    {
        let name = |section: &str| section.trim_start_matches('?').to_owned();
        let has = |object: &Object, ours: &str| object.sections().any(|section| name(section) == name(ours));
        objects.retain(|object| ours.iter().all(|ours| has(object, ours)));
    }
    explain_with(error.kind(), &text, &take(), &objects, verbose, preflight::may_trace())
}

fn explain_with(
    kind: ErrorKind,
    error: &str,
    warnings: &str,
    objects: &[Object],
    verbose: bool,
    may_trace: bool,
) -> Error {
    let sections = || objects.iter().flat_map(Object::sections);
    if let Some(wrong) = sections().find_map(|name| section::check(name).err()) {
        return wrong;
    }
    if let Some(refusal) = verifier::explain(warnings, objects) {
        let is_unknown = refusal.is_unknown();
        let refused = Error::from(refusal);
        return if verbose && is_unknown {
            refused.fix("read the verifier's log above, from its end")
        } else {
            refused
        };
    }
    // Debian and Ubuntu have values above the kernel's own, 2.
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let is_paranoid = paranoid.trim().parse::<i32>().is_ok_and(|level| level > 2);
    let warnings = without_guesses(warnings);
    let evidence = if warnings.is_empty() { error } else { &warnings };
    if let Some(nameless) = section::nameless(sections(), error) {
        return nameless;
    }
    match kind {
        // Then it is not about permissions: kernels also use these numbers for programs that they don't accept.
        ErrorKind::PermissionDenied if may_trace => {
            Error::new("the kernel does not accept this BPF program or probe")
                .evidence(format!("{evidence}\nthis process has all capabilities that it needs"))
                .fix("run it again with --verbose to see libbpf's whole log")
        }
        ErrorKind::PermissionDenied
            if is_paranoid
                && ["perf event", "perf buffer event"].iter().any(|what| evidence.contains(what)) =>
        {
            Error::new("this kernel permits perf events, which kprobes and perf buffers are, only to root")
                .evidence(format!(
                    "{evidence}\nkernel.perf_event_paranoid is {}, so CAP_PERFMON is not enough",
                    paranoid.trim()
                ))
                .fix("sudo sysctl kernel.perf_event_paranoid=2, or add CAP_SYS_ADMIN")
        }
        ErrorKind::PermissionDenied => Error::new("the kernel does not permit this BPF program or probe")
            .evidence(format!("{evidence}\ncapabilities: {}", preflight::capabilities()))
            .fix(format!(
                "run it as root with all capabilities, which a plain container lacks, or in the lab: {}",
                in_the_lab()
            )),
        ErrorKind::NotFound => Error::new("the kernel does not have what the program wants to attach to")
            .evidence(evidence)
            .fix(format!("try a kernel that has it, with --kernel: {}", in_the_lab())),
        _ => Error::new("libbpf could not load or attach the BPF programs")
            .evidence(evidence)
            .fix("run it again with --verbose to see libbpf's whole log"),
    }
}

/// libbpf's warnings without its prefix, and without its guess that `ulimit -l` caused a denied permission. That guess
/// is never right here: since 5.11 BPF memory doesn't count against this limit, and on older kernels libbpf raises the
/// limit itself.
fn without_guesses(warnings: &str) -> String {
    let is_guess = |line: &&str| line.contains("ulimit") || line.contains("RLIMIT_MEMLOCK");
    let lines = warnings.lines().filter(|line| !is_guess(line) && !line.is_empty());
    lines.map(|line| line.trim_start_matches("libbpf: ")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denied_permission_is_not_blamed_on_ulimit() {
        let log = "libbpf: prog 'submit_bio_entry': BPF program load failed: Operation not permitted\n\
                   libbpf: permission error while running as root; try raising 'ulimit -l'? current value: 8192 KiB\n\
                   libbpf: prog 'submit_bio_entry': failed to load: -1\n\
                   libbpf: failed to load object 'bio_trace_bpf'\n";
        let error = explain_with(ErrorKind::PermissionDenied, "EPERM", log, &[], false, false).to_string();
        assert!(!error.contains("ulimit"), "{error}");
        insta::with_settings!({filters => [(r"capabilities: .*", "capabilities: [...]")]}, {
            insta::assert_snapshot!(error);
        });
    }

    #[test]
    fn who_may_do_everything_is_not_told_to_become_root() {
        let log = "libbpf: prog 'p': failed to create something: -EACCES\n";
        let error = explain_with(ErrorKind::PermissionDenied, "EACCES", log, &[], false, true).to_string();
        assert!(error.contains("failed to create something: -EACCES") && !error.contains("root"), "{error}");
    }

    #[test]
    fn an_unknown_refusal_points_to_the_log() {
        let explain = |verbose| {
            explain_with(ErrorKind::PermissionDenied, "EACCES", &refusal("R0 is odd"), &[], verbose, false)
                .to_string()
        };
        assert!(explain(false).contains("--verbose"), "{}", explain(false));
        assert!(explain(true).contains("the verifier's log above"), "{}", explain(true));
    }

    /// A verifier's log of one program, as it appears in libbpf's warnings.
    fn refusal(verdict: &str) -> String {
        format!(
            "libbpf: prog 'p': -- BEGIN PROG LOAD LOG --\n{verdict}\n-- END PROG LOAD LOG --\nlibbpf: prog 'p': failed to load: -EACCES\n"
        )
    }

    /// No other test may use the process's own log.
    #[test]
    fn an_error_is_explained_with_its_own_warnings() {
        let error = || Error::from(libbpf_rs::Error::from_raw_os_error(2)).to_string();
        log(PrintLevel::Warn, refusal("R0 invalid mem access"));
        log(PrintLevel::Debug, "libbpf: what it does\n".to_owned());
        assert!(error().contains("R0 invalid mem access"));
        log(PrintLevel::Warn, "libbpf: prog 'q': failed to attach\n".to_owned());
        let later = error();
        assert!(later.contains("evidence: prog 'q': failed to attach\n") && !later.contains("R0"), "{later}");
        log(PrintLevel::Warn, refusal("R1 of what the run goes on without"));
        forget();
        log(PrintLevel::Warn, refusal("R2 type=scalar expected=fp"));
        let last = error();
        assert!(last.contains("R2 type=scalar expected=fp"), "{last}");
    }

    #[test]
    fn without_a_log_the_error_itself_is_the_evidence() {
        let error = explain_with(ErrorKind::Other, "something else", "", &[], false, false).to_string();
        assert!(error.contains("evidence: something else"), "{error}");
    }
}
