//! The kernels of the matrix: which ones there are, which are here, and whether they are what the lock names.
//!
//! They are Debian's *cloud* kernels: NVMe and ext4 are built in, so a guest needs no module for a real disk. Only the
//! kernels with large pages have these in modules, which the guest loads first. They
//! are in the user's cache folder, outside of `target/`, where anything may happen to them. So we compare a kernel
//! with the lock whenever we use it: its package, and the checksum of its image.
//!
//! A row of [`TABLE`] has all that the workbook says or assumes about a series such as 6.12: what the book says about it, and
//! its traits, such as `Preemptible`. Where Linux itself changed, a test asks for a range of versions, such as
//! `is_in("6.5..")`. A *preview* is a kernel that is not released yet. The other rows are the matrix, on which
//! `make test` runs.

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
    /// Whether it is not released yet. The lab boots such a kernel if somebody names it. The tests, and the commands that
    /// use all kernels, don't.
    pub is_preview: bool,
    /// The name of the same kernel with pages of 16 KiB, if Debian has it. That is only for arm64, where a processor may
    /// have pages of 4, 16 or 64 KiB.
    large_pages: Option<&'static str>,
    /// What is different on it, and is not a matter of its version alone.
    traits: &'static [Trait],
    /// For the book: which Debian release it comes from, and what it represents.
    pub about: [&'static str; 2],
}

/// What is different on some kernels.
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

/// All kernels of both architectures, oldest first. A new kernel is a new row.
const TABLE: &[Series] = &[
    Series {
        name: "5.10",
        suites: &["bullseye-security", "bullseye"],
        is_preview: false,
        large_pages: None,
        traits: &[],
        about: ["Debian 11, bullseye", "before folios; requests complete one by one"],
    },
    Series {
        name: "6.1",
        suites: &["bookworm-security", "bookworm"],
        is_preview: false,
        large_pages: None,
        traits: &[],
        about: ["Debian 12, bookworm", "folios, completion in batches; ext4 keeps to one page a folio"],
    },
    Series {
        name: "6.12",
        suites: &["bookworm-security", "trixie-security", "trixie"],
        is_preview: false,
        large_pages: Some("6.12-16k"),
        traits: &[Fprobe, FentryOnArm64, CountsOnTwo],
        about: ["Debian 13, trixie, and the security updates of 12", "today: the default here"],
    },
    Series {
        name: "7.2",
        suites: &["sid", "forky"],
        is_preview: false,
        large_pages: Some("7.2-16k"),
        traits: &[Preemptible, LargeFolios, Fprobe, FprobeOnArm64, FentryOnArm64, CountsOnTwo],
        about: ["Debian unstable, sid", "what comes: large folios on ext4, a preemptible kernel"],
    },
    Series {
        name: "7.3",
        suites: &["sid", "experimental"],
        is_preview: true,
        large_pages: None,
        traits: &[Preemptible, LargeFolios, Fprobe, FprobeOnArm64, FentryOnArm64, CountsOnTwo],
        about: ["Debian experimental", "a preview: not released yet"],
    },
];

/// How many kernels are in the matrix.
const COUNT: usize = {
    let (mut count, mut nth) = (0, 0);
    while nth < TABLE.len() {
        count += !TABLE[nth].is_preview as usize;
        nth += 1;
    }
    count
};

/// The kernels on which every stage is tested, oldest first: those of the table that are released.
pub const MATRIX: [Series; COUNT] = {
    let (mut matrix, mut count, mut nth) = ([TABLE[0]; COUNT], 0, 0);
    while nth < TABLE.len() {
        if !TABLE[nth].is_preview {
            matrix[count] = TABLE[nth];
            count += 1;
        }
        nth += 1;
    }
    matrix
};

/// The kernel to boot if the user names none, and the one that `vmlinux.h` is generated from.
pub const DEFAULT: &str = "6.12";

