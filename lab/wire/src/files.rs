//! Files from the guest. If a program writes a file into its working folder, and its arguments name that file, such
//! as `bio.html` in `--html bio.html`, then the lab puts it into its own working folder, as if the program had run
//! there.
//!
//! The files share the serial line with everything else, at about 500 KB/s. So we compress them and limit their size.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use common::{Error, OrCause, Result};
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use crate::protocol::FromGuest;

/// The folder in which the guest runs programs.
pub const FOLDER: &str = "/root";

/// The size of the largest file that we send. The guest has 1 GiB of memory, which also holds its files.
const MOST: u64 = 64 << 20;

/// The bytes in one message.
const PART: usize = 64 << 10;

/// The arguments that may name files in the working folder: `NAME`, `./NAME` and `--option=NAME`. Files in other
/// folders stay there.
pub fn named(arguments: &[String]) -> Vec<String> {
    let name = |argument: &String| {
        let value = argument.strip_prefix("--").and_then(|option| Some(option.split_once('=')?.1));
        let name = value.unwrap_or(argument);
        let name = name.strip_prefix("./").unwrap_or(name);
        is_plain(name).then(|| name.to_owned())
    };
    arguments.iter().filter_map(name).collect()
}

/// Whether this is the plain name of a file, without a path that leads elsewhere.
fn is_plain(name: &str) -> bool {
    !name.starts_with('-') && Path::new(name).file_name().is_some_and(|file| file == name)
}

/// In the guest: passes the files that exist to `send`, part by part.
pub fn pack(names: &[String], mut send: impl FnMut(FromGuest)) -> Result<()> {
    for name in names.iter().filter(|name| is_plain(name)) {
        let path = Path::new(FOLDER).join(name);
        let Ok(metadata) = path.metadata() else { continue };
        if !metadata.is_file() {
            continue;
        }
        if metadata.len() > MOST {
            return Err(Error::new(format!("{name} is too large to copy from the guest"))
                .evidence(format!("it has {} MiB, and the limit is {} MiB", metadata.len() >> 20, MOST >> 20))
                .fix("let the program write less, such as with a shorter --duration"));
        }
        let cannot = || format!("cannot read {}", path.display());
        let mut packed = DeflateEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&fs::read(&path).or_cause(cannot())?).or_cause(cannot())?;
        let packed = packed.finish().or_cause(cannot())?;
        for part in packed.chunks(PART) {
            send(FromGuest::File { name: name.clone(), part: part.to_vec() });
        }
    }
    Ok(())
}

/// On the host: unpacks the files into a folder.
pub fn unpack(files: &BTreeMap<String, Vec<u8>>, folder: &Path) -> Result<()> {
    for (name, packed) in files.iter().filter(|(name, _)| is_plain(name)) {
        let mut bytes = Vec::new();
        DeflateDecoder::new(&packed[..])
            .take(MOST + 1)
            .read_to_end(&mut bytes)
            .or_cause(format!("{name} arrived damaged from the guest"))?;
        if bytes.len() as u64 > MOST {
            return Err(Error::new(format!("{name} has grown too large to copy from the guest")));
        }
        let path = folder.join(name);
        fs::write(&path, bytes).or_cause(format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_asked_for() {
        let arguments =
            ["--html", "bio.html", "--svg=map.svg", "./a=b", "--duration", "3", "/tmp/x", "../y", ".", "a/b"];
        let arguments = arguments.map(str::to_owned);
        assert_eq!(named(&arguments), ["bio.html", "map.svg", "a=b", "3"]);
    }

    #[test]
    fn what_was_packed_is_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let mut packed = DeflateEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&[7; 100_000]).unwrap();
        let packed = packed.finish().unwrap();
        let files = [("a".to_owned(), packed), ("../b".to_owned(), Vec::new())].into();
        unpack(&files, folder.path()).unwrap();
        assert_eq!(fs::read(folder.path().join("a")).unwrap(), [7; 100_000]);
        assert!(unpack(&[("a".to_owned(), vec![0xff; 9])].into(), folder.path()).is_err());
    }
}
