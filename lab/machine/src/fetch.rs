//! Fetches Debian packages with apt and without root, from the mirror that this machine uses or from another archive.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Error, OrCause, Result};
use indicatif::{ProgressBar, ProgressStyle};
use nix::fcntl::{Flock, FlockArg};
use wire::arch::Arch;

use crate::host::folders::{cache, files};
use crate::host::tools::{DPKG_DEB, output, watch};
use crate::lock::{self, Archive, Package, Source, Sum};

/// Debian's keys, with which apt verifies that an index is Debian's.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// apt's own program to download one file. It uses apt's proxies and transports.
const APT_HELPER: &str = "/usr/lib/apt/apt-helper";

/// Whether the user wants that nothing is downloaded.
static OFFLINE: AtomicBool = AtomicBool::new(false);

/// From now on, nothing is downloaded.
pub fn stay_offline() {
    OFFLINE.store(true, Ordering::Relaxed);
}

/// Whether nothing may be downloaded.
pub fn is_offline() -> bool {
    OFFLINE.load(Ordering::Relaxed)
}

/// apt with our own lists and settings, so it needs no root and leaves the system's alone. Only one lab can use it at
/// a time.
pub struct Apt {
    _lock: Flock<fs::File>,
    folder: PathBuf,
    architectures: Vec<Arch>,
    main: String,
    security: String,
}

/// Unpacks packages of a Debian suite and all their dependencies into a folder, and returns the packages' versions.
///
/// # Errors
/// If this machine has no apt or no Debian mirror, or the mirror has no such package.
pub fn unpack_packages(suite: &str, packages: &[&str], folder: &Path) -> Result<Vec<String>> {
    let apt = Apt::new(&[Arch::HERE], None)?;
    apt.look_into(&[suite])?;
    let archives = tempfile::tempdir().or_cause("cannot make a folder")?;
    fs::create_dir(archives.path().join("partial")).or_cause("cannot make a folder")?;
    let mut download = apt.command("apt-get");
    download.args(["install", "-qq", "--download-only", "--no-install-recommends", "-o"]);
    output(download.arg(format!("Dir::Cache::archives={}", archives.path().display())).args(packages))?;
    unpack(archives.path(), folder)?;
    let version = |package: &&str| {
        let shown = output(apt.command("apt-cache").args(["show", "--no-all-versions", package]))?;
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        Ok(paragraphs(&shown).find_map(|package| field(package, "Version")).unwrap_or_default().to_owned())
    };
    packages.iter().map(version).collect()
}

/// Unpacks exactly these packages of a Debian suite, each `NAME=VERSION`, into a folder, without any dependency.
///
/// # Errors
/// As [`unpack_packages`].
pub fn unpack_exactly(suite: &str, packages: &[String], folder: &Path) -> Result<()> {
    let apt = Apt::new(&[Arch::HERE], None)?;
    apt.look_into(&[suite])?;
    let archives = tempfile::tempdir().or_cause("cannot make a folder")?;
    output(apt.command("apt-get").args(["download", "-qq"]).args(packages).current_dir(archives.path()))?;
    unpack(archives.path(), folder)
}

fn unpack(archives: &Path, folder: &Path) -> Result<()> {
    files(archives, ".deb")?
        .into_iter()
        .try_for_each(|archive| output(DPKG_DEB.command()?.arg("-x").arg(archive).arg(folder)).map(drop))
}

