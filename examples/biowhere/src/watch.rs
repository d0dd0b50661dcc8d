//! What becomes of the events: lines, the slowest, or a summary.

use std::cmp::Reverse;
use std::path::Path;
use std::time::Duration;

use common::events::Lines;
use common::{OrCause, Result, record};
use nix::time::{ClockId, clock_gettime};
use toolkit::flags::Flags;
use toolkit::output::{self, Output};

use crate::args::Args;
use crate::bpf::types;
use crate::io::{Form, Io};
use crate::names::Names;
use crate::summary::{By, Report, Summary};

/// `struct name` and not `struct io`: `enum event_kind` of the programs.
const NAME: u32 = 1;

pub struct Watch {
    form: Form,
    output: Output,
    /// Only the I/O of this control group and of those in it.
    only_cgroup: Option<String>,
    /// When tracing began and ended, by the clock of `bpf_ktime_get_ns()`.
    began_ns: u64,
    ended_ns: Option<u64>,
    names: Names,
    mode: Mode,
    error: Result<()>,
}

enum Mode {
    Lines,
    /// How many, and the slowest of them so far.
    Slowest(usize, Vec<Io>),
    Summary {
        by: By,
        every: Option<Duration>,
        since_ns: u64,
        summary: Summary,
        earlier: Option<Report>,
    },
}

impl Watch {
    pub fn new(args: &Args, flags: Flags) -> Result<Self> {
        let mode = match (args.summary, args.slowest) {
            (Some(every), _) => Mode::Summary {
                by: args.by,
                every,
                since_ns: 0,
                summary: Summary::default(),
                earlier: args.before.as_deref().map(Report::read).transpose()?,
            },
            (None, Some(most)) => Mode::Slowest(most, Vec::new()),
            (None, None) => Mode::Lines,
        };
        let form = Form { us: args.us, with_cgroup: args.cgroup.is_some() };
        let only_cgroup = args.cgroup.clone().filter(|path| path != "/");
        let names = Names::new(flags);
        Ok(Self {
            form,
            output: args.output,
            only_cgroup,
            began_ns: 0,
            ended_ns: None,
            names,
            mode,
            error: Ok(()),
        })
    }

    /// Begins to count time.
    pub fn begin(&mut self) -> Result<()> {
        self.began_ns = now_ns()?;
        if let Mode::Summary { since_ns, .. } = &mut self.mode {
            *since_ns = self.began_ns;
        }
        Ok(())
    }

    /// What ends while the programs are detached, which takes a while, does not count.
    pub fn end(&mut self) -> Result<()> {
        self.ended_ns = Some(now_ns()?);
        Ok(())
    }

    /// What stands above the lines.
    pub fn head(&self) -> Option<String> {
        (!self.output.json && !matches!(self.mode, Mode::Summary { .. })).then(|| self.form.head())
    }

    /// Takes an event of the programs.
    pub fn see(&mut self, event: &[u8], lines: &Lines) {
        let taken = self.take(event, lines);
        self.keep(taken);
    }

    /// An error is reported at the end.
    fn keep(&mut self, done: Result<()>) {
        if let Err(error) = done {
            self.error = Err(error);
        }
    }

    fn take(&mut self, event: &[u8], lines: &Lines) -> Result<()> {
        if record::read_first::<u32>(event)? == NAME {
            self.names.add(&record::read(event)?);
            return Ok(());
        }
        let event: types::io = record::read(event)?;
        if self.ended_ns.is_some_and(|end| event.ended_ns > end) {
            return Ok(());
        }
        let io = Io::new(&event, self.began_ns, &mut self.names);
        if let Some(only) = &self.only_cgroup
            && !io.cgroup.as_ref().is_some_and(|group| Path::new(&**group).starts_with(only))
        {
            return Ok(());
        }
        match &mut self.mode {
            Mode::Lines => lines.add(|| self.show(&io)),
            Mode::Slowest(most, ios) => {
                ios.push(io);
                // Seldom enough that it costs nothing.
                if ios.len() > 2 * *most + 1000 {
                    keep_slowest(*most, ios);
                }
            }
            Mode::Summary { by, summary, .. } => summary.add(&io, *by),
        }
        Ok(())
    }

    fn show(&self, io: &Io) -> String {
        self.output.render(io, || self.form.line(io))
    }

    /// Adds a summary if it is time for one.
    pub fn tick(&mut self, lines: &Lines) {
        self.names.forget_mounts();
        if let Mode::Summary { every: Some(every), since_ns, .. } = self.mode {
            match now_ns() {
                Ok(now) if now - since_ns >= every.as_nanos() as u64 => self.summarize(lines, now),
                now => self.keep(now.map(drop)),
            }
        }
    }

    fn summarize(&mut self, lines: &Lines, now: u64) {
        let Mode::Summary { since_ns, summary, earlier, .. } = &mut self.mode else { return };
        let report = std::mem::take(summary).report(Duration::from_nanos(now - *since_ns));
        *since_ns = now;
        lines.add(|| self.output.render(&report, || report.tables(self.form, earlier.as_ref())));
    }

    /// Adds what is printed at the end.
    pub fn finish(&mut self, lines: &Lines) -> Result<()> {
        std::mem::replace(&mut self.error, Ok(()))?;
        if output::is_over() {
            return Ok(());
        }
        let end = self.ended_ns.map_or_else(now_ns, Ok)?;
        self.summarize(lines, end);
        if let Mode::Slowest(most, ios) = &mut self.mode {
            keep_slowest(*most, ios);
        }
        if let Mode::Slowest(_, ios) = &self.mode {
            for io in ios {
                lines.add(|| self.show(io));
            }
        }
        Ok(())
    }
}

fn now_ns() -> Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).or_cause("cannot read the clock")?;
    Ok(Duration::from(now).as_nanos() as u64)
}

fn keep_slowest(most: usize, ios: &mut Vec<Io>) {
    ios.sort_by_key(|io| Reverse(io.total));
    ios.truncate(most);
}
