//! A socket on this machine that leads to the mystery in a guest: what a player writes there goes to the process that made
//! the case, see [`wire::play`].

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use common::{OrCause, Result};
use wire::protocol::ToGuest;

use crate::line::Line;

/// How long a player may leave an answer unread. Then the player gets no more of it, because others wait, too.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Door {
    socket: PathBuf,
    players: Players,
}

/// Who waits for an answer.
type Players = Arc<Mutex<HashMap<u32, UnixStream>>>;

impl Door {
    pub fn open(socket: &Path, line: Line) -> Result<Self> {
        let listener = UnixListener::bind(socket).or_cause(format!("cannot make {}", socket.display()))?;
        let players = Players::default();
        let all = players.clone();
        thread::spawn(move || {
            for (player, stream) in (0..).zip(listener.incoming().flatten()) {
                // If one fails, it is that player's own affair.
                let (all, line) = (all.clone(), line.clone());
                thread::spawn(move || ask(&all, &line, player, stream));
            }
        });
        Ok(Self { socket: socket.to_owned(), players })
    }

    /// Passes on a part of the answer to a player.
    pub fn say(&self, player: u32, bytes: &[u8]) {
        let mut players = lock(&self.players);
        let is_there = players.get_mut(&player).is_some_and(|stream| stream.write_all(bytes).is_ok());
        if bytes.is_empty() || !is_there {
            players.remove(&player);
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

fn ask(players: &Players, line: &Line, player: u32, stream: UnixStream) -> Result<()> {
    stream.set_write_timeout(Some(PATIENCE)).or_cause("cannot set a limit")?;
    let mut asked = String::new();
    BufReader::new(stream.try_clone().or_cause("cannot read a move")?)
        .read_line(&mut asked)
        .or_cause("cannot read a move")?;
    lock(players).insert(player, stream);
    line.send(&ToGuest::Move { player, line: asked })
}

fn lock(players: &Players) -> MutexGuard<'_, HashMap<u32, UnixStream>> {
    players.lock().unwrap_or_else(PoisonError::into_inner)
}
