//! Reads files, and the sizes of files, by TFTP (RFC 1350, with the options of RFC 2348 and 2349).
//!
//! Only QEMU answers us, from the same machine. Whatever ACK it gets, it sends the next block, so a second ACK for a
//! block would skip one. If something is lost, we therefore start over.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use common::{Error, OrCause, Result};

/// How long to wait for a packet.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often to ask.
const TRIES: usize = 5;
/// The largest block that QEMU sends.
const BLOCK: usize = 1428;

// The kinds of packets.
const READ: u16 = 1;
const DATA: u16 = 3;
const ACK: u16 = 4;
const ERROR: u16 = 5;
const OPTIONS: u16 = 6;
/// The error "file not found".
const NOT_FOUND: u16 = 1;

/// A server.
#[derive(Clone, Debug)]
pub struct Tftp {
    /// Its address and port.
    pub server: SocketAddr,
}

/// A file that the server has offered.
struct Offer {
    socket: UdpSocket,
    /// The port of this transfer.
    peer: SocketAddr,
    size: usize,
    block: usize,
}

impl Tftp {
    /// The size of a file, or `None` if there is none.
    ///
    /// # Errors
    /// If the server does not answer, or refuses.
    pub fn size(&self, name: &str) -> Result<Option<usize>> {
        let Some(offer) = self.open(name)? else { return Ok(None) };
        // Without the goodbye, the server would wait for us, and it has room for few who do.
        offer.send(&[0, ERROR as u8, 0, 0, 0]).or_cause(cannot(name))?;
        Ok(Some(offer.size))
    }

    /// What a file has, or `None` if there is none.
    ///
    /// # Errors
    /// If the server does not answer, or refuses, or the file has more than `most` bytes.
    pub fn read(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>> {
        for _ in 0..TRIES {
            let Some(offer) = self.open(name)? else { return Ok(None) };
            if offer.size > most {
                return Err(Error::new(cannot(name))
                    .evidence(format!("it has {} bytes, and {most} are allowed", offer.size)));
            }
            if let Some(bytes) = offer.read().or_cause(cannot(name))? {
                return Ok(Some(bytes));
            }
        }
        Err(Error::new(cannot(name)).evidence(format!("{} stopped {TRIES} times in the middle", self.server)))
    }

    /// Asks for a file until the server offers it.
    fn open(&self, name: &str) -> Result<Option<Offer>> {
        let mut request = READ.to_be_bytes().to_vec();
        for word in [name, "octet", "tsize", "0", "blksize", &BLOCK.to_string()] {
            request.extend(word.as_bytes());
            request.push(0);
        }
        for _ in 0..TRIES {
            // A new port each time, so that a late answer to an earlier request can't confuse us.
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).or_cause(cannot(name))?;
            socket.set_read_timeout(Some(PATIENCE)).or_cause(cannot(name))?;
            socket.send_to(&request, self.server).or_cause(cannot(name))?;
            let Some((packet, peer)) = receive(&socket, self.server).or_cause(cannot(name))? else {
                continue;
            };
            match (word(&packet, 0), word(&packet, 2)) {
                (Some(OPTIONS), _) => {
                    let Some(size) = option(&packet, "tsize") else { break };
                    let block = option(&packet, "blksize").unwrap_or(512);
                    return Ok(Some(Offer { socket, peer, size, block }));
                }
                (Some(ERROR), Some(NOT_FOUND)) => return Ok(None),
                (Some(ERROR), _) => {
                    let text = String::from_utf8_lossy(packet.get(4..).unwrap_or_default()).into_owned();
                    return Err(Error::new(cannot(name)).evidence(text.trim_end_matches('\0')));
                }
                _ => break,
            }
        }
        Err(Error::new(cannot(name))
            .evidence(format!("{} does not answer with the file's size", self.server)))
    }
}

