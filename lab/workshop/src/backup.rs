//! Keeps the learner's work on the host, for a workshop in a guest that has no disk.
//!
//! The host has a file `work`, which the server reads when it starts, and `work.new`, to which QEMU appends what the
//! server writes into a serial port. Both are tar streams without an end: all files first, then an empty entry
//! `.workshop-complete`, and then whatever changes. A removed file `DIR/NAME` is an empty entry `DIR/.wh.NAME`.
//!
//! A serial port reports no errors. If the host's disk is full, QEMU drops bytes. So we ask for the size of `work.new`
//! after each write. If it is too small, nobody knows where bytes are missing. The next write then begins with zeros up
//! to the next block of the tar stream, and a reader that finds a broken entry looks for a good one from block to block.
//! To tell one from the other, each entry has a checksum of its file, where others write the name of the owner.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::{Error, OrCause, Result};
use nix::fcntl::OFlag;
use nix::sys::termios::{self, SetArg};
use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

use crate::app::LARGEST;
use crate::terminals::lock;
use crate::tftp::Tftp;

/// The work of the last session.
const OLD: &str = "work";
/// The work of this session.
const NEW: &str = "work.new";
/// The entry after the last file of the first snapshot.
const COMPLETE: &str = ".workshop-complete";
/// What the name of a removed file begins with (OCI image layers have the same).
const REMOVED: &str = ".wh.";
/// What a checksum begins with.
const SUM: &str = "sha256-";

/// How many files we keep.
const MOST_FILES: usize = 1000;
/// How many bytes they may have together.
const LARGEST_SUM: usize = 16 << 20;
/// How many bytes a session may write. To read as many takes a guest without KVM some seconds.
const LARGEST_STREAM: usize = 64 << 20;
/// The size of a tar stream's blocks.
const BLOCK: usize = 512;

/// How long the last byte may take to the host's disk.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often we look for what changed, and how long a file must not have changed before we store it then. Without this,
/// a file to which somebody appends would be stored again and again.
const PAUSE: Duration = Duration::from_secs(1);

/// Files with their modes and contents.
type Files = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// The learner's files, and where they are kept.
#[derive(Debug)]
pub struct WorkBackup {
    mine: PathBuf,
    tftp: Tftp,
    /// None if the work of the last session could not be read. Then we write nothing, so that it is not lost.
    stream: Mutex<Option<Stream>>,
    problem: Mutex<Option<Error>>,
}

/// What we have written.
#[derive(Debug)]
struct Stream {
    port: File,
    /// The size of `work.new`, unless the last write has failed.
    size: Option<usize>,
    /// Whether the host has the first snapshot.
    is_complete: bool,
    /// What the host has.
    kept: BTreeMap<PathBuf, Seen>,
}

/// A file as it was when we last looked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    /// What changes whenever the file does. None if the file was so new that this is not sure.
    stamp: Option<[i64; 4]>,
    mode: u32,
    sum: String,
}

/// What is different from what the host has.
#[derive(Debug, Default)]
struct Change {
    removed: Vec<PathBuf>,
    files: Files,
    seen: BTreeMap<PathBuf, Seen>,
    /// What is too large or too much.
    left_out: Vec<String>,
    /// Whether a file changed so recently that it has to wait.
    waits: bool,
}

impl WorkBackup {
    /// Puts the work of the last session into `mine`, and opens the port. If that fails, nothing new is kept.
    pub fn restore(mine: &Path, port: &Path, tftp: Tftp) -> Self {
        // If a server has been here since this machine started, what is here is newer.
        let is_newer = mine.join("workshop.json").exists();
        let restored = if is_newer { Ok(()) } else { restore(mine, &tftp) };
        let (stream, problem) = match restored.and_then(|()| open(port)) {
            Ok(port) => (Some(Stream { port, size: None, is_complete: false, kept: BTreeMap::new() }), None),
            Err(error) => (None, Some(error)),
        };
        let backup =
            Self { mine: mine.to_owned(), tftp, stream: Mutex::new(stream), problem: Mutex::default() };
        backup.set_problem(problem);
        backup
    }

