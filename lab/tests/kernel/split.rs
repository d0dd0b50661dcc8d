//! A bio that was split ends when the last of its pieces does, whichever that is.

use std::time::Duration;

use lab::device_mapper::Linear;
use lab::null_blk::NullBlk;

/// What the pieces take. So different that no hiccup of the emulation changes which ends last.
pub const PIECES: [Duration; 3] =
    [Duration::from_millis(1), Duration::from_millis(100), Duration::from_millis(300)];

/// Runs something for disks on which a bio of this many bytes at sector 0 is split into three, one for each of [`PIECES`]; on
/// each disk another one ends last.
pub fn with_split(mut run: impl FnMut(&str, u64)) {
    const SECTORS: u64 = 8;
    let [fast, middle, slow] =
        [0, 1, 2].map(|nth| NullBlk::new(["fast", "middle", "slow"][nth], PIECES[nth]).unwrap());
    for disks in [[&slow, &middle, &fast], [&fast, &slow, &middle], [&fast, &middle, &slow]] {
        let parts = disks.map(|disk| (disk.device.as_path(), SECTORS));
        let disk = Linear::new("split", &parts).unwrap();
        run(disk.device.to_str().unwrap(), 512 * SECTORS * parts.len() as u64);
    }
}
