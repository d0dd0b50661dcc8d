//! The messages between the lab and its guest, over a serial line that the kernel's console does not use.
//!
//! A message is its length (four bytes, little endian) and the message itself in postcard's format. One program runs
//! at a time. Its output arrives complete and in order, and so does its exit status.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A terminal's size in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    pub rows: u16,
    pub cols: u16,
}

/// The terminal that a program runs in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminal {
    /// Its type, as in `TERM`.
    pub kind: String,
    pub size: Size,
}

/// A request of the lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToGuest {
    Run {
        argv: Vec<String>,
        /// The terminal to give it; without one, it gets pipes.
        terminal: Option<Terminal>,
    },
    /// Input that the user typed.
    Input(Vec<u8>),
    Signal(i32),
    Resize(Size),
    /// Send these files of the folder in which programs run, if they exist; see [`crate::files`].
    Fetch(Vec<String>),
}

/// An answer of the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromGuest {
    Ready {
        /// The kernel's release, as `uname -r` prints it.
        release: String,
        /// Why the guest can't run programs properly: it has no disks.
        complaint: Option<String>,
    },
    /// The guest is still alive. Sent every [`ALIVE_EVERY`].
    Alive,
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// The program ended with this status, 128 + signal if a signal ended it.
    Exit(i32),
    /// The next part of a file that the lab asked for, compressed.
    File {
        name: String,
        part: Vec<u8>,
    },
    Fetched,
    Failed(String),
}

/// The exit status of a demo whose program can't run on this kernel.
pub const NOT_HERE: u8 = 3;

/// How often a guest reports that it is alive.
pub const ALIVE_EVERY: std::time::Duration = std::time::Duration::from_secs(1);

/// The longest message. A larger length means that something else wrote to the line.
const MAX: usize = 1 << 20;

pub fn send(line: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let body = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend(body);
    line.write_all(&bytes)?;
    line.flush()
}

/// Waits for one message. Returns `None` at the end of the line.
pub fn receive<T: DeserializeOwned>(line: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match line.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX {
        return Err(io::Error::other(format!("not a message, because it would be {length} bytes long")));
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
