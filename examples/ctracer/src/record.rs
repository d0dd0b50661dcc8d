//! Record: attaches to all functions, and appends their events to a recording until the run ends.

use std::collections::BTreeMap;
use std::fs;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use clap::Args;
use common::args::{Verbose, seconds};
use common::preflight::{self, Need};
use common::stop::Stop;
use common::traced::Traced;
use common::{Error, OrCause, Result, record, report};
use libbpf_rs::btf::Btf;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, Program};
use toolkit::disks;
use toolkit::flags::Flags;

use crate::attach::{self, Links, Refused, Target};
use crate::bpf;
use crate::events::{self, BIO, HEAD, Kind};
use crate::find::{self, Names};
use crate::recording::{Device, Function, Header, Kept, Losses, Record, Returned, Writer};
use crate::ring::Ring;
use crate::source;

/// The phases, with the numbers of the BPF source.
const RECORDING: u32 = 1;
const ENDING: u32 = 2;

/// How often we read events. The ring buffer must hold all events of this time.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The functions at the two ends of a bio's life.
pub const ENDS: [&str; 2] = [SUBMIT_BIO, BIO_ENDIO];
const SUBMIT_BIO: &str = "submit_bio";
const BIO_ENDIO: &str = "bio_endio";

/// What to trace, and how long.
#[derive(Args, Clone, Debug)]
pub struct RecordArgs {
    /// Trace the functions that take a pointer to struct NAME
    #[arg(long, value_name = "NAME", default_value = "bio")]
    pub class: String,

    /// Trace only functions whose names match, such as 'blk_*'; you can repeat it. For bios, submit_bio and bio_endio
    /// are always traced, because they begin and end a bio's life
    #[arg(long, value_name = "GLOB")]
    pub functions: Vec<String>,

    /// Do not trace functions whose names match; you can repeat it
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,

    /// Follow only bios that this process has handled; with another class, record only the calls that this process
    /// makes
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub pid: Option<u32>,

    /// Follow only bios for this disk
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

/// What to trace, and how: everything that we can know before we load anything.
#[derive(Debug)]
pub struct Plan<'a> {
    args: &'a RecordArgs,
    is_bio: bool,
    /// The functions. The programs use a function's index as its number.
    functions: Vec<Function>,
    /// The functions that a session probes.
    targets: Vec<Target>,
    /// The functions that get programs of their own, see [`has_own_programs`].
    own: Vec<Target>,
    /// `bio_endio()`, if a session follows its calls in tasks, see [`attach::has_session_end`].
    session_end: Vec<Target>,
    /// The number of `submit_bio()`.
    submit_bio: u16,
    flags: Flags,
    only_dev: u32,
    bio_chain_bit: u32,
    bio_chain_endio_at: u64,
}

