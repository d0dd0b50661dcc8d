//! The kernels of the matrix: which ones there are, which are here, and whether they still match the lock.
//!
//! They are Debian's *cloud* kernels: NVMe and ext4 are built in, so a guest needs no module for a real disk. Only the
//! kernels with large pages have these in modules, which the guest loads first. They
//! are in the user's cache folder, outside of `target/`, where anything may happen to them. So we compare a kernel
//! with the lock whenever we use it: its image and the list of its modules before it boots, and each module when we
//! put it into a guest.
//!
//! A row of [`TABLE`] has all that the workbook says or assumes about a series such as 6.12: the Debian suites in which the
//! lab looks for it, what the book says about it, its colors, and its traits, such as `Preemptible`. Where Linux itself
//! changed, a test asks for a range of versions, such as `is_in("6.5..")`. A *preview* is a kernel that is not released yet.
//! The other rows are the matrix, on which `make test` runs.
//!
//! The check before a boot takes about 10 ms of CPU time; `make bench-lab` measures it. `cargo lab kernels` and `--fetch`
//! check every module. `sha256sum --check` can read the list of the modules' checksums, too: `modules.sha256`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use common::{Error, OrCause, Result};
use flate2::read::GzDecoder;
use wire::arch::Arch;

use crate::fetch::{self, Apt, numbers, pattern};
use crate::host::folders::{cache, files};
use crate::host::tools::{DEPMOD, DPKG_DEB, XZ, output};
use crate::lock::{self, Lock, Locked, Package, Source, Sum};

/// One series of kernels. Everything that the workbook says or assumes about a kernel is in its row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Series {
    /// Such as `6.12`.
    pub name: &'static str,
    /// The Debian suites to search for a newer kernel, in this order. A security suite has the newest packages of its
    /// release and is small, so it comes first.
    suites: &'static [&'static str],
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
    /// The color of its marks in a chart, on light and on dark paper.
    pub colors: [&'static str; 2],
    /// What ctracer may cost at most, as a multiple of what trace-cmd costs for the same calls.
    pub ctracer_goal: f64,
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
}
use Trait::{FentryOnArm64, Fprobe, FprobeOnArm64, LargeFolios, Preemptible};