/// Writes dpkg's records of the packages that were unpacked below a folder, so that dpkg-query(1) can report from which
/// of them a file comes. Returns the packages, each `NAME:ARCHITECTURE=VERSION SHA-256`.
fn record(archives: &Path, folder: &Path) -> Result<Vec<String>> {
    let cannot = || format!("cannot write dpkg's records in {}", folder.display());
    let dpkg = folder.join("var/lib/dpkg");
    let (mut status, mut packages) = (String::new(), Vec::new());
    fs::create_dir_all(dpkg.join("info")).or_cause(cannot())?;
    for archive in files(archives, ".deb")? {
        let ask = |option: &str| -> Result<String> {
            let said = output(DPKG_DEB.command()?.arg(option).arg(&archive))?;
            Ok(String::from_utf8_lossy(&said.stdout).into_owned())
        };
        let control = ask("--field")?;
        let value = |name| field(&control, name).unwrap_or_default();
        let full = format!("{}:{}", value("Package"), value("Architecture"));
        let sum = Sum::of(&fs::read(&archive).or_cause(format!("cannot read {}", archive.display()))?);
        packages.push(format!("{full}={} {}", value("Version"), sum.sha256));
        let name = if value("Multi-Arch") == "same" { full } else { value("Package").to_owned() };
        // As `tar -tv` prints it: the sixth word of a line is a path that begins with a point. dpkg calls the root `/.`.
        let contents = ask("--contents")?;
        let paths = contents.lines().filter_map(|line| line.split_whitespace().nth(5)?.strip_prefix('.'));
        let path =
            |path: &str| if path == "/" { "/.".to_owned() } else { path.trim_end_matches('/').to_owned() };
        let list: String = paths.map(|name| path(name) + "\n").collect();
        fs::write(dpkg.join(format!("info/{name}.list")), list).or_cause(cannot())?;
        status += &format!("Status: install ok installed\n{}\n\n", control.trim_end());
    }
    fs::write(dpkg.join("info/format"), "1\n").or_cause(cannot())?;
    fs::write(dpkg.join("status"), status).or_cause(cannot())?;
    Ok(packages)
}

impl Apt {
    /// Sets up apt for packages of these architectures, with this Debian archive, or else with this machine's mirror.
    /// Waits while another lab uses it.
    ///
    /// # Errors
    /// If this machine has no apt, or if no archive is named and apt knows no Debian mirror.
    pub fn new(architectures: &[Arch], mirror: Option<&str>) -> Result<Self> {
        if is_offline() {
            return Err(Error::new("nothing may be downloaded")
                .evidence("--offline")
                .fix("leave out that option"));
        }
        Self::within(&cache()?.join("apt"), architectures, mirror)
    }

