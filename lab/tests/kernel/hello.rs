//! The examples that print events print each event once.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;

use guest::running::Observation;
use nix::sys::signal::{Signal, kill};

use crate::guest::{Killed, is_in, start, wait_until, watch_while};
use crate::{Case, cases};

pub const CASES: &[Case] = cases![
    hello_perf_output_has_each_process_once(NoFentry),
    hello_perf_output_counts_what_it_could_not_send(Outer),
    hello_clone_has_each_process_once(Outer, NoFentry),
    a_thread_of_io_uring_does_not_come_from_kernel_clone(Outer),
    bigreads_has_each_large_read_once(Outer),
    bigreads_sees_reads_while_others_wait(Outer),
];

/// Processes and threads that the kernel has created since boot, including its own threads.
fn forks() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    stat.lines().find_map(|line| line.strip_prefix("processes ")).unwrap().parse().unwrap()
}

/// Starts processes, one after the other. Returns the ID of the process that did it, and how many other processes and
/// threads began meanwhile.
fn fork(count: u64) -> (u32, u64) {
    let before = forks();
    let script = format!("i=0; while [ $i -lt {count} ]; do (:); i=$((i + 1)); done");
    let mut shell = Command::new("sh").args(["-c", &script]).spawn().unwrap();
    assert!(shell.wait().unwrap().success());
    // The shell itself is one more.
    (shell.id(), forks() - before - count - 1)
}

/// Time and process of each event.
fn hellos<'a>(seen: &'a Observation, message: &str) -> Vec<(&'a str, u32)> {
    let row = |line: &'a str| {
        let mut cells = line.strip_suffix(message)?.split_whitespace();
        let time = cells.next()?;
        Some((time, cells.next_back()?.parse().ok()?))
    };
    seen.stdout.lines().filter_map(row).collect()
}

/// The counts that an example reports at its end: events received and not sent.
fn counts(seen: &Observation) -> [u64; 2] {
    let last = seen.stdout.lines().last().unwrap();
    let counts = last.strip_prefix("Events received: ").and_then(|rest| rest.split_once(", not sent: "));
    let (received, not_sent) = counts.unwrap_or_else(|| panic!("{}", seen.stdout));
    [received, not_sent].map(|count| count.parse().unwrap())
}

const CHANNELS: [(&str, &str); 2] =
    [("hello_perf_output", "Hello, perf_output!"), ("hello_perf_output --ringbuf", "Hello, ringbuf!")];

fn hello_perf_output_has_each_process_once() {
    const FORKS: u64 = 32;
    for (command, message) in CHANNELS {
        let (seen, parent) = watch_while(command, || {
            let (parent, _) = fork(FORKS);
            thread::spawn(|| ()).join().unwrap();
            parent
        });
        let hellos = hellos(&seen, message);
        let of = |pid: u32| hellos.iter().filter(|(_, parent)| *parent == pid).count() as u64;
        assert_eq!(of(parent), FORKS, "{}", seen.stdout);
        // The shell and the thread.
        assert_eq!(of(std::process::id()), 2, "{}", seen.stdout);
        let times: BTreeSet<_> = hellos.iter().filter(|(_, pid)| *pid == parent).collect();
        assert_eq!(times.len() as u64, FORKS, "one came twice: {}", seen.stdout);
        assert_eq!(counts(&seen), [hellos.len() as u64, 0]);
    }
}

/// The reader is stopped, and the buffer of each CPU has room for 85 events in one case, and for 102 in the other.
fn hello_perf_output_counts_what_it_could_not_send() {
    const FORKS: u64 = 224;
    for (command, message) in CHANNELS {
        let example = start(&format!("{command} --pages 1"));
        kill(example.pid(), Signal::SIGSTOP).unwrap();
        let (parent, others) = fork(FORKS);
        kill(example.pid(), Signal::SIGCONT).unwrap();
        let seen = example.end(Signal::SIGINT).unwrap();
        assert!(seen.status.success(), "{}", seen.stderr);
        let received = hellos(&seen, message).iter().filter(|(_, pid)| *pid == parent).count() as u64;
        let [_, not_sent] = counts(&seen);
        assert!(received > 0 && not_sent > 0, "{}", seen.stdout);
        // Processes that others started may not have found room either, but usually there are none.
        assert!((FORKS..=FORKS + others).contains(&(received + not_sent)), "{others}: {}", seen.stdout);
    }
}

