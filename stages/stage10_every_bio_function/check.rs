//! What is right for this stage and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use common::trace_pipe::Line;
use wire::disks::RAW_DEVICE;
use wire::workload::Done;

use crate::check::{Check, Program, count_of, watch};
use crate::null_blk::NullBlk;
use crate::running::Observation;
use crate::truth;
use crate::verdict::{Checked, expect};

/// See [`Check`].
pub const CHECK: Check = Check {
    program: Some(Program::Beside("write", right)),
    exercises: &[("10.1", only_bios), ("10.2", one_bio)],
    ..Check::NONE
};

/// The writes of `io`, and the functions that their bios passed through.
pub fn right(seen: &Observation, done: &Done) -> Checked<String> {
    let calls = truth::calls(seen);
    let submits = calls.iter().filter(|(line, name, _)| line.pid == done.pid && *name == "submit_bio");
    let bios: BTreeSet<_> = submits.clone().map(|(.., bio)| bio).collect();
    let count = submits.count() as u64;
    truth::expect_writes(seen, done, count)?;
    let functions: BTreeSet<_> =
        calls.iter().filter(|(.., bio)| bios.contains(bio)).map(|(_, name, _)| *name).collect();
    let names: Vec<_> = functions.iter().copied().collect();
    expect(
        functions.contains("bio_endio") && functions.len() >= 10,
        "ten functions or more that the bios of io passed through, and bio_endio() among them",
        names.join(", "),
        seen,
    )?;
    Ok(format!("io did {count} direct writes, and their bios passed through {} functions", functions.len()))
}

fn only_bios(binary: &str) -> Checked<String> {
    let (seen, done) = watch(binary, &format!("write {RAW_DEVICE} --count 8"))?;
    let calls = truth::calls(&seen);
    // What io calls itself, and not what interrupts it.
    let own = calls.iter().filter(|(line, ..)| line.pid == done.pid && !line.flags.contains(['h', 'H', 's']));
    let bios: HashSet<_> =
        own.clone().filter(|(_, function, _)| *function == "submit_bio").map(|(.., bio)| *bio).collect();
    for (_, function, bio) in own.clone() {
        let call = format!("{function}(bio=0x{bio:x})");
        expect(
            *bio == 0 || bios.contains(bio),
            "only bios that submit_bio() got from io",
            format!("`{call}`"),
            seen.at_trace(|line| line.pid == done.pid && line.message == call),
        )?;
    }
    // These have it as their second and third argument.
    for name in ["wbt_wait", "wbt_track"] {
        let count = own.clone().filter(|(_, function, _)| *function == name).count() as u64;
        expect(
            count == done.count,
            format!("{} lines with {name}(), one for each write of io", done.count),
            count_of(count, "such line"),
            &seen,
        )?;
    }
    Ok(format!("{} calls of io, and each shows a bio that io submitted", own.count()))
}

fn one_bio(binary: &str) -> Checked<String> {
    // Its interrupt comes when nothing else runs, so no call of bio_endio() is skipped.
    let disk = NullBlk::new(binary, Duration::from_millis(20))?;
    let (seen, _) = watch(binary, &format!("write {} --count 4", disk.device.display()))?;
    let calls = truth::calls(&seen);
    let names: Vec<_> = calls.iter().map(|(_, function, _)| *function).collect();
    for (place, found, name) in [("first", names.first(), "submit_bio"), ("last", names.last(), "bio_endio")]
    {
        expect(
            found == Some(&name),
            format!("{name}() in the {place} line"),
            found.map_or_else(|| "no line".to_owned(), |found| format!("{found}()")),
            &seen,
        )?;
        let count = names.iter().filter(|other| **other == name).count();
        let expected = format!("one line with {name}(), which a bio passes once");
        expect(count == 1, expected, count_of(count as u64, "such line"), &seen)?;
    }
    let first = calls.first().map(|(.., bio)| *bio);
    let bios: HashSet<_> = calls.iter().map(|(.., bio)| *bio).collect();
    let is_other = |line: &Line<'_>| truth::call(line).is_some_and(|(_, bio)| Some(bio) != first);
    let expected = "only lines of one bio";
    expect(bios.len() == 1, expected, format!("lines of {} bios", bios.len()), seen.at_trace(is_other))?;
    let expected = "a line with blk_mq_submit_bio(), which the bio passes";
    expect(names.contains(&"blk_mq_submit_bio"), expected, "no such line", &seen)?;
    Ok(format!("the first of 4 bios passed {} functions, from submit_bio() to bio_endio()", names.len()))
}