/// Finds the functions and chooses among them. This loads and writes nothing.
pub fn plan(args: &RecordArgs) -> Result<Plan<'_>> {
    [Need::Root, Need::Btf, Need::NoLockdown, Need::Tracefs, Need::Kprobes]
        .iter()
        .try_for_each(Need::check)?;
    let is_bio = args.class == "bio";
    if args.device.is_some() && !is_bio {
        return Err(Error::new("--device works only for bios")
            .evidence(format!("ctracer does not know which disk a struct {} is for", args.class))
            .fix("leave out --device, or --class"));
    }

    let only_dev = args.device.as_deref().map_or(Ok(0), disks::number)?;
    if let Some(above) = disks::above(only_dev).first() {
        eprintln!(
            "warning: {above} makes copies of its bios for this disk, which have no lives, because nobody submits them; to \
             see lives of its bios: --device {above}"
        );
    }

    // FIND
    let btf = Btf::from_vmlinux().or_cause("cannot read the kernel's types")?;
    let session = attach::has_session(&btf);
    if is_bio || !session {
        // See has_own_programs().
        preflight::fentry_can_attach()?;
    }
    let (found, names) = find::find(&btf, &args.class, Names::read)?;
    let good: Vec<_> = found.into_iter().filter(|function| function.obstacle.is_none()).collect();
    let good_names: Vec<_> = good.iter().map(|function| function.name.clone()).collect();
    let mut chosen = attach::choose(&good_names, &args.functions, &args.exclude)?;
    if is_bio {
        // We check only for an entry, because if a program can attach to the entry, one can attach to the return.
        let missing = ENDS.iter().find(|end| !good_names.iter().any(|name| name == *end));
        missing.map_or(Ok(()), |end| Need::Fentry((*end).to_owned()).check())?;
        Need::Tracepoint("block_rq_issue".to_owned()).check()?;
        chosen.extend(ENDS.map(str::to_owned));
    }
    // We look up all functions, even those that are not chosen, because with more paths it is clear where the source
    // tree begins.
    let lines = source::image(&preflight::release())
        .map(|image| source::lines(&image, &good_names.iter().map(String::as_str).collect::<Vec<_>>()));
    // Source lines help, but we can record without them.
    let lines = lines.transpose().unwrap_or_else(|error| {
        eprintln!("warning: {error}");
        None
    });
    let lines = lines.unwrap_or_default();
    let (mut functions, mut targets, mut own) = (Vec::new(), Vec::new(), Vec::new());
    let (mut session_end, mut submit_bio) = (Vec::new(), u16::MAX);
    for function in good.into_iter().filter(|function| chosen.contains(&function.name)) {
        let id = functions.len() as u16;
        if function.name == SUBMIT_BIO {
            submit_bio = id;
        }
        let target = Target {
            id,
            name: function.name.clone(),
            register: function.register,
            result: (function.returns != Returned::Nothing).then_some(function.words),
            btf_id: function.btf_id,
        };
        if !has_own_programs(session, is_bio, &function.name) {
            targets.push(target);
        } else {
            if session && attach::has_session_end(&btf) {
                session_end.push(target.clone());
            }
            own.push(target);
        }
        functions.push(Function { source: lines.get(&function.name).cloned(), ..described(function) });
    }
    Ok(Plan {
        args,
        is_bio,
        functions,
        targets,
        own,
        session_end,
        submit_bio,
        flags: if is_bio { Flags::all_of_this_kernel()? } else { Flags::default() },
        only_dev,
        // If the kernel's types don't have it, we use a bit that is never set, and no bio counts as split.
        bio_chain_bit: find::value(&btf, "BIO_CHAIN").unwrap_or(u32::BITS - 1),
        bio_chain_endio_at: names.address("bio_chain_endio").unwrap_or_default(),
    })
}

