//! The lock of the kernels, `lab/kernels.lock.json`: which packages the matrix uses, and the checksums of the
//! packages and images.
//!
//! It is JSON because the lab reads JSON anyway. The lab reads it at run time, so a new kernel doesn't require a new
//! build of the lab.
//!
//! It records the package, the suite, the path, size and SHA-256 checksum of each `.deb` file, and the checksums of the
//! unpacked files. `cargo upkeep kernels` writes it: a package's checksums come from Debian's signed index, the others from
//! the package. The lab itself takes the locked packages and nothing else, by their path in the archive's pool.
//!
//! `--mirror URL` names another archive: the folder that has `dists` and `pool`, or a date of Debian's snapshot archive,
//! `.../debian/DATE`. For that archive's security updates, the lab replaces `debian` in the URL with `debian-security`.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use common::{Error, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use wire::arch::Arch;

/// The lock's path in the workbook, for messages.
pub const NAME: &str = "lab/kernels.lock.json";

/// Its text. A program that read the file would name this folder, also in a room kit.
const TEXT: &str = include_str!("../../kernels.lock.json");

/// All locked kernels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// Which command wrote it.
    pub about: String,
    /// One for each series of the matrix, in the same order, first those of x86_64.
    pub kernels: Vec<Locked>,
}

/// One kernel: where it comes from, and the checksum of its image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locked {
    /// Its packages.
    #[serde(flatten)]
    pub source: Source,
    /// Whether it is not released yet, so the tests don't need it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preview: bool,
    /// The kernel's image.
    pub vmlinuz: Sum,
}

/// The packages of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The kernel's series, such as `6.12`.
    pub series: String,
    /// The architecture that it is for.
    pub arch: Arch,
    pub package: Package,
    /// The Debian suite that had it.
    pub suite: String,
    /// The files to download: one, or, since 7.x, two, because the package depends on the ones that contain the image
    /// and the modules.
    pub archives: Vec<Archive>,
}

impl Source {
    /// Debian's name for the kernel's source, such as `linux`, or `linux-6.1` where a suite has a second kernel. The
    /// archive keeps a package in a folder named after its source. Signed images come from a source that only adds
    /// signatures.
    pub fn source_package(&self) -> String {
        let folder = self.archives.first().and_then(|archive| archive.path.rsplit('/').nth(1));
        let name = folder.unwrap_or("linux").replace("-signed", "");
        name.trim_end_matches(self.arch.debian()).trim_end_matches('-').to_owned()
    }
}

/// The Debian package a kernel came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// Its name, such as `linux-image-6.12.117+deb12-cloud-amd64`.
    pub name: String,
    /// Its version, such as `6.12.117-1~deb12u1`.
    pub version: String,
    /// The kernel's release as `uname -r` prints it, such as `6.12.117+deb12-cloud-amd64`.
    pub release: String,
}

/// A `.deb` file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archive {
    /// The package that it contains.
    pub package: String,
    /// Its path in a Debian archive, such as `pool/main/l/linux/....deb`.
    pub path: String,
    /// What its bytes must be.
    #[serde(flatten)]
    pub sum: Sum,
}

/// The size and the checksum of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256, as `sha256sum` prints it.
    pub sha256: String,
}

impl Lock {
    /// Reads the workbook's lock.
    pub fn read() -> Result<Self> {
        Self::parse(TEXT)
    }

    fn parse(text: &str) -> Result<Self> {
        let lock: Self = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
        let archives = lock.kernels.iter().flat_map(|kernel| &kernel.source.archives);
        // The name becomes that of a file in our folder.
        if let Some(archive) = archives.clone().find(|archive| archive.file_name().is_none()) {
            return Err(unreadable(&format!("{:?} is not a .deb file in an archive's pool", archive.path)));
        }
        Ok(lock)
    }

    /// The kernels of an architecture.
    pub fn of(&self, arch: Arch) -> impl Iterator<Item = &Locked> {
        self.kernels.iter().filter(move |kernel| kernel.source.arch == arch)
    }

    /// The kernel that is locked for a series.
    pub fn kernel(&self, arch: Arch, series: &str) -> Result<&Locked> {
        let found = self.of(arch).find(|kernel| kernel.source.series == series);
        found.ok_or_else(|| {
            let known: Vec<_> = self.of(arch).map(|kernel| &*kernel.source.series).collect();
            Error::new(format!("no package is locked for kernel {series}"))
                .evidence(format!("{NAME} has {} for {arch}", known.join(", ")))
                .fix(format!("lock the newest: cargo upkeep kernels {series}{}", arch.option()))
        })
    }
}

fn unreadable(why: &dyn std::fmt::Display) -> Error {
    Error::new(format!("cannot read the lock of the kernels, {NAME}"))
        .evidence(why)
        .fix(format!("take it from git: git checkout -- {NAME}"))
}

impl Archive {
    /// The name of its file, if its path is in the pool.
    pub fn file_name(&self) -> Option<&str> {
        let (folder, name) = self.path.rsplit_once('/')?;
        (folder.starts_with("pool/") && name.len() > ".deb".len() && name.ends_with(".deb")).then_some(name)
    }
}

impl Sum {
    /// The sum of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self { size: bytes.len() as u64, sha256: hexadecimal(&Sha256::digest(bytes)) }
    }

    /// The sum of a file's bytes.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let mut file = fs::File::open(path)?;
        let (mut sum, mut size, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 16]);
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(Self { size, sha256: hexadecimal(&sum.finalize()) }),
                read => {
                    sum.update(&buffer[..read]);
                    size += read as u64;
                }
            }
        }
    }

    /// Compares a file with what it must be. Returns two lines of evidence if they differ.
    pub fn differs(&self, path: &Path) -> Option<String> {
        let found = match Self::of_file(path) {
            Ok(found) if found == *self => return None,
            Ok(found) => format!("{} has {found}", path.display()),
            Err(error) => format!("{}: {error}", path.display()),
        };
        Some(format!("{found}\nexpected: {self}"))
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes, SHA-256 {}", self.size, self.sha256)
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_lock_is_refused() {
        Lock::read().unwrap();
        insta::assert_snapshot!("damaged", Lock::parse(&TEXT[..99]).unwrap_err());
        for (from, to) in [
            ("\"series\"", "\"serie\""),
            ("pool/main", "../../main"),
            ("_amd64.deb", "_amd64"),
            ("\"size\": ", "\"size\": -"),
        ] {
            assert!(TEXT.contains(from));
            let error = Lock::parse(&TEXT.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(NAME), "{error}");
        }
    }

    #[test]
    fn a_series_that_is_not_locked_is_an_error() {
        let error = Lock::read().unwrap().kernel(Arch::Arm, "2.6").unwrap_err().to_string();
        assert!(error.contains("cargo upkeep kernels 2.6 --arch arm64"), "{error}");
    }

    #[test]
    fn a_sum_is_that_of_sha256sum() {
        // FIPS 180-4's example.
        let sum = Sum::of(b"abc");
        assert_eq!(sum.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "abc").unwrap();
        assert_eq!(sum.differs(file.path()), None);
        fs::write(file.path(), "abd").unwrap();
        assert!(sum.differs(file.path()).unwrap().contains("3 bytes, SHA-256 a52d159f"));
        assert!(sum.differs(Path::new("/nowhere")).unwrap().contains("No such file"));
    }
}
