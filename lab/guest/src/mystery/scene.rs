//! A case that happens in this guest: its disks, its processes, what is wrong, and how an expert finds it.

use std::any::Any;
use std::process::Command;
use std::time::Duration;

use common::{Error, OrCause, Result, preflight, report};
use wire::text::wrap;

use crate::mystery::answer::Truth;
use crate::mystery::job::Job;
use crate::mystery::seed::Seed;
use crate::mystery::{halves, parts, pieces, reads, waits};
use crate::null_blk::{hide_settings, show_settings};

/// Which of the two causes a case has. Both have the same complaint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twin {
    /// The one.
    One,
    /// The other.
    Other,
}

impl Twin {
    /// The twin that a seed chooses.
    pub fn of(seed: u64) -> Self {
        Seed::new(seed).pick(&[Self::One, Self::Other])
    }
}

/// One command on an expert's way.
#[derive(Clone, Debug)]
pub struct Step {
    /// Why to type it.
    pub why: &'static str,
    /// What to type.
    pub command: String,
}

/// Something that only has to exist, such as a disk, until it is dropped.
pub type Kept = Box<dyn Any + Send>;
/// Cures a case. Returns what is new.
pub type Fix = Box<dyn FnOnce(&mut [Job]) -> Result<Kept> + Send>;

/// What a case consists of, in words and numbers.
#[derive(Clone, Debug)]
pub struct Story {
    /// The complaint, in the words of whoever suffers.
    pub complaint: String,
    /// What the sufferer measures.
    pub what: String,
    /// How long that takes in a healthy guest.
    pub usual: Duration,
    /// What is wrong.
    pub truth: Truth,
    /// A question, a pointer, and almost the answer.
    pub hints: [String; 3],
    /// An expert's commands.
    pub way: Vec<Step>,
    /// Which measurement decides.
    pub decided: String,
    /// What it would have been if the tempting answer were right.
    pub tempting: String,
    /// What would help in real life.
    pub cure: String,
    /// What `fix` does.
    pub fixed: String,
}

/// A case that happens. Dropping this ends it.
pub struct Scene {
    /// The case's number.
    pub number: &'static str,
    /// Its seed.
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
    ///
    /// # Errors
    /// If there is no such case, or the kernel can't do it.
    pub fn make(number: &str, seed: u64) -> Result<Self> {
        Self::with_twin(number, seed, Twin::of(seed))
    }

    /// Makes a case with this cause, whatever the seed would choose.
    ///
    /// # Errors
    /// Those of [`Scene::make`].
    pub fn with_twin(number: &str, seed: u64, twin: Twin) -> Result<Self> {
        let case = wire::mystery::find(number)?.number;
        let release = preflight::release();
        if release.starts_with("5.") {
            return Err(Error::new("a mystery needs Linux 6.1 or newer")
                .evidence(format!("this is {release}, whose null_blk can't do what the cases need"))
                .fix("leave out --kernel"));
        }
        parts::clear()?;
        let numbers = &mut Seed::new(seed);
        // The first number is the one that chose the twin.
        numbers.pick(&[Twin::One, Twin::Other]);
        let parts = match case {
            "01" => halves::make(numbers, twin)?,
            "02" => pieces::make(numbers, twin)?,
            "03" => reads::make(numbers, twin)?,
            "04" => waits::make(numbers, twin)?,
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
    ///
    /// # Errors
    /// If that fails.
    pub fn fix(&mut self) -> Result<String> {
        let fix = self.fix.take().ok_or_else(|| {
            Error::new("the cure was tried already")
                .evidence(&self.story.fixed)
                .fix("end the case, exit, and start it again")
        })?;
        self.kept.push(fix(&mut self.jobs)?);
        hide_settings()?;
        Ok(self.story.fixed.clone())
    }

    /// Ends it.
    pub fn end(&mut self) {
        self.jobs.clear();
        self.fix = None;
        if let Err(error) = show_settings() {
            eprintln!("warning: {error}");
        }
        self.kept.drain(..).for_each(drop);
    }

    /// Goes an expert's way: types each command, and shows what it prints now.
    ///
    /// # Errors
    /// If nobody listens any more.
    pub fn show_way(&self, say: &mut impl FnMut(&str) -> Result<()>) -> Result<()> {
        /// How many lines of a command's output to show.
        const LINES: usize = 24;
        for Step { why, command } in &self.story.way {
            say(&format!("{why}\n# {command}"))?;
            let output =
                Command::new("sh").args(["-c", command]).output().or_cause("cannot start a shell")?;
            // What a tool says about itself is of interest only if it says nothing else.
            let said = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
            let text = String::from_utf8_lossy(said);
            let lines: Vec<_> = text.lines().take(LINES).collect();
            say(&format!("{}\n", lines.join("\n")))?;
        }
        let Story { truth, decided, tempting, cure, .. } = &self.story;
        let (low, high) = (truth.numbers.start(), truth.numbers.end());
        let text = format!(
            "{}: {}. Place: {}. Number: {}, from {low:.0} to {high:.0}.\n\n{decided}\n\n{tempting}\n\n{cure}\n\nTo see \
             the complaint end: `fix`",
            truth.cause.word,
            truth.cause.what,
            truth.places.join(" or "),
            truth.cause.number,
        );
        say(wrap(&text, report::columns()).trim_end())
    }
}

/// What a case's module makes.
pub struct Parts {
    /// See [`Scene`].
    pub story: Story,
    /// See [`Scene`].
    pub jobs: Vec<Job>,
    /// See [`Scene`].
    pub stream: usize,
    /// See [`Scene`].
    pub fix: Fix,
    /// See [`Scene`].
    pub world: Kept,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.end();
    }
}
