//! Run and Check: the driver's commands, each in a terminal, and what is known of them while they run.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use common::OrCause;
use nix::sys::signal::Signal;
use serde::Serialize;
use tempfile::TempPath;
use tokio::sync::watch;
use wire::verdict::Verdict;

use crate::asking::{Outcome, Prediction};
use crate::diagnostics::{Diagnostic, Reader};
use crate::pages::plain;
use crate::response::Refusal;
use crate::terminals::{Command, Event, Terminals, lock};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Phase {
    Compiling,
    Booting,
    Running,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    Run,
    Check,
}

#[derive(Clone, Debug, Serialize)]
pub struct Action {
    what: What,
    name: String,
    mine: bool,
    terminal: u32,
    phase: Phase,
    seconds: f64,
    status: Option<i32>,
    /// What the driver said when it failed.
    cause: Option<String>,
    /// What a check that could judge the program found.
    verdict: Option<Verdict>,
    /// What has become of the prediction made before the run.
    outcome: Option<Outcome>,
    diagnostics: Vec<Diagnostic>,
    #[serde(skip)]
    since: Instant,
}

/// The last action of each kind with each program.
pub struct Actions {
    all: Arc<Mutex<Vec<Action>>>,
    changed: watch::Sender<()>,
}

impl Actions {
    pub fn new(changed: watch::Sender<()>) -> Self {
        Self { all: Arc::default(), changed }
    }

    /// Those whose terminals are still there.
    pub fn list(&self, terminals: &Terminals) -> Vec<Action> {
        let mut all = lock(&self.all);
        all.retain(|action| terminals.get(action.terminal).is_ok());
        all.iter().map(Action::now).collect()
    }

    /// Does this in the terminal of this kind of action with this program. An earlier one that still runs ends first.
    pub async fn start(
        &self,
        terminals: &Terminals,
        what: What,
        name: &str,
        mine: bool,
        mut command: Command,
        prediction: Option<Prediction>,
    ) -> Result<Action, Refusal> {
        let title = match what {
            What::Run => format!("Run {name}"),
            What::Check => format!("Check {name}"),
        };
        // The turn ends with this function: a second click waits until the first has started.
        let (terminal, _turn) = terminals.take(&title).await?;
        terminal.end(Signal::SIGINT).await;
        let verdict = match what {
            What::Run => None,
            What::Check => {
                let file = tempfile::NamedTempFile::new().or_cause("cannot make a file for the verdict")?;
                let file = file.into_temp_path();
                command.argv.extend(["--verdict".into(), file.as_os_str().to_owned()]);
                Some(file)
            }
        };
        let action = Action {
            what,
            name: name.to_owned(),
            mine,
            terminal: terminal.id(),
            phase: Phase::Compiling,
            seconds: 0.0,
            status: None,
            cause: None,
            verdict: None,
            outcome: prediction.as_ref().map(|prediction| prediction.outcome.clone()),
            diagnostics: Vec::new(),
            since: Instant::now(),
        };
        {
            let mut all = lock(&self.all);
            all.retain(|other| (other.what, &other.name) != (what, &action.name));
            all.push(action.clone());
        }
        let mut progress = Progress {
            all: self.all.clone(),
            changed: self.changed.clone(),
            terminal: terminal.id(),
            reader: Reader::default(),
            rest: Vec::new(),
            verdict,
            prediction,
        };
        if let Err(refusal) = terminals.start(&terminal, command, move |event| progress.see(event)) {
            lock(&self.all).retain(|other| other.terminal != action.terminal);
            return Err(refusal);
        }
        Ok(action)
    }
}

impl Action {
    fn now(&self) -> Self {
        let seconds =
            if self.phase == Phase::Ended { self.seconds } else { self.since.elapsed().as_secs_f64() };
        Self { seconds, ..self.clone() }
    }
}

/// Follows an action by what it prints.
struct Progress {
    all: Arc<Mutex<Vec<Action>>>,
    changed: watch::Sender<()>,
    terminal: u32,
    reader: Reader,
    /// The line that has not ended yet.
    rest: Vec<u8>,
    /// The file into which a check writes its verdict.
    verdict: Option<TempPath>,
    /// Until the run has decided.
    prediction: Option<Prediction>,
}

impl Progress {
    fn update(&self, change: impl FnOnce(&mut Action)) {
        if let Some(action) = lock(&self.all).iter_mut().find(|action| action.terminal == self.terminal) {
            change(action);
        }
        self.changed.send_replace(());
    }

    /// Lets the prediction see what has happened.
    fn decide(&mut self, see: impl FnOnce(&mut Prediction) -> bool) {
        if self.prediction.as_mut().is_some_and(see)
            && let Some(Prediction { outcome, .. }) = self.prediction.take()
        {
            self.update(|action| action.outcome = Some(outcome));
        }
    }

    fn line(&mut self, line: &str) {
        // What the lab prints before and after it boots a kernel, and in the workshop's guest, which boots none.
        let is_up = |line: &str| line.contains(", up after ") || line.ends_with(", this guest's own");
        let phase = match line {
            _ if line.starts_with("Booting Linux ") => Some(Phase::Booting),
            _ if line.starts_with("Kernel ") && is_up(line) => Some(Phase::Running),
            _ => None,
        };
        if let Some(phase) = phase {
            self.update(|action| action.phase = phase);
        }
        if let Some(cause) = line.strip_prefix("Error: ") {
            self.update(|action| action.cause = Some(cause.to_owned()));
        }
        self.decide(|prediction| prediction.line(line));
        if self.reader.read(line) {
            let found = self.reader.found.clone();
            self.update(|action| action.diagnostics = found);
        }
    }

    fn see(&mut self, event: Event<'_>) {
        /// No line that matters here is longer.
        const LONGEST: usize = 4096;
        let bytes = match event {
            Event::Output(bytes) => bytes,
            Event::End(status) => return self.end(status),
        };
        for byte in bytes {
            match byte {
                b'\n' => {
                    let line = std::mem::take(&mut self.rest);
                    self.line(plain(&String::from_utf8_lossy(&line)).trim_end());
                }
                _ if self.rest.len() < LONGEST => self.rest.push(*byte),
                _ => {}
            }
        }
    }

    fn end(&mut self, status: i32) {
        self.decide(Prediction::end);
        // It is empty if the check could not judge the program.
        let verdict = self.verdict.take().and_then(|file| std::fs::read(file).ok());
        let verdict = verdict.and_then(|json| serde_json::from_slice(&json).ok());
        self.update(|action| {
            action.verdict = verdict;
            action.seconds = action.since.elapsed().as_secs_f64();
            action.phase = Phase::Ended;
            action.status = Some(status);
        });
    }
}
