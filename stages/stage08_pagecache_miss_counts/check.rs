//! What is right for this stage and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::fs;

use common::OrCause;
use wire::disks::FS_MOUNT;

use crate::check::{Check, Program, as_many, expect_number, watch, watch_while};
use crate::running::io;
use crate::truth;
use crate::verdict::{Checked, expect, expect_line};

/// See [`Check`].
pub const CHECK: Check = Check {
    program: Some(Program::Beside("read-cold", truth::of_reads)),
    exercises: &[("08.1", different_pages), ("08.2", bytes_read)],
    ..Check::NONE
};

fn different_pages(binary: &str) -> Checked<String> {
    let files = ["one", "two"].map(|name| format!("{FS_MOUNT}/{binary}-{name}"));
    // The second file's reads cross the borders between its 63 pages.
    let reads =
        [[&files[0], "--count", "64", "--size", "4096"], [&files[1], "--count", "256", "--size", "1000"]];
    let pages = 64 + 63;
    for read in reads {
        io(&[&["read-warm"], &read[..]].concat())?;
    }
    let (seen, _) = watch_while(&[binary], || {
        // Twice, in different processes: the second time, no page is new.
        for read in reads.iter().chain(&reads) {
            io(&[&["read"], &read[..]].concat())?;
        }
        Ok(())
    })?;
    files.iter().try_for_each(fs::remove_file).or_cause("cannot remove a file")?;
    let [total, ..] = truth::page_cache(&seen)?;
    expect(total > 0, "counts of pages, as before", "none", &seen)?;
    expect_line(&seen, "Different pages: ", pages, "that many pages of the two files were read")?;
    Ok(format!("{pages} different pages in two files, however often they are read"))
}

fn bytes_read(binary: &str) -> Checked<String> {
    let file = format!("{FS_MOUNT}/{binary}");
    io(&["read-warm", &file, "--count", "100", "--size", "1000"])?;
    let (seen, done) = watch(binary, &format!("read {file} --count 100 --size 1000"))?;
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    let [total, ..] = truth::page_cache(&seen)?;
    expect(total > 0, "counts of pages, as before", "none", &seen)?;
    let is_right = |bytes| as_many(bytes, done.bytes, &seen);
    expect_number(&seen, "Bytes read: ", done.bytes, "io has read that many", is_right)?;
    Ok(format!("{} bytes, as many as io read", done.bytes))
}
