//! biowhere shows each bio once, on the right disk, with the right file and control group; its parts add up, and the time
//! is in the part in which the I/O was held up.

use std::fs;
use std::time::Duration;

use guest::device_mapper::{Linear, PIECES, with_split};
use guest::null_blk::{NullBlk, long_enough};
use guest::running::Running;
use serde::Deserialize;
use wire::disks::RAW_DEVICE;

use crate::guest::{
    AtEnd, around, end_exact, io, killed, name, one_by_one, quiet, sh, stat, wait_until, with_ext4,
};
use crate::latency::{OneDisk, three_disks};
use crate::{Case, cases, ctracer};

pub const CASES: &[Case] = cases![
    biowhere_has_each_io_with_the_time_of_its_disk,
    biowhere_shows_the_wait_for_a_limit_before_the_request,
    biowhere_and_ctracer_let_the_slowest_piece_decide,
    biowhere_starts_on_a_busy_disk(Outer),
    biowhere_names_the_disk_below,
    biowhere_names_files_and_who_pays,
    biowhere_names_files_and_who_pays_on_xfs(Outer),
    biowhere_has_the_flush_in_the_disk,
    biowhere_waits_for_the_slower_mirror(Outer),
    biowhere_has_no_parts_without_a_request(Outer),
];

/// A line of `--json`. Times are in ns.
#[derive(Clone, Debug, Deserialize)]
pub struct Io {
    task: String,
    pid: u32,
    pub disk: String,
    pub lower: Option<String>,
    pub operation: String,
    sector: u64,
    pub bytes: u64,
    pub total: u64,
    parts: Option<Parts>,
    pub requeues: u32,
    failed: bool,
    cgroup: Option<String>,
    file: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Parts {
    pub before: u64,
    pub queue: u64,
    pub disk: u64,
    end: u64,
}

impl Io {
    pub fn parts(&self) -> Parts {
        self.parts.unwrap_or_else(|| panic!("no parts: {self:?}"))
    }
}

pub fn start(arguments: &str) -> Running {
    crate::guest::start(&format!("biowhere --json {arguments}"))
}

/// Ends it. Of each I/O, the parts add up to the total.
pub fn end(tool: Running) -> Vec<Io> {
    let ios = end_as_it_is(tool);
    assert!(ios.iter().all(|io| !io.failed && io.requeues == 0), "{ios:?}");
    ios
}

/// The same if I/Os may fail, or come back.
pub fn end_as_it_is(tool: Running) -> Vec<Io> {
    let seen = end_exact(tool);
    assert!(!seen.stderr.contains("warning"), "{}", seen.stderr);
    let ios = serde_json::Deserializer::from_str(&seen.stdout).into_iter().collect::<Result<Vec<Io>, _>>();
    let ios = ios.unwrap_or_else(|error| panic!("{error}: {}", seen.stdout));
    for io in &ios {
        let sum = |Parts { before, queue, disk, end }| before + queue + disk + end;
        assert!(io.parts.is_none_or(|parts| sum(parts) == io.total), "{io:?}");
    }
    ios
}

pub fn ns(time: Duration) -> u64 {
    time.as_nanos() as u64
}

fn biowhere_has_each_io_with_the_time_of_its_disk() {
    let run = three_disks(&["write --seek 3"], || start(""));
    let ios = end(run.tools);
    assert_eq!(ios.len() as u64, run.reads + run.writes, "{ios:?}");
    for OneDisk { disk, ms, took, .. } in run.done {
        let of_disk: Vec<_> = ios.iter().filter(|io| io.disk == disk).collect();
        assert_eq!(of_disk.len(), took.len(), "{ios:?}");
        for (io, done) in of_disk.into_iter().zip(&took) {
            assert!(io.parts().disk >= ms * 1_000_000 && io.total <= around(done), "{io:?} {done:?}");
            let is = (&*io.operation, io.sector, io.bytes, io.pid, &io.lower, &io.file);
            assert_eq!(is, ("write", 24, 4096, std::process::id(), &None, &None), "{io:?}");
            assert!("kernel-tests".starts_with(&io.task), "{io:?}");
        }
    }
}

/// A control group that may write 4 KiB in a certain time, and a disk that takes next to none. The group above has the
/// limit. The kernel counts in slices of a tenth of a second, so the first writes may not wait.
fn biowhere_shows_the_wait_for_a_limit_before_the_request() {
    const WRITES: u64 = 6;
    quiet();
    sh(
        "mkdir -p /tmp/cgroup; mount -t cgroup2 cgroup2 /tmp/cgroup; echo +io > /tmp/cgroup/cgroup.subtree_control; \
        mkdir -p /tmp/cgroup/slow/job",
    );
    let _end = AtEnd("rmdir /tmp/cgroup/slow/job /tmp/cgroup/slow; umount /tmp/cgroup");
    let disk = NullBlk::new("limited", Duration::from_millis(1)).unwrap();
    let number = sh(&format!("cat /sys/block/{}/dev", name(&disk.device)));
    let (time, ios) = long_enough(Duration::from_millis(200), |time| {
        let bytes_a_second = 4096 * 1000 / time.as_millis();
        sh(&format!("echo '{} wbps={bytes_a_second}' > /tmp/cgroup/slow/io.max", number.trim()));
        let tool = start("--op write");
        let write = format!("exec io write {} --count {WRITES}", disk.device.display());
        sh(&format!("echo 0 > /tmp/cgroup/slow/job/cgroup.procs; {write}"));
        let ios = end(tool);
        // What a busy machine takes for itself is not left for the limit to add.
        let others: u64 = ios.iter().map(|io| io.total - io.parts().before).sum();
        Ok((others < ns(time) / 2).then_some((time, ios)))
    })
    .unwrap();
    assert_eq!(ios.len() as u64, WRITES, "{ios:?}");
    assert!(ios.iter().all(|io| io.cgroup.as_deref() == Some("/slow/job")), "{ios:?}");
    let before: u64 = ios.iter().map(|io| io.parts().before).sum();
    assert!(before >= (WRITES - 3) * ns(time), "{before}: {ios:?}");
}

/// Pieces on disks of different speed; each piece is the last to end in one case.
fn biowhere_and_ctracer_let_the_slowest_piece_decide() {
    quiet();
    with_split(|disk, size| {
        let (tool, tracer) = (start(&format!("-d {disk}")), ctracer::start(ctracer::SOME));
        let done = io(&format!("write {disk} --count 1 --size {size}"));
        let (tree, ios) = (ctracer::end(tracer), end(tool));
        let [io] = &ios[..] else { panic!("{ios:?}") };
        assert!(io.parts().disk >= ns(PIECES[2]) && io.total <= around(&done), "{io:?}");
        assert_eq!((io.bytes, io.lower.as_deref().map(|lower| lower == name(disk))), (size, Some(false)));

        ctracer::check(&tree);
        let [life] = ctracer::lives(&tree, disk, "write")[..] else { panic!("{:?}", tree.lives) };
        assert_eq!(u64::from(life.bio.bytes), size);
        assert!(life.duration().unwrap() >= ns(PIECES[2]), "{life:?}");
        assert!(done.first_ns <= life.start && life.end.unwrap() <= done.last_ns, "{life:?} {done:?}");
        let ends = tree.calls.iter().filter(|call| ctracer::name(&tree, call) == "bio_endio");
        assert_eq!(life.end, ends.map(|call| call.place.time).max(), "nothing ended later: {life:?}");
        Ok(())
    })
    .unwrap();
}

/// What is under way when biowhere begins or ends is neither shown nor missed.
fn biowhere_starts_on_a_busy_disk() {
    quiet();
    let disk = NullBlk::new("busy", Duration::from_millis(1)).unwrap();
    let busy = killed(&format!("io write {} --threads 4 --count 1000000", disk.device.display()));
    let writes = || stat(&disk.device.to_string_lossy())[4];
    wait_until("the disk is busy", || writes() > 10);
    let tool = start("");
    let before = writes();
    wait_until("there were some writes", || writes() > before + 100);
    let ios = end(tool);
    let after = writes();
    drop(busy);
    assert!((100..=after - before + 4).contains(&(ios.len() as u64)), "{} of {}", ios.len(), after - before);
    assert!(ios.iter().all(|io| io.parts().disk >= 1_000_000 && io.total < 60_000_000_000), "{ios:?}");
}

/// A disk of device-mapper on a disk that takes 20 ms. Both names choose what goes through it.
fn biowhere_names_the_disk_below() {
    quiet();
    let slow = NullBlk::new("below", Duration::from_millis(20)).unwrap();
    let upper = Linear::new("above", &[(&slow.device, 4096)]).unwrap();
    let tools = [&slow.device, &upper.device].map(|disk| start(&format!("-d {}", disk.display())));
    io(&format!("write {} --count 5 --seek 2", upper.device.display()));
    io(&format!("write {RAW_DEVICE} --count 3"));
    for tool in tools {
        let ios: Vec<_> = end(tool).into_iter().filter(|io| io.operation == "write").collect();
        assert_eq!(ios.len(), 5, "{ios:?}");
        for io in &ios {
            assert_eq!((&*io.disk, io.lower.as_deref()), (&*name(&upper.device), Some(&*name(&slow.device))));
            assert!(io.parts().disk >= 20_000_000, "{io:?}");
        }
    }
}

fn biowhere_names_files_and_who_pays() {
    with_ext4();
    names_files_and_who_pays();
}

/// An empty XFS, made with `mkfs.xfs --unsupported -m bigtime=0,inobtcount=0,reflink=0,rmapbt=0,finobt=0 -i
/// nrext64=0,sparse=0` in a file of 16 MiB, and `xz`.
const XFS: &[u8] = include_bytes!("xfs.img.xz");

fn biowhere_names_files_and_who_pays_on_xfs() {
    quiet();
    fs::write("/tmp/xfs.xz", XFS).unwrap();
    sh(
        "xzcat /tmp/xfs.xz | dd of=/dev/scratch bs=1M conv=fsync; modprobe xfs; mount -t xfs /dev/scratch /mnt",
    );
    let _end = AtEnd("umount /mnt; rm /tmp/xfs.xz");
    names_files_and_who_pays();
}

/// Reads, buffered writes and direct writes of files in a folder, by two control groups.
fn names_files_and_who_pays() {
    sh("mkdir -p /tmp/cgroup; mount -t cgroup2 cgroup2 /tmp/cgroup; \
        echo '+io +memory' > /tmp/cgroup/cgroup.subtree_control; mkdir -p /tmp/cgroup/a /tmp/cgroup/b; \
        mkdir -p '/mnt/a folder/b'; io read-cold '/mnt/a folder/b/cold' --count 64; sync");
    let _end = AtEnd("rm -r '/mnt/a folder'; rmdir /tmp/cgroup/a /tmp/cgroup/b; umount /tmp/cgroup");
    let tool = start("");
    let run = |group: &str, what: &str, file: &str| {
        sh(&format!("echo 0 > /tmp/cgroup/{group}/cgroup.procs; exec io {what} '/mnt/a folder/{file}'"));
    };
    run("a", "write --count 16", "direct");
    run("b", "read-cold --count 64", "b/cold");
    run("a", "sync --count 16", "synced");
    sh("mv '/mnt/a folder/direct' '/mnt/a folder/b/moved'");
    run("b", "write --count 4", "b/moved");
    // Back to a name that it had before, and into a folder with another name.
    sh("mv '/mnt/a folder/b/moved' '/mnt/a folder/direct'");
    run("b", "write --count 2", "direct");
    sh("mv '/mnt/a folder/b' '/mnt/a folder/c'");
    run("a", "read-cold --count 64", "c/cold");
    let ios = end(tool);
    let bytes = |file: &str, group: &str, operation: &str| {
        let is_it = |io: &&Io| {
            io.file.as_deref() == Some(&*format!("/mnt/a folder/{file}"))
                && io.cgroup.as_deref() == Some(group)
                && io.operation == operation
        };
        ios.iter().filter(is_it).map(|io| io.bytes).sum::<u64>()
    };
    // Before it writes a new file, `io` makes it as long as it will be.
    let direct = ios.iter().filter(|io| io.task == "io" && io.bytes == 4096 && io.operation == "write");
    assert!(direct.count() >= 20, "{ios:?}");
    assert_eq!(bytes("b/cold", "/b", "read"), 64 * 4096, "{ios:#?}");
    assert_eq!(bytes("synced", "/a", "write"), 2 * 16 * 4096, "{ios:#?}");
    assert_eq!(bytes("direct", "/a", "write"), 2 * 16 * 4096, "{ios:#?}");
    assert_eq!(bytes("b/moved", "/b", "write"), 4 * 4096, "{ios:#?}");
    assert_eq!(bytes("direct", "/b", "write"), 2 * 4096, "{ios:#?}");
    assert_eq!(bytes("c/cold", "/a", "read"), 64 * 4096, "{ios:#?}");
    // What is left is the file system's own: it has no file.
    let with_file =
        ["b/cold", "c/cold", "synced", "direct", "b/moved"].map(|file| format!("/mnt/a folder/{file}"));
    for io in &ios {
        assert!(io.file.as_deref().is_none_or(|file| with_file.iter().any(|known| known == file)), "{io:?}");
    }
}

/// The kernel sends a flush as a request of its own. A write that needs one waits for it.
fn biowhere_has_the_flush_in_the_disk() {
    quiet();
    let disk =
        NullBlk::with("flushes", Duration::from_millis(30), &[("memory_backed", 1), ("cache_size", 1)])
            .unwrap();
    let device = disk.device.to_str().unwrap().to_owned();
    let tool = start(&format!("-d {device} --op flush"));
    let file = fs::File::options().write(true).open(&device).unwrap();
    file.sync_all().unwrap();
    let ios: Vec<_> = end(tool);
    let [io] = &ios[..] else { panic!("{ios:?}") };
    assert_eq!((&*io.operation, io.bytes), ("flush", 0));
    assert!(io.parts().disk >= 30_000_000, "{io:?}");
}

/// A write to a mirror is over when both disks have it. MD makes a copy for each.
fn biowhere_waits_for_the_slower_mirror() {
    quiet();
    let fast = NullBlk::new("fast", Duration::from_millis(1)).unwrap();
    let slow = NullBlk::new("slow", Duration::from_millis(100)).unwrap();
    sh("modprobe raid1");
    // A name is free again only after a while.
    for (mirror, disks) in [("md_one", [&fast, &slow]), ("md_other", [&slow, &fast])] {
        // See the kernel's Documentation/admin-guide/md.rst.
        sh(&format!("echo {mirror} > /sys/module/md_mod/parameters/new_array"));
        let there = |commands: &str| sh(&format!("cd /sys/block/{mirror}/md && {commands}"));
        there(
            "echo none > metadata_version; echo raid1 > level; echo 2 > raid_disks; echo 4096 > component_size",
        );
        for (nth, disk) in disks.iter().map(|disk| name(&disk.device)).enumerate() {
            there(&format!("cat /sys/block/{disk}/dev > new_dev && echo {nth} > dev-{disk}/slot"));
        }
        there("echo none > resync_start && echo active > array_state");
        let tool = start(&format!("-d /dev/{mirror} --op write"));
        let took = one_by_one(&format!("write /dev/{mirror} --seek 3"), 5);
        let ios = end(tool);
        assert_eq!(ios.len(), took.len(), "{ios:?}");
        for (io, done) in ios.iter().zip(&took) {
            let is = (&*io.disk, io.lower.as_deref(), io.sector, io.bytes);
            assert_eq!(is, (mirror, Some(&*name(&slow.device)), 24, 4096), "{io:?}");
            assert!(io.parts().disk >= 100_000_000 && io.total <= around(done), "{io:?} {done:?}");
        }
        there("echo clear > array_state");
    }
}

/// A disk in memory does a bio in `submit_bio()` itself. One that is a file has requests, and makes bios of its own of them.
fn biowhere_has_no_parts_without_a_request() {
    quiet();
    sh(
        "modprobe brd rd_nr=1 rd_size=8192; modprobe loop; truncate -s 1M /tmp/file; losetup /dev/loop0 /tmp/file",
    );
    let _end = AtEnd("losetup -d /dev/loop0; rm /tmp/file; modprobe -r brd");
    for (disk, has_requests) in [("ram0", false), ("loop0", true)] {
        let tool = start(&format!("-d /dev/{disk}"));
        let took = one_by_one(&format!("write /dev/{disk} --seek 2"), 8);
        let ios: Vec<_> = end(tool).into_iter().filter(|io| io.operation == "write").collect();
        assert_eq!(ios.len(), took.len(), "{ios:?}");
        for (io, done) in ios.iter().zip(&took) {
            assert_eq!((&*io.disk, &io.lower, io.sector, io.bytes), (disk, &None, 16, 4096), "{io:?}");
            assert!(io.parts.is_some() == has_requests && io.total <= around(done), "{io:?} {done:?}");
        }
    }
}
