//! The recording: a file to which we append events as they arrive. You can open a file that was cut short, up to the
//! cut.
//!
//! The file begins with the line `ctracer recording 3`, where 3 is the version. Then come [`Record`]s, one after
//! another, in postcard's format. The first is a [`Record::Header`]. We never overwrite anything.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use common::{Error, OrCause, Result};
use tempfile::TempPath;

use crate::events::Decoder;
pub use crate::records::{
    Bio, Call, Device, Function, Header, Losses, Mark, Moment, Place, Record, Return, Returned, Task,
};

const MAGIC: &str = "ctracer recording ";
/// Increase this with every change that would make older programs misread the file.
const VERSION: u32 = 3;
/// Version 2 has the contents of each call's bio. We read that, too.
const OLDEST: u32 = 2;

/// The file of a recording: the one that the user named, or a temporary one.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    scratch: Option<TempPath>,
    /// Before we create the file, an existing file with this name is not ours.
    is_created: bool,
}

impl Kept {
    /// Makes a temporary file if the user named none. Doesn't touch the file that the user named.
    pub fn new(named: Option<PathBuf>) -> Result<Self> {
        if let Some(path) = named {
            return Ok(Self { path, scratch: None, is_created: false });
        }
        let scratch = tempfile::Builder::new().prefix("ctracer-").suffix(".rec").tempfile();
        let scratch = scratch.or_cause("cannot make a file for the recording")?.into_temp_path();
        Ok(Self { path: scratch.to_path_buf(), scratch: Some(scratch), is_created: false })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the file, and overwrites an existing one.
    pub fn create(&mut self) -> Result<File> {
        let file = File::create(&self.path).or_cause(format!("cannot write {}", self.path.display()))?;
        self.is_created = true;
        Ok(file)
    }

    /// Keeps the file if it has something to show, and prints how to show it.
    pub fn keep(mut self) {
        let has_any = || Recording::read(&self.path).is_ok_and(|recording| !recording.records.is_empty());
        if !self.is_created || !has_any() {
            return;
        }
        if let Some(scratch) = &mut self.scratch {
            scratch.disable_cleanup(true);
        }
        eprintln!("The recording is kept. Show it: {} show {}", common::lab::called(), self.path.display());
    }
}

/// Writes a recording.
#[derive(Debug)]
pub struct Writer {
    file: BufWriter<File>,
}

impl Writer {
    /// Begins the file.
    pub fn new(file: File, header: Header) -> Result<Self> {
        let mut writer = Self { file: BufWriter::with_capacity(1 << 18, file) };
        writer.file.write_all(format!("{MAGIC}{VERSION}\n").as_bytes()).or_cause(CANNOT)?;
        writer.add(&Record::Header(header))?;
        writer.flush()?;
        Ok(writer)
    }

    /// Appends a record.
    pub fn add(&mut self, record: &Record) -> Result<()> {
        postcard::to_io(record, &mut self.file).map(drop).map_err(|error| {
            let full = self.file.flush().err();
            Error::new(CANNOT).evidence(full.map_or_else(|| error.to_string(), |full| full.to_string()))
        })
    }

    /// Appends events. They go to the kernel without being copied.
    pub fn events(&mut self, events: &[u8]) -> Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        self.add(&Record::Events(events.len() as u64))?;
        self.flush()?;
        self.file.get_mut().write_all(events).or_cause(CANNOT)
    }

    /// Hands all data to the kernel, so nothing is lost if we are killed.
    pub fn flush(&mut self) -> Result<()> {
        self.file.flush().or_cause(CANNOT)
    }
}

const CANNOT: &str = "cannot write the recording";

/// The contents of a file.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// What was traced.
    pub header: Header,
    /// The records after the header, in the order of the file.
    pub records: Vec<Record>,
    /// Whether the last record is cut short, for example because the run was killed.
    pub cut: bool,
}

