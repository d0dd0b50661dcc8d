//! Mystery disks: something is slow in this guest, and a player finds out what.
//!
//! `mystery start 01` makes the case and opens a shell. The commands in that shell, such as `look` and `answer`, are this
//! program under other names. They talk over a socket to the process that made the case, which alone knows the truth.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write, stdout};
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use common::report::{self, print_text};
use common::traced::exit_code;
use common::{Error, OrCause, Result};
use serde::{Deserialize, Serialize};
use wire::mystery::{Cause, NewCase, cause_of, causes, list};
use wire::text::wrap;

use crate::mystery::answer::{Answer, Grade};
use crate::mystery::scene::Scene;
use crate::mystery::story::Story;

pub mod answer;
mod halves;
pub mod job;
mod late;
mod parts;
mod pieces;
mod reads;
mod saves;
pub mod scene;
pub mod story;
mod waits;

/// The command that starts a case.
const START: &str = "mystery";
/// The commands of the shell in which a case is played.
const MOVES: [&str; 7] = ["look", "note", "answer", "hint", "solution", "fix", "status"];
/// Where the process that made the case listens.
const SOCKET: &str = "/tmp/.mystery";
/// A seed is a short number, because people tell it to each other.
const SEEDS: u64 = 10_000;
/// How long a player has. Nothing ends with it.
const TIME: Duration = Duration::from_secs(600);
/// What a wrong answer costs. Otherwise, trying all of them would be quicker than measuring.
const COST: Duration = Duration::from_secs(60);

/// Find out why something is slow
#[derive(Debug, Parser)]
#[command(name = "mystery", version, disable_help_subcommand = true)]
struct Mystery {
    #[command(subcommand)]
    command: Play,
}

#[derive(Debug, Subcommand)]
enum Play {
    /// List the cases and the causes
    List,
    /// Make a case, and open a shell in which it happens
    Start(NewCase),
    #[command(flatten)]
    Move(Move),
}

/// What a player can do while a case happens.
#[derive(Clone, Debug, Subcommand, Serialize, Deserialize)]
enum Move {
    /// Show how slow it is right now
    Look,
    /// Write down what you have seen
    Note {
        /// Your words
        #[arg(required = true)]
        words: Vec<String>,
    },
    /// Say what is wrong, where, and which number proves it; without arguments, list the causes
    Answer {
        /// The cause, such as slow-disk
        cause: Option<String>,
        /// The disk, process or cgroup
        place: Option<String>,
        /// The number that proves it, with or without its unit
        number: Vec<String>,
    },
    /// Show the next hint
    Hint,
    /// Show how an expert finds it, once your answer is right
    Solution {
        /// Show it even if no answer was right
        #[arg(long)]
        peek: bool,
    },
    /// Cure it, once your answer is right or you have seen the solution
    Fix,
    /// Show the complaint, the time, your notes and your answers
    Status,
}

/// Runs one of the commands if this program was called by its name, or the job of a case; `None` if it was not.
pub fn called() -> Option<Result<ExitCode>> {
    let mut words = std::env::args();
    let name = words.next().unwrap_or_default();
    let name = name.rsplit_once('/').map_or(&*name, |(_, name)| name);
    match name {
        "guest" => None,
        START => Some(run(Mystery::parse().command)),
        name if MOVES.contains(&name) => {
            let words = [START, name].map(str::to_owned).into_iter().chain(words);
            Some(run(Mystery::parse_from(words).command))
        }
        name => Some(job::run(name)),
    }
}

/// Lets people start a case.
///
/// # Errors
/// If that fails.
pub fn install() -> Result<()> {
    name_it(&[START])
}

/// Gives this program other names.
fn name_it(names: &[&str]) -> Result<()> {
    for name in names {
        let place = format!("/bin/{name}");
        if fs::symlink_metadata(&place).is_err() {
            symlink("/bin/guest", &place).or_cause(format!("cannot make {place}"))?;
        }
    }
    Ok(())
}

fn run(command: Play) -> Result<ExitCode> {
    match command {
        Play::List => print_text(list()).map(|()| ExitCode::SUCCESS),
        Play::Start(NewCase { case, seed }) => start(&case, seed.unwrap_or_else(|| fastrand::u64(..SEEDS))),
        Play::Move(step) => ask(&step),
    }
}

