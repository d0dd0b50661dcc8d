//! What people take with them: blkbook needs no library on another machine, and no more rights than the book says; and an
//! ejected stage needs nothing of the workbook.

use std::fs;
use std::panic::panic_any;
use std::process::Command;

use common::{OrCause, Result};
use guest::running::Observation;
use guest::truth::histogram;
use lab::eject;
use machine::vm::Vm;
use machine::workbook::Program;
use nix::sys::signal::Signal;
use serde_json::Value;
use wire::disks::RAW_DEVICE;

use crate::guest::{AtEnd, Missed, io, is_in, killed, name, programs, quiet, refused, sh, start, wait_until};
use crate::{Case, cases, is_soak, workbook};

pub const CASES: &[Case] = cases![
    blkbook_needs_no_library(Blkbook),
    blkbook_needs_two_capabilities(Blkbook, Outer),
    blkbook_tells_what_a_tool_costs(Blkbook, Outer),
    blkbook_prints_json_of_its_schema(Blkbook, Outer),
    blkbook_fails_on_a_limit(Blkbook, Outer),
];

/// Boots a guest that has blkbook, too. Building it takes minutes, so no other guest has it.
pub fn boot(kernel: &str) -> Result<Vm> {
    let file = workbook()?.build_static()?;
    let size = fs::metadata(&file).or_cause("blkbook was not built")?.len();
    assert!(size <= 8 << 20, "blkbook has {size} bytes, and should have at most 8 MiB");
    crate::boot(kernel, |mut machine| {
        machine.binaries.push(file);
        machine
    })
}

/// Whether a stage is ejected for a test. Building one takes seconds, and these use all that others do: the trace pipe, stacks,
/// a filter of processes, histograms. With `LAB_SOAK=1`, all are.
pub fn is_ejected(case: &str) -> bool {
    is_soak() || ["stage03", "stage06", "stage09", "stage12"].iter().any(|stage| case.starts_with(stage))
}

/// Boots a guest in which stages were ejected, and then built in an empty folder. The first time, that takes minutes.
pub fn boot_ejected(kernel: &str) -> Result<Vm> {
    let (workbook, folder) = (workbook()?, tempfile::tempdir().or_cause("cannot make a folder")?);
    let build = |stage: &Program| {
        let (name, crate_folder) = (stage.binary(), folder.path().join(stage.binary()));
        eject::eject(&workbook, stage, &stage.folder, &name, &crate_folder)?;
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .current_dir(crate_folder)
            .env("CARGO_ENCODED_RUSTFLAGS", "")
            // With it, twelve programs are 600 MB, which the guest keeps in its memory.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_PROFILE_DEV_STRIP", "true")
            .args(["build", "--quiet", "--offline"]);
        cargo.arg("--target-dir").arg(workbook.target.join("ejected"));
        Ok(workbook.compile(cargo, &[name], "an ejected stage does not compile")?.remove(0))
    };
    let stages = workbook.catalog.stages.iter().filter(|stage| is_ejected(&stage.binary()));
    let ejected = stages.map(build).collect::<Result<Vec<_>>>()?;
    crate::boot(kernel, |mut machine| {
        machine.binaries.retain(|old| !ejected.iter().any(|new| new.file_name() == old.file_name()));
        machine.binaries.extend(ejected);
        machine
    })
}

/// How many I/Os there are to see: an odd number.
const IOS: usize = 29;

/// How many I/Os a tool has seen.
type Count = fn(&Observation) -> usize;

/// Runs each of these tools with `before` in front of it, and checks that it counts each I/O.
fn each_counts(before: &str, tools: &[(&str, Count)]) {
    for (tool, count) in tools {
        let running = start(&format!("{before} {tool} --max-cpu 0"));
        io(&format!("write /dev/scratch --count {IOS}"));
        let seen = running.end(Signal::SIGINT).unwrap();
        assert!(seen.status.success(), "{tool}: {seen:?}");
        let seen_ios = count(&seen);
        assert!(seen_ios <= IOS, "{tool}: {seen:?}");
        // A preemptible kernel may skip a call, and tells only root that it did.
        if seen_ios < IOS {
            eprintln!("{tool}: {seen:?}");
            panic_any(Missed);
        }
    }
}

