//! What is right for this example and its exercises. The guest runs this, beside I/O of which it knows everything.

use wire::disks::RAW_DEVICE;

use crate::check::{Check, Program, of_all_disks, watch_all};
use crate::running::io;
use crate::system::WithoutFs;
use crate::truth;
use crate::verdict::{Checked, expect, expect_line};

/// See [`Check`].
pub const CHECK: Check = Check {
    program: Some(Program::Own(of_all_disks)),
    exercises: &[("bitehist.1", all_data)],
    ..Check::NONE
};

fn all_data(binary: &str) -> Checked<String> {
    const KIB: u64 = 14;
    let _without = WithoutFs::new()?;
    let (seen, done) = watch_all(&[binary], || {
        let small = io(&["write", RAW_DEVICE, "--size", "512", "--count", "7"])?;
        Ok([small, io(&["write", RAW_DEVICE, "--size", "3584", "--count", "3"])?])
    })?;
    let [requests, bytes] =
        [done.iter().map(|done| done.count).sum(), done.iter().map(|done| done.bytes).sum::<u64>()];
    let counted = truth::histogram(&seen.stdout).count();
    let expected = format!("{requests} requests in the histogram: the disk got that many");
    expect(counted == requests, expected, counted.to_string(), &seen)?;
    expect_line(&seen, "Data: ", format!("{KIB} KiB"), &format!("the requests had {bytes} bytes"))?;
    Ok(format!("{requests} requests with {KIB} KiB, also if many of them are smaller than 1 KiB"))
}