/// All kernels of both architectures, oldest first. A new kernel is a new row.
const TABLE: &[Series] = &[
    Series {
        name: "5.10",
        suites: &["bullseye-security", "bullseye"],
        is_preview: false,
        large_pages: None,
        traits: &[],
        about: ["Debian 11, bullseye", "before folios; requests complete one by one"],
        colors: ["#94a3b8", "#94a3b8"],
        ctracer_goal: 1.5,
    },
    Series {
        name: "6.1",
        suites: &["bookworm-security", "bookworm"],
        is_preview: false,
        large_pages: None,
        traits: &[],
        about: ["Debian 12, bookworm", "folios, completion in batches; ext4 keeps to one page a folio"],
        colors: ["#38a3c7", "#67d3f0"],
        ctracer_goal: 1.5,
    },
    Series {
        name: "6.12",
        suites: &["bookworm-security", "trixie-security", "trixie"],
        is_preview: false,
        large_pages: Some("6.12-16k"),
        traits: &[Fprobe, FentryOnArm64],
        about: ["Debian 13, trixie, and the security updates of 12", "today: the default here"],
        colors: ["#1d4ed8", "#7fa6ff"],
        ctracer_goal: 1.2,
    },
    Series {
        name: "7.2",
        suites: &["sid", "forky"],
        is_preview: false,
        large_pages: Some("7.2-16k"),
        traits: &[Preemptible, LargeFolios, Fprobe, FprobeOnArm64, FentryOnArm64],
        about: ["Debian unstable, sid", "what comes: large folios on ext4, a preemptible kernel"],
        colors: ["#b45309", "#fbbf24"],
        ctracer_goal: 1.2,
    },
    Series {
        name: "7.3",
        suites: &["sid", "experimental"],
        is_preview: true,
        large_pages: None,
        traits: &[Preemptible, LargeFolios, Fprobe, FprobeOnArm64, FentryOnArm64],
        about: ["Debian experimental", "a preview: not released yet"],
        colors: ["#be185d", "#f472b6"],
        ctracer_goal: 1.2,
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

/// The folders of a kernel's modules that we keep: what a storage lab may want to load.
const MODULE_FOLDERS: [&str; 7] =
    ["block", "crypto", "drivers/block", "drivers/md", "drivers/scsi", "fs", "lib"];

/// The folder that a kernel needs besides these if it isn't a *cloud* kernel, and has its disks' driver in a module.
const DISK_FOLDER: &str = "drivers/nvme";

/// The file in a kernel's folder that names the package it comes from.
const PACKAGE: &str = "package.json";
/// The kernel's image, in its folder.
const IMAGE: &str = "vmlinuz";
/// The checksums of all modules in a kernel's folder, in a format that `sha256sum --check` reads.
const MODULES: &str = "modules.sha256";

/// A kernel that can be booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its series, or its path as the user gave it.
    pub name: String,
    /// The architecture that it is for.
    pub arch: Arch,
    /// Its image.
    pub image: PathBuf,
    /// The folder `lib/modules/RELEASE` of its modules, with `modules.dep`.
    pub modules: Option<PathBuf>,
    /// The package that it comes from, if it is in the matrix.
    pub package: Option<Package>,
    /// The SHA-256 of each module, by its path below `modules`. Empty if the kernel is not in the matrix.
    sums: BTreeMap<PathBuf, String>,
}

impl Kernel {
    /// The bytes of a module, such as `kernel/drivers/block/null_blk/null_blk.ko`.
    ///
    /// # Errors
    /// If it can't be read, or doesn't match the lock.
    pub fn module(&self, file: &Path) -> Result<Vec<u8>> {
        let path = self.modules.as_deref().unwrap_or(Path::new("")).join(file);
        let bytes = fs::read(&path).or_cause(format!("cannot read {}", path.display()))?;
        if self.package.is_some() {
            is_listed(self.arch, &self.name, &path, self.sums.get(file), &Sum::of(&bytes))?;
        }
        Ok(bytes)
    }
}

/// How much of a kernel to compare with the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Its image and the list of its modules. A module is compared when a guest gets it.
    ToBoot,
    /// Every module, too.
    All,
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

    fn folder(self, arch: Arch) -> Result<PathBuf> {
        // Those of x86_64 were the only ones once, so their folders have no name of an architecture.
        let above = if arch == Arch::X86 { folder()? } else { folder()?.join(arch.name()) };
        Ok(above.join(self.name))
    }

    /// The kernel of this series that is here, if any, after comparing every byte with the lock.
    ///
    /// # Errors
    /// If it is damaged, or not the locked one.
    pub fn verified(self, locked: &Locked) -> Result<Option<Kernel>> {
        look(locked, &self.folder(locked.source.arch)?, Extent::All)
    }

    /// Fetches the locked kernel of this series, unless it is here already.
    ///
    /// # Errors
    /// If this machine has no apt or no Debian mirror, or the mirror does not have this kernel.
    pub fn fetch(self, arch: Arch, mirror: Option<&str>) -> Result<Kernel> {
        let lock = Lock::read()?;
        let locked = lock.kernel(arch, self.name)?;
        match self.verified(locked) {
            Ok(Some(kernel)) => return Ok(kernel),
            Ok(None) => {}
            Err(error) => eprintln!("{}; fetching the locked one ...", error.cause()),
        }
        let apt = Apt::new(&[arch], mirror)?;
        // Another lab may have fetched it while we waited for apt.
        if let Ok(Some(kernel)) = self.verified(locked) {
            return Ok(kernel);
        }
        let Source { package, suite, archives, .. } = &locked.source;
        let bytes: u64 = archives.iter().map(|archive| archive.sum.size).sum();
        let (name, version) = (self.name, &package.version);
        eprintln!("Fetching kernel {name}: {version} of Debian's {suite}, {:.1} MB ...", bytes as f64 / 1e6);
        fetch(locked, self.suites, &apt, &self.folder(arch)?)
    }

    /// The modules of this series' locked kernel for QEMU's network card, in the order in which to load them. The first
    /// time, this downloads the kernel's packages, because other guests need no network.
    ///
    /// # Errors
    /// Those of [`Series::fetch`].
    pub fn network(self, arch: Arch) -> Result<Vec<PathBuf>> {
        let lock = Lock::read()?;
        let source = &lock.kernel(arch, self.name)?.source;
        let folder = self.folder(arch)?.with_file_name(format!("{}-virtio", self.name));
        let made = folder.join(&source.package.release);
        let apt = (!made.exists()).then(|| Apt::new(&[arch], None)).transpose()?;
        // Another lab may have made it while we waited for apt.
        if let Some(apt) = apt.filter(|_| !made.exists()) {
            let archives = apt.archives(source, self.suites)?;
            let work = work_beside(&folder)?;
            let tree = work.path().join("tree");
            for archive in &archives {
                output(DPKG_DEB.command()?.arg("-x").arg(archive).arg(&tree))?;
            }
            let release = &source.package.release;
            // Since 7.x, the packages have /lib in /usr, as Debian itself does.
            let base = if tree.join("lib").exists() { tree } else { tree.join("usr") };
            output(DEPMOD.command()?.arg("--basedir").arg(&base).arg(release))?;
            let modules = base.join("lib/modules").join(release);
            let list = fs::read_to_string(modules.join("modules.dep")).or_cause("cannot read modules.dep")?;
            let files = work.path().join("modules");
            fs::create_dir_all(&files).or_cause("cannot make a folder for the modules")?;
            let mut order = Vec::new();
            // The card's driver finds it only after the driver of its bus, which is a module before 6.12.
            for wanted in ["/virtio_pci.ko", "/virtio_net.ko"] {
                let mut lines = list.lines().filter_map(|line| line.split_once(':'));
                if let Some((module, needed)) = lines.find(|(module, _)| module.contains(wanted)) {
                    // A module's dependencies come in the reverse order.
                    order.extend(needed.split_whitespace().rev().chain([module]));
                }
            }
            let mut seen = BTreeSet::new();
            order.retain(|module| seen.insert(*module));
            for (nth, module) in order.into_iter().enumerate() {
                let name = Path::new(module).file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let to = files.join(format!("{nth:02}-{name}"));
                fs::copy(modules.join(module), &to).or_cause("cannot copy a module")?;
                if name.ends_with(".xz") {
                    output(XZ.command()?.arg("--decompress").arg(&to))?;
                }
            }
            fs::create_dir_all(&folder).or_cause(format!("cannot make {}", folder.display()))?;
            fs::rename(&files, &made).or_cause("cannot keep the modules")?;
            for archive in archives {
                let _ = fs::remove_file(archive);
            }
        }
        files(&made, ".ko")
    }

    /// Looks for a newer kernel of this series. If there is one, fetches it and locks it instead.
    ///
    /// # Errors
    /// If this machine has no apt or no Debian mirror, or the mirror has no such kernel.
    pub fn newer(self, arch: Arch, mirror: Option<&str>) -> Result<Kernel> {
        // Only one lab at a time has apt's folder, so only one rewrites the lock.
        let apt = Apt::new(&[arch], mirror)?;
        let mut lock = Lock::read_or_new()?;
        let before = lock.kernel(arch, self.name).map(|locked| locked.source.package.version.clone());
        let is_newer = |found: &Source| match &before {
            Ok(before) => numbers(&found.package.version) > numbers(before),
            Err(_) => true,
        };
        let Some((found, archives)) = self.newest(arch, &apt, is_newer)? else {
            eprintln!("There is no newer kernel {} than the locked one.", self.name);
            drop(apt);
            return self.fetch(arch, mirror);
        };
        let folder = self.folder(arch)?;
        let work = work_beside(&folder)?;
        let made = unpack(&found.package, &archives, work.path())?;
        let sum =
            |name| Sum::of_file(&made.join(name)).or_cause(format!("cannot read what was unpacked: {name}"));
        let (preview, vmlinuz, modules) = (self.is_preview, sum(IMAGE)?, sum(MODULES)?);
        let locked = Locked { preview, source: found, vmlinuz, modules };
        let of = |arch| Self::all(arch).into_iter().map(move |series| (arch, series.name));
        lock.replace(locked.clone(), &of(Arch::X86).chain(of(Arch::Arm)).collect::<Vec<_>>());
        lock.write()?;
        put(&made, &folder, work.path(), &archives)?;
        let now = &locked.source.package.version;
        match before {
            Ok(before) => eprintln!(
                "Kernel {} is now locked at {now}; it was at {before}. See what moved: cargo upkeep drift",
                self.name
            ),
            Err(_) => eprintln!("Kernel {} is now locked at {now}.", self.name),
        }
        look(&locked, &folder, Extent::All)?.ok_or_else(|| not_here(arch, self.name, &folder))
    }

    /// The newest kernel of this series in the first of its suites that has it, and its archives; `None` if that is not
    /// newer. A suite may list a kernel whose archive is gone, so then we ask the next suite.
    fn newest(
        self,
        arch: Arch,
        apt: &Apt,
        is_newer: impl Fn(&Source) -> bool,
    ) -> Result<Option<(Source, Vec<PathBuf>)>> {
        let mut looked = Vec::new();
        for suite in self.suites {
            match apt.newest(suite, arch, self.name) {
                Ok(Some(found)) if !is_newer(&found) => return Ok(None),
                Ok(Some(found)) => match apt.archives(&found, &[]) {
                    Ok(archives) => return Ok(Some((found, archives))),
                    Err(error) => looked.push(format!("{suite}: {error}")),
                },
                Ok(None) => looked.push(format!("{suite}: no package {}", pattern(arch, self.name))),
                Err(error) => looked.push(format!("{suite}: {error}")),
            }
        }
        Err(Error::new(format!("no kernel {} was found", self.name)).evidence(looked.join("\n")).fix(
            format!(
                "name another archive of Debian: cargo lab kernels --fetch {} --newer{} --mirror URL",
                self.name,
                arch.option()
            ),
        ))
    }
}

