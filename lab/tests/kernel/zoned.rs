//! A zoned disk: a file system writes to it with zone appends, for which the disk chooses the place.

use std::fs;
use std::time::Duration;

use common::preflight::release;
use flate2::Crc;
use guest::null_blk::NullBlk;
use guest::system::queue;
use guest::truth::histogram;

use crate::guest::{AtEnd, end_exact, quiet, sh, start, trace, watch_while};
use crate::requests::{EmptyFlushes, ios_of};
use crate::{Case, biowhere, cases};

pub const CASES: &[Case] = cases![zone_appends_are_writes(X86), stage07_does_not_count_the_reset_of_a_zone,];

/// An empty zonefs, which has a file for each zone. See `fs/zonefs/zonefs.h` in the kernel's source.
fn zonefs() -> Vec<u8> {
    let mut superblock = [&0x5a4f_4653_u32.to_le_bytes()[..], &[0; 4092]].concat();
    let mut sum = Crc::new();
    sum.update(&superblock);
    // The kernel's crc32() doesn't invert the result.
    superblock[4..8].copy_from_slice(&(!sum.sum()).to_le_bytes());
    superblock
}

const MOUNT: &str = "/tmp/zoned";

fn disk() -> (NullBlk, String) {
    quiet();
    let settings = [("memory_backed", 1), ("zoned", 1), ("zone_size", 4)];
    let disk = NullBlk::with("zoned", Duration::from_millis(1), &settings).unwrap();
    let device = disk.device.to_str().unwrap().to_owned();
    sh(&format!("mkdir -p {MOUNT}"));
    (disk, device)
}

fn mount_zonefs(device: &str) {
    fs::write("/tmp/zonefs", zonefs()).unwrap();
    sh(&format!(
        "dd if=/tmp/zonefs of={device} bs=4k oflag=direct; modprobe zonefs; mount -t zonefs {device} {MOUNT}"
    ));
}

/// The disk counts a reset as a write, although it moves no data.
fn stage07_does_not_count_the_reset_of_a_zone() {
    let (_disk, device) = disk();
    let each = |what: &str| sh(&format!("for zone in 1 2 3 4 5 6 7 8; do {what}; done"));
    // At the start of the zone. The first zone is for the file system, and file 0 is the second one.
    each(&format!(
        "dd if=/dev/zero of={device} bs=4k count=1 seek=$((zone * 1024)) oflag=direct conv=notrunc"
    ));
    mount_zonefs(&device);
    let _unmounted = AtEnd("umount /tmp/zoned");
    let before = ios_of(&device);
    let (seen, _) = watch_while("stage07", || each(&format!("truncate -s 0 {MOUNT}/seq/$((zone - 1))")));
    let trace = trace(&seen);
    assert_eq!((ios_of(&device) - before, trace.completed), (8, 8), "{}", seen.stdout);
    assert_eq!((trace.durations.len(), trace.not_measured), (0, Some(0)), "{}", seen.stdout);
}

fn zone_appends_are_writes() {
    let (_disk, device) = disk();
    // So each bio is a request.
    fs::write(queue(&device, "nomerges").unwrap(), "2").unwrap();
    // btrfs knows zoned disks since 5.12, and zonefs has written without zone appends since 6.6.
    let write = if release().starts_with("5.10") {
        mount_zonefs(&device);
        format!("dd if=/dev/zero of={MOUNT}/seq/0 bs=4k count=32 oflag=direct conv=notrunc")
    } else {
        sh(&format!(
            "modprobe btrfs; mkfs.btrfs -q -O zoned -m single -d single {device}; mount {device} {MOUNT}; sync"
        ));
        format!("for nth in $(seq 32); do dd if=/dev/zero of={MOUNT}/$nth bs=64k count=1 conv=fsync; done")
    };
    let _unmounted = AtEnd("umount /tmp/zoned");
    let tools = ["bitehist", "bitesize"].map(start);
    let lines = biowhere::start(&format!("-d {device}"));
    let empty = EmptyFlushes::new();
    let before = ios_of(&device);
    // Unmounted, it writes no more.
    sh(&format!("{write}; umount {MOUNT}"));
    let writes = ios_of(&device) - before - empty.count();
    assert!(writes >= 32, "{writes}");
    for tool in tools {
        let seen = end_exact(tool);
        assert_eq!(histogram(&seen.stdout).count(), writes, "{}", seen.stdout);
    }
    let ios = biowhere::end(lines);
    let appends = ios.iter().filter(|io| io.operation == "zoneappend").count();
    let others = ios.iter().filter(|io| io.operation == "write" && io.bytes > 0).count();
    assert!(appends >= 32 && (appends + others) as u64 == writes, "{appends} + {others}, {writes}: {ios:?}");
    assert!(ios.iter().all(|io| io.operation != "zoneappend" || io.parts().disk >= 1_000_000), "{ios:?}");
}