/// A thread that looks for work in a ring (`IORING_SETUP_SQPOLL`) is one of those that the kernel starts for io_uring.
fn a_thread_of_io_uring_does_not_come_from_kernel_clone() {
    const SQPOLL: u32 = 1 << 1;
    let examples = ["hello_clone", "hello_perf_output"].map(start);
    let before = forks();
    let maker = thread::Builder::new().name("maker".to_owned()).spawn(|| {
        let mut parameters = [0_u32; 30];
        parameters[2] = SQPOLL;
        // SAFETY: the kernel reads and writes a `struct io_uring_params`, which has 120 bytes.
        #[allow(unsafe_code)]
        let ring = unsafe { nix::libc::syscall(nix::libc::SYS_io_uring_setup, 8, parameters.as_mut_ptr()) };
        assert!(ring >= 0, "{}", std::io::Error::last_os_error());
    });
    maker.unwrap().join().unwrap();
    assert!(forks() - before >= 2, "the maker and the ring's thread");
    let [clone, perf] = examples.map(|example| example.end(Signal::SIGINT).unwrap().stdout);
    let is_makers = |line: &&str| line.split(['-', ' ']).any(|word| word == "maker");
    let lines = [clone, perf].map(|text| text.lines().filter(is_makers).count());
    assert_eq!(lines, [0, 1]);
}

fn hello_clone_has_each_process_once() {
    const FORKS: u64 = 32;
    let (seen, (parent, _)) = watch_while("hello_clone", || fork(FORKS));
    let lines = seen.lines();
    assert!(lines.iter().all(|line| line.message == "Hello, World!"), "{}", seen.stdout);
    assert_eq!(lines.iter().filter(|line| line.pid == parent).count() as u64, FORKS, "{}", seen.stdout);

    let (seen, (parent, _)) = watch_while("hello_clone --count", || fork(FORKS));
    let lines = seen.lines();
    let count = |message: &str| message.strip_prefix("Hello, World! ")?.parse::<u64>().ok();
    let of_shell = lines.iter().filter(|line| line.pid == parent);
    let numbers: BTreeSet<_> = of_shell.map(|line| count(line.message).unwrap()).collect();
    assert_eq!(numbers.len() as u64, FORKS, "one came twice: {}", seen.stdout);
    let last = format!("New processes and threads: {}", lines.len());
    assert_eq!(seen.stdout.lines().last(), Some(&*last), "{}", seen.stdout);
}

const MIB: usize = 1 << 20;

/// Reads with these sizes.
fn read(sizes: &[usize]) {
    let mut zeros = File::open("/dev/zero").unwrap();
    for size in sizes {
        assert_eq!(zeros.read(&mut vec![1; *size]).unwrap(), *size);
    }
}

/// The sizes of this process's reads that were printed.
fn sizes(seen: &Observation) -> Vec<usize> {
    let row = |line: &str| {
        let cells: Vec<_> = line.split_whitespace().collect();
        let [comm, pid, bytes] = cells[..] else { return None };
        let is_ours = pid.parse() == Ok(std::process::id()) && comm.starts_with("kernel-tests");
        is_ours.then(|| bytes.parse().unwrap())
    };
    seen.stdout.lines().filter_map(row).collect()
}

fn bigreads_has_each_large_read_once() {
    const SIZES: [usize; 4] = [MIB - 1, MIB, 4096, 2 * MIB];
    let (seen, ()) = watch_while("bigreads", || read(&SIZES));
    assert_eq!(sizes(&seen), [MIB, 2 * MIB], "{}", seen.stdout);
    assert_eq!(counts(&seen)[1], 0);

    let (seen, ()) = watch_while("bigreads --min-bytes 4096", || read(&SIZES));
    let large: Vec<_> = sizes(&seen).into_iter().filter(|size| *size >= MIB - 1 || *size == 4096).collect();
    assert_eq!(large, SIZES, "{}", seen.stdout);

    let (seen, ()) = watch_while("bigreads --printk", || read(&SIZES));
    let lines = seen.lines();
    let own = lines.iter().filter(|line| line.pid == std::process::id());
    let messages: Vec<_> = own.map(|line| line.message).collect();
    let expected = ["READ: 1048576 bytes", "READ: 2097152 bytes"];
    if is_in("..5.16") {
        // There, the two threads that wait for the example's output are sometimes enough to blind a kretprobe.
        assert!(messages.iter().all(|message| expected.contains(message)), "{}", seen.stdout);
    } else {
        assert_eq!(messages, expected, "{}", seen.stdout);
    }
}

/// Processes that wait in a read of a pipe.
fn waiting(count: usize) -> Vec<Killed> {
    let cat = || Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let children: Vec<_> = (0..count).map(|_| Killed(cat())).collect();
    for child in &children {
        let file = format!("/proc/{}/syscall", child.pid());
        let read = format!("{} 0x0 ", nix::libc::SYS_read);
        wait_until("cat waits", || std::fs::read_to_string(&file).unwrap().starts_with(&read));
    }
    children
}

/// A kretprobe has room for a few calls that have not returned yet, and does not see others.
fn bigreads_sees_reads_while_others_wait() {
    for (command, expected) in [("bigreads", &[MIB][..]), ("bigreads --printk", &[])] {
        let (seen, _waiting) = watch_while(command, || {
            let waiting = waiting(16);
            read(&[MIB]);
            waiting
        });
        assert_eq!(sizes(&seen), expected, "{}", seen.stdout);
        assert_eq!(seen.lines().len(), 0, "a kretprobe sees it, too: {}", seen.stdout);
    }
}
