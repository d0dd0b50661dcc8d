//! The kernels of the matrix: which ones, where they come from, which are here.
//!
//! They are Debian's *cloud* kernels: NVMe and ext4 are built in, so a guest needs no module for a real disk. apt
//! fetches them without root, from the mirror that this machine already uses, and checks them against the signed
//! archive's hashes. They are kept in the user's cache folder, outside of `target/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Error, OrCause, Result};
use indicatif::{ProgressBar, ProgressStyle};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::host::folders::cache;
use crate::host::tools::{DEPMOD, DPKG_DEB, XZ, output};
use crate::shared::command::lines;

/// One line of kernels of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    /// Such as `6.12`.
    pub name: &'static str,
    /// The Debian suites to look in, one after the other. A security suite has the newest packages of its release
    /// and is small, so it comes first.
    suites: &'static [&'static str],
}

/// The kernels on which every stage is proven, oldest first.
pub const MATRIX: [Series; 4] = [
    Series { name: "5.10", suites: &["bullseye-security", "bullseye"] },
    Series { name: "6.1", suites: &["bookworm-security", "bookworm"] },
    Series { name: "6.12", suites: &["bookworm-security", "trixie-security", "trixie"] },
    Series { name: "7.2", suites: &["sid", "forky"] },
];

/// The kernel that runs when none is named, and the one that `vmlinux.h` is made from.
pub const DEFAULT: &str = "6.12";

/// Folders of a kernel's modules that are kept: what a storage lab may want to load.
const MODULE_FOLDERS: [&str; 7] =
    ["block", "crypto", "drivers/block", "drivers/md", "drivers/scsi", "fs", "lib"];

/// Debian's keys, by which apt knows that a package is Debian's.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A kernel that can be booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its series, or its path as the user gave it.
    pub name: String,
    /// The bzImage.
    pub image: PathBuf,
    /// The folder `lib/modules/RELEASE` of its modules, with `modules.dep`.
    pub modules: Option<PathBuf>,
    /// Where it comes from, if it is of the matrix.
    pub package: Option<Package>,
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

impl Series {
    /// The series of this name.
    pub fn of(name: &str) -> Option<Self> {
        MATRIX.into_iter().find(|series| series.name == name)
    }

    fn folder(self) -> Result<PathBuf> {
        Ok(cache()?.join("kernels").join(self.name))
    }

    /// The kernel of this series that is here, if one is.
    ///
    /// # Errors
    /// If the user has no cache folder.
    pub fn here(self) -> Result<Option<Kernel>> {
        let folder = self.folder()?;
        let Ok(about) = fs::read(folder.join("package.json")) else { return Ok(None) };
        let package: Package = serde_json::from_slice(&about).or_cause(format!(
            "{} is damaged; remove the folder and fetch the kernel again",
            folder.join("package.json").display()
        ))?;
        Ok(Some(Kernel {
            name: self.name.to_owned(),
            image: folder.join("vmlinuz"),
            modules: Some(folder.join("lib/modules").join(&package.release)),
            package: Some(package),
        }))
    }

    /// Fetches the newest kernel of this series that the suites have, unless it is here already.
    ///
    /// # Errors
    /// If this machine has no apt or no Debian mirror, or the mirror has no such kernel.
    pub fn fetch(self, mirror: Option<&str>) -> Result<Kernel> {
        let apt = Apt::new(mirror)?;
        let mut looked = Vec::new();
        for suite in self.suites {
            match apt.newest(suite, self.name) {
                Ok(Some(found)) => return self.install(&apt, found),
                Ok(None) => looked.push(format!("{suite}: no linux-image-{}.*-cloud-amd64", self.name)),
                Err(error) => looked.push(format!("{suite}: {error}")),
            }
        }
        Err(Error::new(format!("no kernel {} was found", self.name))
            .evidence(looked.join("\n"))
            .fix("name another mirror: cargo lab kernels --fetch --mirror URL, or a kernel of yours: cargo lab run --kernel PATH"))
    }

