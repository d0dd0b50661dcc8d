//! What is right for this stage and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::fs;
use std::iter;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use common::OrCause;
use wire::command::output;
use wire::disks::{FS_MOUNT, RAW_DEVICE};
use wire::workload::Done;

use crate::check::{Check, Program, count_of, watch, watch_while};
use crate::running::{Observation, io};
use crate::truth::Writes;
use crate::verdict::{Checked, expect, wrong};

/// See [`Check`].
pub const CHECK: Check = Check {
    program: Some(Program::Beside("write", right)),
    lines: 1,
    exercises: &[("01.1", only_io), ("01.2", two_doors)],
};

/// Each write of `io` has a line.
pub fn right(seen: &Observation, done: &Done) -> Checked<String> {
    Ok(Writes::of(seen, done)?.to_string())
}

fn only_io(binary: &str) -> Checked<String> {
    // Its name begins like that of `io`.
    let other = Path::new("/tmp/iostat");
    let _ = fs::remove_file(other);
    symlink("/bin/io", other).or_cause("cannot make a program called iostat")?;
    let (seen, done) = watch_while(&[binary], || {
        output(Command::new(other).args(["write", RAW_DEVICE]))?;
        io(&["write", RAW_DEVICE])
    })?;
    let lines = seen.lines().len() as u64;
    expect(
        lines == done.count,
        format!("{} lines, one for each bio that io submitted to {RAW_DEVICE}", done.count),
        count_of(lines, "line"),
        seen.at_trace(|line| line.pid != done.pid),
    )?;
    // This involves the journal's thread and the kernel's workers.
    let file = format!("{FS_MOUNT}/{binary}");
    let (seen, done) = watch(binary, &format!("sync {file}"))?;
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    if let Some(other) = seen.lines().iter().find(|line| line.pid != done.pid) {
        return Err(wrong(
            format!("only lines of io, which was process {}", done.pid),
            format!("a line of {}, which was process {}", other.task, other.pid),
            seen.at_trace(|line| line.pid != done.pid),
        ));
    }
    Ok(format!("{lines} lines for {lines} writes of io, and none of what the others did during a sync"))
}

fn two_doors(binary: &str) -> Checked<String> {
    let (seen, done) = watch(binary, &format!("write {RAW_DEVICE}"))?;
    let bio = |function: &str| -> Vec<String> {
        let prefix = format!("{function}(bio=0x");
        let address =
            |message: &str| Some(message.strip_prefix(&prefix)?.split_once(") called: ")?.0.to_owned());
        seen.lines().iter().filter_map(|line| address(line.message)).collect()
    };
    let (first, second) = (bio("submit_bio"), bio("submit_bio_noacct"));
    for (function, found) in [("submit_bio", &first), ("submit_bio_noacct", &second)] {
        expect(
            found.len() as u64 == done.count,
            format!("{} lines `{function}(bio=0x...) called: ...`, one for each write", done.count),
            count_of(found.len() as u64, "such line"),
            &seen,
        )?;
    }
    if let Some(other) = iter::zip(&first, &second).position(|(first, second)| first != second) {
        let mut nth = 0..;
        let (first, second) = (&first[other], &second[other]);
        return Err(wrong(
            "both functions get the same bios, in the same order",
            format!("submit_bio(bio=0x{first}), but then submit_bio_noacct(bio=0x{second})"),
            seen.at(|line| line.contains("submit_bio_noacct(bio=0x") && nth.next() == Some(other)),
        ));
    }
    Ok(format!("{} bios passed both functions, one after the other", done.count))
}
