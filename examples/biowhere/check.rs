//! What is right for this example and its exercises. The guest runs this, beside I/O of which it knows everything.

use crate::check::{Check, watch_all};
use crate::device_mapper::{PIECES, with_split};
use crate::running::io;
use crate::system::WithoutFs;
use crate::verdict::{Checked, expect, wrong};

/// See [`Check`].
pub const CHECK: Check = Check { exercises: &[("biowhere.1", the_slowest_piece_decides)], ..Check::NONE };

fn the_slowest_piece_decides(binary: &str) -> Checked<String> {
    let _without = WithoutFs::new()?;
    let mut seen_all = Vec::new();
    with_split(|disk, size| {
        let work = ["write", disk, "--count", "1", "--size", &size.to_string()];
        seen_all.push(watch_all(&[binary, "--us"], || io(&work))?.0);
        Ok(())
    })?;
    for seen in &seen_all {
        let line = seen.stdout.lines().find(|line| line.contains(">"));
        let line = line.ok_or_else(|| wrong("a line for the write", "no such line", seen))?;
        let words: Vec<_> = line.split_whitespace().collect();
        let disk = words.get(10).and_then(|disk| disk.parse::<u128>().ok()).unwrap_or_default();
        expect(
            disk >= PIECES[2].as_micros(),
            format!(
                "{} us or more in the second column DISK: that is what the slowest piece takes",
                PIECES[2].as_micros()
            ),
            format!("`{disk}`"),
            seen.at(|of| of == line),
        )?;
    }
    Ok("the slowest of three pieces decides, whichever it is".to_owned())
}