/// The tools of which the page says that two capabilities are enough.
const TOOLS: [(&str, Count); 6] = [
    ("biolatency -j", |seen| {
        let interval: Value = serde_json::from_str(&seen.stdout).unwrap();
        let kinds = interval["latency"].as_array().unwrap();
        kinds.iter().map(|kind| kind["count"].as_u64().unwrap() as usize).sum()
    }),
    ("biowhere --json", |seen| {
        let disk = name(RAW_DEVICE);
        let ios = seen.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        ios.filter(|io| io["disk"] == *disk && io["bytes"] == 4096).count()
    }),
    ("bitehist", |seen| histogram(&seen.stdout).count() as usize),
    ("bitesize", |seen| histogram(&seen.stdout).count() as usize),
    ("tracex3 --json", |seen| {
        let rows = seen.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.flat_map(|row| row["cells"].as_array().unwrap().clone())
            .map(|cell| cell["count"].as_u64().unwrap() as usize)
            .sum()
    }),
    ("stage11", |seen| seen.stdout.lines().filter(|line| line.starts_with("io ")).count()),
];

fn lives(seen: &Observation) -> usize {
    let (_, lives) = seen.stdout.split_once(", lives: ").unwrap();
    lives.split(',').next().unwrap().parse().unwrap()
}