/// The folder of all kernels of the matrix.
///
/// # Errors
/// If the user has no cache folder.
pub fn folder() -> Result<PathBuf> {
    Ok(cache()?.join("kernels"))
}

/// Fetches a locked kernel, and puts it into its folder if it matches the lock.
fn fetch(locked: &Locked, suites: &[&str], apt: &Apt, folder: &Path) -> Result<Kernel> {
    let series = &locked.source.series;
    let archives = apt.archives(&locked.source, suites)?;
    let work = work_beside(folder)?;
    let made = unpack(&locked.source.package, &archives, work.path())?;
    look(locked, &made, Extent::All).map_err(|error| {
        Error::new(format!("the kernel {series} was unpacked, but the result is not what is locked"))
            .evidence(error)
            .fix(format!("is the disk full? If {} was edited by hand, take it from git", lock::NAME))
    })?;
    put(&made, folder, work.path(), &archives)?;
    eprintln!("Kernel {series} is here: {}", locked.source.package.release);
    look(locked, folder, Extent::ToBoot)?.ok_or_else(|| not_here(locked.source.arch, series, folder))
}

/// A folder to unpack into, next to the kernel's own folder: when it is complete, we move it there.
fn work_beside(folder: &Path) -> Result<tempfile::TempDir> {
    let above = folder.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(above).or_cause(format!("cannot make {}", above.display()))?;
    tempfile::tempdir_in(above).or_cause(format!("cannot make a folder in {}", above.display()))
}

