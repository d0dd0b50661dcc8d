//! Terminals: programs on pseudo-terminals of the kernel, and the browser's tabs that show them.
//!
//! A terminal stays when the page goes. It keeps the end of what its program printed, so a page that comes back, or a
//! second one, shows the same.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket};
use axum::http::StatusCode;
use common::{Error, OrCause};
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, killpg};
use nix::sys::termios::{FlushArg, InputFlags, LocalFlags, SetArg, tcflush, tcgetattr, tcsetattr};
use nix::unistd::{Pid, ttyname};
use pty_process::{OwnedReadPty, OwnedWritePty, Pts, Size};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::sync::mpsc::{OwnedPermit, error::SendError};
use tokio::sync::{OwnedMutexGuard, broadcast, mpsc, watch};

use crate::response::Refusal;

/// How many there may be.
const MOST: usize = 8;
/// From how many on a new one takes the place of one whose program has ended: more tabs do not fit a small screen.
const FEW: usize = 5;
/// How many bytes of output a terminal keeps.
const KEPT: usize = 256 << 10;
/// How many pieces of output may wait for a slow browser. If there are more, it starts over with what is kept.
const WAITING: usize = 256;
/// How long a program may take to end after it was asked to, before we kill it.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long output may take from a program that has ended, if another one keeps its pseudo-terminal open.
const REST: Duration = Duration::from_secs(1);

pub struct Command {
    pub argv: Vec<OsString>,
    pub folder: PathBuf,
    /// What to print first: the command as a person would type it.
    pub shown: Option<String>,
}

/// What somebody who watches a program gets: some of its output, or in the end its exit status.
pub enum Event<'a> {
    Output(&'a [u8]),
    End(i32),
}

pub struct Terminals {
    all: Mutex<BTreeMap<u32, Arc<Terminal>>>,
    /// The number of the newest one. A page may still be connected to an older one, so no number comes back.
    newest: AtomicU32,
    /// Increases whenever one comes, goes or ends.
    changed: watch::Sender<()>,
}

pub struct Terminal {
    id: u32,
    title: String,
    output: Mutex<Output>,
    program: Mutex<Program>,
    size: Mutex<Size>,
    /// Who may end its program and start another one.
    turn: Arc<tokio::sync::Mutex<()>>,
    runs: watch::Sender<bool>,
}

/// What was printed, and who gets what comes next.
struct Output {
    kept: Vec<u8>,
    sender: broadcast::Sender<Bytes>,
}

#[derive(Debug, Default)]
struct Program {
    pid: Option<Pid>,
    status: Option<i32>,
    keys: Option<mpsc::Sender<Input>>,
}

/// What the browser sends: keys, or the new size of its window.
enum Input {
    Keys(Bytes),
    Resize(Size),
}

#[derive(Deserialize)]
struct Window {
    cols: u16,
    rows: u16,
}

