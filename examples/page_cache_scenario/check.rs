//! What is right for this example and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::fs::{self, File};
use std::process::Command;

use common::{Error, OrCause, Result};
use memmap2::Mmap;
use wire::disks::FS_MOUNT;

use crate::check::{Check, succeeded};
use crate::running::{Observation, io};
use crate::verdict::{Checked, expect};

/// See [`Check`].
pub const CHECK: Check =
    Check { exercises: &[("page_cache_scenario.1", a_first_read_that_misses)], ..Check::NONE };

fn a_first_read_that_misses(binary: &str) -> Checked<String> {
    const MISS: &str = "page cache miss";
    let run = |arguments: &[&str]| -> Result<Observation> {
        let output = Command::new(binary).args(arguments).output().or_cause("cannot start the program")?;
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        Ok(Observation { stdout, stderr, status: output.status })
    };
    let seen = run(&[])?;
    succeeded(&seen)?;
    let has_miss = |half: fn((&str, &str)) -> bool| {
        seen.stdout.lines().filter_map(|line| line.split_once(" |")).any(half)
    };
    expect(
        has_miss(|(first, _)| first.contains(MISS)),
        format!("the first read of a new file misses pages: `{MISS}` in the left column"),
        "no such line",
        &seen,
    )?;
    expect(
        !has_miss(|(_, second)| second.contains(MISS)),
        format!("the second read misses none: no `{MISS}` in the right column"),
        "such a line",
        seen.at(|line| line.split_once(" |").is_some_and(|(_, second)| second.contains(MISS))),
    )?;
    let file = format!("{FS_MOUNT}/{binary}");
    io(&["read-warm", &file])?;
    let (map, byte) = mapped(&file)?;
    let seen = run(&["--file", &file])?;
    drop(map);
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    expect(
        !seen.status.success(),
        format!("an error: a process has mapped the file with the byte {byte}, so the first read can't miss"),
        "the program succeeds",
        &seen,
    )?;
    Ok("a first read that misses and a second that does not, and an error if the first cannot miss"
        .to_owned())
}

/// A file in the memory of this process, with its first byte, which brings its page into the process. As long as this
/// exists, the kernel can't take the page out of the page cache.
#[allow(unsafe_code)]
fn mapped(file: &str) -> Result<(Mmap, u8)> {
    let cannot = || format!("cannot map {file}");
    // SAFETY: nobody shortens the check's own file.
    let map = unsafe { Mmap::map(&File::open(file).or_cause(cannot())?) }.or_cause(cannot())?;
    let first = *map.first().ok_or_else(|| Error::new(cannot()))?;
    Ok((map, first))
}
