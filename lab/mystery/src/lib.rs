//! Mystery disks: something is slow in this guest, and a player finds out what.
//!
//! `mystery start 01` makes the case and opens a shell. The commands in that shell, such as `look` and `answer`, are this
//! program under other names. They talk over a socket to the process that made the case, which alone knows the truth.

#![deny(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
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
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use wire::mystery::{Cause, NewCase, cause_of, causes, list};
use wire::play::{Move, Part, RULES, SOCKET, Said, none_is_open};
use wire::text::wrap;

use crate::answer::{Answer, Grade};
use crate::scene::Scene;
use crate::story::{Story, Words};

pub mod answer;
mod ceiling;
mod halves;
pub mod job;
mod journaled;
mod late;
mod parts;
mod pieces;
mod reads;
mod saves;
pub mod scene;
mod served_disk;
pub mod story;
mod waits;

/// The command that starts a case.
const START: &str = "mystery";
/// The commands of the shell in which a case is played.
const MOVES: [&str; 7] = ["look", "note", "answer", "hint", "solution", "fix", "status"];
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

/// Runs the command that this program was called as, or the job of a case.
pub fn called() -> Result<ExitCode> {
    let mut words = std::env::args();
    let name = words.next().unwrap_or_default();
    let name = name.rsplit_once('/').map_or(&*name, |(_, name)| name);
    match name {
        START => run(Mystery::parse().command),
        name if MOVES.contains(&name) => {
            let words = [START, name].map(str::to_owned).into_iter().chain(words);
            run(Mystery::parse_from(words).command)
        }
        name => job::run(name),
    }
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
    for name in MOVES {
        let place = format!("/bin/{name}");
        if fs::symlink_metadata(&place).is_err() {
            symlink(job::PROGRAM, &place).or_cause(format!("cannot make {place}"))?;
        }
    }
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
    let shell = shell.env_remove("ENV").env("PS1", format!("case {number}:\\w# ")).spawn();
    let ended = shell.and_then(|mut shell| {
        play.lock().unwrap_or_else(PoisonError::into_inner).shell = Some(Pid::from_raw(shell.id() as i32));
        shell.wait()
    });
    let _ = fs::remove_file(SOCKET);
    // The case ends with the shell: first its processes, then its disks.
    let mut play = play.lock().unwrap_or_else(PoisonError::into_inner);
    play.scene.end();
    let status = ended.or_cause("cannot start a shell")?;
    Ok(if play.shell.is_none() { ExitCode::SUCCESS } else { exit_code(status).into() })
}