    /// Like [`Apt::new`], but keeps everything in this folder.
    pub(crate) fn within(folder: &Path, architectures: &[Arch], mirror: Option<&str>) -> Result<Self> {
        if !Path::new(APT_HELPER).exists() {
            return Err(Error::new(
                "the kernels of the matrix are Debian packages, and this machine has no apt to fetch them",
            )
            .evidence(format!("{APT_HELPER} is missing"))
            .fix("copy a kernel with ext4 and NVMe built in to this machine and name it: --kernel PATH"));
        }
        let targets = match mirror {
            Some(_) => String::new(),
            None => {
                let mut list = Command::new("apt-get");
                list.args(["indextargets", "--format", "$(REPO_URI) $(RELEASE) $(ORIGIN)"]);
                let targets = list.arg("Created-By: Packages").output().or_cause("cannot start apt-get")?;
                String::from_utf8_lossy(&targets.stdout).into_owned()
            }
        };
        let (main, security) = mirrors(&targets, mirror)?;
        for name in ["lists/partial", "archives/partial", "downloads"] {
            let path = folder.join(name);
            fs::create_dir_all(&path).or_cause(format!("cannot make {}", path.display()))?;
        }
        let lock = fs::File::create(folder.join("lock")).or_cause("cannot make a lock for apt's folder")?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock).or_else(|(lock, _)| {
            eprintln!("Another lab is downloading. Waiting until it has finished ...");
            Flock::lock(lock, FlockArg::LockExclusive)
        });
        let lock = lock.map_err(|(_, error)| error).or_cause("cannot lock apt's folder")?;
        fs::write(folder.join("apt.conf"), settings(folder, architectures))
            .or_cause("cannot write apt's settings")?;
        let architectures = architectures.to_vec();
        Ok(Self { _lock: lock, folder: folder.to_owned(), architectures, main, security })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", self.folder.join("apt.conf"));
        command
    }

    /// Unpacks packages of these suites into a folder: those of `whole`, each with everything that it depends on as far
    /// as `is_needed` says so of a name and an architecture, and those of `alone` without their dependencies. Returns
    /// the packages, each `NAME:ARCHITECTURE=VERSION SHA-256`.
    ///
    /// # Errors
    /// If the mirror lacks a package.
    pub(crate) fn unpack_needed(
        &self,
        suites: &[&str],
        whole: &[String],
        alone: &[String],
        is_needed: impl Fn(&str, &str) -> bool,
        folder: &Path,
    ) -> Result<Vec<String>> {
        self.look_into(suites)?;
        let mut list = self.command("apt-get");
        list.args(["install", "-qq", "--no-install-recommends", "--print-uris"]).args(whole);
        let uris = output(&mut list)?;
        let uris = String::from_utf8_lossy(&uris.stdout).into_owned();
        let packages: Vec<_> = uris.lines().filter_map(|line| package(line, &is_needed)).collect();
        let archives = tempfile::tempdir().or_cause("cannot make a folder")?;
        let mut download = self.command("apt-get");
        output(download.args(["download", "-qq"]).args(&packages).args(alone).current_dir(archives.path()))?;
        unpack(archives.path(), folder)?;
        record(archives.path(), folder)
    }

    /// The archive that has this suite.
    fn mirror(&self, suite: &str) -> &str {
        if suite.ends_with("-security") { &self.security } else { &self.main }
    }

    /// Loads apt's lists for these suites.
    fn look_into(&self, suites: &[&str]) -> Result<()> {
        if !Path::new(KEYRING).exists() {
            return Err(Error::new("Debian's keys, which verify the packages, are missing")
                .evidence(format!("{KEYRING} is missing"))
                .fix("make setup (Ubuntu: apt install debian-archive-keyring)"));
        }
        let architectures = self.architectures.iter().map(|arch| arch.debian()).collect::<Vec<_>>().join(",");
        let source = |suite: &&str| {
            format!("deb [arch={architectures} signed-by={KEYRING}] {} {suite} main\n", self.mirror(suite))
        };
        fs::write(self.folder.join("sources.list"), suites.iter().map(source).collect::<String>())
            .or_cause("cannot write apt's sources")?;
        output(self.command("apt-get").args(["update", "-qq", "--error-on=any"])).map(drop)
    }

    /// What apt's lists have about these packages, each `NAME` or `NAME=VERSION`. `None` if they lack one.
    fn show(&self, packages: &[String]) -> Result<Option<String>> {
        let shown = self.command("apt-cache").args(["show", "--no-all-versions"]).args(packages).output();
        let shown = shown.or_cause("cannot start apt-cache")?;
        Ok(shown.status.success().then(|| String::from_utf8_lossy(&shown.stdout).into_owned()))
    }

    /// The newest kernel of a series in this suite.
    ///
    /// # Errors
    /// If the suite can't be read.
    pub fn newest(&self, suite: &str, arch: Arch, series: &str) -> Result<Option<Source>> {
        eprintln!("Looking for kernel {series} in Debian's {suite} ...");
        self.look_into(&[suite])?;
        let pattern = pattern(arch, series);
        let names = output(self.command("apt-cache").args(["search", "--names-only", &pattern]))?;
        let names = String::from_utf8_lossy(&names.stdout).into_owned();
        let names: Vec<_> =
            names.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect();
        if names.is_empty() {
            return Ok(None);
        }
        let Some((package, parts)) = self.show(&names)?.as_deref().and_then(newest) else { return Ok(None) };
        let archives = self.show(&parts)?.as_deref().and_then(archives).ok_or_else(|| {
            Error::new(format!("{} is there, but some of its dependencies are missing", package.name))
                .evidence(format!("{suite} should have {}", parts.join(" and ")))
                .fix(format!(
                    "try again later, or name another mirror: cargo lab kernels --fetch {series} --newer{} --mirror URL",
                    arch.option()
                ))
        })?;
        let (series, suite) = (series.to_owned(), suite.to_owned());
        Ok(Some(Source { series, arch, package, suite, archives }))
    }

    /// Downloads exactly the archives that a kernel's source names, except those that an earlier run downloaded
    /// completely.
    ///
    /// # Errors
    /// If an archive is not available here, or has another checksum.
    pub fn archives(&self, source: &Source, suites: &[&str]) -> Result<Vec<PathBuf>> {
        source.archives.iter().map(|archive| self.archive(source, archive, suites)).collect()
    }

    fn archive(&self, source: &Source, archive: &Archive, suites: &[&str]) -> Result<PathBuf> {
        let file = self.folder.join("downloads").join(archive.file_name().unwrap_or("package.deb"));
        if is(archive, &file).is_ok() {
            return Ok(file);
        }
        // A partial download, or another file.
        if file.symlink_metadata().is_ok() {
            fs::remove_file(&file).or_cause(format!("cannot remove {}", file.display()))?;
        }
        // First from the pool. It often still has a package that no suite lists any more, and we need not read any
        // list.
        let uri = format!("{}/{}", self.mirror(&source.suite).trim_end_matches('/'), archive.path);
        let mut download = self.command(APT_HELPER);
        download.args(["download-file", &uri]).arg(&file);
        let Err(error) = self.download(download, source, archive) else { return is(archive, &file) };
        let mut tried = vec![words(&error)];
        let mut others = Vec::new();
        let version = &source.package.version;
        let suites =
            [&*source.suite].into_iter().chain(suites.iter().copied().filter(|s| *s != source.suite));
        for suite in suites {
            let newest = match self.newest(suite, source.arch, &source.series) {
                Ok(newest) => newest,
                Err(error) => {
                    tried.push(format!("{suite}: {}", words(&error)));
                    continue;
                }
            };
            let wanted = format!("{}={version}", archive.package);
            // If apt-cache doesn't have this version, it may show another one.
            let listed = self.show(std::slice::from_ref(&wanted))?.as_deref().and_then(archives);
            if listed.is_some_and(|listed| listed.iter().any(|listed| listed.sum == archive.sum)) {
                match self.download_by_name(&wanted, source, archive, &file) {
                    Ok(()) => return is(archive, &file),
                    Err(error) => tried.push(format!("{suite}: {}", words(&error))),
                }
            } else {
                others.push((suite, newest.map(|newest| newest.package.version)));
            }
        }
        Err(unavailable(source, archive, &tried, &others))
    }

    /// Downloads a package that is in apt's lists. This works even if the mirror is a list of mirrors, from which we
    /// can't request a file of the pool.
    fn download_by_name(&self, package: &str, source: &Source, archive: &Archive, file: &Path) -> Result<()> {
        let work = tempfile::tempdir_in(&self.folder).or_cause("cannot make a folder for a package")?;
        let mut download = self.command("apt-get");
        download.args(["download", package]).current_dir(work.path());
        self.download(download, source, archive)?;
        // apt chooses the file's name, but there is no other file.
        let Some(found) = files(work.path(), ".deb")?.pop() else {
            return Err(Error::new(format!("apt-get did not download {package}")));
        };
        fs::rename(found, file).or_cause(format!("cannot make {}", file.display()))
    }

    /// Downloads, with a progress bar.
    fn download(&self, mut apt: Command, source: &Source, archive: &Archive) -> Result<()> {
        let style = ProgressStyle::with_template("{msg} [{bar:40}] {percent:>3} %")
            .map(|style| style.progress_chars("=> "))
            .or_cause("the progress bar is not well formed")?;
        let bar = ProgressBar::new(100)
            .with_style(style)
            .with_message(format!("Kernel {}: {}", source.series, archive.package));
        apt.args(["-qq", "-o", "APT::Status-Fd=1"]);
        let done = watch(&mut apt, |line| {
            // dlstatus:1:45.3:Retrieving file 1 of 2
            let percent =
                line.strip_prefix("dlstatus:").and_then(|rest| rest.split(':').nth(1)?.parse::<f64>().ok());
            bar.set_position(percent.unwrap_or_default() as u64);
        });
        match done {
            Ok(_) => bar.finish(),
            Err(_) => bar.abandon(),
        }
        done.map(drop)
    }
}