impl Offer {
    fn send(&self, packet: &[u8]) -> std::io::Result<usize> {
        self.socket.send_to(packet, self.peer)
    }

    /// All blocks, or `None` if one is missing.
    fn read(&self) -> std::io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::with_capacity(self.size);
        let mut number = 0_u16;
        loop {
            let [high, low] = number.to_be_bytes();
            self.send(&[0, ACK as u8, high, low])?;
            // A large file has more blocks than there are numbers.
            number = number.wrapping_add(1);
            let Some((packet, _)) = receive(&self.socket, self.peer)? else { return Ok(None) };
            if (word(&packet, 0), word(&packet, 2)) != (Some(DATA), Some(number)) {
                return Ok(None);
            }
            let block = packet.get(4..).unwrap_or_default();
            bytes.extend(block);
            if block.len() < self.block {
                let [high, low] = number.to_be_bytes();
                self.send(&[0, ACK as u8, high, low])?;
                return Ok((bytes.len() == self.size).then_some(bytes));
            }
            if bytes.len() > self.size {
                return Ok(None);
            }
        }
    }
}

/// The next packet from this host; `None` if there is none in time.
fn receive(socket: &UdpSocket, from: SocketAddr) -> std::io::Result<Option<(Vec<u8>, SocketAddr)>> {
    let mut buffer = vec![0; 4 + BLOCK];
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((length, peer)) if peer.ip() == from.ip() => {
                buffer.truncate(length);
                return Ok(Some((buffer, peer)));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
}

fn word(packet: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?))
}

/// An option that the server has accepted.
fn option(packet: &[u8], name: &str) -> Option<usize> {
    let mut words = packet.get(2..)?.split(|byte| *byte == 0);
    words.find(|word| word.eq_ignore_ascii_case(name.as_bytes()))?;
    std::str::from_utf8(words.next()?).ok()?.parse().ok()
}

fn cannot(name: &str) -> String {
    format!("cannot read the file {name} on the host")
}

#[cfg(test)]
#[path = "../tests/common/host.rs"]
mod host;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_and_sizes_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let tftp = Tftp { server: host::serve(folder.path(), |_| true, BLOCK) };
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK] {
            let bytes: Vec<_> = (0..length).map(|at| (at % 251) as u8).collect();
            fs::write(folder.path().join("work"), &bytes).unwrap();
            assert_eq!(tftp.read("work", length).unwrap(), Some(bytes));
            assert_eq!(tftp.size("work").unwrap(), Some(length));
        }
        assert!(tftp.read("work", 3 * BLOCK - 1).is_err());
        // The server has room for 20 at once.
        for _ in 0..30 {
            tftp.size("work").unwrap();
        }
        assert_eq!(tftp.read("other", 1).unwrap(), None);
        assert_eq!(tftp.size("other").unwrap(), None);
    }

    #[test]
    fn a_lost_packet_is_no_hole() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<_> = (0..9000_u32).flat_map(u32::to_be_bytes).collect();
        fs::write(folder.path().join("work"), &bytes).unwrap();
        // The first offer, and a block of the next transfer.
        let tftp = Tftp { server: host::serve(folder.path(), |number| number != 0 && number != 5, BLOCK) };
        assert_eq!(tftp.read("work", 1 << 20).unwrap(), Some(bytes));
    }

    #[test]
    fn there_are_more_blocks_than_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<_> = (0..70_000_u32).flat_map(u32::to_be_bytes).collect();
        fs::write(folder.path().join("work"), &bytes).unwrap();
        let tftp = Tftp { server: host::serve(folder.path(), |_| true, 4) };
        assert_eq!(tftp.read("work", 1 << 20).unwrap(), Some(bytes));
    }

    #[test]
    fn silence_is_an_error() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let tftp = Tftp { server: socket.local_addr().unwrap() };
        let error = tftp.size("work").unwrap_err().to_string();
        assert!(error.contains("does not answer"), "{error}");
    }
}
