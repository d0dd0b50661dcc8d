//! A case that happens in this guest: its disks, its processes, what is wrong, and how an expert finds it.

use std::process::Command;

use common::{Error, OrCause, Result, preflight};
use fastrand::Rng;
use guest::null_blk::{hide_settings, show_settings};
use wire::play::Said;

use crate::job::Job;
use crate::story::{End, Fix, Kept, Parts, Step, Story, Twin};
use crate::{ceiling, halves, late, parts, pieces, reads, saves, waits};

/// A case that happens. Dropping this ends it.
pub struct Scene {
    /// The case's number.
    pub number: &'static str,
    pub seed: u64,
    /// Its words and numbers.
    pub story: Story,
    /// Its processes; the first one suffers.
    pub jobs: Vec<Job>,
    /// The stream of the first process that suffers.
    pub stream: usize,
    /// Cures it, once.
    fix: Option<Fix>,
    /// Its disks and settings, and those that a fix made. They end after the processes, in this order.
    kept: Vec<Kept>,
}

impl Scene {
    /// Makes a case.
    pub fn make(number: &str, seed: u64) -> Result<Self> {
        Self::with_twin(number, seed, Twin::of(seed))
    }

    /// Makes a case with this cause, whatever the seed would choose.
    pub fn with_twin(number: &str, seed: u64, twin: Twin) -> Result<Self> {
        let case = wire::mystery::find(number)?.number;
        let release = preflight::release();
        if release.starts_with("5.") {
            return Err(Error::new("a mystery needs Linux 6.1 or newer")
                .evidence(format!("this is {release}, whose null_blk can't do what the cases need"))
                .fix("leave out --kernel"));
        }
        parts::clear()?;
        let numbers = &mut Rng::with_seed(seed);
        // The first number is the one that chose the twin.
        numbers.bool();
        let parts = match case {
            "01" => halves::make(numbers, twin)?,
            "02" => pieces::make(numbers, twin)?,
            "03" => reads::make(numbers, twin)?,
            "04" => waits::make(numbers, twin)?,
            "05" => saves::make(numbers, twin)?,
            "06" => late::make(numbers, twin)?,
            "07" => ceiling::make(numbers, twin)?,
            _ => return Err(Error::new(format!("nobody wrote case {case}"))),
        };
        let Parts { story, jobs, stream, fix, world } = parts;
        let scene = Self { number: case, seed, story, jobs, stream, fix: Some(fix), kept: vec![world] };
        // The settings of the disks are there for whoever looks.
        hide_settings()?;
        Ok(scene)
    }

    /// The process that suffers.
    pub fn patient(&self) -> &Job {
        &self.jobs[0]
    }

    /// Cures it, and returns what was done.
    pub fn fix(&mut self) -> Result<String> {
        let fix = self.fix.take().ok_or_else(|| {
            Error::new("the cure was tried already")
                .evidence(&self.story.end.fixed)
                .fix("end the case, exit, and start it again")
        })?;
        self.kept.push(fix(&mut self.jobs)?);
        hide_settings()?;
        Ok(self.story.end.fixed.clone())
    }

    pub fn end(&mut self) {
        self.jobs.clear();
        self.fix = None;
        if let Err(error) = show_settings() {
            eprintln!("warning: {error}");
        }
        self.kept.drain(..).for_each(drop);
    }

    /// Goes an expert's way: types each command, and shows what it prints now.
    pub fn show_way(&self, say: &mut impl FnMut(Said) -> Result<()>) -> Result<()> {
        /// How many lines of a command's output to show.
        const LINES: usize = 24;
        for (number, Step { why, command }) in (1..).zip(&self.story.words.way) {
            say(Said::Step { why: format!("{number}. {why}"), command: command.clone() })?;
            let output =
                Command::new("sh").args(["-c", command]).output().or_cause("cannot start a shell")?;
            // What a tool says about itself is of interest only if it says nothing else.
            let said = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
            let text = String::from_utf8_lossy(said);
            let lines: Vec<_> = text.lines().take(LINES).collect();
            say(Said::Lines(format!("{}\n", lines.join("\n"))))?;
        }
        let Story { truth, end: End { decided, tempting, cure, .. }, .. } = &self.story;
        let (low, high) = (truth.numbers.start(), truth.numbers.end());
        let text = format!(
            "{}: {}. Place: {}. Number: {}, from {low:.0} to {high:.0}.\n\n{decided}\n\n{tempting}\n\n{cure}\n\nTo see \
             the complaint end: `fix`",
            truth.cause.word,
            truth.cause.what,
            truth.places.join(" or "),
            truth.cause.number,
        );
        say(Said::Text(text))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.end();
    }
}