/// Unpacks exactly these archives, and makes a kernel's folder from the files that the lab needs.
fn unpack(package: &Package, archives: &[PathBuf], work: &Path) -> Result<PathBuf> {
    let (tree, kernel) = (work.join("tree"), work.join("kernel"));
    for archive in archives {
        output(DPKG_DEB.command()?.arg("-x").arg(archive).arg(&tree))?;
    }
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
        let disk = (!release.contains("-cloud-")).then_some(DISK_FOLDER);
        for name in MODULE_FOLDERS.into_iter().chain(disk) {
            let (from, to) = (tree.join("kernel").join(name), modules.join("kernel").join(name));
            if from.exists() {
                fs::create_dir_all(to.parent().unwrap_or(&to))
                    .or_cause("cannot make a folder for the modules")?;
                fs::rename(from, to).or_cause("cannot move the modules")?;
            }
        }
    }
    let packed = files(&modules, ".ko.xz")?;
    if !packed.is_empty() {
        output(XZ.command()?.arg("--decompress").args(packed))?;
    }
    output(DEPMOD.command()?.arg("--basedir").arg(&kernel).arg(release))?;
    fs::write(kernel.join(MODULES), list(&kernel, release)?).or_cause("cannot list the modules")?;
    let about = serde_json::to_vec_pretty(package).or_cause("cannot describe the kernel")?;
    fs::write(kernel.join(PACKAGE), about).or_cause("cannot describe the kernel")?;
    Ok(kernel)
}

