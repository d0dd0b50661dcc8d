//! Record: attaches to all functions, and appends what they tell to a recording until the end.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use clap::Args;
use common::args::{Verbose, seconds};
use common::flags::Flags;
use common::preflight::{self, Need};
use common::stop::Stop;
use common::{Error, OrCause, Result, disks, report};
use libbpf_rs::btf::Btf;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, RingBufferBuilder};
use nix::errno::Errno;

use crate::attach::{self, Refused, Target};
use crate::find::{self, Names};
use crate::recording::{
    Bio, Call, Device, Function, Header, Losses, Place, Record, Return, Returned, Task, Writer,
};

// Generated.
#[allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]
mod bpf {
    include!(concat!(env!("OUT_DIR"), "/ctracer.skel.rs"));
}

/// How often we look for events. The ring buffer must hold those of so long.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What the BPF programs call a function that they do not know.
const UNKNOWN: u32 = u32::MAX;

/// The two ends of a bio's life.
pub const ENDS: [&str; 2] = ["submit_bio", "bio_endio"];

/// What to trace, and how long.
#[derive(Args, Clone, Debug)]
pub struct RecordArgs {
    /// The class: functions that take a pointer to this struct are traced
    #[arg(long, value_name = "NAME", default_value = "bio")]
    pub class: String,

    /// Trace only functions whose name is like this, such as 'blk_*'; may be given again. The two ends of a bio's life,
    /// submit_bio and bio_endio, are traced all the same
    #[arg(long, value_name = "GLOB")]
    pub functions: Vec<String>,

    /// Do not trace functions whose name is like this; may be given again
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,

    /// Only the objects that this process has had in its hands
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub pid: Option<u32>,

    /// Only bios for this disk
    #[arg(long, short, value_name = "DISK")]
    pub device: Option<String>,

    /// End after SECS seconds [default: at Ctrl-C]
    #[arg(long, value_name = "SECS", value_parser = seconds, allow_negative_numbers = true)]
    pub duration: Option<Duration>,

    /// End after N calls
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_events: Option<u64>,

    /// Show libbpf's log and, when the kernel refuses a program, the verifier's
    #[arg(long)]
    pub verbose: bool,
}

impl Verbose for RecordArgs {
    fn verbose(&self) -> bool {
        self.verbose
    }
}