    /// From now on, stores what changes without us: what commands in terminals do.
    pub fn watch(self: &Arc<Self>) {
        let backup = self.clone();
        thread::spawn(move || {
            loop {
                thread::sleep(PAUSE);
                // Whoever looks at the page gets the problem. What the page saves has its turn first.
                if backup.append(PAUSE).is_err() {
                    thread::sleep(PATIENCE);
                }
            }
        });
    }

    /// Stores what has changed, and waits until the host has it.
    ///
    /// # Errors
    /// If the host does not get it.
    pub fn store(&self) -> Result<()> {
        self.append(Duration::ZERO)
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

    /// Stores what has changed and rests since then.
    fn append(&self, rest: Duration) -> Result<()> {
        let mut stream = lock(&self.stream);
        let Some(stream) = &mut *stream else { return Ok(()) };
        let done = changes(&self.mine, &stream.kept, rest).and_then(|change| {
            stream.append(&change, &self.tftp)?;
            Ok(change)
        });
        match &done {
            Err(error) => self.set_problem(Some(error.clone())),
            Ok(change) if !change.left_out.is_empty() => self.set_problem(Some(change.leaves_out())),
            // What the last problem was about may still wait.
            Ok(change) if change.waits => {}
            Ok(_) => self.set_problem(None),
        }
        done.map(drop)
    }
}

impl Change {
    fn leaves_out(&self) -> Error {
        const SHOWN: usize = 5;
        let mut evidence = self.left_out.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("\n");
        if self.left_out.len() > SHOWN {
            evidence += &format!("\nand {} more", self.left_out.len() - SHOWN);
        }
        Error::new("your laptop does not keep all of your files")
            .evidence(format!("too large or too many, and lost when the workshop ends:\n{evidence}"))
            .fix("remove what you don't need from mine/: your laptop keeps 1000 files of up to 1 MiB, together 16 MiB")
    }
}

impl Stream {
    fn append(&mut self, change: &Change, tftp: &Tftp) -> Result<()> {
        let mut bytes = Vec::new();
        for path in &change.removed {
            let mut name = std::ffi::OsString::from(REMOVED);
            name.push(path.file_name().unwrap_or_default());
            bytes.extend(entry(&path.with_file_name(name), 0o600, b"")?);
        }
        for (path, (mode, text)) in &change.files {
            bytes.extend(entry(path, *mode, text)?);
        }
        if !bytes.is_empty() {
            self.send(&bytes, tftp)?;
        }
        if !self.is_complete {
            // Not before all that it stands for has arrived.
            self.send(&entry(Path::new(COMPLETE), 0o600, b"")?, tftp)?;
            self.is_complete = true;
        }
        self.kept.retain(|path, _| !change.removed.contains(path));
        self.kept.extend(change.seen.clone());
        Ok(())
    }

    /// Writes this, and waits until the host has it.
    fn send(&mut self, bytes: &[u8], tftp: &Tftp) -> Result<()> {
        let (cannot, fix) = (
            "your laptop has not stored your work",
            "free some space on its disk, and keep this tab open: it tries again every few seconds",
        );
        let size = || match tftp.size(NEW) {
            Ok(size) => Ok(size.unwrap_or_default()),
            Err(error) => Err(Error::new(cannot).evidence(error).fix(
                "wait a few seconds; if that does not help, download your work, and start the workshop again",
            )),
        };

        let (before, mut all) = match self.size.take() {
            Some(before) => (before, Vec::new()),
            None => {
                let before = size()?;
                (before, vec![0; before.next_multiple_of(BLOCK) - before])
            }
        };
        all.extend(bytes);
        let wanted = before + all.len();
        if wanted > LARGEST_STREAM {
            self.size = Some(before);
            return Err(Error::new(cannot)
                .evidence(format!("since its start, the workshop has sent {} MiB", before >> 20))
                .fix("end the workshop with Ctrl-C, and start it again"));
        }
        let written = self.port.write_all(&all).and_then(|()| match self.port.is_terminal() {
            true => Ok(termios::tcdrain(&self.port)?),
            false => Ok(()),
        });
        written.map_err(|error| Error::new(cannot).evidence(error).fix(fix))?;
        let (start, mut pause) = (Instant::now(), Duration::from_millis(1));
        loop {
            let now = size()?;
            if now == wanted {
                self.size = Some(wanted);
                return Ok(());
            }
            if now > wanted || start.elapsed() > PATIENCE {
                return Err(Error::new(cannot)
                    .evidence(format!("its file {NEW} has {now} bytes, and should have {wanted}"))
                    .fix(fix));
            }
            thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(100));
        }
    }
}

