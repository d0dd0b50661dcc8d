//! libbpf's log: kept while all goes well, and the evidence when something does not.

use std::mem;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use libbpf_rs::{ErrorKind, PrintLevel, set_print};

use crate::lab::in_the_lab;
use crate::{Error, preflight};

static VERBOSE: AtomicBool = AtomicBool::new(false);
/// What libbpf warned of since the last error that was explained or forgotten.
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

/// Takes the warnings, so that the next error is not explained with them.
fn take() -> String {
    WARNINGS.lock().map(|mut warnings| mem::take(&mut *warnings)).unwrap_or_default()
}

/// Forgets the warnings. Call it when a step of libbpf failed and the run goes on without it: a later error has
/// other reasons.
pub fn forget() {
    take();
}

impl From<libbpf_rs::Error> for Error {
    /// libbpf's own error, told with what libbpf logged on the way to it.
    fn from(error: libbpf_rs::Error) -> Self {
        let explained = explain(&error);
        preflight::missing().unwrap_or(explained)
    }
}

/// An error of libbpf with its cause and a fix, as far as they can be known.
fn explain(error: &libbpf_rs::Error) -> Error {
    explain_with(error.kind(), &format!("{error:#}"), &take(), VERBOSE.load(Ordering::Relaxed))
}

const LOG_BEGINS: &str = "-- BEGIN PROG LOAD LOG --";
const LOG_ENDS: &str = "-- END PROG LOAD LOG --";

fn explain_with(kind: ErrorKind, error: &str, warnings: &str, verbose: bool) -> Error {
    if let Some(verdict) = verifiers_verdict(warnings) {
        let refused = Error::new("the kernel's verifier refused a BPF program").evidence(verdict);
        return refused.fix(if verbose {
            "read the verifier's log above, from its last lines upwards"
        } else {
            "see how it came to that, in the verifier's log: run again with --verbose"
        });
    }
    let words = words(warnings);
    let evidence = if words.is_empty() { error } else { &words };
    match kind {
        ErrorKind::PermissionDenied => Error::new("the kernel does not permit this BPF program or probe")
            .evidence(format!("{evidence}\ncapabilities: {}", preflight::capabilities()))
            .fix(format!(
                "run as root with all capabilities, which a plain container has not, or in the lab: {}",
                in_the_lab()
            )),
        ErrorKind::NotFound => Error::new("the kernel does not have what the program wants to attach to")
            .evidence(evidence)
            .fix(format!("try a kernel that has it: {} --kernel VERSION", in_the_lab())),
        _ => Error::new("libbpf could not load or attach the BPF programs")
            .evidence(evidence)
            .fix("see all that libbpf says: run again with --verbose"),
    }
}

/// The verifier's last words and the line of source they are about: `None` if it was not the verifier. Of several logs
/// the last one counts: it is the program at which libbpf gave up.
fn verifiers_verdict(warnings: &str) -> Option<String> {
    let (_, log) = warnings.rsplit_once(LOG_BEGINS)?;
    let (log, _) = log.split_once(LOG_ENDS)?;
    // After its verdict the verifier tells how much work it had.
    let lines = log.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("processed "));
    let verdict = lines.clone().next_back()?;
    let source = lines.filter_map(|line| line.strip_prefix("; ")).next_back();
    Some([Some(verdict), source].into_iter().flatten().map(str::trim).collect::<Vec<_>>().join("\n"))
}

/// libbpf's warnings without its prefix, and without its guess that a denied permission is about `ulimit -l`: since
/// 5.11 BPF memory is not counted there at all, and libbpf raises the limit itself where it is.
fn words(warnings: &str) -> String {
    let lines = warnings.lines().filter(|line| !line.contains("ulimit") && !line.is_empty());
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
        let error = explain_with(ErrorKind::PermissionDenied, "EPERM", log, false).to_string();
        assert!(!error.contains("ulimit"), "{error}");
        insta::with_settings!({filters => [(r"capabilities: .*", "capabilities: [...]")]}, {
            insta::assert_snapshot!(error);
        });
    }

    #[test]
    fn the_verifiers_verdict_is_the_evidence() {
        let log = "libbpf: prog 'bio_endio_entry': BPF program load failed: -EACCES\n\
                   libbpf: prog 'bio_endio_entry': -- BEGIN PROG LOAD LOG --\n\
                   0: R1=ctx() R10=fp0\n\
                   ; start_time = bpf_map_lookup_elem(&start_map, &key); @ bio_trace.bpf.c:52\n\
                   15: (85) call bpf_map_lookup_elem#1   ; R0_w=map_value_or_null(id=3)\n\
                   ; bpf_printk(\"%llu ns\", end_time - *start_time); @ bio_trace.bpf.c:54\n\
                   16: (79) r1 = *(u64 *)(r0 +0)\n\
                   R0 invalid mem access 'map_value_or_null'\n\
                   processed 15 insns (limit 1000000) max_states_per_insn 0 total_states 1\n\
                   -- END PROG LOAD LOG --\n\
                   libbpf: prog 'bio_endio_entry': failed to load: -EACCES\n";
        let explain = |verbose| explain_with(ErrorKind::PermissionDenied, "EACCES", log, verbose);
        insta::assert_snapshot!(explain(false), @r#"
        the kernel's verifier refused a BPF program
          evidence: R0 invalid mem access 'map_value_or_null'
                    bpf_printk("%llu ns", end_time - *start_time); @ bio_trace.bpf.c:54
          fix:      see how it came to that, in the verifier's log: run again with --verbose
        "#);
        assert!(explain(true).to_string().contains("the verifier's log above"));
    }

    /// A verifier's log of one program, as libbpf warns of it.
    fn refusal(verdict: &str) -> String {
        format!(
            "libbpf: prog 'p': {LOG_BEGINS}\n{verdict}\n{LOG_ENDS}\nlibbpf: prog 'p': failed to load: -EACCES\n"
        )
    }

    /// The only test that uses the process's own log.
    #[test]
    fn an_error_is_explained_with_its_own_warnings() {
        let error = || Error::from(libbpf_rs::Error::from_raw_os_error(2)).to_string();
        log(PrintLevel::Warn, refusal("R0 invalid mem access"));
        log(PrintLevel::Debug, "libbpf: what it does\n".to_owned());
        assert!(error().contains("evidence: R0 invalid mem access"));
        log(PrintLevel::Warn, "libbpf: prog 'q': failed to attach\n".to_owned());
        let later = error();
        assert!(later.contains("evidence: prog 'q': failed to attach\n") && !later.contains("R0"), "{later}");
        log(PrintLevel::Warn, refusal("R1 of what the run goes on without"));
        forget();
        log(PrintLevel::Warn, refusal("R2 type=scalar expected=fp"));
        let last = error();
        assert!(last.contains("evidence: R2 type=scalar expected=fp"), "{last}");
    }

    #[test]
    fn of_several_logs_the_last_one_is_the_evidence() {
        let logs = refusal("R1 is the first") + &refusal("R2 is the last");
        assert_eq!(verifiers_verdict(&logs).as_deref(), Some("R2 is the last"));
    }

    #[test]
    fn without_a_log_the_error_itself_is_the_evidence() {
        let error = explain_with(ErrorKind::Other, "something else", "", false).to_string();
        assert!(error.contains("evidence: something else"), "{error}");
    }
}
