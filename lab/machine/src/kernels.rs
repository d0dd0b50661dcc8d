//! The kernels of the matrix: which ones there are, which are here, and whether they are what the lock names.
//!
//! They are Debian's *cloud* kernels: NVMe and ext4 are built in, so a guest needs no module for a real disk. They
//! are in the user's cache folder, outside of `target/`, where anything may happen to them. So we compare a kernel's image
//! with the lock whenever we use it.
//!
//! A row of [`MATRIX`] has all that the workbook says or assumes about a series such as 6.12: what the book says about it, and
//! its traits, such as `Preemptible`. Where Linux itself changed, a test asks for a range of versions, such as
//! `is_in("6.5..")`.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use common::{Error, OrCause, Result};
use flate2::read::GzDecoder;
use wire::arch::Arch;

use crate::fetch::{self, Mirror};
use crate::host::folders::{cache, files};
use crate::host::tools::{DEPMOD, XZ, output};
use crate::lock::{self, Lock, Locked, Package, Source, Sum};

/// One series of kernels. Everything that the workbook says or assumes about a kernel is in its row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Series {
    /// Such as `6.12`.
    pub name: &'static str,
    /// The Debian suites to search for a newer kernel, in this order. A security suite has the newest packages of its
    /// release and is small, so it comes first.
    pub suites: &'static [&'static str],
    /// What is different on it, and is not a matter of its version alone.
    traits: &'static [Trait],
    /// For the book: which Debian release it comes from, and what it represents.
    pub about: [&'static str; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trait {
    /// It may switch tasks inside the kernel, also in the middle of a program.
    Preemptible,
    /// ext4 has folios of many pages.
    LargeFolios,
    /// Debian builds it with `CONFIG_FPROBE`, which `kprobe.multi` needs, for x86_64.
    Fprobe,
    /// The same for arm64.
    FprobeOnArm64,
    /// fentry and fexit programs can attach on arm64.
    FentryOnArm64,
    /// It boots on two processors whose clock counts instructions. Older kernels wait for the second one and don't let it
    /// run.
    CountsOnTwo,
}
use Trait::{CountsOnTwo, FentryOnArm64, Fprobe, FprobeOnArm64, LargeFolios, Preemptible};

/// The kernels on which every stage is tested, oldest first. A new kernel is a new row.
pub const MATRIX: [Series; 4] = [
    Series {
        name: "5.10",
        suites: &["bullseye-security", "bullseye"],
        traits: &[],
        about: ["Debian 11, bullseye", "before folios; requests complete one by one"],
    },
    Series {
        name: "6.1",
        suites: &["bookworm-security", "bookworm"],
        traits: &[],
        about: ["Debian 12, bookworm", "folios, completion in batches; ext4 keeps to one page a folio"],
    },
    Series {
        name: "6.12",
        suites: &["bookworm-security", "trixie-security", "trixie"],
        traits: &[Fprobe, FentryOnArm64, CountsOnTwo],
        about: ["Debian 13, trixie, and the security updates of 12", "today: the default here"],
    },
    Series {
        name: "7.2",
        suites: &["sid", "forky"],
        traits: &[Preemptible, LargeFolios, Fprobe, FprobeOnArm64, FentryOnArm64, CountsOnTwo],
        about: ["Debian unstable, sid", "what comes: large folios on ext4, a preemptible kernel"],
    },
];

/// Kernels that are not released yet. The lab boots one if somebody names it. The tests, and the commands that use all
/// kernels, don't.
pub const PREVIEWS: [Series; 1] = [Series {
    name: "7.3",
    suites: &["sid", "experimental"],
    traits: &[Preemptible, LargeFolios, Fprobe, FprobeOnArm64, FentryOnArm64, CountsOnTwo],
    about: ["Debian experimental", "a preview: not released yet"],
}];

/// The kernel to boot if the user names none, and the one that `vmlinux.h` is generated from.
pub const DEFAULT: &str = "6.12";

/// Of a kernel's modules, the folders and files that we keep: what a storage lab may want to load, and the drivers of the
/// network card, for the workshop's guest.
const MODULES: &str = "block crypto drivers/block drivers/md drivers/net/net_failover.ko drivers/net/virtio_net.ko \
    drivers/scsi drivers/virtio fs lib net/core/failover.ko";

