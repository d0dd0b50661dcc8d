//! What is right for this example and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::fs;

use common::OrCause;
use common::histogram::Histogram;
use nix::unistd::sync;
use wire::disks::{FS_MOUNT, RAW_DEVICE};

use crate::check::{Check, watch_all};
use crate::running::io;
use crate::truth;
use crate::verdict::{Checked, expect};

/// See [`Check`].
pub const CHECK: Check = Check { exercises: &[("bitesize.1", reads_or_writes)], ..Check::NONE };

fn reads_or_writes(binary: &str) -> Checked<String> {
    let file = format!("{FS_MOUNT}/{binary}");
    io(&["read-warm", &file, "--count", "64"])?;
    sync();
    let (seen, done) = watch_all(&[binary], || {
        let cold = io(&["read-cold", &file, "--count", "64"])?;
        Ok([cold, io(&["read-direct", RAW_DEVICE])?, io(&["write", RAW_DEVICE])?])
    })?;
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    let counts = truth::histograms(&seen.stdout);
    for done in &done {
        let count = counts.get(&done.pid).map_or(0, Histogram::count);
        let (reads, writes) = if done.kind == "write" { (0, count) } else { (count, 0) };
        let own = seen.stdout.lines().position(|line| line.starts_with(&format!("PID: {} ", done.pid)));
        let found = own.and_then(|own| seen.stdout.lines().nth(own + 1));
        let line = format!("Reads: {reads}, writes: {writes}");
        let mut nth = 0;
        expect(
            count > 0 && found == Some(&line),
            format!("`{line}` as the second line of process {}, which did {}", done.pid, done.kind),
            found.map_or_else(|| "no line of it".to_owned(), |found| format!("`{found}`")),
            seen.at(|_| {
                nth += 1;
                own.is_some_and(|own| nth == own + 2)
            }),
        )?;
    }
    Ok("buffered reads, direct reads and direct writes, each kind by its operation".to_owned())
}
