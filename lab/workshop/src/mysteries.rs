//! The mysteries. A case is a process in a guest, which knows all of it, and does what the page asks. Here is what the page
//! shows of it, and what is kept of it with the learner's work: whether it is solved, and the notes.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use common::{Error, OrCause, Result};
use lab::{exercise, mine};
use machine::host::folders;
use machine::workbook::Workbook;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use wire::mystery::{CASES, CAUSES, Case};
use wire::play::{Move, Played, RULES, SOCKET, Said, none_is_open};

use crate::response::{Refusal, WithStatus};
use crate::terminals::lock;

/// How long to wait for the state of a case. While it shows an expert's way, it does not answer.
const QUICK: Duration = Duration::from_millis(500);
/// How long a move may take. A cure waits for the complaint's end.
const LONG: Duration = Duration::from_secs(600);
const LONGEST: usize = 4000;

/// The case that is played, and all others.
pub struct Mysteries {
    workbook: Workbook,
    /// Where the door is that leads into a guest, as soon as there is one.
    folder: OnceLock<TempDir>,
    table: Mutex<Table>,
    /// Who may make a move.
    turn: Mutex<()>,
    changed: watch::Sender<()>,
}

/// What we have heard of the case that is open.
#[derive(Debug, Default)]
struct Table {
    played: Option<(Played, Instant)>,
    /// The move that takes its time.
    moving: Option<&'static str>,
    /// What it said to the last look or the cure.
    now: Vec<Said>,
    way: Vec<Said>,
}

impl Mysteries {
    pub fn new(workbook: Workbook, changed: watch::Sender<()>) -> Self {
        let (table, turn) = (Mutex::default(), Mutex::default());
        Self { workbook, folder: OnceLock::new(), table, turn, changed }
    }

    /// What is the same for all cases.
    pub fn about() -> Value {
        json!({ "rules": RULES, "causes": *CAUSES })
    }

    /// The driver's arguments that start a case, and one that is no affair of the learner's.
    pub fn command(
        &self,
        case: &Case,
        seed: Option<u64>,
        is_starting: bool,
    ) -> Result<(Vec<String>, Option<OsString>), Refusal> {
        if is_starting || self.update().is_some() {
            let error = Error::new("a case is open already").fix("end it first");
            return Err(Refusal(StatusCode::CONFLICT, error));
        }
        *lock(&self.table) = Table::default();
        let mut words = vec!["mystery".to_owned(), "start".to_owned(), case.number.to_owned()];
        words.extend(seed.into_iter().flat_map(|seed| ["--seed".to_owned(), seed.to_string()]));
        if self.workbook.is_in_guest() {
            return Ok((words, None));
        }
        if self.folder.get().is_none() {
            let folder = folders::temporary().or_cause("cannot make a folder for the door into the guest")?;
            let _ = self.folder.set(folder);
        }
        let door = self.socket().map(|door| {
            // A guest that was killed has left it.
            let _ = std::fs::remove_file(&door);
            format!("--door={}", door.display()).into()
        });
        Ok((words, door))
    }

    /// In the workshop's guest, the case's own socket; otherwise a door into its guest, if there is one. Outside of a guest,
    /// whoever listens at [`SOCKET`] is somebody else.
    fn socket(&self) -> Option<PathBuf> {
        let own = || self.workbook.is_in_guest().then(|| SOCKET.into());
        self.folder.get().map(|folder| folder.path().join("door")).or_else(own)
    }

    /// Lets the case make a move, and passes on what it says.
    fn ask(&self, step: &Move, limit: Duration, mut hear: impl FnMut(Said)) -> std::io::Result<()> {
        let mut stream = UnixStream::connect(self.socket().ok_or(ErrorKind::NotFound)?)?;
        stream.set_read_timeout(Some(limit))?;
        writeln!(stream, "{}", json!(step))?;
        for line in BufReader::new(stream).lines() {
            hear(serde_json::from_str(&line?)?);
        }
        Ok(())
    }

    /// Asks the case how far the player is.
    fn update(&self) -> Option<(Played, Instant)> {
        let mut played = None;
        let asked = self.ask(&Move::Status, QUICK, |said| {
            if let Said::Played(now) = said {
                played = Some((*now, Instant::now()));
            }
        });
        let mut table = lock(&self.table);
        match (played, asked) {
            (Some(played), _) => {
                let game = |(played, _): &(Played, Instant)| (played.number.clone(), played.seed);
                if table.played.as_ref().is_some_and(|old| game(old) != game(&played)) {
                    *table = Table::default();
                }
                table.played = Some(played);
            }
            // It is busy, and answers later.
            (None, Err(error)) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            (None, _) => *table = Table::default(),
        }
        table.played.clone()
    }

