//! libbpf's log. We keep its warnings, and show them as evidence when something fails.

use std::mem;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use libbpf_rs::{ErrorKind, PrintLevel, set_print};

use crate::lab::in_the_lab;
use crate::{Error, preflight};

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

/// Takes the warnings out, because they don't explain a later error.
fn take() -> String {
    WARNINGS.lock().map(|mut warnings| mem::take(&mut *warnings)).unwrap_or_default()
}

/// Forgets the warnings. Call it when a step of libbpf failed and the run goes on without it: these warnings don't
/// explain a later error.
pub fn forget() {
    take();
}

impl From<libbpf_rs::Error> for Error {
    /// Explains libbpf's error with the warnings that libbpf logged before it.
    fn from(error: libbpf_rs::Error) -> Self {
        let explained = explain(&error);
        preflight::missing().unwrap_or(explained)
    }
}

/// Finds a cause and a fix for an error of libbpf, as far as we can know them.
fn explain(error: &libbpf_rs::Error) -> Error {
    explain_with(error.kind(), &format!("{error:#}"), &take(), VERBOSE.load(Ordering::Relaxed))
}

const LOG_BEGINS: &str = "-- BEGIN PROG LOAD LOG --";
const LOG_ENDS: &str = "-- END PROG LOAD LOG --";

fn explain_with(kind: ErrorKind, error: &str, warnings: &str, verbose: bool) -> Error {
    if let Some(verdict) = verifiers_verdict(warnings) {
        let refused = Error::new("the kernel's verifier refused a BPF program").evidence(verdict);
        return refused.fix(if verbose {
            "read the verifier's log above, from its end"
        } else {
            "run it again with --verbose, and read the verifier's log from its end"
        });
    }
    let warnings = without_guesses(warnings);
    let evidence = if warnings.is_empty() { error } else { &warnings };
    match kind {
        ErrorKind::PermissionDenied => Error::new("the kernel does not permit this BPF program or probe")
            .evidence(format!("{evidence}\ncapabilities: {}", preflight::capabilities()))
            .fix(format!(
                "run it as root with all capabilities, which a plain container lacks, or in the lab: {}",
                in_the_lab()
            )),
        ErrorKind::NotFound => Error::new("the kernel does not have what the program wants to attach to")
            .evidence(evidence)
            .fix(format!("try a kernel that has it: {} --kernel VERSION", in_the_lab())),
        _ => Error::new("libbpf could not load or attach the BPF programs")
            .evidence(evidence)
            .fix("run it again with --verbose to see libbpf's whole log"),
    }
}

/// The verifier's last message and the source line that it is about; `None` if the verifier didn't refuse anything. If
/// there are several logs, the last one counts, because libbpf gave up at that program.
fn verifiers_verdict(warnings: &str) -> Option<String> {
    let (_, log) = warnings.rsplit_once(LOG_BEGINS)?;
    let (log, _) = log.split_once(LOG_ENDS)?;
    // The verifier's last line is not the verdict, but statistics.
    let lines = log.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("processed "));
    let verdict = lines.clone().next_back()?;
    let source = lines.filter_map(|line| line.strip_prefix("; ")).next_back();
    Some([Some(verdict), source].into_iter().flatten().map(str::trim).collect::<Vec<_>>().join("\n"))
}

/// libbpf's warnings without its prefix, and without its guess that `ulimit -l` caused a denied permission. That guess
/// is never right here: since 5.11 BPF memory doesn't count against this limit, and on older kernels libbpf raises the
/// limit itself.
fn without_guesses(warnings: &str) -> String {
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
          fix:      run it again with --verbose, and read the verifier's log from its end
        "#);
        assert!(explain(true).to_string().contains("the verifier's log above"));
    }

    /// A verifier's log of one program, as it appears in libbpf's warnings.
    fn refusal(verdict: &str) -> String {
        format!(
            "libbpf: prog 'p': {LOG_BEGINS}\n{verdict}\n{LOG_ENDS}\nlibbpf: prog 'p': failed to load: -EACCES\n"
        )
    }

    /// No other test may use the process's own log.
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
