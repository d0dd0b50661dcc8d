//! `cargo class bundle`: the room kit, a folder for a USB stick with everything that a laptop needs except QEMU. Its
//! launcher is `lab/class/kit/lab`.
//!
//! The launcher is a shell script that only looks at the laptop and starts QEMU. The script `keep` beside it keeps a learner's
//! work. The lab and the launcher start the same machine: a change of
//! `lab/machine/src/qemu.rs` is one of the launcher, too, and a test compares them.
//!
//! `cargo test --package class --test kit` tests the launcher with a fake emulator that only records how it was called, and
//! `make bundle-test` tests whole kits in an empty Debian.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;
use common::report::print_text;
use common::{Error, OrCause, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use machine::host::folders::{files, size};
use machine::host::tools::{GIT, SHA256SUM, TAR, XZ, ZSTD, output};
use machine::kernels::{DEFAULT, Kernel, MATRIX, Series};
use machine::qemu::FS_BYTES;
use machine::signals;
use machine::workbook::{Recorded, Toolchain, Workbook};
use machine::{cross, image};
use wire::arch::Arch;
use wire::kit;

use crate::licenses::{self, ThirdParty};
use crate::workshop::{self, Parts};

/// What to put into a kit.
#[derive(Args)]
pub struct KitOptions {
    /// The architectures of its guests, such as arm64,x86_64 [default: this machine's]
    #[arg(long, value_enum, value_name = "ARCH", hide_possible_values = true, value_delimiter = ',')]
    arch: Vec<Arch>,
    /// The kernels to include [default: all released ones]
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    kernels: Vec<String>,
    /// The folder to write [default: room-kit in Cargo's target folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Include everything that is needed to build the workbook without a network
    #[arg(long)]
    with_sources: bool,
    /// Put the workshop into the guest, for a browser: an editor, compilers and the book. The first time, the lab
    /// downloads 140 MB
    #[arg(long)]
    with_workshop: bool,
    /// Make no kit, but verify this one: boot each of its kernels, and check what the stages and examples print
    #[arg(long, value_name = "DIR", conflicts_with_all = ["arch", "kernels", "out", "with_sources", "with_workshop"])]
    pub verify: Option<PathBuf>,
}

/// What every kit has. Other folders have checksums, too.
const KIT: [&str; 2] = [SUMS, "lab"];
/// The checksums of all other files.
const SUMS: &str = "SHA256SUMS";
/// The sources of the last commit.
const SOURCES: &str = "sources.tar.xz";
/// The licenses of what is in the kit, and where its sources are.
const LICENSES: &str = "LICENSES.txt";
/// The guest's root file system, in the folder of its architecture. We compress it with zstd because that unpacks fast,
/// and Debian's kernels support it since 5.10.
const INITRAMFS: &str = "initramfs";

/// The same with more files in it: the workshop's server, compilers, sources and the book.
const WORKSHOP: &str = "workshop";

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
    let mut archs = if options.arch.is_empty() { vec![Arch::HERE] } else { options.arch.clone() };
    archs.sort();
    archs.dedup();
    let (mut kernels, series) = (Vec::new(), chosen(&options.kernels)?);
    for arch in archs {
        let all = series.iter().map(|series| series.get(arch, None));
        kernels.push((arch, all.collect::<Result<Vec<_>>>()?));
    }
    let out = options.out.clone().unwrap_or_else(|| workbook.target.join("room-kit"));
    // We are about to replace this folder, so make sure that it is a kit.
    if out.exists() && !KIT.iter().all(|file| out.join(file).exists()) {
        return Err(Error::new(format!("{} exists and is not a kit", out.display()))
            .evidence(format!("it lacks one of {}", KIT.join(", ")))
            .fix("name a folder that does not exist yet: --out DIR"));
    }
    let is_clone = workbook.root.join(".git").exists();
    if options.with_sources && !is_clone {
        return Err(Error::new("there are no sources to put into the kit")
            .evidence(format!("{} is not a clone of the workbook", workbook.root.display()))
            .fix("leave out --with-sources, or make the kit in a clone"));
    }
    let out = std::path::absolute(out).or_cause("cannot find out the folder's absolute path")?;
    let above = out.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(above).or_cause(format!("cannot make {}", above.display()))?;
    // Make the kit in a folder next to it, and rename it when it is complete.
    let work =
        tempfile::tempdir_in(above).or_cause(format!("cannot make a folder in {}", above.display()))?;
    let folder = work.path().join("kit");
    let has_workshop = options.with_workshop;
    let mut kit = Kit { workbook: workbook.clone(), guests: Vec::new(), folder, has_workshop };
    begin("making the guest")?;
    for (arch, kernels) in kernels {
        let of_arch = cross::for_arch(workbook.clone(), arch, None)?;
        let parts = if has_workshop { workshop::parts(&of_arch)? } else { kit.plain_parts(of_arch)? };
        kit.guests.push(Guest { arch, kernels, parts });
    }
    kit.kernels()?;
    kit.roots()?;
    begin("collecting licenses")?;
    kit.licenses()?;
    begin("packing sources")?;
    match is_clone {
        true => kit.sources()?,
        false => eprintln!("warning: the kit has no sources, because this is not a clone of the workbook"),
    }
    kit.book()?;
    if options.with_sources {
        begin("packing the build kit")?;
        kit.build_kit()?;
    }
    begin("summing up")?;
    kit.finish()?;
    signals::check()?;

    if out.exists() {
        fs::remove_dir_all(&out).or_cause(format!("cannot replace {}", out.display()))?;
    }
    fs::rename(&kit.folder, &out).or_cause(format!("cannot put the kit into {}", out.display()))?;
    print_text(summary(&out)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Lets a kit verify itself.
pub fn verify(kit: &Path) -> Result<ExitCode> {
    let launcher = kit.join("lab");
    if !launcher.exists() {
        return Err(Error::new(format!("{} is no kit", kit.display()))
            .evidence("it has no launcher, which is a file called lab")
            .fix("name the folder of a kit; make one: make bundle"));
    }
    // With sh, because a stick may be mounted without execute permission.
    let status = Command::new("sh").arg(&launcher).arg("verify").status().or_cause("cannot start sh")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Says which part of the kit comes next, unless somebody has interrupted us.
fn begin(part: &str) -> Result<()> {
    signals::check()?;
    eprintln!("Room kit: {part} ...");
    Ok(())
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

struct Kit {
    workbook: Workbook,
    guests: Vec<Guest>,
    folder: PathBuf,
    has_workshop: bool,
}

/// The guest of an architecture. Its files are in the folder of that name.
struct Guest {
    arch: Arch,
    kernels: Vec<Kernel>,
    parts: Parts,
}

impl Kit {
    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) -> Result<()> {
        let path = self.folder.join(path);
        fs::write(&path, bytes).or_cause(format!("cannot write {}", path.display()))
    }

    fn kernels(&self) -> Result<()> {
        for Guest { arch, kernels, .. } in &self.guests {
            let folder = self.folder.join(arch.name());
            fs::create_dir_all(&folder).or_cause(format!("cannot make {}", folder.display()))?;
            for kernel in kernels {
                let release = kernel.package.as_ref().map_or(&*kernel.name, |package| &*package.release);
                begin(&format!("copying kernel {release}"))?;
                let image = fs::read(&kernel.image).or_cause("cannot read the kernel")?;
                self.write(&format!("{arch}/vmlinuz-{}", kernel.name), image_for_kit(*arch, image)?)?;
            }
            let default = kernels.iter().find(|kernel| kernel.name == DEFAULT).or(kernels.last());
            let default = default.map(|kernel| format!("{}\n", kernel.name)).unwrap_or_default();
            self.write(&format!("{arch}/default"), default)?;
        }
        Ok(())
    }

    /// The guest of each architecture, with the workshop or without.
    fn roots(&self) -> Result<()> {
        let (name, level) = if self.has_workshop { (WORKSHOP, "-15") } else { (INITRAMFS, "-19") };
        let bare = self.folder.join("bare");
        let network = if self.has_workshop { workshop::NETWORK.to_vec() } else { Vec::new() };
        let file_system = file_system()?;
        let cargo = (self.workbook.root.join(workshop::CARGO), "bin/cargo".into());
        for Guest { arch, kernels, parts } in &self.guests {
            if self.has_workshop {
                kernels
                    .iter()
                    .filter_map(|kernel| kernel.modules.as_deref())
                    .try_for_each(workshop::has_network)?;
            }
            let toolchain = Toolchain::Recorded(Recorded { rustc: parts.rustc.clone() });
            let known = Workbook { toolchain, ..workshop::in_guest(&self.workbook) };
            let known = serde_json::to_vec(&known).or_cause("cannot describe the workbook")?;
            let content = image::Content {
                kernels: kernels.iter().collect(),
                modules: image::MODULES.iter().chain(&network).copied().collect(),
                binaries: parts.programs.clone(),
                cross: parts.workbook.cross(),
                profile: workshop::PROFILE,
                files: vec![(kit::FILE_SYSTEM, file_system.clone()), (kit::WORKBOOK, known)],
                copies: parts.copies.iter().chain([&cargo]).cloned().collect(),
            };
            image::write(&bare, &content)?;
            compress(level, &bare, &self.folder.join(arch.name()).join(name))?;
        }
        Ok(())
    }

    /// What a guest without the workshop has: the questions, too, and the sources that they quote.
    fn plain_parts(&self, workbook: Workbook) -> Result<Parts> {
        let mut quoted = Vec::new();
        for program in self.workbook.catalog.programs() {
            let questions = program.folder.join(questions::FILE);
            if questions.exists() {
                quoted.extend(files(&program.folder.join("src"), "")?.into_iter().chain([questions]));
            }
        }
        let copies = workshop::placed(quoted, &self.workbook.root, "workbook");
        Ok(Parts { programs: workbook.build_small()?, workbook, rustc: Vec::new(), copies })
    }

    /// The list of programs for the README.
    fn programs(&self) -> String {
        let programs = self.workbook.catalog.programs();
        programs.map(|program| format!("  {:<20}{}\n", program.binary(), program.title)).collect()
    }

    fn git(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        Ok(output(GIT.command()?.current_dir(&self.workbook.root).args(arguments))?.stdout)
    }

    fn sources(&self) -> Result<()> {
        if !self.git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty() {
            eprintln!("warning: the sources are those of the last commit, without your changes since then");
        }
        let tar = self.folder.join("sources.tar");
        let path = tar.display().to_string();
        self.git(&["archive", "--prefix=workbook/", "--output", &path, "HEAD"])?;
        xz("-9", &tar)
    }

    fn book(&self) -> Result<()> {
        let book = self.workbook.target.join("book");
        if book.join("index.html").exists() {
            return output(Command::new("cp").arg("-r").arg(&book).arg(&self.folder)).map(drop);
        }
        eprintln!("warning: the kit has no book: build it with make docs, then make the kit again");
        Ok(())
    }

    /// The workbook with all libraries, and with the settings to use them.
    fn build_kit(&self) -> Result<()> {
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
        xz("-6", &tar)
    }

    /// The list of what others have made, and of its licenses.
    fn licenses(&self) -> Result<()> {
        let mut works = Vec::new();
        for Guest { arch, kernels, parts } in &self.guests {
            let cross = parts.workbook.cross();
            // All that the workshop has from others is in the packages of its compilers.
            let is_plain = !self.has_workshop;
            let files = is_plain.then(|| image::works_of_others(&parts.programs, cross)).transpose()?;
            let root = cross.map_or("/".into(), |cross| cross.root.clone());
            works.push(ThirdParty { arch: *arch, kernels, root, files });
        }
        self.write(LICENSES, licenses::text(&self.workbook, &works)?)
    }

    fn finish(&self) -> Result<()> {
        self.write("lab", include_str!("../kit/lab"))?;
        self.write("keep", include_str!("../kit/keep"))?;
        let launcher = self.folder.join("lab");
        fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755))
            .or_cause("cannot make the launcher a program")?;
        let guest = |guest: &Guest| {
            let names: Vec<_> = guest.kernels.iter().map(|kernel| &*kernel.name).collect();
            format!("{} for {}", names.join(", "), guest.arch)
        };
        let guests: Vec<_> = self.guests.iter().map(guest).collect();
        let readme = include_str!("../kit/README.md")
            .replace("@KERNELS@", &guests.join("; "))
            .replace("@PROGRAMS@\n", &self.programs());
        self.write("README.md", readme)?;
        let files = files(&self.folder, "")?;
        let names = files.iter().map(|file| file.strip_prefix(&self.folder).unwrap_or(file));
        let sums = output(SHA256SUM.command()?.current_dir(&self.folder).args(names))?.stdout;
        self.write(SUMS, sums)
    }
}

/// The size of each part that a stick must have room for, each kernel and guest by itself, and of all of them.
fn summary(kit: &Path) -> Result<String> {
    let mut parts = BTreeSet::new();
    for part in kit.read_dir().or_cause(format!("cannot read {}", kit.display()))?.flatten() {
        let part = part.path();
        match part.is_dir() && !part.ends_with("book") {
            true => parts.extend(files(&part, "")?),
            false => drop(parts.insert(part)),
        }
    }
    let line = |part: &PathBuf| format!("{:>7.2} MB  {}\n", size(part) as f64 / 1e6, part.display());
    let parts: String = parts.iter().chain([&kit.to_owned()]).map(line).collect();
    Ok(format!("{parts}Try it: {0}/lab; or verify all of it: {0}/lab verify", kit.display()))
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