/// Makes a case, and runs a shell in it.
fn start(number: &str, seed: u64) -> Result<ExitCode> {
    // If someone answers, there is a case.
    if UnixStream::connect(SOCKET).is_ok() {
        return Err(Error::new("a case is open already").fix("end its shell first: exit"));
    }
    name_it(&MOVES)?;
    eprintln!("Making case {number} with seed {seed} ...");
    let scene = Scene::make(number, seed)?;
    // So there is something to look at, and no longer its beginning.
    scene.patient().mean(scene.stream)?;
    let _ = fs::remove_file(SOCKET);
    let listener = UnixListener::bind(SOCKET).or_cause("cannot listen for the player")?;
    let play = Arc::new(Mutex::new(Game::new(scene)));
    print_text(play.lock().unwrap_or_else(PoisonError::into_inner).introduction())?;
    let served = play.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut play = served.lock().unwrap_or_else(PoisonError::into_inner);
            // A player who ends a command doesn't wait for its reply.
            let _ = play.serve(stream);
        }
    });
    let mut shell = Command::new("sh");
    let ended = shell.env_remove("ENV").env("PS1", format!("case {number}:\\w# ")).status();
    let _ = fs::remove_file(SOCKET);
    // The case ends with the shell: first its processes, then its disks.
    let mut play = play.lock().unwrap_or_else(PoisonError::into_inner);
    play.scene.end();
    Ok(exit_code(ended.or_cause("cannot start a shell")?).into())
}

/// Lets the process that made the case do something, and prints what it says.
fn ask(step: &Move) -> Result<ExitCode> {
    let none =
        || Error::new("no case is open here").fix("start one: mystery start 01; list them: mystery list");
    let mut stream = UnixStream::connect(SOCKET).map_err(|_| none())?;
    let line = serde_json::to_string(step).or_cause("cannot write JSON")?;
    writeln!(stream, "{line}").or_cause("cannot reach the case")?;
    let mut chunk = [0; 4096];
    let mut last = None;
    loop {
        let read = stream.read(&mut chunk).or_cause("cannot read the reply")?;
        if read == 0 {
            return Ok(ExitCode::from(last.unwrap_or(1)));
        }
        // The status is a byte that no text has.
        let text = &chunk[..read];
        let end = text.iter().position(|byte| *byte < 2).unwrap_or(read);
        last = text.get(end).copied().or(last);
        stdout()
            .write_all(&text[..end])
            .and_then(|()| stdout().flush())
            .or_cause("cannot print the reply")?;
    }
}

/// A time for people.
fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    if ms < 10.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

/// A text as wide as the player's terminal, which is also the terminal of the process that made the case.
fn wrapped(text: &str) -> String {
    wrap(text, report::columns())
}

/// A case that is played.
struct Game {
    scene: Scene,
    begin: Instant,
    notes: Vec<String>,
    answers: Vec<String>,
    hints: usize,
    /// When an answer was right, and how many there were by then.
    solved: Option<(Duration, usize)>,
    is_open: bool,
}

impl Game {
    fn new(scene: Scene) -> Self {
        Self {
            scene,
            begin: Instant::now(),
            notes: Vec::new(),
            answers: Vec::new(),
            hints: 0,
            solved: None,
            is_open: false,
        }
    }

    fn introduction(&self) -> String {
        format!(
            "\n{}\n{}\n\n\
             You have ten minutes, and a wrong answer costs one. All stages and examples are in your PATH, and you are \
             root.\n\n\
             \x20 look                       how slow it is right now\n\
             \x20 note WORDS                 write down what you have seen\n\
             \x20 answer                     list the causes; then: answer CAUSE PLACE NUMBER\n\
             \x20 hint, solution, status     get help, see an expert's way, see the complaint and your notes\n\
             \x20 exit                       end the case\n",
            self.complaint(),
            self.look()
        )
    }

    fn complaint(&self) -> String {
        let Scene { number, seed, story, .. } = &self.scene;
        format!("Case {number}, seed {seed}. {}\n\n{}", self.clock(), wrapped(&story.complaint))
    }

    fn look(&self) -> String {
        let Scene { stream, story: Story { what, usual, .. }, .. } = &self.scene;
        let now = self.scene.patient().lately(*stream);
        format!("{what}: {}; normal: {} or less.", ms(now), ms(*usual))
    }

