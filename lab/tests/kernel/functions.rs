//! Stage 10: the functions that it finds, and the bios that it shows in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use common::trace_pipe::Line;
use guest::checks::stage10;
use guest::null_blk::NullBlk;
use guest::running::Observation;
use guest::truth;
use libbpf_rs::btf::types::{Func, FuncProto, Ptr};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, TypeId};
use nix::sys::signal::Signal;

use crate::guest::{one_by_one, quiet, start, watch, watch_while};
use crate::{Case, cases};

pub const CASES: &[Case] =
    cases![stage10_shows_each_bio_in_whatever_takes_it, stage10_shows_each_bio_from_its_start_to_its_end,];

/// The calls that the stage shows, which are all of its lines.
fn calls(seen: &Observation) -> Vec<(Line<'_>, &str, u64)> {
    let calls = truth::calls(seen);
    assert_eq!(calls.len(), seen.lines().len(), "{}", seen.stdout);
    calls
}

/// The bios that a function gets, in order.
fn bios(calls: &[(Line<'_>, &str, u64)], function: &str) -> Vec<u64> {
    calls.iter().filter(|(_, name, _)| *name == function).map(|(.., bio)| *bio).collect()
}

/// What the last line reports, if the kernel counts it.
fn not_measured(seen: &Observation) -> Option<u64> {
    let last = seen.stdout.lines().last().unwrap_or_default();
    let number = last.strip_prefix("Calls skipped: ").unwrap_or_else(|| panic!("{}", seen.stdout));
    number.parse().ok()
}

/// Each function of the kernel with the structs to which its arguments point.
pub fn functions() -> Vec<(String, Vec<Option<String>>)> {
    let btf = Btf::from_vmlinux().unwrap();
    let structure = |argument: TypeId| {
        let pointer =
            Ptr::try_from(btf.type_by_id::<BtfType<'_>>(argument)?.skip_mods_and_typedefs()).ok()?;
        let pointed = pointer.next_type()?.skip_mods_and_typedefs();
        let name = pointed.name().filter(|_| pointed.kind() == BtfKind::Struct)?;
        Some(name.to_str().unwrap().to_owned())
    };
    let function = |function: Func<'_>| {
        let proto = FuncProto::try_from(function.next_type().unwrap()).unwrap();
        let arguments = (0..proto.len()).map(|nth| structure(proto.get(nth).unwrap().ty)).collect();
        (function.name().unwrap().to_str().unwrap().to_owned(), arguments)
    };
    btf.type_by_kind::<Func<'_>>().map(function).collect()
}

/// The functions that can be probed, and by their name, because no other has it.
pub fn can_be_probed() -> BTreeSet<String> {
    let list = fs::read_to_string("/sys/kernel/tracing/available_filter_functions").unwrap();
    let traceable: BTreeSet<_> = list.lines().map(|line| line.split(' ').next().unwrap()).collect();
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap();
    let mut copies = BTreeMap::<_, usize>::new();
    for symbol in symbols.lines().filter_map(|line| line.split([' ', '\t']).nth(2)) {
        *copies.entry(symbol).or_default() += 1;
    }
    traceable.into_iter().filter(|name| copies.get(name) == Some(&1)).map(str::to_owned).collect()
}

/// Beside stage 02. The starts are equal. Of the ends, the stage shows those that did not interrupt another of its programs,
/// and reports the others.
fn stage10_shows_each_bio_in_whatever_takes_it() {
    quiet();
    let other = start("stage02");
    let before = truth::disk_ios().unwrap();
    let (seen, done) = watch("stage10", "write /dev/scratch --count 16");
    let ios = (truth::disk_ios().unwrap() - before) as usize;
    let other = other.end(Signal::SIGINT).unwrap();
    stage10::right(&seen, &done).unwrap();

    let is_bio = |argument: &Option<String>| argument.as_deref() == Some("bio");
    let nth = functions().into_iter().filter_map(|(name, all)| Some((name, all.iter().position(is_bio)?)));
    let all: BTreeMap<_, _> = nth.collect();
    // The stage looks at three arguments.
    let mut can = can_be_probed();
    can.retain(|name| all.get(name).is_some_and(|nth| *nth < 3));
    assert!(can.len() > 100, "{can:?}");
    let first = format!("Attached to {} of {} functions", can.len(), all.len());
    assert_eq!(seen.stdout.lines().next(), Some(&*first));
    // Each is one of these, and has its own name: its symbol is at the address that the kernel's list of probes names.
    let calls = calls(&seen);
    for (_, function, _) in &calls {
        assert!(can.contains(*function), "{function}");
    }

    // Of the calls of `io`, all show the bio that it submits next, or none.
    let submitted: BTreeSet<_> = bios(&calls, "submit_bio").into_iter().collect();
    let is_own = |line: &Line<'_>| line.pid == done.pid && !line.flags.contains(['h', 'H', 's']);
    for (_, function, bio) in calls.iter().filter(|(line, ..)| is_own(line)) {
        assert!(*bio == 0 || submitted.contains(bio), "{function}: {bio:x}\n{}", seen.stdout);
    }
    // The bio is their second and their third argument.
    for function in ["wbt_wait", "wbt_track"] {
        assert_eq!(bios(&calls, function), bios(&calls, "submit_bio"), "{function}");
    }

    let count = |function: &str| {
        let called = format!("{function}() called: ");
        other.lines().iter().filter(|line| line.message.starts_with(&called)).count()
    };
    let (starts, ends) = (bios(&calls, "submit_bio").len(), bios(&calls, "bio_endio").len());
    assert_eq!((starts, count("submit_bio"), count("bio_endio")), (ios, ios, ios));
    assert_eq!(ios, done.count as usize);
    assert!(ends <= ios, "{}", seen.stdout);
    match not_measured(&seen) {
        // A skipped end also skips the program for what it calls.
        Some(skipped) => assert!(ends as u64 + skipped >= ios as u64, "{}", seen.stdout),
        None => {
            let uncounted = "(Linux counts them from 6.7 on, and tells only root)";
            assert!(seen.stdout.trim_end().ends_with(uncounted), "{}", seen.stdout);
        }
    }
}

/// A disk that takes 20 ms for each bio, and nobody else does I/O: each end comes while nothing else runs.
fn stage10_shows_each_bio_from_its_start_to_its_end() {
    const COUNT: usize = 12;
    quiet();
    let disk = NullBlk::new("path", Duration::from_millis(20)).unwrap();
    let write = format!("write {}", disk.device.display());
    let (seen, done) = watch_while("stage10", || one_by_one(&write, COUNT));
    let calls = calls(&seen);
    assert_eq!(not_measured(&seen).unwrap_or(0), 0, "{}", seen.stdout);
    let (starts, ends) = (bios(&calls, "submit_bio"), bios(&calls, "bio_endio"));
    assert_eq!((starts.len(), &starts), (COUNT, &ends), "{}", seen.stdout);
    let tasks: BTreeSet<_> =
        calls.iter().filter(|(_, name, _)| *name == "submit_bio").map(|(line, ..)| line.pid).collect();
    assert_eq!(tasks, done.iter().map(|done| done.pid).collect());
    // Between the two, each bio passes the same functions, as often.
    let mut paths = calls.split(|(_, name, _)| *name == "submit_bio").skip(1).map(|path| {
        let end = path.iter().position(|(_, name, _)| *name == "bio_endio").unwrap();
        path[..end].iter().map(|(_, name, _)| *name).collect::<Vec<_>>()
    });
    let first = paths.next().unwrap();
    assert!(first.contains(&"blk_mq_submit_bio") && first.len() > 3, "{first:?}");
    assert!(paths.all(|path| path == first), "{}", seen.stdout);
}
