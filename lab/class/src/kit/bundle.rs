//! `cargo class bundle`: the room kit, a folder for a USB stick with everything that a laptop needs except QEMU. Its
//! launcher is `lab/class/kit/lab`.
//!
//! The launcher is a shell script that only looks at the laptop and starts QEMU. The script `keep` beside it keeps a learner's
//! work. The lab and the launcher start the same machine: a change of
//! `lab/machine/src/qemu.rs` is one of the launcher, too, and a test compares them.
//!
//! `cargo test --package class --test kit` tests the launcher with a fake emulator that only records how it was called, and
//! `make bundle-test` tests whole kits in an empty Debian.

use std::fmt::Write as _;
use std::fs::{self, DirEntry};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use common::report::print_text;
use common::{Error, OrCause, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use indicatif::{ProgressBar, ProgressStyle};
use machine::host::folders::{files, size};
use machine::host::tools::{GIT, SHA256SUM, TAR, XZ, ZSTD, output};
use machine::kernels::{DEFAULT, Kernel, MATRIX, Series};
use machine::qemu::FS_BYTES;
use machine::workbook::{Recorded, Toolchain, Workbook};
use machine::{cross, image};
use wire::arch::Arch;
use wire::kit;

use crate::kit::licenses::{self, ThirdParty};
use crate::kit::{compilers, workshop};

/// What to put into a kit.
#[derive(Clone, Debug, Default)]
pub struct KitOptions {
    /// The architectures of its guests; empty for this machine's.
    pub archs: Vec<Arch>,
    /// Kernels by their series; empty for all of the matrix.
    pub kernels: Vec<String>,
    /// Its folder; by default `room-kit` in Cargo's target folder.
    pub out: Option<PathBuf>,
    /// Whether to add the workshop and its compilers to the guest.
    pub with_workshop: bool,
    /// Whether to add everything that is needed to build the workbook without a network.
    pub with_sources: bool,
}

/// What every kit has. Other folders have checksums, too.
const KIT: [&str; 2] = [SUMS, "lab"];
/// The checksums of all other files.
const SUMS: &str = "SHA256SUMS";
/// The sources of the last commit.
const SOURCES: &str = "sources.tar.xz";
/// The same sources, with the libraries that they need.
const BUILD: &str = "build-kit.tar.xz";
/// The licenses of what is in the kit, and where its sources are.
const LICENSES: &str = "LICENSES.txt";
/// The guest's root file system, in the folder of its architecture. We compress it with zstd because that unpacks fast,
/// and Debian's kernels support it since 5.10.
const INITRAMFS: &str = "initramfs";

/// The same with more files in it: the workshop's server, compilers, sources and the book.
const WORKSHOP: &str = "workshop";

/// What comes before its name in the name of a kernel's file.
const VMLINUZ: &str = "vmlinuz-";

/// Cargo settings that take libraries from the folder beside them and never use a network.
const VENDORED: &str = r#"
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"

[net]
offline = true
"#;

/// Makes a kit and prints the size of each part. The same inputs give the same bytes.
pub fn make(workbook: &Workbook, options: &KitOptions) -> Result<ExitCode> {
    let mut archs = if options.archs.is_empty() { vec![Arch::HERE] } else { options.archs.clone() };
    archs.sort();
    archs.dedup();
    let mut guests = Vec::new();
    let series = chosen(&options.kernels)?;
    for arch in archs {
        let kernels = series.iter().map(|series| series.get(arch, None));
        let kernels = kernels.collect::<Result<Vec<_>>>()?;
        guests.push(Guest { arch, kernels, workbook: cross::for_arch(workbook.clone(), arch, None)? });
    }
    let out = options.out.clone().unwrap_or_else(|| workbook.target.join("room-kit"));
    // We are about to replace this folder, so make sure that it is a kit.
    let is_kit = KIT.iter().all(|file| out.join(file).exists());
    if out.exists() && !is_kit {
        return Err(Error::new(format!("{} exists and is not a kit", out.display()))
            .evidence(format!("it lacks one of {}", KIT.join(", ")))
            .fix("name a folder that does not exist yet: --out DIR"));
    }
    let out = std::path::absolute(out).or_cause("cannot find out the folder's absolute path")?;
    let above = out.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(above).or_cause(format!("cannot make {}", above.display()))?;
    // Make the kit in a folder next to it, and rename it when it is complete.
    let work =
        tempfile::tempdir_in(above).or_cause(format!("cannot make a folder in {}", above.display()))?;
    let folder = work.path().join("kit");
    let has_workshop = options.with_workshop;
    let mut kit = Kit {
        workbook: workbook.clone(),
        guests,
        folder,
        has_workshop,
        parts: Vec::new(),
        notes: Vec::new(),
    };

    let mut steps: Vec<(&str, Step)> = vec![
        ("copying kernels", Kit::kernels),
        ("making the guest", Kit::roots),
        ("collecting licenses", Kit::licenses),
        ("packing sources", Kit::sources),
        ("copying the book", Kit::book),
    ];
    if options.with_sources && !workbook.root.join(".git").exists() {
        return Err(Error::new("there are no sources to put into the kit")
            .evidence(format!("{} is not a clone of the workbook", workbook.root.display()))
            .fix("leave out --with-sources, or make the kit in a clone"));
    }
    if options.with_sources {
        steps.push(("packing the build kit", Kit::build_kit));
    }
    steps.push(("summing up", Kit::finish));

    let style = ProgressStyle::with_template("Room kit [{bar:40}] {pos}/{len} {msg}")
        .map(|style| style.progress_chars("=> "))
        .or_cause("the progress bar is not well formed")?;
    let bar = ProgressBar::new(steps.len() as u64).with_style(style);
    for (what, step) in steps {
        bar.set_message(what.to_owned());
        bar.tick();
        step(&mut kit)?;
        machine::signals::check()?;
        bar.inc(1);
    }
    bar.finish_and_clear();

    if out.exists() {
        fs::remove_dir_all(&out).or_cause(format!("cannot replace {}", out.display()))?;
    }
    fs::rename(&kit.folder, &out).or_cause(format!("cannot put the kit into {}", out.display()))?;
    print_text(kit.summary(&out).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// The kernels of these names, or all of the matrix. A kit gets only kernels that are tested, and each only once.
fn chosen(names: &[String]) -> Result<Vec<Series>> {
    if let Some(other) = names.iter().find(|name| Series::of(name).is_err()) {
        return Err(Error::new(format!("a kit can't include a kernel {other}"))
            .evidence("a kit needs a kernel's modules, and the lab has those of its own kernels only")
            .fix(format!("name one of {}", Series::names())));
    }
    let is_chosen = |series: &Series| names.iter().any(|name| name == series.name);
    Ok(if names.is_empty() { MATRIX.to_vec() } else { Series::all().filter(is_chosen).collect() })
}

/// Boots each kernel of a kit with the kit's own launcher, and checks what the stages and examples print.
pub fn verify(folder: &Path) -> Result<ExitCode> {
    let launcher = folder.join("lab");
    let run = |arguments: &[&str]| -> Result<bool> {
        // With sh, because a stick may be mounted without execute permission.
        let status = Command::new("sh").arg(&launcher).args(arguments).status();
        Ok(status.or_cause("cannot start sh")?.success())
    };
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for arch in [Arch::X86, Arch::Arm] {
        let Ok(entries) = folder.join(arch.name()).read_dir() else { continue };
        let name = |entry: DirEntry| Some(entry.file_name().to_str()?.strip_prefix(VMLINUZ)?.to_owned());
        let mut names: Vec<_> = entries.flatten().filter_map(name).collect();
        names.sort();
        if !run(&["--arch", arch.name(), "check"])? {
            bad.push(format!("check for {arch}"));
        }
        for name in names {
            print_text(format_args!("\nKernel {name} for {arch}"))?;
            let is_good = run(&["--arch", arch.name(), "--kernel", &name, "demo"])?;
            if is_good { &mut good } else { &mut bad }.push(format!("kernel {name} for {arch}"));
        }
    }
    if good.is_empty() && bad.is_empty() {
        return Err(Error::new(format!("{} is no kit", folder.display()))
            .evidence("it has no kernels: neither a folder x86_64 nor a folder arm64")
            .fix("name the folder of a kit; make one: make bundle"));
    }
    if !bad.is_empty() {
        return Err(Error::new("the kit does not do what it should")
            .evidence(format!("failed: {}; see their errors above", bad.join(", ")))
            .fix("make it again: make bundle"));
    }
    print_text(format_args!("\nEvery stage and example that a kernel can run ran on {}.", good.join(", ")))?;
    Ok(ExitCode::SUCCESS)
}

/// One step of making a kit.
type Step = fn(&mut Kit) -> Result<()>;

struct Kit {
    workbook: Workbook,
    guests: Vec<Guest>,
    folder: PathBuf,
    has_workshop: bool,
    /// The parts and their bytes.
    parts: Vec<(String, u64)>,
    /// What the kit lacks, and why.
    notes: Vec<String>,
}

/// The guest of an architecture. Its files are in the folder of that name.
struct Guest {
    arch: Arch,
    kernels: Vec<Kernel>,
    /// The workbook, built for this architecture.
    workbook: Workbook,
}

impl Kit {
    fn part(&mut self, what: impl Into<String>, path: &str) {
        self.parts.push((what.into(), size(&self.folder.join(path))));
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) -> Result<()> {
        let path = self.folder.join(path);
        fs::write(&path, bytes).or_cause(format!("cannot write {}", path.display()))
    }

    fn kernels(&mut self) -> Result<()> {
        let mut parts = Vec::new();
        for Guest { arch, kernels, .. } in &self.guests {
            let folder = self.folder.join(arch.name());
            fs::create_dir_all(&folder).or_cause(format!("cannot make {}", folder.display()))?;
            for kernel in kernels {
                let path = format!("{arch}/{VMLINUZ}{}", kernel.name);
                let image = fs::read(&kernel.image).or_cause("cannot read the kernel")?;
                self.write(&path, image_for_kit(*arch, image)?)?;
                let release = kernel.package.as_ref().map(|package| &*package.release).unwrap_or_default();
                parts.push((format!("kernel {release}"), path));
            }
            let default = kernels.iter().find(|kernel| kernel.name == DEFAULT).or(kernels.last());
            let default = default.map(|kernel| format!("{}\n", kernel.name)).unwrap_or_default();
            self.write(&format!("{arch}/default"), default)?;
        }
        parts.into_iter().for_each(|(what, path)| self.part(what, &path));
        Ok(())
    }

    /// The guest of each architecture, with the workshop or without.
    fn roots(&mut self) -> Result<()> {
        let files = self.guest_files()?;
        let bare = self.folder.join("bare");
        let mut parts = Vec::new();
        for Guest { arch, kernels, workbook } in &self.guests {
            let (name, level) = if self.has_workshop { (WORKSHOP, "-15") } else { (INITRAMFS, "-19") };
            if self.has_workshop {
                workshop::write(&bare, workbook, kernels, &files)?;
            } else {
                let cargo = (self.workbook.root.join(workshop::CARGO), "bin/cargo".into());
                let content = image::Content {
                    kernels: kernels.iter().collect(),
                    modules: image::MODULES.to_vec(),
                    binaries: workbook.build_small()?,
                    cross: workbook.cross(),
                    profile: workshop::PROFILE,
                    files: files.clone(),
                    copies: self.questions()?.into_iter().chain([cargo]).collect(),
                };
                image::write(&bare, &content)?;
            }
            let path = format!("{arch}/{name}");
            compress(level, &bare, &self.folder.join(&path))?;
            parts.push((format!("the guest for {arch}"), path));
        }
        parts.into_iter().for_each(|(what, path)| self.part(what, &path));
        Ok(())
    }

    /// The questions, and the sources that they quote, with their places in the guest.
    fn questions(&self) -> Result<Vec<(PathBuf, PathBuf)>> {
        let root = &self.workbook.root;
        let mut copies = Vec::new();
        for program in self.workbook.catalog.programs() {
            let folder = &program.folder;
            if folder.join(questions::FILE).exists() {
                let sources = files(&folder.join("src"), "")?;
                copies.extend(sources.into_iter().chain([folder.join(questions::FILE)]));
            }
        }
        let place = |file: &Path| Path::new("workbook").join(file.strip_prefix(root).unwrap_or(file));
        Ok(copies.into_iter().map(|file| (file.clone(), place(&file))).collect())
    }

    /// The files that a guest of any architecture has.
    fn guest_files(&self) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let none = Toolchain::Recorded(Recorded { rustc: Vec::new() });
        let known = Workbook { toolchain: none, ..workshop::in_guest(&self.workbook) };
        Ok(vec![
            (kit::FILE_SYSTEM, file_system()?),
            (kit::WORKBOOK, serde_json::to_vec(&known).or_cause("cannot describe the workbook")?),
        ])
    }

    /// The list of programs for the README.
    fn programs(&self) -> String {
        let programs = self.workbook.catalog.programs();
        programs.map(|program| format!("  {:<20}{}\n", program.binary(), program.title)).collect()
    }

    fn git(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        Ok(output(GIT.command()?.current_dir(&self.workbook.root).args(arguments))?.stdout)
    }

    fn sources(&mut self) -> Result<()> {
        if !self.workbook.root.join(".git").exists() {
            self.notes.push("No sources: this is not a clone of the workbook.".to_owned());
            return Ok(());
        }
        if !self.git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty() {
            self.notes.push(
                "The sources are those of the last commit, without your changes since then.".to_owned(),
            );
        }
        let tar = self.folder.join("sources.tar");
        let path = tar.display().to_string();
        self.git(&["archive", "--prefix=workbook/", "--output", &path, "HEAD"])?;
        xz("-9", &tar)?;
        self.part("sources", SOURCES);
        Ok(())
    }

    fn book(&mut self) -> Result<()> {
        let book = self.workbook.target.join("book");
        if !book.join("index.html").exists() {
            self.notes.push("No book: build it with make docs, then make the kit again.".to_owned());
            return Ok(());
        }
        copy_tree(&book, &self.folder.join("book"))?;
        self.part("the book", "book");
        Ok(())
    }

    /// The workbook with all libraries, and with the settings to use them.
    fn build_kit(&mut self) -> Result<()> {
        let work = machine::host::folders::temporary().or_cause("cannot make a folder")?;
        let tree = work.path().join("workbook");
        output(TAR.command()?.arg("-xf").arg(self.folder.join(SOURCES)).arg("-C").arg(work.path()))?;
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let mut vendor = Command::new(cargo);
        vendor.current_dir(&tree).args(["vendor", "--locked", "--quiet", "vendor"]);
        output(&mut vendor)?;
        let config = tree.join(".cargo/config.toml");
        let ours = fs::read_to_string(&config).or_cause("cannot read Cargo's settings")?;
        fs::write(&config, ours + VENDORED).or_cause("cannot write Cargo's settings")?;
        let tar = self.folder.join("build-kit.tar");
        let mut pack = TAR.command()?;
        pack.args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]);
        pack.args(["--mode=u+rw,go=rX", "--format=gnu", "-cf"]).arg(&tar).arg("-C").arg(work.path());
        output(pack.arg("workbook"))?;
        xz("-6", &tar)?;
        self.part("the build kit", BUILD);
        Ok(())
    }

    /// The list of what others have made, and of its licenses.
    fn licenses(&mut self) -> Result<()> {
        let mut works = Vec::new();
        for Guest { arch, kernels, workbook } in &self.guests {
            let cross = workbook.cross();
            // All that the workshop has from others is in the packages of its compilers.
            let compilers =
                if self.has_workshop { compilers::workbook(workbook)?.cross().cloned() } else { None };
            let compilers = compilers.map(|cross| cross.root);
            let files = match compilers {
                Some(_) => Vec::new(),
                None => image::works_of_others(&workbook.build_small()?, cross)?,
            };
            works.push(ThirdParty { arch: *arch, kernels, files, cross, compilers });
        }
        self.write(LICENSES, licenses::text(&self.workbook, &works)?)?;
        self.part("licenses", LICENSES);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.write("lab", include_str!("../../kit/lab"))?;
        self.write("keep", include_str!("../../kit/keep"))?;
        let launcher = self.folder.join("lab");
        fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755))
            .or_cause("cannot make the launcher a program")?;
        let guest = |guest: &Guest| {
            let names: Vec<_> = guest.kernels.iter().map(|kernel| &*kernel.name).collect();
            format!("{} for {}", names.join(", "), guest.arch)
        };
        let guests: Vec<_> = self.guests.iter().map(guest).collect();
        let readme = include_str!("../../kit/README.md")
            .replace("@KERNELS@", &guests.join("; "))
            .replace("@PROGRAMS@\n", &self.programs());
        self.write("README.md", readme)?;
        let before: u64 = self.parts.iter().map(|(_, bytes)| bytes).sum();
        let files = files(&self.folder, "")?;
        let names = files.iter().map(|file| file.strip_prefix(&self.folder).unwrap_or(file));
        let sums = output(SHA256SUM.command()?.current_dir(&self.folder).args(names))?.stdout;
        self.write(SUMS, sums)?;
        self.parts.push(("launcher, README, checksums".to_owned(), size(&self.folder) - before));
        Ok(())
    }

    fn summary(&self, out: &Path) -> String {
        let mut text = String::new();
        let total = ("all".to_owned(), self.parts.iter().map(|(_, bytes)| bytes).sum());
        for (what, bytes) in self.parts.iter().chain([&total]) {
            let _ = writeln!(text, "{:>7.2} MB  {what}", *bytes as f64 / 1e6);
        }
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        let _ = writeln!(
            text,
            "The kit is {}. Try it: {0}/lab; or verify all of it: cargo class bundle --verify {0}",
            out.display(),
        );
        text
    }
}