/// Of a kernel's modules, the folders and files that we keep: what a storage lab may want to load, and the drivers of the
/// network card, for the workshop's guest.
const MODULES: [&str; 11] = [
    "block",
    "crypto",
    "drivers/block",
    "drivers/md",
    "drivers/net/net_failover.ko",
    "drivers/net/virtio_net.ko",
    "drivers/scsi",
    "drivers/virtio",
    "fs",
    "lib",
    "net/core/failover.ko",
];

/// What a kernel needs besides these if it isn't a *cloud* kernel, and has its disks' driver in a module.
const DISK: &str = "drivers/nvme";

/// The file in a kernel's folder that names the package it comes from. A folder that has it is complete.
const PACKAGE: &str = "package.json";
/// The kernel's image, in its folder.
const IMAGE: &str = "vmlinuz";

/// A kernel that can be booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its series, or its path as the user gave it.
    pub name: String,
    /// The architecture that it is for.
    pub arch: Arch,
    pub image: PathBuf,
    /// The folder `lib/modules/RELEASE` of its modules, with `modules.dep`.
    pub modules: Option<PathBuf>,
    /// The package that it comes from, if it is in the matrix.
    pub package: Option<Package>,
}

impl Series {
    /// All series of an architecture.
    pub fn all(arch: Arch) -> Vec<Self> {
        TABLE.iter().copied().chain(Self::with_large_pages().filter(|_| arch == Arch::Arm)).collect()
    }

    /// Kernels whose pages have 16 KiB, all for arm64.
    pub fn with_large_pages() -> impl Iterator<Item = Self> {
        TABLE.iter().filter_map(|series| Some(Self { name: series.large_pages?, ..*series }))
    }

    /// Kernels that are not released yet.
    pub fn previews() -> impl Iterator<Item = Self> {
        TABLE.iter().copied().filter(|series| series.is_preview)
    }

    /// All names, for a help text: `5.10, 6.1, ...`.
    pub fn names() -> String {
        TABLE.iter().map(|series| series.name).collect::<Vec<_>>().join(", ")
    }

    /// Whether something is different on this kernel.
    pub fn has(self, what: Trait) -> bool {
        self.traits.contains(&what)
    }

    /// Whether a kernel with this release, as `uname -r` prints it, is of this series. A preview's release may have no
    /// third number.
    pub fn is(self, release: &str) -> bool {
        let (version, pages) = self.name.split_once('-').unwrap_or((self.name, ""));
        let rest = release.strip_prefix(version);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
            && release.ends_with("-16k") == (pages == "16k")
    }

    /// The series of this name.
    pub fn of(arch: Arch, name: &str) -> Option<Self> {
        Self::all(arch).into_iter().find(|series| series.name == name)
    }

    /// Where its kernel is. Only for arm64, the folder above has the architecture's name.
    fn folder(self, arch: Arch) -> Result<PathBuf> {
        let above = if arch == Arch::X86 { folder()? } else { folder()?.join(arch.name()) };
        Ok(above.join(self.name))
    }

    /// The locked kernel of this series, if it is here.
    pub fn find(self, locked: &Locked) -> Result<Option<Kernel>> {
        find_in(locked, &self.folder(locked.source.arch)?)
    }

