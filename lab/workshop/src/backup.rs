//! Keeps the learner's work on the host, for a workshop in a guest that has no disk.
//!
//! For each connection of ours to an address of the guest's network, QEMU starts the launcher's script `keep` on the host,
//! with the connection as its input and output. If we write `get`, it answers with the zip that it has. If we write `put` and
//! a size, and then a zip with all files, it puts that in place of the old one once all bytes have come, and answers `kept`.
//! Any other answer is its error, such as that the disk is full. Whatever is killed, the host has one whole zip.

use std::fs;
use std::io::{self, Cursor, Read, Write};
use std::mem;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use common::{Error, OrCause, Result};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::app::LARGEST;
use crate::terminals::lock;

const MOST_FILES: usize = 1000;
/// How many bytes they may have together.
const LARGEST_SUM: usize = 16 << 20;
/// How long the host may take for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often we look for what commands in terminals have changed, and how much longer we rest than we work.
const PAUSE: Duration = Duration::from_secs(1);
const REST: u32 = 10;

/// The learner's files, and where they are kept.
pub struct WorkBackup {
    mine: PathBuf,
    host: SocketAddr,
    /// The zip that the host has. None if the work of the last session could not be read. Then we write nothing, so that
    /// it is not lost.
    kept: Mutex<Option<Vec<u8>>>,
    problem: Mutex<Option<Error>>,
}

impl WorkBackup {
    /// Puts the work of the last session into `mine`. If that fails, nothing new is kept.
    pub fn restore(mine: &Path, host: SocketAddr) -> Self {
        let restored = ask(host, "get\n", &[]).and_then(|zip| match zip.is_empty() {
            true => Ok(()),
            false => ZipArchive::new(Cursor::new(zip))?.extract(mine).map_err(io::Error::from),
        });
        let problem = restored.err().map(|error| {
            Error::new("cannot read your work of the last session, so your laptop keeps no new work")
                .evidence(error)
                .fix("end the workshop with Ctrl-C, and start it again: your laptop still has the old work")
        });
        let kept = Mutex::new(problem.is_none().then(Vec::new));
        let backup = Self { mine: mine.to_owned(), host, kept, problem: Mutex::default() };
        backup.set_problem(problem);
        backup
    }

    /// From now on, stores what changes without us: what commands in terminals do.
    pub fn watch(self: &Arc<Self>) {
        let backup = self.clone();
        thread::spawn(move || {
            loop {
                let start = Instant::now();
                // Whoever looks at the page gets the problem.
                let _ = backup.store();
                thread::sleep(PAUSE.max(REST * start.elapsed()));
            }
        });
    }

    /// Stores what has changed, and waits until the host has it.
    pub fn store(&self) -> Result<()> {
        let mut kept = lock(&self.kept);
        let Some(kept) = &mut *kept else { return Ok(()) };
        let done = pack(&self.mine).and_then(|(zip, left_out)| {
            // If this fails, nobody knows what the host has.
            let before = mem::take(kept);
            if zip != before {
                send(self.host, &zip)?;
            }
            *kept = zip;
            Ok(left_out)
        });
        match done {
            Ok(left_out) => self.set_problem(explain(&left_out)),
            Err(error) => {
                self.set_problem(Some(error.clone()));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Why the host doesn't have everything.
    pub fn problem(&self) -> Option<Error> {
        lock(&self.problem).clone()
    }

    fn set_problem(&self, problem: Option<Error>) {
        let mut last = lock(&self.problem);
        if let Some(error) = problem.as_ref().filter(|_| *last != problem) {
            eprintln!("warning: {error}");
        }
        *last = problem;
    }
}

/// Sends this to the host, and returns its answer.
fn ask(host: SocketAddr, line: &str, zip: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&host, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(line.as_bytes())?;
    stream.write_all(zip)?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.take(2 * LARGEST_SUM as u64).read_to_end(&mut answer)?;
    Ok(answer)
}

fn send(host: SocketAddr, zip: &[u8]) -> Result<()> {
    let answer = ask(host, &format!("put {}\n", zip.len()), zip);
    let evidence = match answer {
        Ok(answer) if answer == b"kept\n" => return Ok(()),
        Ok(answer) if answer.is_empty() => "it did not answer".to_owned(),
        Ok(answer) => String::from_utf8_lossy(&answer).trim_end().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Error::new("your laptop has not stored your work")
        .evidence(evidence)
        .fix("free some space on its disk, and keep this tab open: it tries again every few seconds"))
}

fn explain(left_out: &[String]) -> Option<Error> {
    const SHOWN: usize = 5;
    if left_out.is_empty() {
        return None;
    }
    let mut evidence = left_out.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("\n");
    if left_out.len() > SHOWN {
        evidence += &format!("\nand {} more", left_out.len() - SHOWN);
    }
    let error = Error::new("your laptop does not keep all of your files")
        .evidence(format!("too large or too many, and lost when the workshop ends:\n{evidence}"))
        .fix("remove what you don't need from mine/: your laptop keeps 1000 files of up to 1 MiB, together 16 MiB");
    Some(error)
}

/// A zip of everything in `mine`, and what is too large or too much. The same files give the same bytes.
fn pack(mine: &Path) -> Result<(Vec<u8>, Vec<String>)> {
    let mut found = Vec::new();
    find(mine, &mut found).or_cause(format!("cannot read {}", mine.display()))?;
    // If not all can be kept, then the small ones, which are sources.
    found.sort_by_key(|(path, file)| (file.len(), path.clone()));
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let (mut left_out, mut files, mut sum) = (Vec::new(), 0, 0);
    for (path, file) in found {
        let size = usize::try_from(file.len()).unwrap_or(usize::MAX);
        let name = path.strip_prefix(mine).unwrap_or(&path);
        if size > LARGEST || sum + size > LARGEST_SUM || files == MOST_FILES || name.to_str().is_none() {
            left_out.push(format!("{} ({size} bytes)", name.display()));
            continue;
        }
        // It may just have been removed.
        let Ok(text) = fs::read(&path) else { continue };
        (files, sum) = (files + 1, sum + size);
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        let options = options.unix_permissions(file.mode() & 0o777);
        let written = zip.start_file(name.to_string_lossy(), options).map_err(io::Error::from);
        written.and_then(|()| zip.write_all(&text)).or_cause("cannot pack your work")?;
    }
    left_out.sort();
    let zip = zip.finish().or_cause("cannot pack your work")?.into_inner();
    Ok((zip, left_out))
}

/// All files in this folder that we keep. Names with a dot are those of temporary files, and a folder `target` is Cargo's.
fn find(folder: &Path, found: &mut Vec<(PathBuf, fs::Metadata)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        // Of a link, this is the link's own. What has just been removed has none.
        let Ok(metadata) = entry.metadata() else { continue };
        if name.to_string_lossy().starts_with('.') || (metadata.is_dir() && name == "target") {
            continue;
        } else if metadata.is_file() {
            found.push((entry.path(), metadata));
        } else if metadata.is_dir()
            && let Err(error) = find(&entry.path(), found)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
    }
    Ok(())
}