/// In a root folder with busybox, blkbook, and what the kernel itself offers.
fn blkbook_needs_no_library() {
    quiet();
    let _end = AtEnd("umount /alone/proc /alone/sys/kernel/tracing /alone/sys; rm -r /alone");
    sh("mkdir -p /alone/proc /alone/sys /alone/tmp && cp /bin/busybox /bin/blkbook /alone
        mount -t proc proc /alone/proc && mount -t sysfs sys /alone/sys
        mount -t tracefs tracefs /alone/sys/kernel/tracing
        ln -s blkbook /alone/biolatency");
    let doctor = sh("chroot /alone /blkbook doctor --report");
    assert!(!doctor.contains("MISSING") && !doctor.contains("  ?  "), "{doctor}");
    assert!(
        doctor.contains(&format!("{} ", name(RAW_DEVICE))) && doctor.contains("ok       stage12"),
        "{doctor}"
    );
    each_counts("chroot /alone /blkbook", &TOOLS);
    each_counts("chroot /alone /blkbook", &[("ctracer", lives)]);
    each_counts("chroot /alone", &[("/biolatency -j", TOOLS[0].1)]);
}

/// What the page about one's own machine says of the rights that tools need.
fn blkbook_needs_two_capabilities() {
    quiet();
    let _end = AtEnd("echo 3 > /proc/sys/kernel/perf_event_paranoid");
    // Before 5.11, the memory of maps counted against a limit.
    let limit = if is_in("..5.11") { ",+sys_resource" } else { "" };
    let user = |more: &str| {
        let caps = format!("-all,+bpf,+perfmon{more}{limit}");
        format!(
            "/bin/setpriv --reuid=1000 --clear-groups --inh-caps={caps} --ambient-caps={caps} --bounding-set={caps} blkbook"
        )
    };
    // Debian's kernels have 3 here, and keep perf events for CAP_SYS_ADMIN then.
    for tool in ["bitehist", "bigreads"] {
        let said = refused(&format!("{} {tool}", user("")));
        assert!(said.contains("perf_event_paranoid is 3, so CAP_PERFMON is not enough"), "{said}");
    }
    fs::write("/proc/sys/kernel/perf_event_paranoid", "2").unwrap();
    let doctor = sh(&format!("{} doctor || echo status $?", user("")));
    assert!(
        doctor.contains("status 1\n") && doctor.contains("  MISSING  tracefs: only root may read"),
        "{doctor}"
    );
    assert!(
        doctor.contains("  ?        bitehist: ") && doctor.contains("  ok       hello_perf_output\n"),
        "{doctor}"
    );
    each_counts(&user(""), &TOOLS);
    each_counts(&user(",+dac_read_search"), &[("ctracer", lives)]);
    for tool in ["bigreads", "hello_perf_output"] {
        let seen = start(&format!("{} {tool} --duration 0.1", user(""))).wait().unwrap();
        assert!(seen.status.success() && seen.stderr.contains("neither known nor limited"), "{seen:?}");
    }
}

/// The kernel's own count of calls and of I/Os is exact. Too much ends the tool, with its report, and nothing is left, also
/// not when it is killed.
fn blkbook_tells_what_a_tool_costs() {
    quiet();
    let before = programs();
    let running = start("blkbook biolatency --max-cpu 0 --cost");
    io(&format!("write /dev/scratch --count {IOS}"));
    let seen = running.end(Signal::SIGINT).unwrap();
    // One program at the start of a request, and one at its end.
    let calls = format!(" % of a CPU in 2 BPF programs ({} calls, ", 2 * IOS);
    assert!(seen.stderr.contains(&calls), "{seen:?}");
    assert!(seen.stderr.contains(&format!("The disks did {IOS} I/Os meanwhile: ")), "{seen:?}");
    assert!(!seen.stderr.contains(" 0 ns"), "{seen:?}");

    let running = start("blkbook biolatency --max-cpu 0.000001");
    let busy = killed("sh -c 'while true; do io write /dev/scratch --count 29; done'");
    let seen = running.wait().unwrap();
    drop(busy);
    assert_eq!(seen.status.code(), Some(1), "{seen:?}");
    assert!(seen.stdout.contains("distribution"), "the report comes: {seen:?}");
    assert!(
        seen.stderr.contains("its BPF programs took too much time") && seen.stderr.contains("--max-cpu"),
        "{seen:?}"
    );

    let running = start("blkbook ctracer --max-cpu 0 --cost");
    assert!(!programs().is_subset(&before));
    running.end(Signal::SIGKILL).unwrap();
    wait_until("the kernel has freed the programs", || programs().is_subset(&before));
}

/// Whether a value has the types and the names that a schema says. The libraries that know all words of schemas bring thirty
/// others.
fn fits(schema: &Value, value: &Value) -> bool {
    if let Some(path) = schema["$ref"].as_str() {
        return fits(schema_of_all().pointer(path.trim_start_matches('#')).unwrap(), value);
    }
    if let Some(kinds) = schema["oneOf"].as_array() {
        return kinds.iter().filter(|kind| fits(kind, value)).count() == 1;
    }
    let is_type = |name: &Value| match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => other == "null" && value.is_null(),
    };
    let is_known = |(name, value): (&String, &Value)| match schema["properties"].get(name) {
        Some(schema) => fits(schema, value),
        None => schema["additionalProperties"] != false,
    };
    let list = |word: &str| schema[word].as_array().into_iter().flatten();
    (schema["type"].is_null()
        || schema["type"].is_string() && is_type(&schema["type"])
        || list("type").any(is_type))
        && list("required").all(|name| value.get(name.as_str().unwrap()).is_some())
        && value.as_object().into_iter().flatten().all(is_known)
        && value.as_array().into_iter().flatten().all(|item| fits(&schema["items"], item))
}

fn schema_of_all() -> &'static Value {
    static SCHEMA: std::sync::LazyLock<Value> =
        std::sync::LazyLock::new(|| serde_json::from_str(&sh("blkbook schema")).unwrap());
    &SCHEMA
}

/// What a tool printed is JSON, as the schema says; returns it.
fn json_of(tool: &str, seen: &Observation) -> Vec<Value> {
    assert!(seen.status.success(), "{tool}: {seen:?}");
    let name = tool.split(' ').next().unwrap();
    let values: Vec<Value> = serde_json::Deserializer::from_str(&seen.stdout)
        .into_iter()
        .collect::<std::result::Result<_, _>>()
        .unwrap_or_else(|error| panic!("{tool}: {error}: {seen:?}"));
    for value in &values {
        assert!(fits(&schema_of_all()["$defs"][name], value), "{tool} does not fit: {value}");
    }
    values
}