/// An error in one line, without what apt prints before and after it.
fn words(error: &Error) -> String {
    let text = error.to_string();
    let apt = text.lines().map(|line| line.trim().trim_start_matches("evidence:").trim_start());
    let mut apt = apt.filter_map(|line| line.strip_prefix("E: "));
    apt.next().map_or_else(|| text.replace('\n', " "), str::to_owned)
}

/// Returns the file if it is the archive.
fn is(archive: &Archive, file: &Path) -> Result<PathBuf> {
    let Some(evidence) = archive.sum.differs(file, Sum::of_file(file)) else { return Ok(file.to_owned()) };
    Err(Error::new(format!(
        "the download of {} is not the locked file: it is damaged, or another one",
        archive.package
    ))
    .evidence(evidence)
    .fix("try again; if the same happens, name another mirror: cargo lab kernels --fetch --mirror URL"))
}

/// Explains why a locked archive isn't available, and what to do. `tried` is what apt printed, `others` is what the
/// readable suites have instead.
fn unavailable(
    source: &Source,
    archive: &Archive,
    tried: &[String],
    others: &[(&str, Option<String>)],
) -> Error {
    let Source { series, arch, package, .. } = source;
    let option = arch.option();
    let mut evidence = vec![format!("{} {} is locked ({})", archive.package, package.version, lock::NAME)];
    evidence.extend_from_slice(tried);
    evidence.extend(others.iter().map(|(suite, version)| match version {
        Some(version) => format!("{suite} has {version}"),
        None => format!("{suite} has no kernel {series}"),
    }));
    let elsewhere = format!(
        "name an archive of Debian that has it: cargo lab kernels --fetch {series}{option} --mirror URL (Debian's snapshot archive has \
         every version ever published)"
    );
    let newer = format!(
        "{elsewhere}; or accept the newest version: cargo lab kernels --fetch {series} --newer{option}, which rewrites the lock; \
         cargo upkeep drift then shows what moved"
    );
    let is_newer = |version: &String| numbers(version) > numbers(&package.version);
    let (cause, fix) = if others.iter().any(|(_, version)| version.as_ref().is_some_and(is_newer)) {
        (format!("this mirror no longer has the locked kernel {series}, only a newer one"), newer)
    } else if !others.is_empty() {
        (format!("this mirror does not have the locked kernel {series}, nor a newer one"), elsewhere)
    } else {
        let again = format!("try again when the network works; or {elsewhere}");
        (format!("the kernel {series} could not be downloaded"), again)
    };
    Error::new(cause).evidence(evidence.join("\n")).fix(fix)
}