    fn install(self, apt: &Apt, found: Found) -> Result<Kernel> {
        let folder = self.folder()?;
        if let Some(here) = self.here()?
            && here.package.as_ref().is_some_and(|package| package.version == found.package.version)
        {
            return Ok(here);
        }
        apt.download(&found, self.name)?;
        // Made beside the place and moved there when it is whole: a kernel is never half here.
        let above = folder.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(above).or_cause(format!("cannot make {}", above.display()))?;
        let work =
            tempfile::tempdir_in(above).or_cause(format!("cannot make a folder in {}", above.display()))?;
        let tree = work.path().join("tree");
        let packages = files(&apt.downloads(), ".deb")?;
        for package in &packages {
            output(DPKG_DEB.command()?.arg("-x").arg(package).arg(&tree))?;
        }

        let release = found.package.release.clone();
        let kernel = work.path().join("kernel");
        let modules = kernel.join("lib/modules").join(&release);
        fs::create_dir_all(&modules).or_cause("cannot make a folder for the modules")?;
        let images = [
            tree.join(format!("boot/vmlinuz-{release}")),
            tree.join(format!("usr/lib/modules/{release}/vmlinuz")),
        ];
        let image = images.iter().find(|image| image.exists()).ok_or_else(|| {
            Error::new(format!("{} holds no kernel image", found.package.name)).evidence(format!(
                "neither {} nor {}",
                images[0].display(),
                images[1].display()
            ))
        })?;
        fs::rename(image, kernel.join("vmlinuz")).or_cause("cannot move the kernel image")?;
        let trees = ["lib/modules", "usr/lib/modules"].map(|place| tree.join(place).join(&release));
        for tree in trees.iter().filter(|tree| tree.exists()) {
            for name in ["modules.builtin", "modules.order", "modules.builtin.modinfo"] {
                let _ = fs::rename(tree.join(name), modules.join(name));
            }
            for name in MODULE_FOLDERS {
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
        output(DEPMOD.command()?.arg("--basedir").arg(&kernel).arg(&release))?;
        let about = serde_json::to_vec_pretty(&found.package).or_cause("cannot describe the kernel")?;
        fs::write(kernel.join("package.json"), about).or_cause("cannot describe the kernel")?;

        if folder.exists() {
            fs::remove_dir_all(&folder).or_cause(format!("cannot replace {}", folder.display()))?;
        }
        fs::rename(&kernel, &folder).or_cause(format!("cannot put the kernel into {}", folder.display()))?;
        for package in packages {
            let _ = fs::remove_file(package);
        }
        self.here()?.ok_or_else(|| Error::new(format!("the kernel {} was here and is gone", self.name)))
    }
}

/// Unpacks a package of a Debian suite, with all packages that it needs, into a folder, and gives its version.
///
/// # Errors
/// If this machine has no apt or no Debian mirror, or the mirror has no such package.
pub fn unpack_package(suite: &str, package: &str, folder: &Path) -> Result<String> {
    let apt = Apt::new(None)?;
    apt.look_into(suite)?;
    let archives = tempfile::tempdir().or_cause("cannot make a folder")?;
    fs::create_dir(archives.path().join("partial")).or_cause("cannot make a folder")?;
    let mut download = apt.command("apt-get");
    download.args(["install", "-qq", "--download-only", "--no-install-recommends", "-o"]);
    output(download.arg(format!("Dir::Cache::archives={}", archives.path().display())).arg(package))?;
    for archive in files(archives.path(), ".deb")? {
        output(DPKG_DEB.command()?.arg("-x").arg(archive).arg(folder))?;
    }
    let shown = output(apt.command("apt-cache").args(["show", "--no-all-versions", package]))?;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let version = shown.lines().find_map(|line| line.strip_prefix("Version: "));
    Ok(version.unwrap_or_default().to_owned())
}

/// The kernel of this name: a series of the matrix, which must be here, or the path of a bzImage.
///
/// # Errors
/// If it is neither, is not here, or is no kernel.
pub fn find(name: &str) -> Result<Kernel> {
    if let Some(series) = Series::of(name) {
        return series.here()?.ok_or_else(|| {
            Error::new(format!("the kernel {name} is not here yet"))
                .evidence(format!("{} is missing", series.folder().unwrap_or_default().display()))
                .fix(format!("fetch it: cargo lab kernels --fetch {name}"))
        });
    }
    let image = PathBuf::from(name);
    let known = MATRIX.map(|series| series.name).join(", ");
    if !image.is_file() {
        return Err(Error::new(format!("there is no kernel {name}"))
            .evidence(format!("it is no file, and not one of {known}"))
            .fix(format!("name one of these, or a bzImage by its path: --kernel {DEFAULT}")));
    }
    let start = fs::read(&image).or_cause(format!("cannot read {name}"))?;
    // The x86 boot protocol, Documentation/arch/x86/boot.rst: the header's magic number.
    if start.get(0x202..0x206) != Some(b"HdrS") {
        return Err(Error::new(format!("{name} is no kernel for x86"))
            .evidence("a bzImage has HdrS at byte 0x202; this file has not")
            .fix("name a bzImage that has NVMe and ext4 built in"));
    }
    Ok(Kernel { name: name.to_owned(), image, modules: None, package: None })
}

/// Files below a folder whose names end so.
fn files(folder: &Path, end: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in folder.read_dir().or_cause(format!("cannot list {}", folder.display()))?.flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path, end)?);
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A kernel's package in a suite, and what must be downloaded to have it.
struct Found {
    package: Package,
    /// `NAME=VERSION` of each package to download.
    downloads: Vec<String>,
}

/// apt with lists and settings of our own, so that it needs no root and leaves the system's alone. One at a time.
struct Apt {
    _lock: Flock<fs::File>,
    folder: PathBuf,
    main: String,
    security: String,
}

impl Apt {
    fn new(mirror: Option<&str>) -> Result<Self> {
        let targets = Command::new("apt-get")
            .args(["indextargets", "--format", "$(REPO_URI) $(RELEASE) $(ORIGIN)", "Created-By: Packages"])
            .output()
            .map_err(|error| {
                Error::new("the kernels of the matrix are Debian packages, and this machine has no apt to fetch them")
                    .evidence(format!("apt-get: {error}"))
                    .fix("copy a kernel with ext4 and NVMe built in to this machine and name it: --kernel PATH")
            })?;
        let (main, security) = mirrors(&String::from_utf8_lossy(&targets.stdout), mirror)?;
        if !Path::new(KEYRING).exists() {
            return Err(Error::new("Debian's keys are missing, by which packages are checked")
                .evidence(format!("{KEYRING} is missing"))
                .fix("make setup (Ubuntu: apt install debian-archive-keyring)"));
        }
        let folder = cache()?.join("apt");
        for name in ["lists/partial", "archives/partial", "downloads"] {
            let path = folder.join(name);
            fs::create_dir_all(&path).or_cause(format!("cannot make {}", path.display()))?;
        }
        let lock = fs::File::create(folder.join("lock")).or_cause("cannot make a lock for apt's folder")?;
        let lock = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, error)| error);
        Ok(Self { _lock: lock.or_cause("cannot lock apt's folder")?, folder, main, security })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", self.folder.join("apt.conf"));
        command
    }

    /// From here on apt's lists are those of a suite.
    fn look_into(&self, suite: &str) -> Result<()> {
        let mirror = if suite.ends_with("-security") { &self.security } else { &self.main };
        let source = format!("deb [arch=amd64 signed-by={KEYRING}] {mirror} {suite} main\n");
        fs::write(self.folder.join("sources.list"), source).or_cause("cannot write apt's sources")?;
        fs::write(self.folder.join("apt.conf"), settings(&self.folder))
            .or_cause("cannot write apt's settings")?;
        output(self.command("apt-get").args(["update", "-qq", "--error-on=any"])).map(drop)
    }

    /// The newest cloud kernel of a series in a suite.
    fn newest(&self, suite: &str, series: &str) -> Result<Option<Found>> {
        eprintln!("Looking for kernel {series} in Debian's {suite} ...");
        self.look_into(suite)?;
        let pattern = format!(r"^linux-image-{}\.[0-9].*-cloud-amd64$", series.replace('.', r"\."));
        let names = output(self.command("apt-cache").args(["search", "--names-only", &pattern]))?;
        let names = String::from_utf8_lossy(&names.stdout).into_owned();
        let names: Vec<_> = names.lines().filter_map(|line| line.split(' ').next()).collect();
        if names.is_empty() {
            return Ok(None);
        }
        let shown = output(self.command("apt-cache").args(["show", "--no-all-versions"]).args(names))?;
        Ok(newest(&String::from_utf8_lossy(&shown.stdout)))
    }

    /// Where packages are until they are installed.
    fn downloads(&self) -> PathBuf {
        self.folder.join("downloads")
    }

    /// Downloads packages, with a progress bar. apt refuses what does not match the archive's hash.
    fn download(&self, found: &Found, series: &str) -> Result<()> {
        let style = ProgressStyle::with_template("{msg} [{bar:40}] {percent:>3} %")
            .map(|style| style.progress_chars("=> "))
            .or_cause("the progress bar is not well formed")?;
        let bar = ProgressBar::new(100)
            .with_style(style)
            .with_message(format!("Kernel {series}: {}", found.package.release));
        let mut apt = self
            .command("apt-get")
            .args(["download", "-qq", "-o", "APT::Status-Fd=1"])
            .args(&found.downloads)
            .current_dir(self.downloads())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .or_cause("cannot start apt-get")?;
        for line in lines(apt.stdout.take()) {
            // dlstatus:1:45.3:Retrieving file 1 of 2
            let percent =
                line.strip_prefix("dlstatus:").and_then(|rest| rest.split(':').nth(1)?.parse::<f64>().ok());
            bar.set_position(percent.unwrap_or_default() as u64);
        }
        let result = apt.wait_with_output().or_cause("cannot wait for apt-get")?;
        if !result.status.success() {
            bar.abandon();
            return Err(Error::new(format!("the kernel {series} could not be downloaded"))
                .evidence(String::from_utf8_lossy(&result.stderr))
                .fix("try again: packages that are whole are kept"));
        }
        bar.finish();
        Ok(())
    }
}