/// A lock that no panic can poison for the others.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Terminals {
    pub fn new(changed: watch::Sender<()>) -> Self {
        Self { all: Mutex::default(), newest: AtomicU32::new(0), changed }
    }

    pub fn list(&self) -> Vec<Value> {
        lock(&self.all).values().map(|terminal| terminal.describe()).collect()
    }

    pub fn get(&self, id: u32) -> Result<Arc<Terminal>, Refusal> {
        let found = lock(&self.all).get(&id).cloned();
        found.ok_or_else(|| Refusal(StatusCode::NOT_FOUND, Error::new(format!("there is no terminal {id}"))))
    }

    /// The one with this title, or a new one; and the turn to start a program in it.
    pub async fn take(&self, title: &str) -> Result<(Arc<Terminal>, OwnedMutexGuard<()>), Refusal> {
        loop {
            let terminal = self.titled(title)?;
            let turn = terminal.turn.clone().lock_owned().await;
            // Somebody may have removed it meanwhile.
            if lock(&self.all).contains_key(&terminal.id) {
                return Ok((terminal, turn));
            }
        }
    }

    fn titled(&self, title: &str) -> Result<Arc<Terminal>, Refusal> {
        let mut all = lock(&self.all);
        if let Some(terminal) = all.values().find(|terminal| terminal.title == title) {
            return Ok(terminal.clone());
        }
        if all.len() >= FEW {
            // One whose program has ended makes room.
            let has_ended = |terminal: &Terminal| lock(&terminal.program).status.is_some();
            let ended = all.iter().find(|(_, terminal)| has_ended(terminal)).map(|(id, _)| *id);
            if let Some(ended) = ended {
                all.remove(&ended);
            } else if all.len() >= MOST {
                let error = Error::new(format!("there are {MOST} terminals already"))
                    .fix("close one that you don't need");
                return Err(Refusal(StatusCode::TOO_MANY_REQUESTS, error));
            }
        }
        let id = self.newest.fetch_add(1, Ordering::Relaxed) + 1;
        let terminal = Arc::new(Terminal {
            id,
            title: title.to_owned(),
            output: Mutex::new(Output { kept: Vec::new(), sender: broadcast::channel(WAITING).0 }),
            program: Mutex::default(),
            size: Mutex::new(Size::new(24, 100)),
            turn: Arc::default(),
            runs: watch::channel(false).0,
        });
        all.insert(id, terminal.clone());
        Ok(terminal)
    }

    pub async fn shell(&self, folder: PathBuf) -> Result<Value, Refusal> {
        let title = {
            let all = lock(&self.all);
            let is_used = |title: &String| all.values().any(|terminal| terminal.title == *title);
            (1..).map(|nth| format!("Shell {nth}")).find(|title| !is_used(title)).unwrap_or_default()
        };
        let (terminal, _turn) = self.take(&title).await?;
        let shell = std::env::var_os("SHELL").unwrap_or_else(|| "sh".into());
        self.start(&terminal, Command { argv: vec![shell], folder, shown: None }, |_| ())?;
        Ok(terminal.describe())
    }

    /// Starts a program in a terminal in which none runs.
    pub fn start(
        &self,
        terminal: &Arc<Terminal>,
        command: Command,
        watch: impl FnMut(Event<'_>) + Send + 'static,
    ) -> Result<(), Refusal> {
        let [name, args @ ..] = &command.argv[..] else {
            return Err(Error::new("there is no program to start").into());
        };
        let cannot = || format!("cannot start {}", name.display());
        let (pty, pts) = pty_process::open().or_cause(cannot())?;
        pty.resize(*lock(&terminal.size)).or_cause(cannot())?;
        let path = keep_output(&pts).or_cause(cannot())?;
        let child = pty_process::Command::new(name)
            .args(args)
            .current_dir(&command.folder)
            .env("TERM", "xterm-256color")
            .spawn(pts)
            .or_cause(cannot())?;
        if let Some(shown) = command.shown {
            terminal.print(format!("\x1b[1m$ {shown}\x1b[0m\r\n").into());
        }
        let (reader, writer) = pty.into_split();
        let (keys, input) = mpsc::channel(64);
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
        *lock(&terminal.program) = Program { pid, status: None, keys: Some(keys) };
        terminal.runs.send_replace(true);
        self.changed.send_replace(());
        let writes = tokio::spawn(write(writer, path, input));
        let reads = read(reader, child, terminal.clone(), watch, self.changed.clone());
        tokio::spawn(async move {
            reads.await;
            // Nobody takes what is left.
            writes.abort();
        });
        Ok(())
    }

    pub async fn remove(&self, id: u32) -> Result<(), Refusal> {
        let terminal = self.get(id)?;
        let _turn = terminal.turn.lock().await;
        terminal.end(Signal::SIGHUP).await;
        lock(&self.all).remove(&id);
        self.changed.send_replace(());
        Ok(())
    }

    pub async fn end_all(&self) {
        let all: Vec<_> = lock(&self.all).values().cloned().collect();
        // All get the signal before we wait for the first.
        let ends: Vec<_> = all
            .into_iter()
            .map(|terminal| tokio::spawn(async move { terminal.end(Signal::SIGHUP).await }))
            .collect();
        for end in ends {
            let _ = end.await;
        }
    }
}