/// apt's settings, which keep everything in our folder.
fn settings(folder: &Path, architectures: &[Arch]) -> String {
    let folder = folder.display();
    let main = architectures.first().unwrap_or(&Arch::HERE).debian();
    let all: String = architectures.iter().map(|arch| format!("\"{}\"; ", arch.debian())).collect();
    format!(
        r#"// Written by `cargo lab kernels`.
Dir::State "{folder}";
Dir::State::lists "{folder}/lists";
Dir::State::status "/dev/null";
Dir::Cache "{folder}";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "-";
APT::Architecture "{main}";
APT::Architectures {{ {all}}};
APT::Get::List-Cleanup "false";
// As root, apt would download as the user _apt, who can't write to our folder.
APT::Sandbox::User "";
// The index of an archived suite, of a snapshot, or of a mirror that lags has expired. We accept it because it is
// still signed, and because it does not decide what we install: each file must have the SHA-256 in
// lab/kernels.lock.json. Only --newer relies on an index.
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
"#
    )
}

/// The mirrors of Debian and of its security updates: the user's, or the ones that this machine's apt uses.
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
    if let Some(main) = wanted {
        return Ok((main.to_owned(), security(main)));
    }
    // MIRROR SUITE ORIGIN. Check the origin because other distributions have a suite called stable, too.
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
                 URL/dists and URL/pool are Debian's; for its security updates, debian in URL is replaced by debian-security",
            )
    })?;
    let updates = find(&|suite| suite.strip_suffix("-security").is_some_and(|suite| SUITES.contains(&suite)));
    Ok((main.clone(), updates.unwrap_or_else(|| security(&main))))
}

/// Where an archive has the security updates: `.../debian-security` next to `.../debian`, and in a snapshot archive
/// `.../debian-security/DATE` next to `.../debian/DATE`.
fn security(main: &str) -> String {
    let main = main.trim_end_matches('/');
    let words: Vec<_> = main.split('/').collect();
    match words.iter().rposition(|word| *word == "debian") {
        Some(place) => {
            format!("{}/", [&words[..place], &["debian-security"], &words[place + 1..]].concat().join("/"))
        }
        None => format!("{main}-security/"),
    }
}

/// The packages that `apt-cache show` printed.
fn paragraphs(shown: &str) -> impl Iterator<Item = &str> {
    shown.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty())
}

/// A field of a package.
fn field<'a>(paragraph: &'a str, name: &str) -> Option<&'a str> {
    paragraph.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// The newest kernel in the output of `apt-cache show`, and `NAME=VERSION` of each package to download.
