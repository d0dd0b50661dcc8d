//! Stage 12 counts each call that others see: fio, which knows its own calls, and whoever is stopped in one.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::histogram::Histogram;
use guest::null_blk::NullBlk;
use guest::running::{Killed, Running};
use guest::truth;
use serde::Deserialize;

use crate::guest::{quiet, sh, wait_until};
use crate::{Case, cases};

pub const CASES: &[Case] =
    cases![stage12_agrees_with_fio(Peers, Once), stage12_does_not_count_a_call_whose_start_it_did_not_see,];

/// The output of `fio --output-format=json`.
#[derive(Deserialize)]
struct Fio {
    jobs: [BTreeMap<String, serde_json::Value>; 1],
}

/// What fio saw of its reads or of its writes.
#[derive(Debug, Deserialize)]
struct Calls {
    total_ios: u64,
    clat_ns: Range,
}

#[derive(Debug, Deserialize)]
struct Range {
    min: u64,
    max: u64,
}

/// The histogram of these calls, and the number that its heading has.
fn histogram(printed: &str, call: &str) -> (Histogram, u64) {
    let (_, after) = printed.split_once(&format!("\n{call}: ")).unwrap_or_else(|| panic!("{printed}"));
    let (number, rows) = after.split_once('\n').unwrap();
    let rows: Vec<_> = rows.lines().take_while(|line| line.contains(" : ")).collect();
    (truth::histogram(&rows.join("\n")), number.parse().unwrap())
}

/// Each of these engines has other system calls: read() after lseek(), pread64(), readv(), preadv() and preadv2(). Their
/// threads end at different times. fio's clock begins before a call and ends after it, and the disk's time is set.
fn stage12_agrees_with_fio() {
    const DISK: Duration = Duration::from_micros(1 << 15);
    quiet();
    let disk = NullBlk::new("waits", DISK).unwrap();
    let device = disk.device.to_str().unwrap();
    for engine in ["sync", "psync", "vsync", "pvsync", "pvsync2"] {
        let printed = sh(&format!(
            "stage12 -- fio --name=job --filename={device} --rw=randrw --bs=4k --direct=1 --ioengine={engine} --numjobs=4 \
             --thread --group_reporting --number_ios=6 --output-format=json"
        ));
        let (json, _) = printed[printed.find('{').unwrap()..].split_once("\nread: ").unwrap();
        let Fio { jobs: [job] } = serde_json::from_str(json).unwrap();
        let mut all = 0;
        for call in ["read", "write"] {
            let fio: Calls = serde_json::from_value(job[call].clone()).unwrap();
            let (ours, number) = histogram(&printed, call);
            assert_eq!(ours.count(), number, "{printed}");
            let (least, most) = (fio.clat_ns.min / 1000, fio.clat_ns.max / 1000);
            assert!(u128::from(least) >= DISK.as_micros(), "{fio:?}");
            let alike =
                ours.rows().filter(|row| row.1 >= least && row.0 <= most).map(|row| row.2).sum::<u64>();
            assert_eq!(alike, fio.total_ios, "{engine}: {fio:?}\n{printed}");
            all += alike;
        }
        assert_eq!(all, 24, "{printed}");
    }
}

/// `cat` is in read() when the stage is attached, and ends there by a signal.
fn stage12_does_not_count_a_call_whose_start_it_did_not_see() {
    let mut cat = Command::new("cat");
    let mut cat = Killed(cat.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
    let pid = cat.pid().to_string();
    wait_until("cat reads", || sh(&format!("cat /proc/{pid}/stack")).contains("pipe_read"));
    let stage = Running::start(&["stage12", &pid]).unwrap();
    cat.0.kill().unwrap();
    let seen = stage.wait().unwrap();
    assert!(
        seen.status.success() && seen.stderr.contains(&format!("Process {pid} has ended.")),
        "{}",
        seen.stderr
    );
    for call in ["read", "write", "fsync"] {
        assert_eq!(histogram(&seen.stdout, call).1, 0, "{}", seen.stdout);
    }
}