impl Terminal {
    pub fn id(&self) -> u32 {
        self.id
    }

    fn describe(&self) -> Value {
        let status = lock(&self.program).status;
        json!({ "id": self.id, "title": self.title, "running": *self.runs.borrow(), "status": status })
    }

    pub fn interrupt(&self) {
        self.signal(Signal::SIGINT);
    }

    /// Sends the program a signal. Returns whether there is a program.
    fn signal(&self, signal: Signal) -> bool {
        let Some(pid) = lock(&self.program).pid else { return false };
        // If somebody has stopped it, it gets the signal when it goes on. If it has just ended, there is nobody to signal.
        let _ = killpg(pid, signal).and_then(|()| killpg(pid, Signal::SIGCONT));
        true
    }

    /// Asks the program to end, and waits until it has. Kills it if it doesn't.
    pub async fn end(&self, signal: Signal) {
        let mut runs = self.runs.subscribe();
        for signal in [signal, Signal::SIGKILL] {
            if !*self.runs.borrow() || !self.signal(signal) {
                return;
            }
            if tokio::time::timeout(PATIENCE, runs.wait_for(|runs| !runs)).await.is_ok() {
                return;
            }
        }
    }

    fn print(&self, bytes: Bytes) {
        let mut output = lock(&self.output);
        output.kept.extend_from_slice(&bytes);
        if let Some(extra) = output.kept.len().checked_sub(KEPT)
            && extra > KEPT / 4
        {
            // Cut after a line, so that no command for the terminal is cut.
            let line = output.kept[extra..]
                .iter()
                .position(|byte| *byte == b'\n')
                .map_or(extra, |at| extra + at + 1);
            output.kept.drain(..line);
        }
        // Perhaps no page looks.
        let _ = output.sender.send(bytes);
    }

    /// What is kept, and a receiver of what comes after that.
    fn attach(&self) -> (Bytes, broadcast::Receiver<Bytes>) {
        let output = lock(&self.output);
        (Bytes::copy_from_slice(&output.kept), output.sender.subscribe())
    }