/// Moves a complete kernel into its folder and replaces the one that is there. Its archives are no longer needed.
fn put(made: &Path, folder: &Path, work: &Path, archives: &[PathBuf]) -> Result<()> {
    if folder.exists() {
        fs::rename(folder, work.join("before")).or_cause(format!("cannot replace {}", folder.display()))?;
    }
    fs::rename(made, folder).or_cause(format!("cannot put the kernel into {}", folder.display()))?;
    for archive in archives {
        let _ = fs::remove_file(archive);
    }
    Ok(())
}

/// The checksums of all modules of a kernel, in the format of `sha256sum`.
fn list(folder: &Path, release: &str) -> Result<String> {
    let mut list = String::new();
    for module in files(&folder.join("lib/modules").join(release), ".ko")? {
        let sum = Sum::of_file(&module).or_cause(format!("cannot read {}", module.display()))?;
        let name = module.strip_prefix(folder).unwrap_or(&module);
        list += &format!("{}  {}\n", sum.sha256, name.display());
    }
    Ok(list)
}

/// Compares a kernel's folder with the lock.
///
/// # Errors
/// If it has another kernel, or is damaged.
fn look(locked: &Locked, folder: &Path, extent: Extent) -> Result<Option<Kernel>> {
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
    if let Some(evidence) = locked.vmlinuz.differs(&image, Sum::of_file(&image)) {
        return Err(damaged(evidence));
    }
    let modules = folder.join("lib/modules").join(&package.release);
    let sums = sums(locked, folder, &modules).map_err(damaged)?;
    dependencies(&modules.join("modules.dep"), &sums).map_err(damaged)?;
    if extent == Extent::All {
        for (file, sum) in &sums {
            let path = modules.join(file);
            let found =
                Sum::of_file(&path).map_err(|error| damaged(format!("{}: {error}", path.display())))?;
            is_listed(*arch, series, &path, Some(sum), &found)?;
        }
    }
    Ok(Some(Kernel {
        name: series.clone(),
        arch: locked.source.arch,
        image,
        modules: Some(modules),
        package: Some(package.clone()),
        sums,
    }))
}

/// The list of the modules' checksums, which must match the lock. It is rebuilt from the modules if it is damaged, or
/// if it is missing because the kernel was fetched before there was a lock.
fn sums(locked: &Locked, folder: &Path, modules: &Path) -> Result<BTreeMap<PathBuf, String>, String> {
    let path = folder.join(MODULES);
    let kept = fs::read_to_string(&path).ok().filter(|list| Sum::of(list.as_bytes()) == locked.modules);
    let list = match kept {
        Some(list) => list,
        None => {
            let made = list(folder, &locked.source.package.release).map_err(|error| error.to_string())?;
            let found = Sum::of(made.as_bytes());
            if found != locked.modules {
                return Err(format!(
                    "the list of the modules below {} has {found}\nexpected: {}",
                    modules.display(),
                    locked.modules
                ));
            }
            // If we can't save it, we rebuild it next time.
            let _ = fs::write(&path, &made);
            made
        }
    };
    let below = modules.strip_prefix(folder).unwrap_or(modules);
    let line = |line: &str| {
        let (sum, path) = line.split_once("  ")?;
        Some((Path::new(path).strip_prefix(below).ok()?.to_owned(), sum.to_owned()))
    };
    Ok(list.lines().filter_map(line).collect())
}

