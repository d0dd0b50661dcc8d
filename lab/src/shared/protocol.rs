//! What the lab and its guest say to each other, over a serial line that the kernel's console does not use.
//!
//! A message is its length (four bytes, little endian) and the message itself in postcard's format. One program runs
//! at a time; what it prints comes back whole and in order, and so does its exit status.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A terminal's size in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub cols: u16,
}

/// A terminal for the program to run in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminal {
    /// Its kind, as in `TERM`.
    pub kind: String,
    /// Its size when the program starts.
    pub size: Size,
}

/// What the lab asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToGuest {
    /// Start a program.
    Run {
        /// Its name and arguments.
        argv: Vec<String>,
        /// In a terminal of its own, or with pipes.
        terminal: Option<Terminal>,
    },
    /// What the user typed.
    Input(Vec<u8>),
    /// Send the program a signal.
    Signal(i32),
    /// The user's window has another size now.
    Resize(Size),
    /// Send these files of the folder that programs run in, as far as they are there; see [`crate::shared::files`].
    Fetch(Vec<String>),
}

/// What the guest answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromGuest {
    /// The guest is up.
    Ready {
        /// The kernel's release, as `uname -r` prints it.
        release: String,
        /// What it could not do for the programs that it will run: it has no disks.
        complaint: Option<String>,
    },
    /// The guest is still there. Sent every [`ALIVE_EVERY`].
    Alive,
    /// The program printed this.
    Stdout(Vec<u8>),
    /// The program printed this on stderr.
    Stderr(Vec<u8>),
    /// The program ended with this status, 128 + signal if a signal ended it.
    Exit(i32),
    /// More of a file that was asked for, compressed.
    File {
        /// Its name.
        name: String,
        /// What follows in it.
        part: Vec<u8>,
    },
    /// All files that were asked for have been sent.
    Fetched,
    /// The guest could not do what was asked.
    Failed(String),
}

/// How often a guest says that it is there.
pub const ALIVE_EVERY: std::time::Duration = std::time::Duration::from_secs(1);

/// No message is larger. A length beyond it means that something else wrote on the line.
const MAX: usize = 1 << 20;

/// Sends one message.
///
/// # Errors
/// If the line can't be written.
pub fn send(line: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let body = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend(body);
    line.write_all(&bytes)?;
    line.flush()
}

/// Waits for one message; `None` at the end of the line.
///
/// # Errors
/// If the line can't be read, or what came is no message.
pub fn receive<T: DeserializeOwned>(line: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match line.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX {
        return Err(io::Error::other(format!("not a message: it would be {length} bytes long")));
    }
    let mut body = vec![0; length];
    line.read_exact(&mut body)?;
    postcard::from_bytes(&body).map(Some).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let sent = [
            FromGuest::Ready { release: "6.12.0".into(), complaint: None },
            FromGuest::Stdout((0..=255).collect()),
            FromGuest::Stderr(vec![]),
            FromGuest::Exit(130),
        ];
        let mut line = Vec::new();
        for message in &sent {
            send(&mut line, message).unwrap();
        }
        let mut line = &line[..];
        for message in sent {
            assert_eq!(receive::<FromGuest>(&mut line).unwrap(), Some(message));
        }
        assert_eq!(receive::<FromGuest>(&mut line).unwrap(), None);
    }

    #[test]
    fn noise_on_the_line_is_an_error_and_not_a_message() {
        let noise = b"[    0.000000] Linux version 6.12";
        assert!(receive::<FromGuest>(&mut &noise[..]).is_err());
        assert!(receive::<FromGuest>(&mut &[9, 0, 0, 0, 1][..]).is_err(), "half a message");
    }
}