impl Recording {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).or_cause(format!("cannot read {}", path.display()))?;
        Self::parse(&bytes, &path.display().to_string())
    }

    /// Reads the bytes of a file called `name`.
    pub fn parse(bytes: &[u8], name: &str) -> Result<Self> {
        let line = bytes.iter().position(|byte| *byte == b'\n').and_then(|end| bytes.split_at_checked(end));
        let version = line.and_then(|(line, _)| str::from_utf8(line).ok()?.strip_prefix(MAGIC));
        let short = || {
            Error::new(format!("{name} is cut short before its first event"))
                .evidence(format!("it has {} bytes", bytes.len()))
                .fix("record again")
        };
        let magic = MAGIC.as_bytes();
        if magic.starts_with(bytes) || line.is_none() && bytes.starts_with(magic) {
            return Err(short());
        }
        let (Some((_, rest)), Some(version)) = (line, version) else {
            return Err(Error::new(format!("{name} is not a ctracer recording"))
                .evidence(format!("it does not begin with \"{MAGIC}\""))
                .fix("make one: ctracer --output FILE"));
        };
        if !(OLDEST..=VERSION).any(|known| version == known.to_string()) {
            return Err(Error::new(format!("{name} is a recording in version {version} of the format"))
                .evidence(format!("this program reads version {VERSION}"))
                .fix("show it with the program that made it, or record again"));
        }
        let mut rest = &rest[1..];
        let (mut records, mut cut) = (Vec::new(), false);
        let mut decoder = Decoder::default();
        while !rest.is_empty() {
            match postcard::take_from_bytes::<Record>(rest) {
                Ok((record, after)) => {
                    match record {
                        Record::Events(length) => {
                            let (events, after) =
                                after.split_at_checked(length as usize).unwrap_or((after, &[]));
                            cut = (events.len() as u64) < length;
                            decoder.decode(events, &mut records, cut)?;
                            rest = after;
                            continue;
                        }
                        Record::Device(device) => {
                            decoder.device(&device);
                            records.push(Record::Device(device));
                        }
                        Record::Header(header) if records.is_empty() => {
                            decoder = Decoder::new(&header.ids);
                            records.push(Record::Header(header));
                        }
                        record => records.push(record),
                    }
                    rest = after;
                }
                Err(postcard::Error::DeserializeUnexpectedEnd) => {
                    cut = true;
                    break;
                }
                Err(error) => {
                    let at = bytes.len() - rest.len();
                    return Err(Error::new(format!("{name} is damaged"))
                        .evidence(format!("at byte {at} of {}: {error}", bytes.len()))
                        .fix("record again"));
                }
            }
        }
        let header = if records.is_empty() { Record::Losses(Losses::default()) } else { records.remove(0) };
        match header {
            Record::Header(header) => Ok(Self { header, records, cut }),
            _ => Err(short()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(time: u64) -> Record {
        let place = Place { time, sp: 0xffff_c900_0010_4000, tid: 7, cpu: 1, interrupt: true };
        let bio = Some(Bio { sector: 800, bytes: 4096, opf: 0x8801, remaining: 1, ..Bio::default() });
        Record::Call(Call { place, function: 3, object: 0xb10, bio })
    }

    fn file() -> Vec<u8> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer =
            Writer::new(file.reopen().unwrap(), Header { class: "bio".into(), ..Header::default() }).unwrap();
        for time in 1..=4 {
            writer.add(&call(time)).unwrap();
        }
        writer.flush().unwrap();
        std::fs::read(file.path()).unwrap()
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let read = Recording::parse(&file(), "x").unwrap();
        assert_eq!((read.header.class.as_str(), read.cut), ("bio", false));
        assert_eq!(read.records, [1, 2, 3, 4].map(call));
    }

    #[test]
    fn only_what_was_recorded_now_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let named = folder.path().join("x.rec");
        std::fs::write(&named, file()).unwrap();
        // An old recording stays until there is a new one.
        Kept::new(Some(named.clone())).unwrap().keep();
        assert_eq!(std::fs::read(&named).unwrap(), file());
        Kept::new(Some(named.clone())).unwrap().create().unwrap();
        assert_eq!(std::fs::read(&named).unwrap(), b"");

        let stays = |bytes: Option<&[u8]>| {
            let mut kept = Kept::new(None).unwrap();
            let path = kept.path().to_owned();
            if let Some(bytes) = bytes {
                kept.create().unwrap().write_all(bytes).unwrap();
            }
            kept.keep();
            path.exists() && std::fs::remove_file(path).is_ok()
        };
        assert!(stays(Some(&file())));
        assert!(!stays(Some(b"ctracer recording 3\n")) && !stays(None));
    }

    #[test]
    fn a_file_that_was_cut_opens_up_to_the_cut() {
        let whole = file();
        let header = Recording::parse(&whole, "x").unwrap();
        let begin = whole.len() - 4 * postcard::to_stdvec(&call(1)).unwrap().len();
        assert_eq!(header.records.len(), 4);
        for length in 0..whole.len() {
            match Recording::parse(&whole[..length], "x") {
                Ok(read) => {
                    assert!(length >= begin, "{length}");
                    assert_eq!(read.records[..], [1, 2, 3, 4].map(call)[..read.records.len()]);
                    let one = (whole.len() - begin) / 4;
                    assert_eq!(read.cut, !(length - begin).is_multiple_of(one));
                }
                Err(error) => {
                    assert!(length < begin, "{length}");
                    assert!(
                        error.to_string().starts_with("x is cut short before its first event"),
                        "{error}"
                    );
                }
            }
        }
    }

    #[test]
    fn events_that_are_cut_are_read_up_to_the_cut() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let header = Header { ids: vec![0], ..Header::default() };
        let mut writer = Writer::new(file.reopen().unwrap(), header).unwrap();
        let begin = std::fs::read(file.path()).unwrap().len();
        // Two returns of function 0, which are 32 bytes each.
        writer.events(&[0; 64]).unwrap();
        writer.events(&[]).unwrap();
        let whole = std::fs::read(file.path()).unwrap();
        for length in begin..=whole.len() {
            let read = Recording::parse(&whole[..length], "x").unwrap();
            let events = length.saturating_sub(whole.len() - 64);
            assert_eq!(
                (read.records.len(), read.cut),
                (events / 32, length != begin && length < whole.len()),
                "{length}"
            );
        }
    }

    #[test]
    fn another_format_is_an_error() {
        let error = |bytes: &[u8]| Recording::parse(bytes, "x").unwrap_err();
        insta::assert_snapshot!(error(b"\x7fELF\n"));
        insta::assert_snapshot!(error(b"ctracer recording 1\n\x00"));
        let mut damaged = file();
        let last = damaged.len() - postcard::to_stdvec(&call(4)).unwrap().len();
        damaged[last] = 0x77;
        assert!(error(&damaged).to_string().starts_with("x is damaged\n"), "{}", error(&damaged));
    }

    #[test]
    fn a_return_value_is_shown_by_its_type() {
        let shown = |returned: Returned, register: u64| returned.shown(register);
        assert_eq!(shown(Returned::Nothing, 1), None);
        assert_eq!(shown(Returned::Pointer, 0).unwrap(), "NULL");
        assert_eq!(shown(Returned::Pointer, 0xff11).unwrap(), "0xff11");
        // Only the lower bits of the register count.
        assert_eq!(shown(Returned::Bool, 0xff00).unwrap(), "false");
        assert_eq!(shown(Returned::Signed(4), 0xdead_0000_ffff_fff5).unwrap(), "-11");
        assert_eq!(shown(Returned::Signed(8), u64::MAX).unwrap(), "-1");
        assert_eq!(shown(Returned::Unsigned(1), 0x1ff).unwrap(), "255");
    }
}