const IMAGE: &str = "vmlinuz";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its series, or its path as the user gave it.
    pub name: String,
    pub arch: Arch,
    pub image: PathBuf,
    /// The folder `lib/modules/RELEASE` of its modules, with `modules.dep`.
    pub modules: Option<PathBuf>,
    /// The package that it comes from, if it is in the matrix.
    pub package: Option<Package>,
}

impl Kernel {
    fn of(Source { series, arch, package, .. }: &Source, folder: &Path) -> Self {
        Self {
            name: series.clone(),
            arch: *arch,
            image: folder.join(IMAGE),
            modules: Some(folder.join("lib/modules").join(&package.release)),
            package: Some(package.clone()),
        }
    }
}

impl Series {
    pub fn all() -> impl Iterator<Item = Self> {
        MATRIX.into_iter().chain(PREVIEWS)
    }

    /// All names, for a help text: `5.10, 6.1, ...`.
    pub fn names() -> String {
        Self::all().map(|series| series.name).collect::<Vec<_>>().join(", ")
    }

    pub fn of(name: &str) -> Result<Self> {
        Self::all().find(|series| series.name == name).ok_or_else(|| {
            Error::new(format!("the workbook doesn't use a kernel {name}"))
                .evidence(format!("it uses {}", Self::names()))
                .fix("name one of these; you can run your own kernel without fetching it: cargo lab run --kernel PATH")
        })
    }

    pub fn has(self, what: Trait) -> bool {
        self.traits.contains(&what)
    }