fn newest(shown: &str) -> Option<(Package, Vec<String>)> {
    let packages = paragraphs(shown).filter_map(|paragraph| {
        let (name, version) = (field(paragraph, "Package")?, field(paragraph, "Version")?);
        // A package without files, which depends on the newest kernel of its series.
        let depends = field(paragraph, "Depends").unwrap_or_default();
        if depends.split(", ").any(|part| part.starts_with("linux-image-")) {
            return None;
        }
        // Since 7.x, an image package is empty and depends on the packages that contain the image and the modules.
        let parts = depends.split(", ").filter_map(|part| {
            let name = part.split(' ').next()?;
            (name.starts_with("linux-binary-") || name.starts_with("linux-modules-"))
                .then(|| format!("{name}={version}"))
        });
        let mut downloads: Vec<_> = parts.collect();
        if downloads.is_empty() {
            downloads.push(format!("{name}={version}"));
        }
        let release = name.strip_prefix("linux-image-")?.to_owned();
        let package = Package { name: name.to_owned(), version: version.to_owned(), release };
        Some((package, downloads))
    });
    packages.max_by_key(|(package, _)| numbers(&package.version))
}

/// The archives of all packages that `apt-cache show` printed.
fn archives(shown: &str) -> Option<Vec<Archive>> {
    let archive = |paragraph: &str| {
        Some(Archive {
            package: field(paragraph, "Package")?.to_owned(),
            path: field(paragraph, "Filename")?.to_owned(),
            sum: Sum {
                size: field(paragraph, "Size")?.parse().ok()?,
                sha256: field(paragraph, "SHA256")?.to_owned(),
            },
        })
    };
    paragraphs(shown).map(archive).collect()
}

/// `NAME:ARCHITECTURE=VERSION` of a line that `apt-get --print-uris` printed, such as `'URI' a_1%3a2_arm64.deb 17 SUM`,
/// if we need this package.
fn package(line: &str, is_needed: impl Fn(&str, &str) -> bool) -> Option<String> {
    let [name, version, rest] = line.split(' ').nth(1)?.split('_').collect::<Vec<_>>().try_into().ok()?;
    let architecture = rest.strip_suffix(".deb")?;
    // apt writes the colon of an epoch as in an address. A package for all architectures is as good as one of ours.
    let version = version.replace("%3a", ":");
    is_needed(name, architecture).then(|| format!("{name}:{architecture}={version}"))
}

/// What the packages of a series are called, as a pattern for `apt-cache search`.
pub(crate) fn pattern(arch: Arch, series: &str) -> String {
    let (version, flavor) = match series.split_once('-') {
        Some((version, pages)) => (version, format!("{}-{pages}", arch.debian())),
        None => (series, format!("cloud-{}", arch.debian())),
    };
    // A release candidate has no third number.
    format!(r"^linux-image-{}([.-][0-9r].*)?-{flavor}$", version.replace('.', r"\."))
}

