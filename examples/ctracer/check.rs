//! What is right for this example and its exercises. The guest runs this, beside I/O of which it knows everything.

use common::Error;
use nix::unistd::sync;

use crate::check::{Check, Judged, Program, watch};
use crate::verdict::Checked;

/// See [`Check`].
pub const CHECK: Check = Check { program: Some(Program::Own(program)), ..Check::NONE };

fn program(binary: &str) -> Checked<Judged> {
    sync();
    let (seen, done) = watch(binary, "write /dev/scratch --count 4")?;
    let size = format!(" + {} bytes ", done.bytes / done.count);
    // The outermost call names the bio's content: submit_bio(), or a function that calls it, such as submit_bio_wait().
    let submits = seen.stdout.lines().filter(|line| line.contains("submit_bio"));
    let writes = submits.filter(|line| line.contains(" write ") && line.contains(&size)).count() as u64;
    let summary = seen.stdout.lines().last().unwrap_or_default();
    if writes != done.count || !summary.contains(", without an end: 0, events lost: 0") {
        return Err(Error::new(format!(
            "io wrote {} times, but {writes} bios were submitted for it",
            done.count
        ))
        .evidence(summary)
        .into());
    }
    let shown = format!("io wrote {writes} times, and so many bios were submitted, followed, and ended");
    Ok((seen, shown))
}