/// Records into `file` until the end that `args` name, or Ctrl-C. Then nothing stays attached.
///
/// # Errors
/// If something is missing on this machine, the kernel refuses the programs, or the file can't be written.
pub fn record(args: &RecordArgs, file: File) -> Result<()> {
    [Need::Root, Need::Btf, Need::NoLockdown, Need::Tracefs, Need::Kprobes]
        .iter()
        .try_for_each(Need::check)?;
    let stop = Stop::new(None)?;
    let is_bio = args.class == "bio";
    if args.device.is_some() && !is_bio {
        return Err(Error::new(format!("a struct {} is for no disk that we could tell", args.class))
            .evidence("--device is for bios")
            .fix("leave out --device, or --class"));
    }

    // FIND
    let btf = Btf::from_vmlinux().or_cause("cannot read the kernel's types")?;
    let names = Names::read()?;
    let found = find::find(&btf, &args.class, &names)?;
    let good: Vec<_> = found.into_iter().filter(|function| function.obstacle.is_none()).collect();
    let good_names: Vec<_> = good.iter().map(|function| function.name.clone()).collect();
    let mut chosen = attach::choose(&good_names, &args.functions, &args.exclude)?;
    if is_bio {
        Need::Fexit(vec![ENDS[0].to_owned()]).check()?;
        Need::Fexit(vec![ENDS[1].to_owned()]).check()?;
        chosen.extend(ENDS.map(str::to_owned));
    }
    let chosen: Vec<_> = good.into_iter().filter(|function| chosen.contains(&function.name)).collect();
    let (mut singles, mut ids) = (Vec::new(), [UNKNOWN; 2]);
    for (id, function) in chosen.iter().enumerate() {
        let id = id as u32;
        match ENDS.iter().position(|end| *end == function.name) {
            Some(end) if is_bio => ids[end] = id,
            _ => singles.push(Target { id, name: function.name.clone(), argument: function.argument }),
        }
    }

    let header = Header {
        class: args.class.clone(),
        kernel: preflight::release(),
        functions: chosen.iter().map(|function| described(function, is_bio)).collect(),
        flags: if is_bio { Flags::all_of_this_kernel()? } else { Flags::default() },
    };
    let recorder = RefCell::new(Recorder {
        writer: Writer::new(file, header)?,
        tasks: HashMap::new(),
        devices: BTreeMap::new(),
        calls: 0,
        most: args.max_events.unwrap_or(u64::MAX),
    });

    // OPEN, LOAD
    let mut object = MaybeUninit::uninit();
    let mut open_skel = bpf::CtracerSkelBuilder::default().open(&mut object)?;
    let multi = attach::has_fprobe(&names);
    let options = open_skel.maps.rodata_data.as_deref_mut();
    let options = options.ok_or_else(|| Error::new("the programs have no options"))?;
    options.is_bio = is_bio;
    options.by_cookie = multi;
    options.only_pid = args.pid.unwrap_or_default();
    options.only_dev = args.device.as_deref().map_or(Ok(0), disks::number)?;
    [options.submit_bio_id, options.bio_endio_id] = ids;
    // Without it, no bio is known to be split.
    let chain = find::value(&btf, "BIO_CHAIN");
    options.bio_chain_bit = chain.unwrap_or(u32::BITS - 1);
    options.bio_chain_endio_at = names.address("bio_chain_endio").unwrap_or_default();
    open_skel.maps.probes.set_max_entries(2 * singles.len().max(1) as u32)?;
    let progs = &mut open_skel.progs;
    for program in [&mut progs.entries, &mut progs.returns] {
        program.set_autoload(multi && !singles.is_empty());
    }
    for program in [&mut progs.single_entry, &mut progs.single_return] {
        program.set_autoload(!multi && !singles.is_empty());
    }
    for program in [
        &mut progs.submit_bio_entry,
        &mut progs.submit_bio_return,
        &mut progs.bio_endio_entry,
        &mut progs.bio_endio_return,
    ] {
        program.set_autoload(is_bio);
    }
    let skel = open_skel.load()?;

    let failed = RefCell::new(None);
    let mut ring = RingBufferBuilder::new();
    ring.add(&skel.maps.events, |event| match recorder.borrow_mut().add(event) {
        Ok(()) => 0,
        Err(error) => {
            *failed.borrow_mut() = Some(error);
            -(Errno::ECANCELED as i32)
        }
    })?;
    let ring = ring.build()?;
    let look = || -> Result<()> {
        let consumed = ring.consume();
        if let Some(error) = failed.borrow_mut().take() {
            return Err(error);
        }
        consumed?;
        recorder.borrow_mut().writer.flush()
    };

    // ATTACH
    let mut refused = Vec::new();
    let mut links: Vec<Link> = Vec::new();
    if is_bio {
        // The returns before the entries: so an entry has the place on the stack that its return will have.
        let progs = &skel.progs;
        for program in [
            &progs.submit_bio_return,
            &progs.bio_endio_return,
            &progs.submit_bio_entry,
            &progs.bio_endio_entry,
        ] {
            links.push(program.attach_trace()?);
        }
    }
    if multi {
        links.extend(attach::multi(&skel.progs.entries, &skel.progs.returns, &singles, &mut refused));
    } else {
        for target in &singles {
            let Some(address) = names.address(&target.name) else { return Err(hidden()) };
            // Behind the probe's own instruction; that one is behind an ENDBR where the kernel is built with them.
            for at in [address + 1, address + 5] {
                let probe = target.cookie().to_ne_bytes();
                skel.maps.probes.update(&at.to_ne_bytes(), &probe, MapFlags::ANY)?;
            }
        }
        let progs = &skel.progs;
        links.extend(attach::single(
            &progs.single_entry,
            &progs.single_return,
            &singles,
            &mut refused,
            &stop,
        )?);
    }
    tell_refused(&refused);

    // RECORD
    let interrupted = stop.is_over()?;
    let stop = Stop::new(args.duration)?;
    if !interrupted {
        let many = chosen.len() - refused.len();
        eprintln!("Tracing. {many} functions take a struct {}. Ctrl-C to end.", args.class);
    }
    while !interrupted && !stop.is_over()? && !recorder.borrow().is_full() {
        look()?;
        stop.wait_until(Instant::now().checked_add(LOOK_EVERY))?;
    }
    look()?;
    let suppressed = report::missed_calls(skel.object())?;
    attach::detach(links)?;
    look()?;
    let lost = skel.maps.lost.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default();
    let lost = lost.iter().map(|count| report::words::<1>(count)[0]).collect();
    let mut recorder = recorder.borrow_mut();
    recorder.writer.add(&Record::Losses(Losses { lost, suppressed }))?;
    recorder.writer.flush()
}

