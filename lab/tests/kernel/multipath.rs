//! A disk that the kernel reaches by two paths: NVMe with native multipath.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::preflight::release;
use machine::vm::Machine;
use toolkit::disks;
use wire::disks::RAW_DEVICE;

use crate::guest::{io, quiet, refused, sh, start, wait_until};
use crate::{Case, biowhere, cases, ctracer, latency};

/// The cases whose guests have this disk.
pub const CASES: &[Case] = cases![
    biolatency_names_the_paths_of_a_disk(TwoPaths),
    ctracer_follows_a_bio_to_a_path(TwoPaths),
    biowhere_names_the_paths_of_a_disk(TwoPaths),
    a_disk_with_one_queue_completes_each_request_alone(TwoPaths),
];

/// A machine with the disk: two controllers of one subsystem, which share a namespace. Each has one queue.
pub fn with_disk(machine: Machine) -> Machine {
    const DISK: &str = "-drive if=none,id=shared,format=raw,file.driver=null-co,file.size=64M,file.read-zeroes=on \
         -device nvme-subsys,id=shared -device nvme,serial=paths,subsys=shared,max_ioqpairs=1 \
         -device nvme,serial=paths,subsys=shared,max_ioqpairs=1 -device nvme-ns,drive=shared,nsid=1";
    Machine { arguments: DISK.split_whitespace().map(str::to_owned).collect(), ..machine }
}

/// The disk, such as `/dev/nvme2n1`, and the names of its paths, such as `nvme2c2n1`. The kernel hides the paths: they
/// have statistics, but no device in `/dev`. Which numbers they have differs from boot to boot.
fn disk() -> (PathBuf, Vec<String>) {
    // In the order of their names.
    let names = sh("ls /sys/block");
    let is_path = |name: &&str| name.starts_with("nvme") && name.contains('c');
    let paths: Vec<_> = names.lines().filter(is_path).map(str::to_owned).collect();
    let (subsystem, _) = paths[0].split_once('c').unwrap();
    (Path::new("/dev").join(format!("{subsystem}n1")), paths)
}

/// How many writes the statistics of a disk count, or of a path.
fn writes(name: &str) -> u64 {
    let text = fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
    text.split_whitespace().nth(4).unwrap().parse().unwrap()
}

/// The requests are the paths', which have names although they have no device.
fn biolatency_names_the_paths_of_a_disk() {
    let (disk, paths) = disk();
    assert_eq!(paths.len(), 2, "{paths:?}");
    let stages = [start("biolatency -Dj"), start(&format!("biolatency -Dj -d {}", paths[0]))];
    let counts = || paths.iter().map(|path| writes(path));
    let before: Vec<_> = counts().collect();
    io(&format!("write {} --count 32", disk.display()));
    let truth: BTreeMap<_, _> =
        paths.iter().cloned().zip(counts().zip(before).map(|(after, before)| after - before)).collect();
    let [all, first] = stages.map(|stage| {
        let (kinds, told) = latency::end(stage);
        assert!(!told.contains("warning"), "{told}");
        kinds.into_iter().map(|((disk, _), latency)| (disk, latency.count)).collect::<BTreeMap<_, _>>()
    });
    let used = |paths: &[String]| -> BTreeMap<_, _> {
        truth
            .iter()
            .filter(|(path, count)| paths.contains(path) && **count > 0)
            .map(|(p, c)| (p.clone(), *c))
            .collect()
    };
    assert_eq!((all, first), (used(&paths), used(&paths[..1])));
    assert_eq!(truth.values().sum::<u64>(), 32);

    let statistics = fs::read_to_string("/proc/diskstats").unwrap();
    for path in &paths {
        let line = statistics.lines().find(|line| line.contains(&format!(" {path} "))).unwrap();
        let mut numbers = line.split_whitespace().map_while(|word| word.parse::<u32>().ok());
        let number = numbers.next().unwrap() << 20 | numbers.next().unwrap();
        assert_eq!(number == 0, release().starts_with("5.10"), "{line}");
        assert_eq!(disks::name_of(number), (number > 0).then(|| path.clone()));
    }

    let head = disk.file_name().unwrap().to_str().unwrap();
    let error = refused(&format!("biolatency -d {head}"));
    assert!(error.contains(&format!("{head} makes no requests")), "{error}");
    assert!(error.contains(&format!("beneath it are: {}", paths.join(" "))), "{error}");
    let error = refused(&format!("ctracer --device {}", paths[0]));
    assert!(error.contains(&format!("choose the disk: -d {head}")), "{error}");
}

