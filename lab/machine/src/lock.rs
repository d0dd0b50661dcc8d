//! The lock of the kernels, `lab/kernels.lock.json`: which packages the matrix uses, and the checksums of their
//! content.
//!
//! It is JSON because the lab reads JSON anyway. The lab reads it at run time, so a new kernel doesn't require a new
//! build of the lab.
//!
//! It records the package, the suite, the path, size and SHA-256 checksum of each `.deb` file, and the checksums of the
//! unpacked files. With `--newer`, `cargo lab kernels --fetch` takes a package's checksums from Debian's signed index, and
//! the others from the package. Without it, the lab takes the locked packages and nothing else. First it asks the archive's
//! pool for the recorded path, which often works even when the suites no longer list the version. Then it asks the suites.
//!
//! `--mirror URL` names another archive: the folder that has `dists` and `pool`, or a date of Debian's snapshot archive,
//! `.../debian/DATE`. For that archive's security updates, the lab replaces `debian` in the URL with `debian-security`.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use common::{Error, OrCause, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use wire::arch::Arch;

/// The lock's path in the workbook, for messages.
pub const NAME: &str = "lab/kernels.lock.json";

/// Its absolute path.
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernels.lock.json");

/// The text at the top of the lock.
const ABOUT: &str = "written by `cargo lab kernels --fetch --newer`; see CONTRIBUTING.md";

/// All locked kernels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// Which command wrote it.
    about: String,
    /// One for each series of the matrix, in the same order, first those of x86_64.
    pub kernels: Vec<Locked>,
}

/// One kernel: where it comes from, and the checksums of its unpacked files.
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
    /// The file `modules.sha256`, which lists the checksum of every module.
    #[serde(rename = "modules.sha256")]
    pub modules: Sum,
}

/// The packages of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The kernel's series, such as `6.12`.
    pub series: String,
    /// The architecture that it is for.
    pub arch: Arch,
    /// Its package.
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
    ///
    /// # Errors
    /// If it is missing or damaged.
    pub fn read() -> Result<Self> {
        let text = fs::read_to_string(PATH);
        Self::parse(&text.map_err(|error| unreadable(&error))?)
    }

    /// Like [`Lock::read`], but without a lock file, returns an empty lock.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn read_or_new() -> Result<Self> {
        match fs::read_to_string(PATH) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(unreadable(&error)),
            Ok(text) => Self::parse(&text),
        }
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
    ///
    /// # Errors
    /// If there is none.
    pub fn kernel(&self, arch: Arch, series: &str) -> Result<&Locked> {
        let found = self.of(arch).find(|kernel| kernel.source.series == series);
        found.ok_or_else(|| {
            let known: Vec<_> = self.of(arch).map(|kernel| &*kernel.source.series).collect();
            Error::new(format!("no package is locked for kernel {series}"))
                .evidence(format!("{NAME} has {} for {arch}", known.join(", ")))
                .fix(format!("lock the newest: cargo lab kernels --fetch {series} --newer{}", arch.option()))
        })
    }

    /// Replaces the kernel of this architecture and series, keeps the order of `all`, and drops all other kernels.
    pub fn replace(&mut self, kernel: Locked, all: &[(Arch, &str)]) {
        let is = |kernel: &Locked| (kernel.source.arch, kernel.source.series.clone());
        self.kernels.retain(|other| is(other) != is(&kernel));
        self.kernels.push(kernel);
        let place = |kernel: &Locked| {
            all.iter().position(|(arch, name)| (*arch, *name) == (kernel.source.arch, &*kernel.source.series))
        };
        self.kernels.retain(|kernel| place(kernel).is_some());
        self.kernels.sort_by_key(place);
    }

    /// Writes the workbook's lock.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write(&self) -> Result<()> {
        // Written next to the lock, and renamed when it is complete.
        let beside = format!("{PATH}.new");
        let written = fs::write(&beside, self.text()?).and_then(|()| fs::rename(&beside, PATH));
        written.or_cause(format!("cannot write {NAME}"))
    }

    fn text(&self) -> Result<String> {
        let lock = Self { about: ABOUT.to_owned(), kernels: self.kernels.clone() };
        serde_json::to_string_pretty(&lock).map(|text| text + "\n").or_cause(format!("cannot write {NAME}"))
    }
}