    /// Whether a kernel with this release, as `uname -r` prints it, is of this series. A preview's release may have no
    /// third number.
    pub fn is(self, release: &str) -> bool {
        let rest = release.strip_prefix(self.name);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// Where its kernel is. Only for arm64, the folder above has the architecture's name.
    fn folder(self, arch: Arch) -> Result<PathBuf> {
        let above = if arch == Arch::X86 { folder()? } else { folder()?.join(arch.name()) };
        Ok(above.join(self.name))
    }

    /// Its locked kernel, which must be here.
    pub fn here(self, arch: Arch) -> Result<Kernel> {
        look(Lock::read()?.kernel(arch, self.name)?, &self.folder(arch)?)
    }

    /// Its locked kernel, which is fetched if it is not here, unless the user wants to stay offline.
    pub fn get(self, arch: Arch, mirror: Option<&str>) -> Result<Kernel> {
        let here = self.here(arch);
        if here.is_ok() || fetch::is_offline() {
            return here;
        }
        fetch(Lock::read()?.kernel(arch, self.name)?, &Mirror::find(mirror)?, &self.folder(arch)?)
    }

    /// Fetches a kernel of this series, and puts it into its folder after `accept` has seen its image's checksum.
    pub fn install(
        self,
        source: &Source,
        mirror: &Mirror,
        accept: impl FnOnce(Sum) -> Result<()>,
    ) -> Result<()> {
        install(source, mirror, &self.folder(source.arch)?, accept)
    }
}

pub fn folder() -> Result<PathBuf> {
    Ok(cache()?.join("kernels"))
}

/// The kernel in a folder, which must be the locked one.
fn look(locked: &Locked, folder: &Path) -> Result<Kernel> {
    let Source { series, arch, .. } = &locked.source;
    let error = if !folder.exists() {
        Error::new(format!("the kernel {series} is not here yet"))
            .evidence(format!("{} is missing", folder.display()))
    } else if let Some(evidence) = locked.vmlinuz.differs(&folder.join(IMAGE)) {
        Error::new(format!("the kernel {series} that is here is not the one that {} names", lock::NAME))
            .evidence(evidence)
    } else {
        return Ok(Kernel::of(&locked.source, folder));
    };
    Err(error.fix(format!("fetch it: cargo lab kernels --fetch {series}{}", arch.option())))
}

/// Fetches a locked kernel into its folder.
fn fetch(locked: &Locked, mirror: &Mirror, folder: &Path) -> Result<Kernel> {
    let Source { series, package, .. } = &locked.source;
    install(&locked.source, mirror, folder, |image| {
        if image == locked.vmlinuz {
            return Ok(());
        }
        Err(Error::new(format!("the kernel {series} was unpacked, but the result is not what is locked"))
            .evidence(format!("{IMAGE} has {image}\nexpected: {}", locked.vmlinuz))
            .fix(format!("is the disk full? If {} was edited by hand, take it from git", lock::NAME)))
    })?;
    eprintln!("Kernel {series} is here: {}", package.release);
    Ok(Kernel::of(&locked.source, folder))
}

fn install(
    source: &Source,
    mirror: &Mirror,
    folder: &Path,
    accept: impl FnOnce(Sum) -> Result<()>,
) -> Result<()> {
    let Source { series, package, suite, archives, .. } = source;
    let bytes: u64 = archives.iter().map(|archive| archive.sum.size).sum();
    eprintln!(
        "Fetching kernel {series}: {} of Debian's {suite}, {:.1} MB ...",
        package.version,
        bytes as f64 / 1e6
    );
    let above = folder.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(above).or_cause(format!("cannot make {}", above.display()))?;
    // When the kernel is complete, we move it to its own folder.
    let work =
        tempfile::tempdir_in(above).or_cause(format!("cannot make a folder in {}", above.display()))?;
    let work = work.path();
    let tree = work.join("tree");
    for archive in archives {
        fetch::unpack(&mirror.download(source, archive, work)?, &tree)?;
    }
    let made = arrange(package, &tree, work)?;
    accept(Sum::of(&fs::read(made.join(IMAGE)).or_cause("cannot read the kernel's image")?))?;
    if folder.exists() {
        fs::rename(folder, work.join("before")).or_cause(format!("cannot replace {}", folder.display()))?;
    }
    fs::rename(made, folder).or_cause(format!("cannot put the kernel into {}", folder.display()))
}

/// Makes a kernel's folder from what was unpacked: from the files that the lab needs.
fn arrange(package: &Package, tree: &Path, work: &Path) -> Result<PathBuf> {
    let kernel = work.join("kernel");
    let release = &package.release;
    let modules = kernel.join("lib/modules").join(release);
    fs::create_dir_all(&modules).or_cause("cannot make a folder for the modules")?;
    let find = |what: &str, places: [String; 2]| {
        let found = places.iter().map(|place| tree.join(place)).find(|place| place.exists());
        found.ok_or_else(|| {
            Error::new(format!("{} holds no {what}", package.name))
                .evidence(format!("neither {}", places.join(" nor ")))
        })
    };
    let all = format!("lib/modules/{release}");
    let image = find("kernel image", [format!("boot/vmlinuz-{release}"), format!("usr/{all}/vmlinuz")])?;
    fs::rename(image, kernel.join(IMAGE)).or_cause("cannot move the kernel image")?;
    let tree = find("modules", [format!("{all}/kernel"), format!("usr/{all}/kernel")])?;
    for name in ["modules.builtin", "modules.order", "modules.builtin.modinfo"] {
        let _ = fs::rename(tree.with_file_name(name), modules.join(name));
    }
    // The modules of newer kernels are packed.
    for name in MODULES.split(' ').flat_map(|name| [name.to_owned(), format!("{name}.xz")]) {
        let (from, to) = (tree.join(&name), modules.join("kernel").join(name));
        if from.exists() {
            fs::create_dir_all(to.parent().unwrap_or(&to))
                .or_cause("cannot make a folder for the modules")?;
            fs::rename(from, to).or_cause("cannot move the modules")?;
        }
    }
    let packed = files(&modules, ".ko.xz")?;
    if !packed.is_empty() {
        output(XZ.command()?.arg("--decompress").args(packed))?;
    }
    output(DEPMOD.command()?.arg("--basedir").arg(&kernel).arg(release))?;
    Ok(kernel)
}

/// The kernel of this name: a series, or the path of an image.
pub fn get(arch: Arch, name: &str) -> Result<Kernel> {
    if let Ok(series) = Series::of(name) {
        return series.get(arch, None);
    }
    let image = PathBuf::from(name);
    if !image.is_file() {
        return Err(Error::new(format!("there is no kernel {name}"))
            .evidence(format!("it is not a file, and not one of {}", Series::names()))
            .fix(format!("name one of these, such as --kernel {DEFAULT}, or the path of a kernel's image")));
    }
    let bytes = fs::read(&image).or_cause(format!("cannot read {name}"))?;
    match architecture(&bytes) {
        Some(found) if found == arch => Ok(Kernel { name: name.to_owned(), arch, image, modules: None, package: None }),
        Some(found) => Err(Error::new(format!("{name} is a kernel for {found}, and the guest is {arch}"))
            .evidence(format!("its header is that of {found}"))
            .fix(format!("boot a guest of that architecture: --arch {found}; or name a kernel for {arch}"))),
        None => Err(Error::new(format!("{name} is no kernel for {arch}"))
            .evidence(match arch {
                Arch::X86 => "a bzImage has HdrS at byte 0x202, but this file doesn't",
                Arch::Arm => {
                    "an Image, packed with gzip or not, has ARM and the byte 0x64 at byte 0x38, but this file doesn't"
                }
            })
            .fix("name the image of a kernel that has NVMe and ext4 built in")),
    }
}

/// For which architecture a kernel's image is. One for arm64 may be packed with gzip, because QEMU unpacks it.
fn architecture(image: &[u8]) -> Option<Arch> {
    if image.starts_with(&[0x1f, 0x8b]) {
        let mut header = [0; 0x40];
        GzDecoder::new(image).read_exact(&mut header).ok()?;
        return architecture(&header).filter(|arch| *arch == Arch::Arm);
    }
    // Documentation/arch/x86/boot.rst and Documentation/arch/arm64/booting.rst: the headers' magic numbers.
    if image.get(0x202..0x206) == Some(b"HdrS") {
        Some(Arch::X86)
    } else {
        (image.get(0x38..0x3c) == Some(b"ARM\x64")).then_some(Arch::Arm)
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    use super::*;
    use crate::fetch::APT_HELPER;
    use crate::host::tools::{AR, TAR};
    use crate::lock::Archive;

    #[test]
    fn every_series_of_the_matrix_is_locked_and_no_other() {
        let lock = Lock::read().unwrap();
        let rows = [Arch::X86, Arch::Arm].map(|arch| Series::all().map(move |series| (arch, series)));
        let rows: Vec<_> = rows.into_iter().flatten().collect();
        let names: Vec<_> = rows.iter().map(|(arch, series)| (*arch, series.name)).collect();
        let locked = lock.kernels.iter().map(|locked| (locked.source.arch, &*locked.source.series));
        let fix = "fix: cargo upkeep kernels VERSION, and again with --arch arm64";
        assert_eq!(locked.collect::<Vec<_>>(), names, "{fix}");
        for (Locked { source, .. }, (arch, series)) in lock.kernels.iter().zip(rows) {
            let Package { version, release, .. } = &source.package;
            assert!(series.is(release) && series.suites.contains(&&*source.suite), "{source:?}");
            assert!(!source.archives.is_empty(), "{source:?}");
            let end = format!("_{version}_{}.deb", arch.debian());
            for archive in &source.archives {
                assert!(archive.package.ends_with(release), "{archive:?}");
                assert!(archive.path.starts_with("pool/") && archive.path.ends_with(&end), "{archive:?}");
            }
        }
    }

    const RELEASE: &str = "9.9.1-cloud-amd64";
    const MODULE: &str = "kernel/fs/some.ko";

    /// A Debian archive on this machine with one kernel, which is locked.
    struct Debian {
        folder: tempfile::TempDir,
        locked: Locked,
    }

    impl Debian {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let name = format!("linux-image-{RELEASE}");
            let path = format!("pool/{name}.deb");
            let deb = folder.path().join(&path);
            let tree = tempfile::tempdir().unwrap();
            let modules = format!("lib/modules/{RELEASE}/kernel");
            for (name, text) in [
                (&*format!("boot/vmlinuz-{RELEASE}"), "kernel"),
                (&*format!("lib/modules/{RELEASE}/{MODULE}"), "module"),
                (&*format!("{modules}/drivers/net/virtio_net.ko"), "module"),
                (&*format!("{modules}/drivers/net/other.ko"), "module"),
            ] {
                let file = tree.path().join(name);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            }
            fs::create_dir(folder.path().join("pool")).unwrap();
            // The part of a package that has its files.
            let data = folder.path().join("data.tar.xz");
            let mut pack = TAR.command().unwrap();
            output(pack.arg("-cJf").arg(&data).arg("-C").arg(tree.path()).arg(".")).unwrap();
            output(AR.command().unwrap().arg("rc").arg(&deb).arg(data)).unwrap();
            let archives =
                vec![Archive { package: name.clone(), path, sum: Sum::of(&fs::read(deb).unwrap()) }];
            let package = Package { name, version: "9.9.1-1".into(), release: RELEASE.into() };
            let (series, suite) = ("9.9".into(), "sid".into());
            let source = Source { series, arch: Arch::X86, package, suite, archives };
            Self { folder, locked: Locked { source, vmlinuz: Sum::of(b"kernel") } }
        }

        fn kernel(&self) -> PathBuf {
            self.folder.path().join("cache/kernels/9.9")
        }

        fn fetch(&self) -> Result<Kernel> {
            // apt copies a file, and curl downloads it.
            let scheme = if Path::new(APT_HELPER).exists() { "copy:" } else { "file://" };
            let mirror = format!("{scheme}{}", self.folder.path().display());
            fetch(&self.locked, &Mirror::find(Some(&mirror)).unwrap(), &self.kernel())
        }

        fn look(&self) -> Result<Kernel> {
            look(&self.locked, &self.kernel())
        }

        /// An error without the parts that differ from run to run.
        fn text(&self, error: &Error) -> String {
            let text = error.to_string().replace(self.folder.path().to_str().unwrap(), "[debian]");
            text.replace("file://", "copy:")
        }
    }

    #[test]
    fn a_locked_kernel_is_fetched_from_an_archives_pool_and_a_damaged_one_is_not_used() {
        let debian = Debian::new();
        assert!(debian.look().unwrap_err().cause().ends_with("is not here yet"));
        let kernel = debian.fetch().unwrap();
        let module = |name: &str| fs::read(kernel.modules.as_ref().unwrap().join(name));
        assert_eq!(module(MODULE).unwrap(), b"module");
        assert_eq!(module("kernel/drivers/net/virtio_net.ko").unwrap(), b"module");
        assert!(module("kernel/drivers/net/other.ko").is_err());
        assert_eq!(debian.look().unwrap(), kernel);
        let left = fs::read_dir(debian.kernel().parent().unwrap()).unwrap();
        assert_eq!(left.count(), 1, "its archive is no longer needed");
        fs::write(debian.kernel().join(IMAGE), "kernal").unwrap();
        insta::assert_snapshot!("damaged_image", debian.text(&debian.look().unwrap_err()));
        debian.fetch().unwrap();
        debian.look().unwrap();
    }

    #[test]
    fn what_is_not_the_locked_file_is_refused() {
        let mut debian = Debian::new();
        let locked = std::mem::replace(&mut debian.locked.vmlinuz, Sum::of(b"another kernel"));
        let error = debian.fetch().unwrap_err();
        assert!(error.cause().ends_with("the result is not what is locked"), "{error}");
        debian.locked.vmlinuz = locked;

        let Archive { path, sum, .. } = &debian.locked.source.archives[0];
        let archive = debian.folder.path().join(path);
        let mut bytes = fs::read(&archive).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&archive, &bytes).unwrap();
        let error = debian.text(&debian.fetch().unwrap_err());
        let error = error.replace(&Sum::of(&bytes).to_string(), "[found]");
        insta::assert_snapshot!(
            "a_damaged_archive_is_refused",
            error.replace(&sum.to_string(), "[expected]")
        );
        assert!(!debian.kernel().exists());
    }