/// Opens a serial port, and lets it pass all bytes unchanged. A test has a file instead.
fn open(path: &Path) -> Result<File> {
    let cannot = |error: std::io::Error| {
        Error::new("the workshop can't send your work to your laptop")
            .evidence(format!("{}: {error}", path.display()))
            .fix("download your work before you end the workshop")
    };
    // The port must not become the terminal whose Ctrl-C ends us.
    let flags = OFlag::O_NOCTTY.bits();
    let port = OpenOptions::new().append(true).custom_flags(flags).open(path).map_err(cannot)?;
    if port.is_terminal() {
        let mut settings = termios::tcgetattr(&port).map_err(|errno| cannot(errno.into()))?;
        termios::cfmakeraw(&mut settings);
        termios::tcsetattr(&port, SetArg::TCSANOW, &settings).map_err(|errno| cannot(errno.into()))?;
    }
    Ok(port)
}

/// Puts the files that the host has into `mine`.
fn restore(mine: &Path, tftp: &Tftp) -> Result<()> {
    let write = |bytes: &[u8]| {
        for (path, (mode, text)) in unpack(bytes) {
            let path = mine.join(path);
            let cannot = || format!("cannot write {}", path.display());
            fs::create_dir_all(path.parent().unwrap_or(mine)).or_cause(cannot())?;
            // Some have secrets, so they begin private.
            let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
            let mut file = file.or_cause(cannot())?;
            file.write_all(&text).or_cause(cannot())?;
            file.set_permissions(Permissions::from_mode(mode)).or_cause(cannot())?;
        }
        Ok(())
    };
    let read =
        tftp.read(OLD, 2 * LARGEST_STREAM).and_then(|bytes| bytes.map_or(Ok(()), |bytes| write(&bytes)));
    read.map_err(|error| {
        Error::new("cannot read your work of the last session, so your laptop keeps no new work")
            .evidence(error)
            .fix("end the workshop with Ctrl-C, and start it again: your laptop still has the old work")
    })
}

/// The files at the end of this stream. What is broken or not a file in `mine` is left out.
fn unpack(bytes: &[u8]) -> Files {
    let mut files = Files::new();
    let mut at = 0;
    while let Some(block) = bytes.get(at..at + BLOCK) {
        at += BLOCK;
        let header = Header::from_byte_slice(block);
        let Some(size) = size_of(header) else { continue };
        let Some(text) = bytes.get(at..at + size) else { continue };
        let owner = header.username_bytes().unwrap_or_default();
        if owner.starts_with(SUM.as_bytes()) && owner != sum(text).as_bytes() {
            continue;
        }
        at += size.next_multiple_of(BLOCK);
        let is_file = header.entry_type() == EntryType::Regular;
        let (Ok(path), Ok(mode), true) = (header.path(), header.mode(), is_file) else { continue };
        let Some(path) = inside(&path) else { continue };
        let name = path.file_name().unwrap_or_default().as_bytes();
        if let Some(name) = name.strip_prefix(REMOVED.as_bytes()) {
            let path = path.with_file_name(std::ffi::OsStr::from_bytes(name));
            files.retain(|file, _| !file.starts_with(&path));
        } else if is_kept(&path) {
            files.insert(path, (mode & 0o777, text.to_owned()));
        }
    }
    // They may be more than a session sends at once: a file that became too large is here as it was before.
    files
}

/// The size of an entry, if this is the beginning of one.
fn size_of(header: &Header) -> Option<usize> {
    let bytes = header.as_bytes();
    // The checksum counts its own place as blanks.
    let sum: u32 = bytes
        .iter()
        .enumerate()
        .map(|(at, byte)| match at {
            148..156 => u32::from(b' '),
            _ => u32::from(*byte),
        })
        .sum();
    let is_right = header.cksum().ok()? == sum && bytes[0] != 0;
    let size = usize::try_from(header.entry_size().ok()?).ok()?;
    (is_right && size <= LARGEST).then_some(size)
}