    /// Fetches the locked kernel of this series, unless it is here already.
    pub fn fetch(self, arch: Arch, mirror: Option<&str>) -> Result<Kernel> {
        let lock = Lock::read()?;
        let locked = lock.kernel(arch, self.name)?;
        match self.find(locked) {
            Ok(Some(kernel)) => return Ok(kernel),
            Ok(None) => {}
            Err(error) => eprintln!("{}; fetching the locked one ...", error.cause()),
        }
        fetch(locked, &Mirror::find(mirror)?, &self.folder(arch)?)
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

/// The folder of all kernels of the matrix.
pub fn folder() -> Result<PathBuf> {
    Ok(cache()?.join("kernels"))
}

/// Fetches a locked kernel into its folder.
fn fetch(locked: &Locked, mirror: &Mirror, folder: &Path) -> Result<Kernel> {
    let series = &locked.source.series;
    install(&locked.source, mirror, folder, |image| {
        if image == locked.vmlinuz {
            return Ok(());
        }
        Err(Error::new(format!("the kernel {series} was unpacked, but the result is not what is locked"))
            .evidence(format!("{IMAGE} has {image}\nexpected: {}", locked.vmlinuz))
            .fix(format!("is the disk full? If {} was edited by hand, take it from git", lock::NAME)))
    })?;
    eprintln!("Kernel {series} is here: {}", locked.source.package.release);
    find_in(locked, folder)?.ok_or_else(|| not_here(locked.source.arch, series, folder))
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
    accept(Sum::of_file(&made.join(IMAGE)).or_cause("cannot read the kernel's image")?)?;
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
    let images = [
        tree.join(format!("boot/vmlinuz-{release}")),
        tree.join(format!("usr/lib/modules/{release}/vmlinuz")),
    ];
    let image = images.iter().find(|image| image.exists()).ok_or_else(|| {
        Error::new(format!("{} holds no kernel image", package.name)).evidence(format!(
            "neither {} nor {}",
            images[0].display(),
            images[1].display()
        ))
    })?;
    fs::rename(image, kernel.join(IMAGE)).or_cause("cannot move the kernel image")?;
    let trees = ["lib/modules", "usr/lib/modules"].map(|place| tree.join(place).join(release));
    for tree in trees.iter().filter(|tree| tree.exists()) {
        for name in ["modules.builtin", "modules.order", "modules.builtin.modinfo"] {
            let _ = fs::rename(tree.join(name), modules.join(name));
        }
        let disk = (!release.contains("-cloud-")).then_some(DISK);
        for name in MODULES.into_iter().chain(disk) {
            let place = |end| format!("kernel/{name}{end}");
            // The modules of newer kernels are packed.
            let Some(place) = ["", ".xz"].map(place).into_iter().find(|place| tree.join(place).exists())
            else {
                continue;
            };
            let to = modules.join(&place);
            fs::create_dir_all(to.parent().unwrap_or(&to))
                .or_cause("cannot make a folder for the modules")?;
            fs::rename(tree.join(place), to).or_cause("cannot move the modules")?;
        }
    }
    let packed = files(&modules, ".ko.xz")?;
    if !packed.is_empty() {
        output(XZ.command()?.arg("--decompress").args(packed))?;
    }
    output(DEPMOD.command()?.arg("--basedir").arg(&kernel).arg(release))?;
    let about = serde_json::to_vec_pretty(package).or_cause("cannot describe the kernel")?;
    fs::write(kernel.join(PACKAGE), about).or_cause("cannot describe the kernel")?;
    Ok(kernel)
}

/// Compares a kernel's folder with the lock.
fn find_in(locked: &Locked, folder: &Path) -> Result<Option<Kernel>> {
    let Source { series, arch, package, .. } = &locked.source;
    let damaged = |evidence: String| damaged(*arch, series, evidence);
    let about = folder.join(PACKAGE);
    let found = match fs::read(&about) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(|error| error.to_string()),
    };
    let found = found.and_then(|json| serde_json::from_slice(&json).map_err(|error| error.to_string()));
    let found: Package = found.map_err(|error| damaged(format!("{}: {error}", about.display())))?;
    if found != *package {
        return Err(Error::new(format!("the kernel {series} that is here is not the locked one"))
            .evidence(format!(
                "{} holds {} {}\n{} has {} {}",
                folder.display(),
                found.name,
                found.version,
                lock::NAME,
                package.name,
                package.version
            ))
            .fix(format!("fetch the locked one: cargo lab kernels --fetch {series}{}", arch.option())));
    }
    let image = folder.join(IMAGE);
    if let Some(evidence) = locked.vmlinuz.differs(&image) {
        return Err(damaged(evidence));
    }
    let modules = folder.join("lib/modules").join(&package.release);
    Ok(Some(Kernel {
        name: series.clone(),
        arch: locked.source.arch,
        image,
        modules: Some(modules),
        package: Some(package.clone()),
    }))
}

fn damaged(arch: Arch, series: &str, evidence: String) -> Error {
    Error::new(format!("the kernel {series} is damaged: it is not what {} names", lock::NAME))
        .evidence(evidence)
        .fix(format!("fetch it again: cargo lab kernels --fetch {series}{}", arch.option()))
}

fn not_here(arch: Arch, series: &str, folder: &Path) -> Error {
    Error::new(format!("the kernel {series} is not here yet"))
        .evidence(format!("{} is missing", folder.display()))
        .fix(format!("fetch it: cargo lab kernels --fetch {series}{}", arch.option()))
}

/// The kernel of this name, as [`find`] finds it. A series of the table that is not here, or not what is locked, is
/// fetched first, unless the user wants to stay offline.
pub fn get(arch: Arch, name: &str) -> Result<Kernel> {
    let found = find(arch, name);
    match Series::of(arch, name) {
        Some(series) if found.is_err() && !fetch::is_offline() => series.fetch(arch, None),
        _ => found,
    }
}

/// The kernel of this name: a series of the table, which must be here and match the lock, or the path of an image.
pub fn find(arch: Arch, name: &str) -> Result<Kernel> {
    if let Some(series) = Series::of(arch, name) {
        let (lock, folder) = (Lock::read()?, series.folder(arch)?);
        let found = find_in(lock.kernel(arch, name)?, &folder)?;
        return found.ok_or_else(|| not_here(arch, name, &folder));
    }
    let image = PathBuf::from(name);
    let known = Series::all(arch).iter().map(|series| series.name).collect::<Vec<_>>().join(", ");
    if !image.is_file() {
        return Err(Error::new(format!("there is no kernel {name}"))
            .evidence(format!("it is not a file, and not one of {known}"))
            .fix(format!("name one of these, such as --kernel {DEFAULT}, or the path of a kernel's image")));
    }
    let bytes = fs::read(&image).or_cause(format!("cannot read {name}"))?;
    match architecture(&bytes) {
        Some(found) if found == arch => {}
        Some(found) => {
            return Err(Error::new(format!("{name} is a kernel for {found}, and the guest is {arch}"))
                .evidence(format!("its header is that of {found}"))
                .fix(format!(
                    "boot a guest of that architecture: --arch {found}; or name a kernel for {arch}"
                )));
        }
        None => {
            return Err(Error::new(format!("{name} is no kernel for {arch}"))
                .evidence(match arch {
                    Arch::X86 => "a bzImage has HdrS at byte 0x202, but this file doesn't",
                    Arch::Arm => {
                        "an Image, packed with gzip or not, has ARM and the byte 0x64 at byte 0x38, but this file doesn't"
                    }
                })
                .fix("name the image of a kernel that has NVMe and ext4 built in"));
        }
    }
    Ok(Kernel { name: name.to_owned(), arch, image, modules: None, package: None })
}

/// For which architecture a kernel's image is. One for arm64 may be packed with gzip, because QEMU unpacks it.
fn architecture(image: &[u8]) -> Option<Arch> {
    if image.starts_with(&[0x1f, 0x8b]) {
        let mut header = [0; 0x40];
        GzDecoder::new(image).read_exact(&mut header).ok()?;
        return architecture(&header).filter(|arch| *arch == Arch::Arm);
    }
    // Documentation/arch/x86/boot.rst and Documentation/arch/arm64/booting.rst: the headers' magic numbers.
    match () {
        () if image.get(0x202..0x206) == Some(b"HdrS") => Some(Arch::X86),
        () if image.get(0x38..0x3c) == Some(b"ARM\x64") => Some(Arch::Arm),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::host::tools::DPKG_DEB;
    use crate::lock::Archive;

    #[test]
    fn every_series_of_the_matrix_is_locked_and_no_other() {
        let lock = Lock::read().unwrap();
        let all = [Arch::X86, Arch::Arm]
            .map(|arch| Series::all(arch).into_iter().map(move |series| (arch, series)));
        let all: Vec<_> = all.into_iter().flatten().collect();
        let locked: Vec<_> =
            lock.kernels.iter().map(|locked| (locked.source.arch, &*locked.source.series)).collect();
        let rows: Vec<_> = all.iter().map(|(arch, series)| (*arch, series.name)).collect();
        assert_eq!(locked, rows, "fix: cargo upkeep kernels VERSION, and again with --arch arm64");
        for (locked, (arch, series)) in lock.kernels.iter().zip(all) {
            let source = &locked.source;
            let fix = format!("fix: cargo upkeep kernels {} --arch {arch}", series.name);
            assert_eq!(locked.preview, series.is_preview, "{fix}");
            assert!(series.is(&source.package.release), "{source:?}");
            assert!(series.suites.contains(&&*source.suite), "{source:?}");
            assert!(!source.archives.is_empty(), "{source:?}");
            for archive in &source.archives {
                assert!(archive.package.ends_with(&source.package.release), "{archive:?}");
                assert!(
                    archive.path.ends_with(&format!("_{}_{}.deb", source.package.version, arch.debian())),
                    "{archive:?}"
                );
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
            let path = format!("pool/main/l/linux/linux-image-{RELEASE}_9.9.1-1_amd64.deb");
            let sum = Sum::of_file(&deb(folder.path(), &path, "kernel", "module")).unwrap();
            let name = format!("linux-image-{RELEASE}");
            let archives = vec![Archive { package: name.clone(), path, sum }];
            let package = Package { name, version: "9.9.1-1".into(), release: RELEASE.into() };
            let source =
                Source { series: "9.9".into(), arch: Arch::X86, package, suite: "sid".into(), archives };
            Self { folder, locked: Locked { preview: false, source, vmlinuz: Sum::of(b"kernel") } }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        /// The folder of the kernel.
        fn kernel(&self) -> PathBuf {
            self.at("cache/kernels/9.9")
        }

        fn fetch(&self) -> Result<Kernel> {
            let mirror = format!("copy:{}", self.folder.path().display());
            fetch(&self.locked, &Mirror::find(Some(&mirror)).unwrap(), &self.kernel())
        }

        fn find(&self) -> Result<Option<Kernel>> {
            find_in(&self.locked, &self.kernel())
        }

        /// What is wrong with the kernel, without the parts that differ from run to run.
        fn complaint(&self) -> String {
            let error = self.find().unwrap_err().to_string();
            error.replace(self.folder.path().to_str().unwrap(), "[debian]")
        }
    }

    /// Makes a package with a kernel and a module.
    fn deb(folder: &Path, path: &str, kernel: &str, module: &str) -> PathBuf {
        let (tree, deb) = (tempfile::tempdir().unwrap(), folder.join(path));
        let control = format!(
            "Package: linux-image-{RELEASE}\nVersion: 9.9.1-1\nArchitecture: amd64\nMaintainer: a <a@b>\nDescription: a\n"
        );
        for (name, text) in [
            ("DEBIAN/control", &*control),
            (&*format!("boot/vmlinuz-{RELEASE}"), kernel),
            (&*format!("lib/modules/{RELEASE}/{MODULE}"), module),
            (&*format!("lib/modules/{RELEASE}/kernel/drivers/net/virtio_net.ko"), module),
            (&*format!("lib/modules/{RELEASE}/kernel/drivers/net/other.ko"), module),
        ] {
            let file = tree.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        fs::create_dir_all(deb.parent().unwrap()).unwrap();
        let mut command = DPKG_DEB.command().unwrap();
        command.args(["--root-owner-group", "--build"]).arg(tree.path()).arg(&deb);
        fs::set_permissions(tree.path(), fs::Permissions::from_mode(0o755)).unwrap();
        output(&mut command).unwrap();
        deb
    }

    #[test]
    fn a_locked_kernel_is_fetched_from_an_archives_pool() {
        let debian = Debian::new();
        assert_eq!(debian.find().unwrap(), None);
        let kernel = debian.fetch().unwrap();
        let module = |name: &str| fs::read(kernel.modules.as_ref().unwrap().join(name));
        assert_eq!(module(MODULE).unwrap(), b"module");
        assert_eq!(module("kernel/drivers/net/virtio_net.ko").unwrap(), b"module");
        assert!(module("kernel/drivers/net/other.ko").is_err());
        assert_eq!(debian.find().unwrap(), Some(kernel));
        let left = fs::read_dir(debian.at("cache/kernels")).unwrap();
        assert_eq!(left.count(), 1, "its archive is no longer needed");
    }

    #[test]
    fn a_damaged_archive_is_refused() {
        let debian = Debian::new();
        let archive = debian.at(&debian.locked.source.archives[0].path);
        let mut bytes = fs::read(&archive).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&archive, &bytes).unwrap();
        let error = debian.fetch().unwrap_err().to_string();
        let error = error.replace(debian.folder.path().to_str().unwrap(), "[debian]");
        let [found, expected] = [Sum::of(&bytes), debian.locked.source.archives[0].sum.clone()];
        let error = error.replace(&found.to_string(), "[found]").replace(&expected.to_string(), "[expected]");
        insta::assert_snapshot!(error);
        assert!(!debian.kernel().exists());
    }

    #[test]
    fn an_archive_that_is_locked_but_holds_something_else_is_not_kept() {
        let mut debian = Debian::new();
        debian.locked.vmlinuz = Sum::of(b"another kernel");
        let error = debian.fetch().unwrap_err().to_string();
        assert!(error.contains("the result is not what is locked"), "{error}");
        assert!(!debian.kernel().exists());
    }

    #[test]
    fn a_damaged_kernel_is_not_used() {
        let debian = Debian::new();
        debian.fetch().unwrap();
        let image = debian.kernel().join(IMAGE);
        fs::write(&image, "kernal").unwrap();
        insta::assert_snapshot!("damaged_image", debian.complaint());
        fs::write(&image, "kernel").unwrap();
        debian.find().unwrap().unwrap();
        fs::write(debian.kernel().join(PACKAGE), "{").unwrap();
        assert!(debian.complaint().contains("package.json: EOF"));
    }

    #[test]
    fn another_kernel_is_not_used() {
        let mut debian = Debian::new();
        debian.fetch().unwrap();
        debian.locked.source.package.version = "9.9.2-1".into();
        insta::assert_snapshot!("another", debian.complaint());
    }

    #[test]
    fn a_series_is_known_by_its_release() {
        let series = |release: &str| {
            let all = Series::all(Arch::Arm).into_iter().filter(|series| series.is(release));
            all.map(|series| series.name).collect::<Vec<_>>()
        };
        assert_eq!(series("6.1.0-56-cloud-arm64"), ["6.1"]);
        assert_eq!(series("6.12.117+deb12-cloud-arm64"), ["6.12"]);
        assert_eq!(series("6.12.117+deb12-arm64-16k"), ["6.12-16k"]);
        assert_eq!(series("7.3-cloud-arm64"), ["7.3"]);
        assert_eq!(series("7.30-cloud-arm64"), [""; 0]);
    }

    #[test]
    fn a_kernel_is_known_by_its_header() {
        let error = find(Arch::X86, "7.99").unwrap_err().to_string();
        insta::assert_snapshot!(error.replace(&Series::names(), "[kernels]"));
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "no kernel").unwrap();
        let complaint = |arch| find(arch, file.path().to_str().unwrap()).unwrap_err().to_string();
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