    #[test]
    fn a_series_is_known_by_its_release() {
        let series =
            |release: &str| Series::all().find(|series| series.is(release)).map(|series| series.name);
        assert_eq!(series("6.1.0-56-cloud-arm64"), Some("6.1"));
        assert_eq!(series("6.12.117+deb12-cloud-arm64"), Some("6.12"));
        assert_eq!(series("7.3-cloud-arm64"), Some("7.3"));
        assert_eq!(series("7.30-cloud-arm64"), None);
    }

    #[test]
    fn a_kernel_is_known_by_its_header() {
        let error = get(Arch::X86, "7.99").unwrap_err().to_string();
        insta::assert_snapshot!(error.replace(&Series::names(), "[kernels]"));
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "no kernel").unwrap();
        let complaint = |arch| get(arch, file.path().to_str().unwrap()).unwrap_err().to_string();
        assert!(complaint(Arch::X86).contains("HdrS"));
        assert!(complaint(Arch::Arm).contains("0x38"));
        let mut image = vec![0; 0x210];
        image[0x38..0x3c].copy_from_slice(b"ARM\x64");
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&image).unwrap();
        for image in [image, gzip.finish().unwrap()] {
            fs::write(file.path(), image).unwrap();
            let error = complaint(Arch::X86);
            assert!(error.contains("is a kernel for arm64, and the guest is x86_64"), "{error}");
            assert!(error.contains("--arch arm64"), "{error}");
        }
    }
}