fn ctracer_follows_a_bio_to_a_path() {
    quiet();
    let (disk, _) = disk();
    let device = disk.to_str().unwrap();
    let stage = ctracer::start(&format!("--device {device} {}", ctracer::SOME));
    for disk in [device, RAW_DEVICE, device, RAW_DEVICE] {
        io(&format!("write {disk} --count 32"));
        // In pieces. On the other disk, some bios and pieces have the addresses that those of this disk had.
        io(&format!("write {disk} --size 4194304 --count 4"));
    }
    let tree = ctracer::end_as_it_is(stage);
    ctracer::check(&tree);
    let lives = ctracer::lives(&tree, device, "write");
    let bytes = lives.iter().map(|life| u64::from(life.bio.bytes)).sum::<u64>();
    assert_eq!((lives.len(), bytes), (tree.lives.len(), 2 * (32 * 4096 + 4 * (4 << 20))));
    assert!(lives.iter().all(|life| life.end.is_some()), "{lives:?}");
    let other = ctracer::number(RAW_DEVICE);
    let foreign = tree.calls.iter().filter(|call| call.bio.is_some_and(|bio| bio.device == other)).count();
    assert_eq!(foreign, 0, "of {} calls", tree.calls.len());
}

/// The kernel asks the controllers what they are by requests of its own, which nobody submits: these are no I/Os.
fn biowhere_names_the_paths_of_a_disk() {
    quiet();
    let (disk, paths) = disk();
    let tool = biowhere::start("");
    let there = |commands: &str| sh(&format!("cd /sys/kernel/tracing && {commands}"));
    let counts = || paths.iter().map(|path| writes(path));
    let before: Vec<_> = counts().collect();
    io(&format!("write {} --count 32", disk.display()));
    there(
        "echo 'rwbs ~ \"N*\"' > events/block/block_rq_issue/filter && echo 1 > events/block/block_rq_issue/enable",
    );
    sh("for each in /sys/class/nvme/nvme*; do echo 1 > $each/rescan_controller; done");
    wait_until("the kernel has asked", || there("cat trace").contains("block_rq_issue:"));
    io(&format!("write {} --count 32", disk.display()));
    there(
        "echo 0 > events/block/block_rq_issue/enable && echo 0 > events/block/block_rq_issue/filter; echo > trace",
    );
    let ios = biowhere::end(tool);
    let head = disk.file_name().unwrap().to_str().unwrap();
    let mut seen = BTreeMap::new();
    for io in &ios {
        assert_eq!((&*io.disk, &*io.operation), (head, "write"), "{io:?}");
        *seen.entry(io.lower.clone().unwrap()).or_insert(0) += 1;
        io.parts();
    }
    let truth = paths.iter().cloned().zip(counts().zip(before).map(|(after, before)| after - before));
    assert_eq!(seen, truth.filter(|(_, count)| *count > 0).collect());
    assert_eq!(ios.len(), 64);
}

/// The lab's own disks have a queue for each CPU. There, from Linux 5.16 on, `blk_update_request()` sees no write.
fn a_disk_with_one_queue_completes_each_request_alone() {
    let there = |commands: &str| sh(&format!("cd /sys/kernel/tracing && {commands}"));
    let calls = |disk: &str| {
        quiet();
        there("echo p:one/update blk_update_request > kprobe_events && echo 1 > events/one/enable");
        io(&format!("write {disk} --count 32"));
        there("awk '{ print $2 }' kprobe_profile && echo 0 > events/one/enable && echo > kprobe_events")
    };
    let [one, each] = [disk().0.to_str().unwrap(), RAW_DEVICE].map(|disk| calls(disk).trim().to_owned());
    let batched = if release().starts_with("5.10") { "32" } else { "0" };
    assert_eq!((&*one, &*each), ("32", batched));
}
