//! What programs refuse before they trace anything, and what they say then: one clear error with cause, evidence and fix.
//! They leave nothing behind. The commands are in `refusals.toml`.

use std::process::Command;

use serde::Deserialize;

use crate::guest::{AtEnd, instances, programs, quiet};
use crate::{Case, cases};

pub const CASES: &[Case] = cases![each_refusal_says_why(Once)];

/// What the commands use: a user with some capabilities, somebody who has none, and a program that can't see a part of
/// `/sys`. Without its path, the shell would run BusyBox's own setpriv, which has fewer options.
const FUNCTIONS: &str = r#"
    user() { /bin/setpriv --reuid=1000 --clear-groups --inh-caps=-all,$1 --ambient-caps=-all,$1 stage03 --duration 0.1; }
    nobody() { /bin/setpriv --reuid=65534 $1; }
    hidden() { unshare -m sh -c "mount -t tmpfs hidden $1 && exec $2"; }
"#;

#[derive(Deserialize)]
struct Refusals {
    refusal: Vec<Refusal>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refusal {
    command: String,
    #[serde(default = "usual_status")]
    status: i32,
    says: Vec<String>,
}

fn usual_status() -> i32 {
    1
}

fn each_refusal_says_why() {
    quiet();
    let _end = AtEnd("rm -f /tmp/data /tmp/tracers; echo 1 > /sys/kernel/tracing/tracing_on");
    let Refusals { refusal: all } = toml::from_str(include_str!("refusals.toml")).unwrap();
    for Refusal { command, status, says } in all {
        let before = programs();
        let output = Command::new("sh").args(["-c", &format!("{FUNCTIONS}{command}")]).output().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert_eq!(output.status.code(), Some(status), "{command}: {stderr}");
        assert!(stderr.starts_with(&says[0]), "{command}: {stderr}");
        assert!(says.iter().all(|part| stderr.contains(part)), "{command}, {says:?}: {stderr}");
        assert!(stdout.is_empty() || status == 0, "{command}: an error goes to stderr, not {stdout}");
        // libbpf's guess would be wrong.
        assert!(!stderr.contains("ulimit"), "{command}: {stderr}");
        assert_eq!(instances(), [""; 0], "{command}");
        assert!(programs().is_subset(&before), "{command}");
    }
}