    /// Connects a page: its keys go to the program, whose output goes to the page.
    pub async fn connect(&self, mut socket: WebSocket) {
        let (kept, mut output) = self.attach();
        if socket.send(Message::Binary(kept)).await.is_err() {
            return;
        }
        // What the program has yet to take. Until then, the page keeps what was typed after that, however much it is.
        let mut waits: Option<(mpsc::Sender<Input>, Input)> = None;
        loop {
            let sent = tokio::select! {
                message = socket.recv(), if waits.is_none() => match message {
                    Some(Ok(message)) => { waits = self.receive(&message); Ok(()) }
                    _ => return,
                },
                room = room(waits.as_ref()), if waits.is_some() => {
                    // There is none if the program has ended.
                    if let (Ok(room), Some((_, input))) = (room, waits.take()) {
                        room.send(input);
                    }
                    Ok(())
                }
                bytes = output.recv() => match bytes {
                    Ok(bytes) => socket.send(Message::Binary(bytes)).await,
                    Err(broadcast::error::RecvError::Closed) => return,
                    Err(broadcast::error::RecvError::Lagged(_)) => {
                        let (kept, again) = self.attach();
                        output = again;
                        match socket.send(Message::Text(r#"{"reset":true}"#.into())).await {
                            Ok(()) => socket.send(Message::Binary(kept)).await,
                            failed => failed,
                        }
                    }
                },
            };
            if sent.is_err() {
                return;
            }
        }
    }

    /// What the page sent for the program, if one runs.
    fn receive(&self, message: &Message) -> Option<(mpsc::Sender<Input>, Input)> {
        let input = match message {
            Message::Binary(keys) => Input::Keys(keys.clone()),
            Message::Text(text) => match serde_json::from_str::<Window>(text) {
                Ok(window) if window.cols > 0 && window.rows > 0 => {
                    let size = Size::new(window.rows, window.cols);
                    *lock(&self.size) = size;
                    Input::Resize(size)
                }
                _ => return None,
            },
            _ => return None,
        };
        Some((lock(&self.program).keys.clone()?, input))
    }
}

/// Waits until a program can take more.
async fn room(waits: Option<&(mpsc::Sender<Input>, Input)>) -> Result<OwnedPermit<Input>, SendError<()>> {
    match waits {
        Some((keys, _)) => keys.clone().reserve_owned().await,
        None => std::future::pending().await,
    }
}

/// Makes a pseudo-terminal keep its output at Ctrl-C, and pass it on after Ctrl-S, and returns its path.
///
/// The kernel would discard what a program has printed and nobody has read yet, such as the last lines of a stage. It
/// would discard what was typed, too: `write` still does that. Ctrl-S saves in the editor: here, it would stop the
/// output, and a program that prints would never end.
fn keep_output(pts: &Pts) -> nix::Result<PathBuf> {
    let mut settings = tcgetattr(pts)?;
    settings.local_flags.insert(LocalFlags::NOFLSH);
    settings.input_flags.remove(InputFlags::IXON);
    tcsetattr(pts, SetArg::TCSANOW, &settings)?;
    ttyname(pts)
}

/// Discards what the program has not read yet, if Ctrl-C ends programs there: a shell shall not run what was typed
/// before it.
fn discard_typed(path: &Path) -> io::Result<()> {
    // Not for longer: as long as somebody has it open, the reader sees no end.
    let pts = OpenOptions::new().read(true).custom_flags(OFlag::O_NOCTTY.bits()).open(path)?;
    if tcgetattr(&pts)?.local_flags.contains(LocalFlags::ISIG) {
        tcflush(&pts, FlushArg::TCIFLUSH)?;
    }
    Ok(())
}

/// Passes keys on to the program, which has the pseudo-terminal at this path.
async fn write(mut pty: OwnedWritePty, path: PathBuf, mut input: mpsc::Receiver<Input>) {
    // Ctrl-C, Ctrl-\ and Ctrl-Z.
    const SIGNALS: [u8; 3] = [0x03, 0x1c, 0x1a];
    while let Some(input) = input.recv().await {
        let passed = match input {
            Input::Keys(keys) => {
                let signal = keys.iter().position(|key| SIGNALS.contains(key)).unwrap_or(0);
                let (before, keys) = keys.split_at(signal);
                let passed = pty.write_all(before).await.is_ok();
                if keys.first().is_some_and(|key| SIGNALS.contains(key)) {
                    // It fails if the program has just ended.
                    let _ = discard_typed(&path);
                }
                passed && pty.write_all(keys).await.is_ok()
            }
            Input::Resize(size) => pty.resize(size).is_ok(),
        };
        if !passed {
            return;
        }
    }
}

/// Passes on what the program prints, until it has ended.
async fn read(
    mut pty: OwnedReadPty,
    mut child: Child,
    terminal: Arc<Terminal>,
    mut watch: impl FnMut(Event<'_>),
    changed: watch::Sender<()>,
) {
    let mut buffer = vec![0; 16 << 10];
    let ended = loop {
        tokio::select! {
            biased;
            // On Linux, the end is an error: nobody has the other side of the pseudo-terminal open any more.
            read = pty.read(&mut buffer) => match read {
                Ok(length) if length > 0 => {
                    watch(Event::Output(&buffer[..length]));
                    terminal.print(Bytes::copy_from_slice(&buffer[..length]));
                }
                _ => break child.wait().await,
            },
            // A program that it left in the background may keep the pseudo-terminal open.
            ended = child.wait() => break ended,
        }
    };
    // What it printed last may still be on its way through the kernel.
    while let Ok(Ok(length)) = tokio::time::timeout(REST, pty.read(&mut buffer)).await
        && length > 0
    {
        watch(Event::Output(&buffer[..length]));
        terminal.print(Bytes::copy_from_slice(&buffer[..length]));
    }
    let status =
        ended.ok().and_then(|status| status.code().or_else(|| Some(128 + status.signal()?))).unwrap_or(-1);
    *lock(&terminal.program) = Program { pid: None, status: Some(status), keys: None };
    watch(Event::End(status));
    terminal.runs.send_replace(false);
    changed.send_replace(());
}
