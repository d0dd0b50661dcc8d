//! libbpf's log: kept while all goes well, and the evidence when something does not.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use libbpf_rs::{ErrorKind, PrintLevel, set_print};

use crate::{Error, preflight};

static VERBOSE: AtomicBool = AtomicBool::new(false);
static WARNINGS: Mutex<String> = Mutex::new(String::new());

/// From here on libbpf's log is shown (`verbose`) or only its warnings are kept.
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

/// An error of libbpf with its cause and a fix, as far as they can be known.
pub(crate) fn explain(error: &libbpf_rs::Error) -> Error {
    let warnings = WARNINGS.lock().map(|warnings| warnings.clone()).unwrap_or_default();
    explain_with(error.kind(), &format!("{error:#}"), &warnings)
}

const VERIFIER_LOG: &str = "-- BEGIN PROG LOAD LOG --";

fn explain_with(kind: ErrorKind, error: &str, warnings: &str) -> Error {
    let words = evidence(warnings);
    let evidence = if words.is_empty() { error } else { &words };
    if warnings.contains(VERIFIER_LOG) {
        return Error::new("the kernel's verifier refused a BPF program")
            .evidence(evidence)
            .fix("read the verifier's log, from its last lines upwards: run again with --verbose");
    }
    match kind {
        ErrorKind::PermissionDenied => Error::new("the kernel does not permit this BPF program or probe")
            .evidence(format!("{evidence}\ncapabilities: {}", preflight::capabilities()))
            .fix(format!(
                "run as root with all capabilities, which a plain container has not, or in the lab: {}",
                preflight::in_the_lab()
            )),
        ErrorKind::NotFound => Error::new("the kernel does not have what the program wants to attach to")
            .evidence(evidence)
            .fix(format!("try a kernel that has it: {} --kernel VERSION", preflight::in_the_lab())),
        _ => Error::new("libbpf could not load or attach the BPF programs")
            .evidence(evidence)
            .fix("see all that libbpf says: run again with --verbose"),
    }
}

/// The warnings that say something, without libbpf's prefix, without the verifier's log (it is long), and without
/// libbpf's guess that a denied permission is about `ulimit -l`: since 5.11 BPF memory is not counted there at all,
/// and libbpf raises the limit itself where it is.
fn evidence(warnings: &str) -> String {
    let mut in_verifier_log = false;
    let lines = warnings.lines().filter(|line| {
        if line.contains(VERIFIER_LOG) {
            in_verifier_log = true;
        }
        let tell = !in_verifier_log && !line.contains("ulimit") && !line.is_empty();
        if line.contains("-- END PROG LOAD LOG --") {
            in_verifier_log = false;
        }
        tell
    });
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
        let error = explain_with(ErrorKind::PermissionDenied, "EPERM", log).to_string();
        assert!(!error.contains("ulimit"), "{error}");
        insta::with_settings!({filters => [(r"capabilities: .*", "capabilities: [...]")]}, {
            insta::assert_snapshot!(error);
        });
    }

    #[test]
    fn the_verifiers_log_is_for_verbose() {
        let log = "libbpf: prog 'submit_bio_entry': BPF program load failed: Invalid argument\n\
                   libbpf: prog 'submit_bio_entry': -- BEGIN PROG LOAD LOG --\n\
                   0: (85) call unknown#195896080\n\
                   invalid func unknown#195896080\n\
                   -- END PROG LOAD LOG --\n\
                   libbpf: prog 'submit_bio_entry': failed to load: -22\n";
        insta::assert_snapshot!(explain_with(ErrorKind::InvalidInput, "EINVAL", log), @r"
        the kernel's verifier refused a BPF program
          evidence: prog 'submit_bio_entry': BPF program load failed: Invalid argument
                    prog 'submit_bio_entry': failed to load: -22
          fix:      read the verifier's log, from its last lines upwards: run again with --verbose
        ");
    }

    #[test]
    fn without_a_log_the_error_itself_is_the_evidence() {
        let error = explain_with(ErrorKind::Other, "something else", "").to_string();
        assert!(error.contains("evidence: something else"), "{error}");
    }
}