impl Plan<'_> {
    /// Records into `file` until Ctrl-C, or until a limit in the arguments is reached. Then it detaches everything.
    pub fn record(self, file: &mut Kept) -> Result<()> {
        // OPEN
        let mut memory = MaybeUninit::uninit();
        let mut open_skel = bpf::CtracerSkelBuilder::default().open(&mut memory)?;
        let options = open_skel.maps.rodata_data.as_deref_mut();
        let options = options.ok_or_else(|| Error::new("the programs have no options"))?;
        options.is_bio = self.is_bio;
        let process = self.args.pid.map(Traced::of_pid).transpose()?;
        options.only_pid = process.map_or(Ok(0), |process| process.kernel_pid())?;
        options.has_session_end = !self.session_end.is_empty();
        options.only_dev = self.only_dev;
        options.asks_for_some = options.only_pid != 0 || options.only_dev != 0;
        options.submit_bio_id = self.submit_bio.into();
        options.bio_chain_bit = self.bio_chain_bit;
        options.bio_chain_endio_at = self.bio_chain_endio_at;
        let progs = &mut open_skel.progs;
        progs.session.set_autoload(!self.targets.is_empty());
        progs.session_end.set_autoload(!self.session_end.is_empty());
        progs.own_entry.set_autoload(!self.own.is_empty());
        progs.own_return.set_autoload(!self.own.is_empty());
        progs.block_getrq.set_autoload(self.is_bio);
        progs.block_bio_backmerge.set_autoload(self.is_bio);
        progs.block_bio_frontmerge.set_autoload(self.is_bio);
        progs.block_rq_issue.set_autoload(self.is_bio);
        progs.block_rq_complete.set_autoload(self.is_bio);

        // LOAD
        let mut skel = open_skel.load()?;

        // ATTACH
        let stop = Stop::new(None)?;
        let (mut links, mut refused) = (Links::default(), Vec::new());
        self.attach(&skel, &stop, &mut links, &mut refused)?;
        if stop.is_over()? {
            return Err(Error::new("nothing was recorded")
                .evidence("the run ended before all functions were attached")
                .fix("wait until it prints \"Tracing.\"; fewer functions take less time: --functions GLOB"));
        }

        // RECORD
        self.until_the_end(&mut skel, links, &refused, file)
    }

    fn attach(
        &self,
        skel: &bpf::CtracerSkel<'_>,
        stop: &Stop,
        links: &mut Links,
        refused: &mut Vec<Refused>,
    ) -> Result<()> {
        let progs = &skel.progs;
        links.keep(&progs.task_newtask.attach_trace()?)?;
        links.keep(&progs.task_rename.attach_trace()?)?;
        if self.is_bio {
            links.keep(&progs.block_getrq.attach_trace()?)?;
            links.keep(&progs.block_bio_backmerge.attach_trace()?)?;
            links.keep(&progs.block_bio_frontmerge.attach_trace()?)?;
            links.keep(&progs.block_rq_issue.attach_trace()?)?;
            links.keep(&progs.block_rq_complete.attach_trace()?)?;
        }
        attach::session(&progs.session_end, &self.session_end, links, refused)?;
        attach::own(&progs.own_entry, &progs.own_return, &self.own, links, refused, stop)?;
        attach::session(&progs.session, &self.targets, links, refused)?;
        let is_end = |refused: &&Refused| self.is_bio && ENDS.contains(&refused.name.as_str());
        if let Some(Refused { name, why }) = refused.iter().find(is_end) {
            return Err(Error::new(format!("the kernel does not let us trace {name}()")).evidence(why));
        }
        for Refused { name, why } in refused {
            eprintln!("warning: {name} is not traced: {why}");
        }
        Ok(())
    }

    fn until_the_end(
        self,
        skel: &mut bpf::CtracerSkel<'_>,
        links: Links,
        refused: &[Refused],
        file: &mut Kept,
    ) -> Result<()> {
        let is_attached = |function: &Function| refused.iter().all(|refused| refused.name != function.name);
        let attached = self.functions.into_iter().zip(0..).filter(|(function, _)| is_attached(function));
        let (functions, ids): (Vec<_>, Vec<u16>) = attached.unzip();
        let many = functions.len();
        let class = &self.args.class;
        let header =
            Header { class: class.clone(), kernel: preflight::release(), functions, ids, flags: self.flags };
        let mut recorder = Recorder {
            writer: Writer::new(file.create()?, header)?,
            batch: Vec::with_capacity(1 << 20),
            last_bio: None,
            seen: Vec::new(),
            devices: BTreeMap::new(),
            changes: Vec::new(),
            calls: 0,
            most: self.args.max_events.unwrap_or(u64::MAX),
        };
        let mut ring =
            Ring::new(&skel.maps.events.as_fd().as_raw_fd(), skel.maps.events.max_entries() as usize)?;
        let mut look = |recorder: &mut Recorder| {
            let any = ring.read(|event| recorder.see(event));
            recorder.write().map(|()| any)
        };

        let stop = Stop::new(self.args.duration)?;
        set_phase(&mut skel.maps.bss_data, RECORDING)?;
        report::print_tracing(&format!("{many} functions take a struct {class}. "));
        while !stop.is_over()? && !recorder.is_full() {
            look(&mut recorder)?;
            stop.wait_until(Instant::now().checked_add(LOOK_EVERY))?;
        }
        set_phase(&mut skel.maps.bss_data, ENDING)?;
        look(&mut recorder)?;
        let session = &skel.progs.session;
        let session = session.autoload().then(|| Program::id_from_fd(session.as_fd())).transpose()?;
        // What session_end misses is in an interrupt, and the function's own program sees it.
        let programs: Vec<_> = links.programs.iter().copied().chain(session).collect();
        let suppressed = report::skipped_calls_of(&programs)?;
        drop(links);
        while look(&mut recorder)? {}
        let lost = record::of_each_cpu(&skel.maps.lost, 0)?;
        recorder.writer.add(&Record::Losses(Losses { lost, suppressed }))?;
        recorder.writer.flush()
    }
}