/// And the numbers are those of the text.
fn blkbook_prints_json_of_its_schema() {
    quiet();
    let sum = |values: &[Value], path: &str| {
        values.iter().map(|value| value.pointer(path).unwrap().as_u64().unwrap()).sum::<u64>()
    };
    // What to run, and how many I/Os are in its output.
    type Sum = fn(&[Value], &dyn Fn(&[Value], &str) -> u64) -> u64;
    let tools: [(&str, Sum); 7] = [
        ("biolatency -D --json", |all, sum| sum(all, "/latency/0/count")),
        ("biolatency -F -m --json", |all, sum| sum(all, "/latency/0/count")),
        ("biowhere --json", |all, _| all.len() as u64),
        ("biowhere --summary --json", |all, sum| sum(all, "/groups/0/ios")),
        ("bitehist --json", |all, sum| sum(all, "/count")),
        ("bitesize --top 1 --json", |all, sum| sum(all, "/processes/0/count") + sum(all, "/others/count")),
        ("ctracer --json", |all, _| all[0]["lives"].as_array().unwrap().len() as u64),
    ];
    for (tool, count) in tools {
        let running = start(&format!("blkbook {tool} --max-cpu 0"));
        io(&format!("write /dev/scratch --count {IOS}"));
        let seen = running.end(Signal::SIGINT).unwrap();
        let ios = count(&json_of(tool, &seen), &sum) as usize;
        if ios < IOS && is_in("6.13..") {
            panic_any(Missed);
        }
        assert_eq!(ios, IOS, "{tool}: {seen:?}");
    }
    let running = start("blkbook bigreads --json --lines 3");
    sh("dd if=/dev/zero of=/dev/null bs=2M count=29 2> /dev/null");
    let seen = running.wait().unwrap();
    assert_eq!(sum(&json_of("bigreads", &seen), "/bytes"), 3 << 21, "{seen:?}");
    let read = sh("blkbook page_cache_scenario --file /dev/scratch --json --max-cpu 0");
    let read: Value = serde_json::from_str(&read).unwrap();
    assert!(fits(&schema_of_all()["$defs"]["page_cache_scenario"], &read), "{read}");
    assert_eq!(read["reads"][1]["graph"]["name"], "vfs_read");
}

/// A limit ends a tool with a status of its own, and with its report.
fn blkbook_fails_on_a_limit() {
    quiet();
    let started = |options: &str| {
        let running = start(&format!("blkbook {options} --max-cpu 0"));
        io(&format!("write /dev/scratch --count {IOS}"));
        running
    };
    let disk = name(RAW_DEVICE);
    let seen = started("biowhere --json --fail-on total>1ns --fail-on time<0").wait().unwrap();
    assert!(seen.status.code() == Some(3) && seen.stderr.contains("\nLimit: total is "), "{seen:?}");
    assert!(seen.stderr.contains(&format!(" ns ({disk}, ")), "{seen:?}");
    // The interval that is beyond it is the last.
    for (options, number) in [
        ("bitehist 0.02 --fail-on count>0", "/count"),
        ("biowhere --summary 0.05 --fail-on ios>0", "/groups/0/ios"),
    ] {
        let seen = started(&format!("{options} --json")).wait().unwrap();
        let last: Value = serde_json::from_str(seen.stdout.lines().last().unwrap()).unwrap();
        let ios = last.pointer(number).and_then(Value::as_u64);
        assert!(seen.status.code() == Some(3) && ios.is_some_and(|ios| ios > 0), "{seen:?}");
    }
    // What there is at the end is compared, too.
    let ends = |options: &str, status: i32, said: &str| {
        let seen = started(options).end(Signal::SIGINT).unwrap();
        assert!(seen.status.code() == Some(status) && seen.stderr.contains(said), "{options}: {seen:?}");
    };
    let beyond = format!(" ({disk}), and the limit is ios>0\n");
    ends("biowhere --summary --fail-on ios>0 --fail-on p99.disk>1s", 3, &beyond);
    ends(&format!("biolatency --json --fail-on count>{IOS} --fail-on average<1ns"), 0, "");
    ends("biowhere --summary --fail-on total>1s", 1, "nothing was compared with total>1s");
    // A disk that hangs ends no I/O.
    let hangs = "blkbook biowhere --fail-on total>1s --duration 0.01 --max-cpu 0";
    let seen = start(hangs).wait().unwrap();
    assert!(seen.status.code() == Some(1) && seen.stderr.contains("nothing was compared"), "{seen:?}");
}
