//! A bio that was split ends when the last of its pieces ends, whichever that is.

use std::time::Duration;

use lab::guest::device_mapper::Linear;
use lab::guest::null_blk::NullBlk;
use lab::guest::truth;

use crate::guest::{quiet, watch};
use crate::{Case, cases};

pub const CASES: &[Case] = cases![stages_count_durations_that_end_before_the_last_piece];

/// How long the pieces take. The times differ so much that no hiccup of the emulation changes which one ends last.
pub const PIECES: [Duration; 3] =
    [Duration::from_millis(1), Duration::from_millis(100), Duration::from_millis(300)];

/// Runs something for disks on which a bio of this many bytes at sector 0 is split into three, one for each of
/// [`PIECES`]. On each disk, a different piece ends last.
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

/// The kernel wakes the writer when the last piece has ended. A stage may see only an earlier end, and then it counts
/// that.
fn stages_count_durations_that_end_before_the_last_piece() {
    quiet();
    // What 04 and 05 do at an end is what 06 does.
    for number in [3, 6] {
        let mut too_short = 0;
        with_split(|disk, size| {
            let (seen, done) =
                watch(&format!("stage{number:02}"), &format!("write {disk} --count 1 --size {size}"));
            let events = truth::events(&seen).unwrap();
            let [duration] = truth::durations(&events)[..] else { panic!("{}", seen.stdout) };
            let counted = truth::unpaired(&seen).unwrap().too_short.unwrap();
            let is_too_short = Duration::from_nanos(duration) < PIECES[2];
            assert!(u64::from(is_too_short) <= counted && counted <= 1, "{}", seen.stdout);
            assert!(duration <= done.last_ns - done.first_ns, "{}", seen.stdout);
            assert!(number < 4 || truth::slowest(&seen).unwrap().duration() == duration, "{}", seen.stdout);
            too_short += counted;
        });
        assert!(too_short > 0, "stage {number}: a bio whose last piece was not its own ended right");
    }
}