/// An entry with its file.
fn entry(path: &Path, mode: u32, text: &[u8]) -> Result<Vec<u8>> {
    let cannot = || format!("cannot keep {}", path.display());
    let mut header = Header::new_ustar();
    header.set_path(path).or_cause(cannot())?;
    header.set_entry_type(EntryType::Regular);
    header.set_mode(mode);
    header.set_size(text.len() as u64);
    header.set_mtime(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs());
    header.set_username(&sum(text)).or_cause(cannot())?;
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend(text);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    Ok(bytes)
}

/// Identifies what a file has. It has 23 characters; the name of an owner may have 31.
fn sum(text: &[u8]) -> String {
    Sha256::digest(text).iter().take(8).fold(SUM.to_owned(), |sum, byte| sum + &format!("{byte:02x}"))
}

/// The path below `mine`, if it is one.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut inside = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => inside.push(part),
            Component::CurDir => {}
            _ => return None,
        }
    }
    inside.file_name().is_some().then_some(inside)
}

/// Whether we keep a file or the files of a folder. Names with a dot are those of temporary files, and Cargo's `target`
/// is in `mine` or in a working copy.
fn is_kept(path: &Path) -> bool {
    let parts: Vec<_> = path.components().map(|part| part.as_os_str().as_bytes()).collect();
    !parts.iter().any(|part| part.starts_with(b".")) && !parts.iter().take(2).any(|part| *part == b"target")
}

/// Everything in `mine` that differs from what is kept. A file that has changed must then rest for so long.
fn changes(mine: &Path, kept: &BTreeMap<PathBuf, Seen>, rest: Duration) -> Result<Change> {
    let mut found = Vec::new();
    find(mine, Path::new(""), &mut found).or_cause(format!("cannot read {}", mine.display()))?;
    // If not all can be kept, then the small ones, which are sources.
    found.sort_by_key(|(_, file)| file.len());
    let (mut change, mut there, mut sum) = (Change::default(), BTreeSet::new(), 0);
    for (path, file) in found {
        there.insert(path.clone());
        let size = usize::try_from(file.len()).unwrap_or(usize::MAX);
        if size > LARGEST || sum + size > LARGEST_SUM || there.len() > MOST_FILES {
            change.left_out.push(format!("{} ({size} bytes)", path.display()));
            continue;
        }
        sum += size;
        let before = kept.get(&path);
        let changed = Duration::new(file.ctime().try_into().unwrap_or_default(), file.ctime_nsec() as u32);
        let age = SystemTime::now().duration_since(UNIX_EPOCH + changed).unwrap_or(PAUSE);
        let stamp = (age >= PAUSE).then(|| [file.ino() as i64, size as i64, file.ctime(), file.ctime_nsec()]);
        if age < rest {
            change.waits = true;
            continue;
        }
        if stamp.is_some() && before.is_some_and(|before| before.stamp == stamp) {
            continue;
        }

        // It may just have been removed.
        let Ok(text) = fs::read(mine.join(&path)) else { continue };
        if text.len() > LARGEST || Header::new_ustar().set_path(&path).is_err() {
            change.left_out.push(path.display().to_string());
            continue;
        }
        let seen = Seen { stamp, mode: file.mode() & 0o777, sum: self::sum(&text) };
        if before.is_none_or(|before| (before.mode, &before.sum) != (seen.mode, &seen.sum)) {
            change.files.insert(path.clone(), (seen.mode, text));
        }
        change.seen.insert(path, seen);
    }
    change.left_out.sort();
    change.removed = kept.keys().filter(|path| !there.contains(*path)).cloned().collect();
    Ok(change)
}

