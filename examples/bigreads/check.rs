//! What is right for this example and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::fs::File;
use std::io::{self, Read};
use std::process;

use common::{Error, OrCause, Result};

use crate::check::{Check, watch_all};
use crate::verdict::{Checked, expect};

/// See [`Check`].
pub const CHECK: Check = Check { exercises: &[("bigreads.1", failed_reads)], ..Check::NONE };

fn failed_reads(binary: &str) -> Checked<String> {
    const SIZE: usize = 2 << 20;
    let read = |path: &str, size: usize| -> Result<io::Result<usize>> {
        Ok(File::open(path).or_cause(format!("cannot open {path}"))?.read(&mut vec![1; size]))
    };
    let (seen, ()) = watch_all(&[binary], || {
        // A folder can't be read: that is the error EISDIR, 21.
        let failed = [read("/", SIZE)?, read("/", 64)?];
        read("/dev/zero", SIZE)?.or_cause("cannot read zeros")?;
        let is_21 =
            |read: &io::Result<usize>| read.as_ref().is_err_and(|error| error.raw_os_error() == Some(21));
        match failed.iter().all(is_21) {
            true => Ok(()),
            false => Err(Error::new("the kernel reads a folder as if it were a file")),
        }
    })?;
    let pid = process::id();
    let own = |line: &str| {
        let cells: Vec<_> = line.split_whitespace().collect();
        cells.get(1).filter(|cell| cell.parse() == Ok(pid)).map(|_| cells[2..].join(" "))
    };
    let right = [SIZE.to_string(), "error 21".to_owned()];
    let mut found: Vec<_> = seen.stdout.lines().filter_map(own).collect();
    found.sort();
    expect(
        found == right,
        format!("{SIZE} and error 21 for process {pid}, which asked for 2 MiB twice"),
        if found.is_empty() { "no line of this process".to_owned() } else { found.join(", ") },
        seen.at(|line| own(line).is_some_and(|found| !right.contains(&found))),
    )?;
    Ok(format!("the read of {SIZE} bytes and the large one that failed with error 21, and no other"))
}