    /// Makes a move, and returns what the case says.
    pub fn play(&self, step: &Move) -> Result<Vec<Said>, Refusal> {
        if json!(step).to_string().len() > LONGEST {
            return Err(Error::new("this is too long")
                .evidence(format!("{LONGEST} bytes are allowed"))
                .into());
        }
        let _turn = lock(&self.turn);
        let slow = match step {
            Move::Look => Some("look"),
            Move::Fix => Some("fix"),
            Move::Solution { .. } => Some("solution"),
            _ => None,
        };
        self.change(|table| {
            table.moving = slow;
            match slow {
                Some("solution") => table.way.clear(),
                Some(_) => table.now.clear(),
                None => {}
            }
        });
        let (mut all, mut refused) = (Vec::new(), None);
        let asked = self.ask(step, LONG, |said| match said {
            Said::Error(error) => refused = Some(error),
            said => {
                all.push(said.clone());
                self.change(|table| match slow {
                    Some("solution") => table.way.push(said),
                    Some(_) => table.now.push(said),
                    None => {}
                });
            }
        });
        self.change(|table| table.moving = None);
        asked.map_err(|error| none_is_open().evidence(error)).status(StatusCode::NOT_FOUND)?;
        match refused {
            Some(error) => Err(error.into()),
            None => Ok(all),
        }
    }

    pub fn end(&self) -> Result<(), Refusal> {
        let asked = self.ask(&Move::End, QUICK, drop);
        asked.map_err(|error| none_is_open().evidence(error).into())
    }

    fn change(&self, change: impl FnOnce(&mut Table)) {
        change(&mut lock(&self.table));
        self.changed.send_replace(());
    }

    /// The cases as the page lists them, and the one that is open. Keeps what is new of it.
    pub fn state(&self) -> Result<(Vec<Value>, Value)> {
        let is_moving = lock(&self.table).moving.is_some();
        if !is_moving && self.update().is_none() {
            lock(&self.table).played = None;
        }
        let table = lock(&self.table);
        let played = table.played.as_ref().map(|(played, heard)| {
            // A case that is busy does not tell the time.
            let since = if played.is_solved { 0 } else { heard.elapsed().as_secs() };
            Played { seconds: played.seconds + since, ..played.clone() }
        });
        if let Some(played) = &played {
            self.keep(played)?;
        }
        let done = exercise::done(&self.workbook)?;
        let cases = CASES.iter().map(|case| {
            let id = id(case.number);
            let open = played.as_ref().filter(|played| played.number == case.number);
            let notes = mine::read_lines(&self.workbook, &notes(case.number))?;
            Ok(json!({
                "title": case.title,
                "state": if open.is_some() || !notes.is_empty() { "started" } else { "new" },
                "done": done.contains(&id),
                "notes": notes,
                "id": id,
            }))
        });
        let cases = cases.collect::<Result<_>>()?;
        let Table { moving, now, way, .. } = &*table;
        let open = played.map(|played| json!({ "played": played, "moving": moving, "now": now, "way": way }));
        Ok((cases, json!(open)))
    }

    /// Keeps with the learner's work whether a case is solved, and the notes that are new.
    fn keep(&self, played: &Played) -> Result<()> {
        let id = id(&played.number);
        if played.is_solved && !exercise::done(&self.workbook)?.contains(&id) {
            exercise::remember(&self.workbook, &id)?;
        }
        let file = notes(&played.number);
        let kept = mine::read_lines(&self.workbook, &file)?;
        let line = |note: &String| format!("Seed {}. {}", played.seed, note.replace(['\n', '\r'], " "));
        let new: Vec<_> = played.notes.iter().map(line).filter(|note| !kept.contains(note)).collect();
        match new.is_empty() {
            true => Ok(()),
            false => mine::change_lines(&self.workbook, &file, |lines| lines.extend(new)),
        }
    }
}

pub fn id(number: &str) -> String {
    format!("mystery-{number}")
}

fn notes(number: &str) -> String {
    format!("{}.txt", id(number))
}