/// Checks that `modules.dep` lists exactly these modules. It is not in the lock because depmod makes it here.
fn dependencies(path: &Path, sums: &BTreeMap<PathBuf, String>) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut modules = BTreeSet::new();
    for line in text.lines() {
        let (module, needed) = line.split_once(':').unwrap_or((line, ""));
        modules.insert(Path::new(module));
        for file in [module].into_iter().chain(needed.split_whitespace()) {
            if !sums.contains_key(Path::new(file)) {
                return Err(format!("{} has {file:?}, which is no module of this kernel", path.display()));
            }
        }
    }
    match sums.keys().find(|module| !modules.contains(module.as_path())) {
        Some(module) => Err(format!("{} does not have {}", path.display(), module.display())),
        None => Ok(()),
    }
}

/// Compares a module with the list.
fn is_listed(arch: Arch, kernel: &str, path: &Path, listed: Option<&String>, found: &Sum) -> Result<()> {
    if listed == Some(&found.sha256) {
        return Ok(());
    }
    let expected = listed.map_or("no such module", String::as_str);
    Err(damaged(
        arch,
        kernel,
        format!("{} has SHA-256 {}\nexpected: {expected}", path.display(), found.sha256),
    ))
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
///
/// # Errors
/// Those of [`find`] and of [`Series::fetch`].
pub fn get(arch: Arch, name: &str) -> Result<Kernel> {
    let found = find(arch, name);
    match Series::of(arch, name) {
        Some(series) if found.is_err() && !fetch::is_offline() => series.fetch(arch, None),
        _ => found,
    }
}

/// The kernel of this name: a series of the table, which must be here and match the lock, or the path of an image.
///
/// # Errors
/// If it is neither, is not here, does not match the lock, or is not a kernel of this architecture.
pub fn find(arch: Arch, name: &str) -> Result<Kernel> {
    if let Some(series) = Series::of(arch, name) {
        let (lock, folder) = (Lock::read()?, series.folder(arch)?);
        let found = look(lock.kernel(arch, name)?, &folder, Extent::ToBoot)?;
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
    Ok(Kernel { name: name.to_owned(), arch, image, modules: None, package: None, sums: BTreeMap::new() })
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
    use crate::lock::Archive;

    #[test]
    fn every_series_of_the_matrix_is_locked_and_no_other() {
        let lock = Lock::read().unwrap();
        let all = [Arch::X86, Arch::Arm]
            .map(|arch| Series::all(arch).into_iter().map(move |series| (arch, series)));
        let all: Vec<_> = all.into_iter().flatten().collect();
        let locked: Vec<_> =
            lock.kernels.iter().map(|locked| (locked.source.arch, &*locked.source.series)).collect();
        assert_eq!(locked, all.iter().map(|(arch, series)| (*arch, series.name)).collect::<Vec<_>>());
        for (locked, (arch, series)) in lock.kernels.iter().zip(all) {
            let source = &locked.source;
            assert_eq!(locked.preview, series.is_preview, "{source:?}");
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
            let list = format!("{}  lib/modules/{RELEASE}/{MODULE}\n", Sum::of(b"module").sha256);
            let source =
                Source { series: "9.9".into(), arch: Arch::X86, package, suite: "sid".into(), archives };
            let (vmlinuz, modules) = (Sum::of(b"kernel"), Sum::of(list.as_bytes()));
            Self { folder, locked: Locked { preview: false, source, vmlinuz, modules } }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        /// The folder of the kernel.
        fn kernel(&self) -> PathBuf {
            self.at("cache/kernels/9.9")
        }

        /// Where the archive is after its download.
        fn download(&self) -> PathBuf {
            let name = self.locked.source.archives[0].file_name().unwrap();
            self.at("cache/apt/downloads").join(name)
        }

        fn fetch(&self) -> Result<Kernel> {
            let mirror = format!("copy:{}", self.folder.path().display());
            let apt = Apt::within(&self.at("cache/apt"), &[Arch::X86], Some(&mirror)).unwrap();
            fetch(&self.locked, &[], &apt, &self.kernel())
        }

        fn look(&self, extent: Extent) -> Result<Option<Kernel>> {
            look(&self.locked, &self.kernel(), extent)
        }

        /// What is wrong with the kernel, without the parts that differ from run to run.
        fn complaint(&self, extent: Extent) -> String {
            let error = self.look(extent).unwrap_err().to_string();
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
        assert_eq!(debian.look(Extent::All).unwrap(), None);
        let kernel = debian.fetch().unwrap();
        assert_eq!(kernel.module(Path::new(MODULE)).unwrap(), b"module");
        assert_eq!(debian.look(Extent::All).unwrap(), Some(kernel));
        assert!(!debian.download().exists(), "it is no longer needed");
        // Files that an older lab left there are ignored.
        let other =
            deb(&debian.at("cache/apt/downloads"), "other_1_amd64.deb", "other kernel", "other module");
        // A partial archive, or another one of the same name, is not unpacked either.
        fs::copy(other, debian.download()).unwrap();
        fs::remove_dir_all(debian.kernel()).unwrap();
        debian.fetch().unwrap();
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
        let kernel = debian.fetch().unwrap();
        let damage = |file: &str, text: &str| {
            let file = debian.kernel().join(file);
            let before = fs::read(&file).unwrap();
            fs::write(&file, text).unwrap();
            move || fs::write(&file, before).unwrap()
        };
        let modules = format!("lib/modules/{RELEASE}");
        let module = format!("{modules}/{MODULE}");

        let restore = damage(IMAGE, "kernal");
        insta::assert_snapshot!("damaged_image", debian.complaint(Extent::ToBoot));
        restore();
        let restore = damage(&module, "modul");
        insta::assert_snapshot!("damaged_module", debian.complaint(Extent::All));
        // A guest gets few of the modules, and each is compared at that moment.
        debian.look(Extent::ToBoot).unwrap();
        let error = kernel.module(Path::new(MODULE)).unwrap_err().to_string();
        assert!(error.contains("the kernel 9.9 is damaged"), "{error}");
        restore();
        for dependencies in ["", "kernel/fs/some.ko: kernel/fs/other.ko\n"] {
            let restore = damage(&format!("{modules}/modules.dep"), dependencies);
            assert!(debian.complaint(Extent::ToBoot).contains("modules.dep"));
            restore();
        }
        let restore = damage(PACKAGE, "{");
        assert!(debian.complaint(Extent::ToBoot).contains("package.json: EOF"));
        restore();
        debian.look(Extent::All).unwrap().unwrap();
    }

    #[test]
    fn another_kernel_is_not_used() {
        let mut debian = Debian::new();
        debian.fetch().unwrap();
        debian.locked.source.package.version = "9.9.2-1".into();
        insta::assert_snapshot!("another", debian.complaint(Extent::ToBoot));
    }

    /// Before there was a lock, a kernel had no list of its modules.
    #[test]
    fn a_kernel_without_a_list_is_compared_module_by_module() {
        let debian = Debian::new();
        debian.fetch().unwrap();
        let list = debian.kernel().join(MODULES);
        fs::remove_file(&list).unwrap();
        debian.look(Extent::ToBoot).unwrap().unwrap();
        assert_eq!(Sum::of_file(&list).unwrap(), debian.locked.modules);
        fs::write(&list, "damaged").unwrap();
        debian.look(Extent::ToBoot).unwrap().unwrap();
        fs::remove_file(&list).unwrap();
        fs::write(debian.kernel().join("lib/modules").join(RELEASE).join(MODULE), "modul").unwrap();
        insta::assert_snapshot!("damaged_without_list", debian.complaint(Extent::ToBoot));
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