/// Whether we trace a function with fentry and fexit instead of a session.
///
/// Without `kprobe.session` we do, because a kprobe and a kretprobe cost more, and there are only a few slots for returns.
/// With it, it is only `bio_endio()`: the kernel calls it in interrupts, where it skips a session's program if
/// another one is running.
fn has_own_programs(session: bool, is_bio: bool, name: &str) -> bool {
    !session || is_bio && name == BIO_ENDIO
}

fn set_phase(bss: &mut Option<&mut bpf::types::bss>, phase: u32) -> Result<()> {
    let bss = bss.as_deref_mut().ok_or_else(|| Error::new("the programs have no variables"))?;
    bss.phase = phase;
    Ok(())
}

/// Writes events to the recording.
struct Recorder {
    writer: Writer,
    /// Events that are not in the file yet, the contents of the last bio in them, and the devices of their bios.
    batch: Vec<u8>,
    last_bio: Option<[u8; BIO]>,
    seen: Vec<(u32, u8)>,
    /// The devices whose names are in the file, and how many changes of devices the kernel had counted then.
    devices: BTreeMap<(u32, u8), Device>,
    changes: Vec<u8>,
    calls: u64,
    most: u64,
}

impl Recorder {
    fn is_full(&self) -> bool {
        self.calls >= self.most
    }

    /// Adds an event to the batch, and of a bio that is as it was at the last call, only the call.
    #[inline]
    fn see(&mut self, event: &[u8]) {
        let Some((head, data)) = event.split_first_chunk::<HEAD>() else { return };
        let kind = events::kind(head);
        if kind.is_call() {
            if self.is_full() {
                return;
            }
            self.calls += 1;
        }
        if kind == Kind::Thread {
            self.batch.extend_from_slice(event);
            return;
        }
        let Some(bio) = data.first_chunk::<BIO>() else {
            self.batch.extend_from_slice(head);
            return;
        };
        if self.last_bio.as_ref().is_some_and(|last| is_same(last, bio)) {
            self.batch.extend_from_slice(&events::without_bio(*head));
            return;
        }
        self.batch.extend_from_slice(head);
        self.batch.extend_from_slice(bio);
        self.last_bio = Some(*bio);
        let device = events::device(bio);
        // A bio has no device at first.
        if device.0 != 0 && self.seen.last() != Some(&device) {
            self.seen.push(device);
        }
    }

    /// Hands the batch to the kernel, so nothing is lost if we are killed.
    fn write(&mut self) -> Result<()> {
        // Another disk may have the number of one that is gone.
        let changes =
            fs::read("/sys/kernel/uevent_seqnum").or_cause("cannot read whether disks have changed")?;
        if mem::replace(&mut self.changes, changes) != self.changes {
            self.devices.retain(|in_bio, known| device(*in_bio) == *known);
        }
        for device in mem::take(&mut self.seen) {
            self.name(device)?;
        }
        self.writer.events(&self.batch)?;
        self.batch.clear();
        self.last_bio = None;
        self.writer.flush()
    }

    /// Writes the name of a device if it is new. A device may be gone when the recording is shown.
    fn name(&mut self, in_bio: (u32, u8)) -> Result<()> {
        if self.devices.contains_key(&in_bio) {
            return Ok(());
        }
        let device = device(in_bio);
        self.devices.insert(in_bio, device.clone());
        self.writer.add(&Record::Device(device))
    }
}

/// Whether two bios have the same contents, without a call of `memcmp()` for each event.
#[inline]
fn is_same(one: &[u8; BIO], other: &[u8; BIO]) -> bool {
    let mut words = one.as_chunks().0.iter().zip(other.as_chunks().0);
    words.all(|(one, other)| u64::from_ne_bytes(*one) == u64::from_ne_bytes(*other))
}

/// The device that a bio for it has now. On 5.10, that is the number of its disk and that of its partition.
fn device(in_bio @ (disk, partno): (u32, u8)) -> Device {
    let found = if partno == 0 { None } else { disks::partition(disk, partno) };
    let number = found.unwrap_or(disk);
    Device { number, name: disks::name_of(number).unwrap_or_default(), in_bio }
}

fn described(function: find::Function) -> Function {
    Function {
        argument: function.argument as u8,
        returns: function.returns,
        name: function.name,
        prototype: function.prototype,
        source: None,
    }
}