/// apt's settings: everything in a folder of ours.
fn settings(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        r#"// Written by `cargo lab kernels`.
Dir::State "{folder}";
Dir::State::lists "{folder}/lists";
Dir::State::status "/dev/null";
Dir::Cache "{folder}";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "-";
APT::Architecture "amd64";
APT::Architectures {{ "amd64"; }};
APT::Get::List-Cleanup "false";
// As root apt would download as the user _apt, who may not write into our folder.
APT::Sandbox::User "";
// A suite that is no longer updated is still signed, and what it holds is still checked.
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
"#
    )
}

/// The mirrors of Debian and of its security updates: the user's, or those of this machine's apt.
fn mirrors(targets: &str, wanted: Option<&str>) -> Result<(String, String)> {
    const SUITES: [&str; 10] = [
        "bullseye",
        "bookworm",
        "trixie",
        "forky",
        "sid",
        "oldoldstable",
        "oldstable",
        "stable",
        "testing",
        "unstable",
    ];
    let beside = |main: &str| format!("{}-security/", main.trim_end_matches('/'));
    if let Some(main) = wanted {
        return Ok((main.to_owned(), beside(main)));
    }
    // MIRROR SUITE ORIGIN: others, too, have a suite called stable.
    let find = |is: &dyn Fn(&str) -> bool| {
        let mut targets = targets.lines().filter_map(|line| {
            let mut words = line.split(' ');
            (words.clone().nth(2) == Some("Debian")).then_some((words.next()?, words.next()?))
        });
        targets.find(|(_, suite)| is(suite)).map(|(mirror, _)| mirror.to_owned())
    };
    let main = find(&|suite| SUITES.contains(&suite)).ok_or_else(|| {
        Error::new("this machine's apt knows no mirror of Debian")
            .evidence(if targets.is_empty() {
                "apt-get indextargets prints nothing: apt has no lists yet, or no sources"
            } else {
                targets
            })
            .fix(
                "on Debian: sudo apt-get update; elsewhere name a mirror: cargo lab kernels --fetch --mirror URL, where \
                 URL/dists is Debian's; its security updates are looked for at URL-security",
            )
    })?;
    let security =
        find(&|suite| suite.strip_suffix("-security").is_some_and(|suite| SUITES.contains(&suite)));
    Ok((main.clone(), security.unwrap_or_else(|| beside(&main))))
}