/// A kernel's image as QEMU can boot it, and small. One for x86_64 unpacks itself; one for arm64 is not packed, and QEMU
/// unpacks gzip.
fn image_for_kit(arch: Arch, image: Vec<u8>) -> Result<Vec<u8>> {
    if arch == Arch::X86 {
        return Ok(image);
    }
    // Without a time, so the same image gives the same bytes.
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&image).and_then(|()| gzip.finish()).or_cause("cannot compress a kernel's image")
}

/// Compresses a file in place. Uses one thread, because xz's output depends on the number of threads.
fn xz(level: &str, file: &Path) -> Result<()> {
    let mut xz = XZ.command()?;
    xz.env_remove("XZ_DEFAULTS").env_remove("XZ_OPT").args([level, "-T1"]).arg(file);
    output(&mut xz).map(drop)
}

/// The blocks of the disk with the file system, which are always the same.
fn file_system() -> Result<Vec<u8>> {
    const UUID: &str = "6c616200-0000-4000-8000-000000000000";
    let disk = tempfile::NamedTempFile::new().or_cause("cannot make a disk")?;
    disk.as_file().set_len(FS_BYTES).or_cause("cannot make a disk")?;
    let mut mke2fs = image::mke2fs()?;
    // The fixed time that e2fsprogs' own tests use.
    mke2fs.env("E2FSPROGS_FAKE_TIME", "1500000000");
    mke2fs.args(["-U", UUID, "-E", &format!("hash_seed={UUID}")]);
    output(mke2fs.arg(disk.path()))?;
    Ok(kit::blocks(&fs::read(disk.path()).or_cause("cannot read the disk")?))
}

