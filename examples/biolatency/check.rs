//! What is right for this example and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread;

use common::{Error, OrCause};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use wire::disks::RAW_DEVICE;

use crate::check::{Check, Program, of_all_disks, watch_all};
use crate::running::io;
use crate::system::WithoutFs;
use crate::truth;
use crate::verdict::{Checked, expect};

/// See [`Check`].
pub const CHECK: Check = Check {
    program: Some(Program::Own(of_all_disks)),
    exercises: &[("biolatency.1", only_what_somebody_waits_for)],
    ..Check::NONE
};

fn only_what_somebody_waits_for(binary: &str) -> Checked<String> {
    const ALONE: u64 = 3;
    let _without = WithoutFs::new()?;
    let disk = File::options().write(true).open(RAW_DEVICE).or_cause("cannot open the disk")?;
    let writes = || Ok::<_, Error>(truth::disk_reads_and_writes()?.1);
    let (seen, done) = watch_all(&[binary, "-S", "-F", "-j"], || {
        let before = writes()?;
        (0..ALONE).try_for_each(|nth| disk.write_all_at(&[1; 4096], nth << 20)).or_cause("cannot write")?;
        // The kernel begins to write the pages, but nobody waits for them.
        posix_fadvise(&disk, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).or_cause("cannot write")?;
        while writes()? < before + ALONE {
            thread::yield_now();
        }
        io(&["write", RAW_DEVICE])
    })?;
    let kinds = seen.stdout.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let kinds: Vec<_> =
        kinds.flat_map(|interval| interval["latency"].as_array().cloned()).flatten().collect();
    let flags = |kind: &serde_json::Value| kind["flags"].as_str().unwrap_or_default().to_owned();
    let (sync, other): (Vec<_>, Vec<_>) = kinds.iter().partition(|kind| flags(kind).contains("Sync"));
    let other: Vec<_> = other.into_iter().map(flags).collect();
    expect(other.is_empty(), "only requests with Sync, because of -S -F", other.join(", "), &seen)?;
    let count: u64 = sync.iter().filter_map(|kind| kind["count"].as_u64()).sum();
    expect(
        count == done.count,
        format!("{} requests: io waited for each of its writes", done.count),
        count.to_string(),
        &seen,
    )?;
    let warning = format!("warning: {ALONE} requests are not counted: nobody waits for them");
    expect(seen.stderr.contains(&warning), format!("`{warning}`"), "no such line", &seen)?;
    Ok(format!("{count} writes that io waited for, and {ALONE} left out that nobody waited for"))
}