/// The newest kernel among what `apt-cache show` printed.
fn newest(shown: &str) -> Option<Found> {
    let packages = shown.split("\n\n").filter_map(|paragraph| {
        let field =
            |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let (name, version) = (field("Package")?, field("Version")?);
        // Since 7.x an image package is empty and depends on the packages that hold image and modules.
        let parts = field("Depends").unwrap_or_default().split(", ").filter_map(|part| {
            let name = part.split(' ').next()?;
            (name.starts_with("linux-binary-") || name.starts_with("linux-modules-"))
                .then(|| format!("{name}={version}"))
        });
        let mut downloads: Vec<_> = parts.collect();
        if downloads.is_empty() {
            downloads.push(format!("{name}={version}"));
        }
        let release = name.strip_prefix("linux-image-")?.to_owned();
        Some(Found {
            package: Package { name: name.to_owned(), version: version.to_owned(), release },
            downloads,
        })
    });
    packages.max_by_key(|found| numbers(&found.package.version))
}

/// The numbers in a version, by which releases of one series are ordered.
fn numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_is_the_one_with_the_largest_numbers() {
        let show = |name: &str, version: &str, depends: &str| {
            format!("Package: linux-image-{name}-cloud-amd64\nVersion: {version}\nDepends: {depends}\n")
        };
        let old = show("6.12.99+deb12", "6.12.99-1~deb12u1", "kmod, linux-base");
        let new = show("6.12.117+deb12", "6.12.117-1~deb12u1", "kmod, linux-base");
        let found = newest(&format!("{new}\n{old}")).unwrap();
        assert_eq!(found.package.release, "6.12.117+deb12-cloud-amd64");
        assert_eq!(found.downloads, ["linux-image-6.12.117+deb12-cloud-amd64=6.12.117-1~deb12u1"]);
    }

    #[test]
    fn an_image_that_is_split_is_fetched_in_parts() {
        let shown = "Package: linux-image-7.2.13+deb14-cloud-amd64\nVersion: 7.2.13-1\n\
            Depends: dracut | initramfs-tools, linux-binary-7.2.13+deb14-cloud-amd64 (= 7.2.13-1), linux-modules-7.2.13+deb14-cloud-amd64 (= 7.2.13-1)\n";
        assert_eq!(
            newest(shown).unwrap().downloads,
            [
                "linux-binary-7.2.13+deb14-cloud-amd64=7.2.13-1",
                "linux-modules-7.2.13+deb14-cloud-amd64=7.2.13-1"
            ]
        );
    }

    #[test]
    fn mirrors_come_from_this_machines_apt_or_from_the_user() {
        let debian = "https://mirror/debian-security/ bookworm-security Debian\nhttps://mirror/debian/ bookworm Debian\n";
        let both = ("https://mirror/debian/".to_owned(), "https://mirror/debian-security/".to_owned());
        assert_eq!(mirrors(debian, None).unwrap(), both);
        assert_eq!(mirrors("https://mirror/debian/ sid Debian\n", None).unwrap(), both);
        assert_eq!(mirrors("", Some("https://mirror/debian/")).unwrap(), both);
        let ubuntu = "https://mirror/ubuntu/ noble Ubuntu\nhttps://browser/deb/ stable Browser\n";
        insta::assert_snapshot!(mirrors(ubuntu, None).unwrap_err());
        assert!(mirrors("", None).unwrap_err().to_string().contains("sudo apt-get update"));
    }

    #[test]
    fn a_kernel_is_known_by_its_header() {
        insta::assert_snapshot!(find("7.99").unwrap_err());
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "no kernel").unwrap();
        let error = find(file.path().to_str().unwrap()).unwrap_err().to_string();
        assert!(error.contains("HdrS"), "{error}");
    }
}
