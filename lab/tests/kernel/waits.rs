//! Stage 12 counts each call that others see: fio, which knows its own calls, and whoever is stopped in one.

use std::process::{Command, Stdio};
use std::time::Duration;

use common::histogram::Histogram;
use guest::null_blk::NullBlk;
use guest::running::{Killed, Running};
use guest::truth;
use serde_json::Value;

use crate::guest::{quiet, sh, wait_until};
use crate::{Case, cases};

pub const CASES: &[Case] =
    cases![stage12_agrees_with_fio(Peers, Once), stage12_does_not_count_a_call_whose_start_it_did_not_see,];

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
        let fio: Value = serde_json::from_str(json).unwrap();
        let mut all = 0;
        for call in ["read", "write"] {
            let fio = &fio["jobs"][0][call];
            let number = |number: &Value| number.as_u64().unwrap_or_else(|| panic!("{fio}"));
            let (least, most) = (DISK.as_micros() as u64, number(&fio["clat_ns"]["max"]) / 1000);
            let ours = truth::histogram_below(call, &printed).unwrap_or_else(|| panic!("{printed}"));
            let slow =
                ours.rows().filter(|row| row.1 >= least && row.0 <= most).map(|row| row.2).sum::<u64>();
            // On a busy machine, a read of fio's own files may take as long.
            let ios = number(&fio["total_ios"]);
            assert!(slow >= ios, "{engine}: {slow} of {ios}: {fio}\n{printed}");
            all += ios;
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
        assert_eq!(truth::histogram_below(call, &seen.stdout), Some(Histogram::default()), "{}", seen.stdout);
    }
}
