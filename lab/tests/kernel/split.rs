//! Bios that the kernel cuts into pieces, chains, or submits twice.

use std::fs;
use std::time::Duration;

use guest::device_mapper::{PIECES, with_split};
use guest::system::{Setting, queue};
use guest::truth;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::signal::Signal;
use wire::disks::RAW_DEVICE;

use crate::guest::{AtEnd, around, end_exact, is_in, quiet, sh, start, trace, watch, watch_while};
use crate::requests::EmptyFlushes;
use crate::{Case, cases};

pub const CASES: &[Case] = cases![
    stages_report_that_durations_may_end_before_the_last_piece,
    each_bio_of_a_chain_has_its_duration,
    a_bio_that_a_worker_submits_again_is_one,
];

/// The kernel wakes the writer when the last piece has ended. A stage may see only an earlier end. So it reports that the
/// kernel split the bio.
fn stages_report_that_durations_may_end_before_the_last_piece() {
    quiet();
    // What 04 and 05 do at an end is what 06 does.
    for number in [3, 6] {
        let mut early = 0;
        with_split(|disk, size| {
            let (seen, done) =
                watch(&format!("stage{number:02}"), &format!("write {disk} --count 1 --size {size}"));
            let trace = trace(&seen);
            let ([duration], Some(0)) = (&trace.durations[..], trace.not_measured) else {
                panic!("{}", seen.stdout)
            };
            early += usize::from(Duration::from_nanos(*duration) < PIECES[2]);
            // Three pieces are two splits.
            assert_eq!(truth::splits(&seen), 2, "{}", seen.stdout);
            assert!(*duration <= around(&done), "{}", seen.stdout);
            assert!(number < 4 || truth::slowest(&seen).unwrap().duration() == *duration, "{}", seen.stdout);
            Ok(())
        })
        .unwrap();
        assert!(early > 0, "stage {number}: no duration was too short");
    }
}

/// The kernel zeroes a range with as many bios as the disk needs. Each of them waits for the ones before it.
fn each_bio_of_a_chain_has_its_duration() {
    const BYTES: i64 = 16 << 20;
    quiet();
    let device = fs::File::options().write(true).open(RAW_DEVICE).unwrap();
    let _merges = Setting::new(queue(RAW_DEVICE, "nomerges").unwrap(), "2").unwrap();
    let zero = FallocateFlags::FALLOC_FL_ZERO_RANGE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    for number in [3, 6] {
        let before = truth::disk_ios().unwrap();
        let (seen, ()) =
            watch_while(&format!("stage{number:02}"), || fallocate(&device, zero, 0, BYTES).unwrap());
        let bios = (truth::disk_ios().unwrap() - before) as usize;
        let trace = trace(&seen);
        assert_eq!((trace.submits, trace.durations.len()), (bios, bios), "{}", seen.stdout);
        assert!(bios > 1, "no chain: {}", seen.stdout);
        assert_eq!((trace.not_measured, truth::splits(&seen)), (Some(0), 0), "{}", seen.stdout);
    }
}

/// An empty btrfs, made with `mkfs.btrfs --mixed` in a file of 16 MiB, and `xz`.
const BTRFS: &[u8] = include_bytes!("btrfs.img.xz");

/// On 5.10 and 6.1, btrfs lets a worker submit what it compressed for a cgroup: submit_bio() is called twice for each of
/// these bios.
fn a_bio_that_a_worker_submits_again_is_one() {
    const EXTENT: usize = 128 << 10;
    const EXTENTS: usize = 32;
    quiet();
    fs::write("/tmp/btrfs.xz", BTRFS).unwrap();
    // Since 6.2, btrfs discards some seconds after it has freed something, also while it is frozen.
    sh(
        "xzcat /tmp/btrfs.xz | dd of=/dev/scratch bs=1M conv=fsync; modprobe btrfs; mkdir -p /tmp/btrfs /tmp/cgroup; \
        mount -t btrfs -o nodiscard,compress-force=zlib,commit=600 /dev/scratch /tmp/btrfs; mount -t cgroup2 cgroup2 /tmp/cgroup; \
        echo +io +memory > /tmp/cgroup/cgroup.subtree_control; mkdir /tmp/cgroup/writer",
    );
    let _end = AtEnd(
        "fsfreeze --unfreeze /tmp/btrfs; umount /tmp/btrfs; rmdir /tmp/cgroup/writer; umount /tmp/cgroup; rm /tmp/btrfs.xz",
    );
    let is_twice = is_in("5.4..6.4");
    for number in [3, 6] {
        // As long as only one of the two stages is attached, the file system may write nothing.
        sh("fsfreeze --freeze /tmp/btrfs");
        let [calls, sizes] = ["stage01", "bitesize"].map(start);
        let empty = EmptyFlushes::new();
        let stage = start(&format!("stage{number:02}"));
        sh(&format!(
            "fsfreeze --unfreeze /tmp/btrfs; (echo 0 > /tmp/cgroup/writer/cgroup.procs; \
              exec dd if=/dev/zero of=/tmp/btrfs/{number} bs={EXTENT} count={EXTENTS}); sync; \
              fsfreeze --freeze /tmp/btrfs"
        ));
        let seen = stage.end(Signal::SIGINT).unwrap();
        let (calls, sizes) = (calls.end(Signal::SIGINT).unwrap(), end_exact(sizes).stdout);
        sh("fsfreeze --unfreeze /tmp/btrfs");
        let calls = calls.stdout.lines().filter(|line| line.contains(": submit_bio() called: ")).count();
        let trace = trace(&seen);
        let starts = trace.submits;
        assert_eq!(calls, starts, "stage {number}");
        assert_eq!(truth::histogram(&sizes).count() + empty.count(), calls as u64, "bitesize: {sizes}");
        // A bio holds one extent at most. Writeback may begin in the middle of one.
        let (twice, bios) = (starts - trace.durations.len(), trace.durations.len());
        let is_right = if is_twice { (EXTENTS..=bios).contains(&twice) } else { twice == 0 };
        assert!(is_right, "stage {number}: {calls} calls, {bios} bios, {twice} twice");
        assert_eq!(trace.not_measured, Some(0), "stage {number}");
    }
}