    fn clock(&self) -> String {
        let clock = |time: Duration| format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60);
        match self.solved {
            Some((after, 1)) => format!("Solved after {}, with the first answer.", clock(after)),
            Some((after, answers)) => format!("Solved after {}, with answer {answers}.", clock(after)),
            None => format!("{} of {}.", clock(self.time()), clock(TIME)),
        }
    }

    /// How long the player has taken, with what the answers cost.
    fn time(&self) -> Duration {
        self.begin.elapsed() + COST * self.answers.len() as u32
    }

    fn serve(&mut self, stream: UnixStream) -> Result<()> {
        let mut line = String::new();
        let mut reader = BufReader::new(stream.try_clone().or_cause("cannot read a command")?);
        reader.read_line(&mut line).or_cause("cannot read a command")?;
        let step: Move = serde_json::from_str(&line).or_cause("cannot parse a command")?;
        let mut out = stream;
        let status = match self.play(&step, &mut out) {
            Ok(status) => status,
            Err(error) => {
                writeln!(out, "Error: {error}").or_cause("cannot reply")?;
                1
            }
        };
        out.write_all(&[status]).or_cause("cannot reply")
    }

    /// Does what the player asks for. Returns the command's exit status.
    fn play(&mut self, step: &Move, out: &mut impl Write) -> Result<u8> {
        let mut say = |text: &str| writeln!(out, "{text}").or_cause("cannot reply");
        match step {
            Move::Look => say(&self.look())?,
            Move::Note { words } => {
                let note = format!("{} {}", self.clock(), words.join(" "));
                say(&note)?;
                self.notes.push(note);
            }
            Move::Status => {
                say(&self.complaint())?;
                for (what, lines) in [("Notes", &self.notes), ("Answers", &self.answers)] {
                    if !lines.is_empty() {
                        say(&format!("{what}:\n  {}", lines.join("\n  ")))?;
                    }
                }
                say(&format!("Hints: {} of {}", self.hints, self.scene.story.hints.len()))?;
            }
            Move::Answer { cause: None, .. } => {
                say(&format!("{}\nanswer CAUSE PLACE NUMBER, such as: answer slow-disk vdz 7ms", causes()))?;
            }
            Move::Answer { cause: Some(cause), place, number } => {
                let number = (!number.is_empty()).then(|| number.join(" "));
                let answer = Answer { cause: cause.clone(), place: place.clone(), number };
                return self.graded(&answer, say);
            }
            Move::Hint => {
                let hints = &self.scene.story.hints;
                let Some(hint) = hints.get(self.hints) else {
                    say("That was the last hint. See an expert's way: solution --peek")?;
                    return Ok(1);
                };
                self.hints += 1;
                say(wrapped(&format!("{} of {}: {hint}", self.hints, hints.len())).trim_end())?;
            }
            Move::Solution { peek } => {
                if !peek && self.solved.is_none() {
                    return Err(Error::new("no answer was right yet")
                        .fix("get a hint: hint; or see the solution anyway: solution --peek"));
                }
                self.is_open = true;
                self.scene.show_way(&mut say)?;
            }
            Move::Fix => {
                if self.solved.is_none() && !self.is_open {
                    return Err(Error::new("you don't know yet what to fix")
                        .fix("find it, or see the solution: solution --peek"));
                }
                let before = self.scene.patient().lately(self.scene.stream);
                say(&format!("{} ...", self.scene.fix()?))?;
                let after = self.scene.patient().median(self.scene.stream)?;
                let [before, after] = [before, after].map(ms);
                say(&format!("{}: {after}; before the fix: {before}.", self.scene.story.what))?;
            }
        }
        Ok(0)
    }

    fn graded(&mut self, answer: &Answer, mut say: impl FnMut(&str) -> Result<()>) -> Result<u8> {
        let Some(cause) = cause_of(&answer.cause) else {
            return Err(Error::new(format!("there is no cause {}", answer.cause)).fix("list them: answer"));
        };
        let verdict = self.scene.story.truth.grade(answer);
        let word = |is_right| if is_right { "right" } else { "wrong" };
        let number = match (&answer.number, verdict) {
            (None, _) => "missing, so this is a guess",
            (_, Grade { cause: false, .. }) => "not compared, because it can only prove the right cause",
            (_, verdict) => word(verdict.number),
        };
        let place = answer.place.as_ref().map_or("missing", |_| word(verdict.place));
        let Cause { word: cause, place: a_place, number: a_number, .. } = cause;
        say(&format!(
            "cause   {}\nplace   {place}. For {cause}, this is {a_place}.\nnumber  {number}. For {cause}, this is: {a_number}.",
            word(verdict.cause),
        ))?;
        let said = [Some(&answer.cause), answer.place.as_ref(), answer.number.as_ref()];
        let said: Vec<_> = said.into_iter().flatten().map(String::as_str).collect();
        let time = self.time();
        let marks = [verdict.cause, verdict.place, verdict.number].iter().filter(|right| **right).count();
        self.answers.push(format!("{} {}: {marks} of 3", self.clock(), said.join(" ")));
        if !verdict.is_right() {
            if self.solved.is_none() {
                say(&format!("A wrong answer costs a minute: {}", self.clock()))?;
            }
            return Ok(1);
        }
        self.solved.get_or_insert((time, self.answers.len()));
        say(&format!("{} Compare with an expert's way: solution. Then cure it: fix", self.clock()))?;
        Ok(0)
    }
}