/// Lets the process that made the case do something, and prints what it says.
fn ask(step: &Move) -> Result<ExitCode> {
    let mut stream = UnixStream::connect(SOCKET).map_err(|_| none_is_open())?;
    let line = serde_json::to_string(step).or_cause("cannot write JSON")?;
    writeln!(stream, "{line}").or_cause("cannot reach the case")?;
    let (mut is_silent, mut has_failed) = (true, false);
    for line in BufReader::new(stream).lines() {
        let line = line.or_cause("cannot read the reply")?;
        let said: Said = serde_json::from_str(&line).or_cause("cannot parse the reply")?;
        if let Said::Error(error) = said {
            return Err(error);
        }
        print_text(said.text(report::columns()))?;
        is_silent = false;
        has_failed |= said.is_failure();
    }
    Ok(if is_silent || has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A time for people.
fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    if ms < 10.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
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
    is_cured: bool,
    /// The shell, with which the case ends, unless the player has ended it.
    shell: Option<Pid>,
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
            is_cured: false,
            shell: None,
        }
    }

    fn introduction(&self) -> String {
        format!(
            "\n{}\n\n{}\n{}\n\n{RULES}\n\n\
             \x20 look                       how slow it was in the last seconds\n\
             \x20 note WORDS                 write down what you have seen\n\
             \x20 answer                     list the causes; then: answer CAUSE PLACE NUMBER\n\
             \x20 hint, solution, status     get help, see an expert's way, see the complaint and your notes\n\
             \x20 exit                       end the case\n",
            self.head(),
            wrap(&self.scene.story.words.complaint, report::columns()),
            self.look()
        )
    }

    /// The case, and the time.
    fn head(&self) -> String {
        let Scene { number, seed, .. } = &self.scene;
        format!("Case {number}, seed {seed}. {}", self.clock())
    }

    /// How far the player is.
    fn status(&self, say: &mut impl FnMut(Said) -> Result<()>) -> Result<()> {
        let words = &self.scene.story.words;
        say(Said::Lines(format!("{}\n", self.head())))?;
        say(Said::Text(words.complaint.clone()))?;
        let mut text = String::new();
        for (what, lines) in [("Notes", &self.notes), ("Answers", &self.answers)] {
            if !lines.is_empty() {
                text += &format!("\n{what}:\n  {}", lines.join("\n  "));
            }
        }
        say(Said::Lines(format!("{text}\nHints: {} of {}", self.hints, words.hints.len())))
    }

    fn look(&self) -> String {
        let Scene { stream, story: Story { words: Words { what, .. }, usual, .. }, .. } = &self.scene;
        let now = self.scene.patient().lately(*stream);
        format!("{what}: {}; normal: about {}.", ms(now), ms(*usual))
    }

    fn clock(&self) -> String {
        let clock = |time: Duration| format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60);
        match self.solved {
            Some((after, 1)) => format!("Solved after {}, with the first answer.", clock(after)),
            Some((after, answers)) => format!("Solved after {}, with answer {answers}.", clock(after)),
            None => format!("{} of {}.", clock(self.time()), clock(TIME)),
        }
    }

    /// How long the player has taken, with what the answers cost, until one was right.
    fn time(&self) -> Duration {
        let until_now = || self.begin.elapsed() + COST * self.answers.len() as u32;
        self.solved.map_or_else(until_now, |(time, _)| time)
    }

    fn serve(&mut self, stream: UnixStream) -> Result<()> {
        let mut line = String::new();
        let mut reader = BufReader::new(stream.try_clone().or_cause("cannot read a command")?);
        reader.read_line(&mut line).or_cause("cannot read a command")?;
        let step: Move = serde_json::from_str(&line).or_cause("cannot parse a command")?;
        let mut out = stream;
        let mut say = |said: Said| {
            let line = serde_json::to_string(&said).or_cause("cannot write JSON")?;
            writeln!(out, "{line}").or_cause("cannot reply")
        };
        self.play(&step, &mut say).or_else(|error| say(Said::Error(error)))
    }

    /// Does what the player asks for.
    fn play(&mut self, step: &Move, say: &mut impl FnMut(Said) -> Result<()>) -> Result<()> {
        match step {
            Move::Look => say(Said::Text(self.look())),
            Move::Note { words } => {
                let note = format!("{} {}", self.clock(), words.join(" "));
                self.notes.push(note.clone());
                say(Said::Lines(note))
            }
            Move::Status => self.status(say),
            Move::Answer { cause: None, .. } => say(Said::Lines(format!(
                "{}\nanswer CAUSE PLACE NUMBER, such as: answer slow-disk vdz 7ms",
                causes()
            ))),
            Move::Answer { cause: Some(cause), place, number } => {
                let number = (!number.is_empty()).then(|| number.join(" "));
                self.grade(&Answer { cause: cause.clone(), place: place.clone(), number }, say)
            }
            Move::Hint => {
                let hints = &self.scene.story.words.hints;
                let Some(hint) = hints.get(self.hints) else {
                    return Err(
                        Error::new("that was the last hint").fix("see an expert's way: solution --peek")
                    );
                };
                self.hints += 1;
                say(Said::Text(format!("{} of {}: {hint}", self.hints, hints.len())))
            }
            Move::Solution { peek } => {
                if !peek && self.solved.is_none() {
                    return Err(Error::new("no answer was right yet")
                        .fix("get a hint: hint; or see the solution anyway: solution --peek"));
                }
                if self.is_cured {
                    say(Said::Text(
                        "The cause is gone, so the commands show how it is without it.".to_owned(),
                    ))?;
                }
                self.is_open = true;
                self.scene.show_way(say)
            }
            Move::Fix => {
                if self.solved.is_none() && !self.is_open {
                    return Err(Error::new("you don't know yet what to fix")
                        .fix("find it, or see the solution: solution --peek"));
                }
                if self.is_cured {
                    return self.scene.fix().map(drop);
                }
                let before = self.scene.patient().median(self.scene.stream)?;
                let fixed = self.scene.fix()?;
                self.is_cured = true;
                say(Said::Text(format!("{fixed} ...")))?;
                let after = self.scene.patient().median(self.scene.stream)?;
                let [before, after] = [before, after].map(ms);
                say(Said::Text(format!(
                    "{}: {after}; before the fix: {before}.",
                    self.scene.story.words.what
                )))
            }
            Move::End => {
                say(Said::Text("The case ends.".to_owned()))?;
                self.shell
                    .take()
                    .map_or(Ok(()), |shell| kill(shell, Signal::SIGHUP))
                    .or_cause("cannot end the shell")
            }
        }
    }

    fn grade(&mut self, answer: &Answer, say: &mut impl FnMut(Said) -> Result<()>) -> Result<()> {
        let Some(cause) = cause_of(&answer.cause) else {
            return Err(Error::new(format!("there is no cause {}", answer.cause)).fix("list them: answer"));
        };
        let grade = self.scene.story.truth.grade(answer);
        let word = |is_right| if is_right { "right" } else { "wrong" };
        let number = match (&answer.number, grade) {
            (None, _) => "missing, so this is a guess",
            (_, Grade { cause: false, .. }) => "not compared, because it can only prove the right cause",
            (_, grade) => word(grade.number),
        };
        let place = answer.place.as_ref().map_or("missing", |_| word(grade.place));
        let Cause { word: cause, place: a_place, number: a_number, .. } = cause;
        let part = |name: &str, is_right, verdict| Part { name: name.to_owned(), is_right, verdict };
        let parts = vec![
            part("cause", grade.cause, word(grade.cause).to_owned()),
            part("place", grade.place, format!("{place}. For {cause}, this is {a_place}.")),
            part("number", grade.number, format!("{number}. For {cause}, this is: {a_number}.")),
        ];
        let marks = parts.iter().filter(|part| part.is_right).count();
        say(Said::Graded(parts))?;
        let said = [Some(&answer.cause), answer.place.as_ref(), answer.number.as_ref()];
        let said: Vec<_> = said.into_iter().flatten().map(String::as_str).collect();
        let time = self.time();
        self.answers.push(format!("{} {}: {marks} of 3", self.clock(), said.join(" ")));
        if grade.is_right() {
            self.solved.get_or_insert((time, self.answers.len()));
            return say(Said::Text(format!(
                "{} Compare with an expert's way: solution. Then cure it: fix",
                self.clock()
            )));
        }
        if self.solved.is_some() {
            return Ok(());
        }
        say(Said::Text(format!("A wrong answer costs a minute: {}", self.clock())))
    }
}
