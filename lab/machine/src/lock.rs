//! The lock of the kernels, `lab/kernels.lock.json`: which packages the matrix uses, and the checksums of the
//! packages and images.
//!
//! It records the package, the suite, the path, size and SHA-256 checksum of each `.deb` file, and the checksum of the
//! kernel's image. `cargo upkeep kernels` writes it: a package's checksums come from Debian's signed index, the image's from
//! the package. The lab itself takes the locked packages and nothing else, by their path in the archive's pool.
//!
//! `--mirror URL` names another archive: the folder that has `dists` and `pool`, or a date of Debian's snapshot archive,
//! `.../debian/DATE`. For that archive's security updates, the lab replaces `debian` in the URL with `debian-security`.

use std::fs;
use std::path::Path;

use common::{Error, OrCause, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use wire::arch::Arch;

/// The lock's path in the workbook, for messages.
pub const NAME: &str = "lab/kernels.lock.json";

/// Its text. A program that read the file would name this folder, also in a room kit.
const TEXT: &str = include_str!("../../kernels.lock.json");

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
    #[serde(flatten)]
    pub source: Source,
    pub vmlinuz: Sum,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The kernel's series, such as `6.12`.
    pub series: String,
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// Such as `linux-image-6.12.117+deb12-cloud-amd64`.
    pub name: String,
    /// Such as `6.12.117-1~deb12u1`.
    pub version: String,
    /// The kernel's release as `uname -r` prints it, such as `6.12.117+deb12-cloud-amd64`.
    pub release: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archive {
    pub package: String,
    /// Its path in a Debian archive, such as `pool/main/l/linux/....deb`.
    pub path: String,
    #[serde(flatten)]
    pub sum: Sum,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    pub size: u64,
    /// Its SHA-256, as `sha256sum` prints it.
    pub sha256: String,
}

impl Lock {
    pub fn read() -> Result<Self> {
        serde_json::from_str(TEXT).or_cause(format!("cannot read the lock of the kernels, {NAME}"))
    }

    pub fn kernel(&self, arch: Arch, series: &str) -> Result<&Locked> {
        let mut of_arch = self.kernels.iter().filter(|kernel| kernel.source.arch == arch);
        of_arch.find(|kernel| kernel.source.series == series).ok_or_else(|| {
            Error::new(format!("no package is locked for kernel {series}"))
                .evidence(format!("{NAME} has none for {arch}"))
                .fix(format!("lock the newest: cargo upkeep kernels {series}{}", arch.option()))
        })
    }
}

impl Sum {
    pub fn of(bytes: &[u8]) -> Self {
        let sha256 = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { size: bytes.len() as u64, sha256 }
    }

    /// Compares a file with what it must be. Returns two lines of evidence if they differ.
    pub fn differs(&self, path: &Path) -> Option<String> {
        let found = match fs::read(path).map(|bytes| Self::of(&bytes)) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