/// All files in this folder that we keep.
fn find(mine: &Path, folder: &Path, found: &mut Vec<(PathBuf, fs::Metadata)>) -> std::io::Result<()> {
    for entry in fs::read_dir(mine.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        // Of a link, this is the link's own. What has just been removed has none.
        let Ok(metadata) = entry.metadata() else { continue };
        if !is_kept(&path) {
            continue;
        }
        if metadata.is_dir() {
            match find(mine, &path, found) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        } else if metadata.is_file() {
            found.push((path, metadata));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(entries: &[(&str, &str)]) -> Vec<u8> {
        entries
            .iter()
            .flat_map(|(path, text)| entry(Path::new(path), 0o644, text.as_bytes()).unwrap())
            .collect()
    }

    fn names(bytes: &[u8]) -> Vec<String> {
        unpack(bytes).keys().map(|path| path.display().to_string()).collect()
    }

    /// The name as it is: `tar` itself refuses to write some of these.
    fn raw(name: &str, kind: EntryType) -> Vec<u8> {
        let mut header = Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(0);
        header.set_cksum();
        header.as_bytes().to_vec()
    }

    #[test]
    fn no_entry_leads_out_of_the_folder() {
        let mut bytes = Vec::new();
        for name in
            ["../a", "/etc/passwd", "03.1/../../a", "..", ".", "", ".ssh/a", "03.1/.saving-a", "target/a"]
        {
            bytes.extend(raw(name, EntryType::Regular));
        }
        for kind in
            [EntryType::Symlink, EntryType::Link, EntryType::Directory, EntryType::Char, EntryType::Fifo]
        {
            bytes.extend(raw("03.1/special", kind));
        }
        bytes.extend(raw("./03.1/a", EntryType::Regular));
        assert_eq!(names(&bytes), ["03.1/a"]);
    }

    #[test]
    fn a_removed_folder_takes_its_files_along() {
        let before = [("03.1/a", "1"), ("03.1/src/b", "2"), ("03.10/c", "3"), ("d", "4")];
        let mut bytes = packed(&before);
        bytes.extend(packed(&[(".wh.03.1", ""), (".wh.d", ""), ("d/e", "5")]));
        assert_eq!(names(&bytes), ["03.10/c", "d/e"]);
    }

    /// Wherever bytes are missing, an entry is whole or is not there, and those after the padding are all there.
    #[test]
    fn missing_bytes_break_no_other_entry() {
        let (first, second, third) = (
            packed(&[("a", "old")]),
            packed(&[("a", &"new".repeat(300)), ("b", "b")]),
            packed(&[("c", "c")]),
        );
        for from in (0..second.len()).step_by(37) {
            for missing in [1, 100, 512, 700] {
                let mut bytes = first.clone();
                bytes.extend(&second[..from]);
                bytes.extend(second.get(from + missing..).unwrap_or_default());
                bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
                bytes.extend(&third);
                let files = unpack(&bytes);
                let text = |name: &str| files.get(Path::new(name)).map(|(_, text)| &text[..]);
                assert_eq!(text("c"), Some(&b"c"[..]), "{from} {missing}");
                let a = text("a").unwrap();
                assert!(a == b"old" || a == "new".repeat(300).as_bytes(), "{from} {missing}");
                assert!(text("b").is_none_or(|b| b == b"b"), "{from} {missing}");
            }
        }
    }

    #[test]
    fn sizes_are_bounded() {
        let large = "x".repeat(LARGEST + 1);
        assert_eq!(names(&packed(&[("large", &large), ("small", "x")])), ["small"]);
    }

    #[test]
    fn so_many_files_are_kept_and_no_more() {
        let mine = tempfile::tempdir().unwrap();
        (0..=MOST_FILES).for_each(|nth| fs::write(mine.path().join(format!("{nth}")), "").unwrap());
        let change = changes(mine.path(), &BTreeMap::new(), Duration::ZERO).unwrap();
        assert_eq!((change.files.len(), change.left_out.len()), (MOST_FILES, 1));
    }

    #[test]
    fn a_file_is_stored_when_it_rests() {
        let mine = tempfile::tempdir().unwrap();
        fs::write(mine.path().join("a"), "a").unwrap();
        let hour = Duration::from_secs(3600);
        let waiting = changes(mine.path(), &BTreeMap::new(), hour).unwrap();
        assert!(waiting.files.is_empty() && waiting.waits);
        let change = changes(mine.path(), &BTreeMap::new(), Duration::ZERO).unwrap();
        assert_eq!(change.files.len(), 1);
        // The same text, in a file that is so new that its time may be the same after the next change.
        let kept = change.seen;
        assert_eq!(kept[Path::new("a")].stamp, None);
        assert!(changes(mine.path(), &kept, Duration::ZERO).unwrap().files.is_empty());
        fs::set_permissions(mine.path().join("a"), Permissions::from_mode(0o700)).unwrap();
        assert_eq!(changes(mine.path(), &kept, Duration::ZERO).unwrap().files.len(), 1);
    }
}