/// The numbers in a version, which order the releases of a series. 7.3~rc7 comes before 7.3.1.
pub(crate) fn numbers(version: &str) -> Vec<u64> {
    version
        .replace("~rc", ".0.")
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect()
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
        let (package, downloads) = newest(&format!("{new}\n{old}")).unwrap();
        assert_eq!(package.release, "6.12.117+deb12-cloud-amd64");
        assert_eq!(downloads, ["linux-image-6.12.117+deb12-cloud-amd64=6.12.117-1~deb12u1"]);
        // Some suites have a package without files for a series.
        let meta = show(
            "6.12",
            "6.12.118-1~deb12u1",
            "linux-image-6.12.118+deb12-cloud-amd64 (= 6.12.118-1~deb12u1)",
        );
        assert_eq!(newest(&format!("{meta}\n{new}")).unwrap().0, package);
        assert_eq!(newest(&meta), None);
        let candidate = show("7.3", "7.3~rc10-1~exp1", "linux-binary-7.3-cloud-amd64 (= 7.3~rc10-1~exp1)");
        let older = show("7.3", "7.3~rc7-1~exp1", "linux-binary-7.3-cloud-amd64 (= 7.3~rc7-1~exp1)");
        let released = show("7.3.1+deb14", "7.3.1-1", "linux-binary-7.3.1+deb14-cloud-amd64 (= 7.3.1-1)");
        let first = |shown: &str| newest(shown).unwrap().0.version;
        assert_eq!(first(&format!("{older}\n{candidate}")), "7.3~rc10-1~exp1");
        assert_eq!(first(&format!("{candidate}\n{released}")), "7.3.1-1");
    }

    #[test]
    fn packages_are_found_in_apts_list() {
        let line = "'https://mirror/pool/a/a_1.deb' a_1%3a2-3+b1_arm64.deb 17 SHA256:00ff";
        assert_eq!(package(line, |_, _| true).as_deref(), Some("a:arm64=1:2-3+b1"));
        assert_eq!(package(line, |name, arch| (name, arch) != ("a", "arm64")), None);
        assert_eq!(package("E: none", |_, _| true), None);
    }

    #[test]
    fn a_series_has_a_package_for_each_architecture() {
        assert_eq!(pattern(Arch::X86, "6.12"), r"^linux-image-6\.12([.-][0-9r].*)?-cloud-amd64$");
        assert_eq!(pattern(Arch::Arm, "7.2"), r"^linux-image-7\.2([.-][0-9r].*)?-cloud-arm64$");
        assert_eq!(pattern(Arch::Arm, "7.2-16k"), r"^linux-image-7\.2([.-][0-9r].*)?-arm64-16k$");
    }

    #[test]
    fn an_image_that_is_split_is_fetched_in_parts() {
        let shown = "Package: linux-image-7.2.13+deb14-cloud-amd64\nVersion: 7.2.13-1\n\
            Depends: dracut | initramfs-tools, linux-binary-7.2.13+deb14-cloud-amd64 (= 7.2.13-1), linux-modules-7.2.13+deb14-cloud-amd64 (= 7.2.13-1)\n";
        assert_eq!(
            newest(shown).unwrap().1,
            [
                "linux-binary-7.2.13+deb14-cloud-amd64=7.2.13-1",
                "linux-modules-7.2.13+deb14-cloud-amd64=7.2.13-1"
            ]
        );
    }

    #[test]
    fn an_archive_is_what_the_index_has_of_it() {
        let shown = "Package: a\nVersion: 1\nFilename: pool/main/a/a_1_amd64.deb\nSize: 17\nSHA256: 00ff\n";
        let sum = Sum { size: 17, sha256: "00ff".into() };
        let path = "pool/main/a/a_1_amd64.deb".into();
        assert_eq!(archives(&format!("{shown}\n")).unwrap(), [Archive { package: "a".into(), path, sum }]);
        assert_eq!(archives(&format!("{shown}\nPackage: b\nVersion: 1\n")), None);
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
    fn an_archive_has_its_security_updates_beside_it() {
        for (main, updates) in [
            ("https://mirror/debian", "https://mirror/debian-security/"),
            ("https://mirror/debian/", "https://mirror/debian-security/"),
            (
                "https://old/archive/debian/20260101T000000Z/",
                "https://old/archive/debian-security/20260101T000000Z/",
            ),
            ("https://debian/debian/", "https://debian/debian-security/"),
            ("https://mirror/copy/", "https://mirror/copy-security/"),
        ] {
            assert_eq!(security(main), updates);
        }
    }

    #[test]
    fn what_cannot_be_had_is_explained() {
        let release = "7.2.13+deb14-cloud-amd64".to_owned();
        let package = Package {
            name: format!("linux-image-{release}"),
            version: "7.2.13-1".into(),
            release: release.clone(),
        };
        let path = format!("pool/main/l/linux/linux-binary-{release}_7.2.13-1_amd64.deb");
        let archive = Archive { package: format!("linux-binary-{release}"), path, sum: Sum::of(b"archive") };
        let archives = vec![archive.clone()];
        let (series, suite) = ("7.2".into(), "sid".into());
        let source = Source { series, arch: Arch::X86, package, suite, archives };
        let error = Error::new("apt-helper failed with exit status: 100")
            .evidence("E: Failed to fetch https://mirror/x.deb  404  Not Found\nE: Download Failed");
        assert_eq!(words(&error), "Failed to fetch https://mirror/x.deb  404  Not Found");
        let tried = [words(&error)];
        let others = |version: &str| [("sid", Some(version.to_owned())), ("forky", None)];
        let explain = |others: &[_]| unavailable(&source, &archive, &tried, others);
        insta::assert_snapshot!("only_newer", explain(&others("7.2.15-1")));
        insta::assert_snapshot!("only_older", explain(&others("7.2.9-1")));
        let offline = ["Could not connect to mirror".to_owned()];
        insta::assert_snapshot!("offline", unavailable(&source, &archive, &offline, &[]));
    }
}