/// Compresses a guest's root, and removes what is not compressed.
fn compress(level: &str, bare: &Path, image: &Path) -> Result<()> {
    let mut zstd = ZSTD.command()?;
    // The stages are very similar, so a window that spans all of them compresses most of each away. The kernel can't unpack
    // what needs a larger window. The result does not depend on the number of threads.
    zstd.args([level, "--long=27", "-T0", "--quiet", "--rm", "-o"]).arg(image).arg(bare);
    output(&mut zstd).map(drop)
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    for file in files(from, "")? {
        let copy = to.join(file.strip_prefix(from).unwrap_or(&file));
        let above = copy.parent().unwrap_or(to);
        fs::create_dir_all(above).or_cause(format!("cannot make {}", above.display()))?;
        fs::copy(&file, &copy).or_cause(format!("cannot copy {}", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kit_has_each_kernel_once() {
        let chosen = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            chosen(&names).map(|chosen| chosen.iter().map(|series| series.name).collect::<Vec<_>>())
        };
        assert_eq!(chosen(&["6.12", "5.10", "6.12"]).unwrap(), ["5.10", "6.12"]);
        assert_eq!(chosen(&[]).unwrap(), MATRIX.map(|series| series.name));
        let error = chosen(&["6.12", "4.19"]).unwrap_err().to_string();
        assert!(error.contains("a kernel 4.19") && error.contains("6.12"), "{error}");
    }
}