/// Understands events, and writes what they say.
struct Recorder {
    writer: Writer,
    /// What each thread was called when it was last seen.
    tasks: HashMap<u32, (u32, [u8; 16])>,
    /// The number of each device; on 5.10 that of a partition has to be looked up by its disk.
    devices: BTreeMap<(u32, u8), u32>,
    calls: u64,
    most: u64,
}

/// What the BPF source calls the kinds of events.
const EVENT_RETURN: u8 = 0;
const EVENT_BIO_CALL: u8 = 2;

impl Recorder {
    fn is_full(&self) -> bool {
        self.calls >= self.most
    }

    /// An event, which is laid out as `struct head`, `struct call` or `struct bio_call` of the BPF source.
    fn add(&mut self, event: &[u8]) -> Result<()> {
        let [time, sp, value, who, rest, comm_0, comm_1, sector, parent, size, device, last] =
            report::words::<12>(event);
        let (low, high) = (|word: u64| word as u32, |word: u64| (word >> 32) as u32);
        let (function, tid, pid, kind) = (low(who), high(who), high(rest), (rest >> 16) as u8);
        let place = Place { time, sp, tid, cpu: rest as u16, interrupt: rest >> 24 & 1 != 0 };
        if kind == EVENT_RETURN {
            let function = (function != UNKNOWN).then_some(function);
            return self.writer.add(&Record::Return(Return { place, function, value }));
        }
        if self.is_full() {
            return Ok(());
        }
        self.calls += 1;
        let mut comm = [0; 16];
        comm[..8].copy_from_slice(&comm_0.to_ne_bytes());
        comm[8..].copy_from_slice(&comm_1.to_ne_bytes());
        self.task(tid, pid, comm)?;
        let bio = match kind {
            EVENT_BIO_CALL => Some(Bio {
                sector,
                bytes: low(size),
                opf: high(size),
                device: self.device(low(device), (last >> 32) as u8)?,
                status: (last >> 40) as u8,
                remaining: high(device),
                parent,
                parent_remaining: low(last),
            }),
            _ => None,
        };
        self.writer.add(&Record::Call(Call { place, function, object: value, bio }))
    }

    /// Writes a thread's name when it is new.
    fn task(&mut self, tid: u32, pid: u32, comm: [u8; 16]) -> Result<()> {
        if self.tasks.insert(tid, (pid, comm)) == Some((pid, comm)) {
            return Ok(());
        }
        let name = comm.split(|byte| *byte == 0).next().unwrap_or_default();
        // A task may give itself any name, also one that would move a terminal's cursor.
        let printable = |c: char| if c.is_control() { '?' } else { c };
        let comm = String::from_utf8_lossy(name).chars().map(printable).collect();
        self.writer.add(&Record::Task(Task { tid, pid, comm }))
    }

    /// The number of a device, whose name is written when it is new.
    fn device(&mut self, number: u32, partno: u8) -> Result<u32> {
        if number == 0 {
            return Ok(0);
        }
        if let Some(known) = self.devices.get(&(number, partno)) {
            return Ok(*known);
        }
        let found = if partno == 0 { None } else { disks::partition(number, partno) };
        let device = found.unwrap_or(number);
        self.devices.insert((number, partno), device);
        let name = disks::name_of(device).unwrap_or_default();
        self.writer.add(&Record::Device(Device { number: device, name }))?;
        Ok(device)
    }
}

fn described(function: &find::Function, is_bio: bool) -> Function {
    Function {
        name: function.name.clone(),
        prototype: function.prototype.clone(),
        argument: function.argument as u8,
        // Of submit_bio(), which returns something on 5.10 only, that is not asked.
        returns: if is_bio && ENDS.contains(&function.name.as_str()) {
            Returned::Nothing
        } else {
            function.returns
        },
        source: None,
    }
}

fn tell_refused(refused: &[Refused]) {
    for Refused { name, why } in refused {
        eprintln!("warning: {name} is not traced: {why}");
    }
}

fn hidden() -> Error {
    Error::new("this kernel hides where its functions are")
        .evidence("the addresses in /proc/kallsyms are 0; without fprobe, a function is known by its address")
        .fix("sudo sysctl kernel.kptr_restrict=1, then run it again")
}
