//! A host as QEMU shows it to a guest: a folder that is served by TFTP, and a serial port whose bytes go to `work.new`.

#![allow(dead_code, reason = "each test uses a part of this")]

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// The host, and the folder of the launcher.
pub struct Host {
    folder: tempfile::TempDir,
    /// Its TFTP server.
    pub tftp: SocketAddr,
    disk: Arc<(Mutex<Disk>, Condvar)>,
}

/// How large `work.new` can become, and how many bytes came.
struct Disk {
    room: u64,
    came: u64,
}

impl Host {
    /// A host with an empty folder.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tftp = serve(folder.path(), |_| true, 1428);
        let disk = Arc::new((Mutex::new(Disk { room: u64::MAX, came: 0 }), Condvar::new()));
        let host = Self { folder, tftp, disk };
        nix::unistd::mkfifo(&host.port(), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::write(host.file("work.new"), "").unwrap();
        // Open in both directions, so that it never has an end.
        let mut port = OpenOptions::new().read(true).write(true).open(host.port()).unwrap();
        let (path, disk) = (host.file("work.new"), host.disk.clone());
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            loop {
                let length = port.read(&mut buffer).unwrap();
                let mut disk_now = disk.0.lock().unwrap();
                let Ok(mut file) = OpenOptions::new().append(true).open(&path) else { return };
                // As QEMU does if the disk is full: it writes what fits, and drops the rest.
                let fits = disk_now.room.saturating_sub(file.metadata().unwrap().len()).min(length as u64);
                file.write_all(&buffer[..fits as usize]).unwrap();
                disk_now.came += length as u64;
                disk.1.notify_all();
            }
        });
        host
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The serial port.
    pub fn port(&self) -> PathBuf {
        self.folder.path().join("port")
    }

    /// What `work.new` has.
    pub fn new_work(&self) -> Vec<u8> {
        fs::read(self.file("work.new")).unwrap()
    }

    /// Makes the disk so small that this many more bytes fit.
    pub fn leave_room(&self, bytes: u64) {
        let mut disk = self.disk.0.lock().unwrap();
        disk.room = fs::metadata(self.file("work.new")).unwrap().len().saturating_add(bytes);
    }

    /// Waits until `work.new` has this text.
    pub fn wait_for(&self, text: &str) {
        let lacks = |_: &mut Disk| !has(&self.new_work(), text);
        let disk = self.disk.0.lock().unwrap();
        let limit = Duration::from_secs(300);
        let (_disk, ended) = self.disk.1.wait_timeout_while(disk, limit, lacks).unwrap();
        assert!(!ended.timed_out(), "{text:?} never comes");
    }

    /// What the launcher does before it starts a guest.
    pub fn before_start(&self) {
        if has(&self.new_work(), ".workshop-complete") {
            fs::rename(self.file("work.new"), self.file("work")).unwrap();
        }
        fs::write(self.file("work.new"), "").unwrap();
    }
}

/// Whether these bytes have this text.
pub fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

/// A TFTP server that is as simple as QEMU's: whatever ACK comes, it sends the next block. `passes` decides which of its
/// packets arrive; it gets their numbers.
pub fn serve(folder: &Path, passes: impl Fn(usize) -> bool + Send + 'static, largest: usize) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let folder = folder.to_owned();
    thread::spawn(move || {
        let mut sessions: HashMap<SocketAddr, (File, usize, u16)> = HashMap::new();
        for number in 0.. {
            let mut packet = [0; 2000];
            let (length, peer) = socket.recv_from(&mut packet).unwrap();
            let mut answer = Vec::new();
            match packet[1] {
                1 => {
                    let words: Vec<_> = packet[2..length].split(|byte| *byte == 0).collect();
                    let words: Vec<_> = words.iter().map(|word| std::str::from_utf8(word).unwrap()).collect();
                    assert_eq!((words[1], words[2], words[4]), ("octet", "tsize", "blksize"));
                    if let Ok(file) = File::open(folder.join(words[0])) {
                        let (size, block) =
                            (file.metadata().unwrap().len(), largest.min(words[5].parse().unwrap()));
                        answer.extend(b"\0\x06");
                        answer.extend(format!("tsize\0{size}\0blksize\0{block}\0").bytes());
                        sessions.insert(peer, (file, block, 0));
                    } else {
                        answer.extend(b"\0\x05\0\x01File not found\0");
                    }
                }
                4 => {
                    let Some((file, block, sent)) = sessions.get_mut(&peer) else { continue };
                    *sent = sent.wrapping_add(1);
                    answer.extend(b"\0\x03");
                    answer.extend(sent.to_be_bytes());
                    file.take(*block as u64).read_to_end(&mut answer).unwrap();
                    if answer.len() < 4 + *block {
                        sessions.remove(&peer);
                    }
                }
                _ => drop(sessions.remove(&peer)),
            }
            // As QEMU, which has room for so many.
            assert!(sessions.len() <= 20);
            if !answer.is_empty() && passes(number) {
                socket.send_to(&answer, peer).unwrap();
            }
        }
    });
    address
}