fn unreadable(why: &dyn std::fmt::Display) -> Error {
    Error::new(format!("cannot read the lock of the kernels, {NAME}")).evidence(why).fix(format!(
        "take it from git: git checkout -- {NAME}; or remove it and lock the newest kernels: cargo lab kernels --fetch \
         --newer"
    ))
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
    ///
    /// # Errors
    /// If it can't be read.
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
    pub fn differs(&self, path: &Path, found: io::Result<Self>) -> Option<String> {
        let path = path.display();
        let found = match found {
            Ok(found) if found == *self => return None,
            Ok(found) => format!("{path} has {found}"),
            Err(error) => format!("{path}: {error}"),
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

    fn locked(series: &str) -> Locked {
        let release = format!("{series}.9-cloud-amd64");
        let package = Package {
            name: format!("linux-image-{release}"),
            version: format!("{series}.9-1"),
            release: release.clone(),
        };
        let path = format!("pool/main/l/linux/linux-image-{release}_{series}.9-1_amd64.deb");
        let archive = Archive { package: package.name.clone(), path, sum: Sum::of(b"archive") };
        let (series, suite) = (series.to_owned(), "sid".to_owned());
        Locked {
            preview: false,
            source: Source { series, arch: Arch::X86, package, suite, archives: vec![archive] },
            vmlinuz: Sum::of(b"kernel"),
            modules: Sum::of(b"modules"),
        }
    }

    #[test]
    fn a_lock_is_read_as_it_is_written() {
        let mut lock = Lock::default();
        let all = ["5.10", "6.12", "7.2"].map(|series| (Arch::X86, series));
        let arm = (Arch::Arm, "6.12");
        let of_arm = locked("6.12");
        let of_arm = Locked { source: Source { arch: Arch::Arm, ..of_arm.source }, ..of_arm };
        lock.replace(of_arm.clone(), &[arm]);
        for series in ["7.2", "6.12", "5.10"] {
            lock.replace(locked(series), &[&all[..], &[arm]].concat());
        }
        let newer = Locked { vmlinuz: Sum::of(b"newer"), ..locked("6.12") };
        lock.replace(newer.clone(), &[&all[..2], &[arm]].concat());
        let of = |arch| lock.of(arch).map(|kernel| kernel.source.series.clone()).collect::<Vec<_>>();
        assert_eq!(
            of(Arch::X86),
            ["5.10", "6.12"],
            "the order of the matrix, and nothing that it does not have"
        );
        assert_eq!(lock.kernel(Arch::Arm, "6.12").unwrap(), &of_arm);
        let text = lock.text().unwrap();
        let read = Lock::parse(&text).unwrap();
        assert_eq!(read.kernels, lock.kernels);
        assert_eq!(read.kernel(Arch::X86, "6.12").unwrap(), &newer);
        insta::assert_snapshot!("no_such_series", read.kernel(Arch::X86, "7.2").unwrap_err());
        lock.kernels.retain(|kernel| *kernel == newer);
        insta::assert_snapshot!("text", lock.text().unwrap());
    }

    #[test]
    fn a_damaged_lock_is_refused() {
        let text = Lock { kernels: vec![locked("6.12")], ..Lock::default() }.text().unwrap();
        insta::assert_snapshot!("damaged", Lock::parse(&text[..99]).unwrap_err());
        for (from, to) in [
            ("\"series\"", "\"serie\""),
            ("pool/main", "../../main"),
            ("_amd64.deb", "_amd64"),
            ("\"size\": 7", "\"size\": -7"),
        ] {
            assert!(text.contains(from));
            let error = Lock::parse(&text.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(NAME), "{error}");
        }
    }

    #[test]
    fn a_sum_is_that_of_sha256sum() {
        // FIPS 180-4's example.
        let sum = Sum::of(b"abc");
        assert_eq!(sum.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "abc").unwrap();
        let is = || Sum::of_file(file.path());
        assert_eq!(sum.differs(file.path(), is()), None);
        fs::write(file.path(), "abd").unwrap();
        assert!(sum.differs(file.path(), is()).unwrap().contains("3 bytes, SHA-256 a52d159f"));
        assert!(
            sum.differs(file.path(), Sum::of_file(Path::new("/nowhere"))).unwrap().contains("No such file")
        );
    }
}
