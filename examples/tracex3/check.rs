//! What is right for this example and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::time::Duration;

use crate::check::{Check, Judged, watch_all};
use crate::null_blk::NullBlk;
use crate::running::io;
use crate::system::WithoutFs;
use crate::verdict::{Checked, expect, expect_line, wrong};

/// See [`Check`].
pub const CHECK: Check = Check { exercises: &[("tracex3.1", half_of_the_requests)], ..Check::NONE };

fn half_of_the_requests(binary: &str) -> Checked<String> {
    const US: u64 = 21_000;
    const HALF: &str = "Half of the requests took ";
    let _without = WithoutFs::new()?;
    let disk = NullBlk::new(binary, Duration::from_micros(US))?;
    let device = disk.device.display().to_string();
    let half = |arguments: &[&str]| -> Checked<Judged> {
        let (seen, _) = watch_all(&[&[binary], arguments].concat(), || io(&["write", &device]))?;
        let half = seen.stdout.lines().find_map(|line| line.strip_prefix(HALF)).map(str::to_owned);
        let half = half.ok_or_else(|| wrong(format!("a line `{HALF}...`"), "no such line", &seen))?;
        Ok((seen, half))
    };
    let limits: [(&str, &str); 2] = [("10000000", "less than 10000000 us"), ("100", "9500 us or longer")];
    for (width, right) in limits {
        let (seen, _) = half(&["--linear", width])?;
        expect_line(&seen, HALF, right, "each took 21 ms")?;
    }
    let (seen, half) = half(&[])?;
    let limit =
        half.strip_prefix("less than ").and_then(|half| half.strip_suffix(" us")?.parse::<u64>().ok());
    expect(
        limit.is_some_and(|limit| limit > US),
        format!("`{HALF}less than` 21 ms or more: each took 21 ms or longer"),
        format!("`{HALF}{half}`"),
        seen.at(|line| line.starts_with(HALF)),
    )?;
    Ok(format!("half of the requests took {half}, on a disk that takes 21 ms"))
}
