//! Downloads the archives that the lock names from a mirror of Debian, and unpacks them. That needs neither root nor Debian.

use std::fs;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Error, OrCause, Result};

use crate::host::tools::{AR, CURL, TAR, XZ, output};
use crate::lock::{self, Archive, Source};

/// apt's own program to download one file. It uses apt's proxies and transports.
pub(crate) const APT_HELPER: &str = "/usr/lib/apt/apt-helper";

static OFFLINE: AtomicBool = AtomicBool::new(false);

pub fn stay_offline() {
    OFFLINE.store(true, Ordering::Relaxed);
}

pub fn is_offline() -> bool {
    OFFLINE.load(Ordering::Relaxed)
}

/// Where `python-apt-common` says what Debian's archives are called, one paragraph for each suite.
const TEMPLATE: &str = "/usr/share/python-apt/templates/Debian.info";

#[derive(Debug, PartialEq, Eq)]
pub struct Mirror {
    main: String,
    security: String,
}

impl Mirror {
    /// The mirror that the user names, or else the one that this machine's apt uses. On Ubuntu, that is not Debian's, but a
    /// package that Ubuntu installs knows one.
    pub fn find(wanted: Option<&str>) -> Result<Self> {
        if is_offline() {
            return Err(Error::new("nothing may be downloaded")
                .evidence("--offline")
                .fix("leave out that option"));
        }
        if let Some(main) = wanted {
            return Ok(Self { main: main.to_owned(), security: security(main) });
        }
        let mut list = Command::new("apt-get");
        list.args(["indextargets", "--format", "$(REPO_URI) $(RELEASE) $(ORIGIN)", "Created-By: Packages"]);
        // Other systems have no apt, and so no mirror.
        let targets = list.output().map(|targets| targets.stdout).unwrap_or_default();
        Self::of_apt(&String::from_utf8_lossy(&targets), &fs::read_to_string(TEMPLATE).unwrap_or_default())
    }

    /// The mirror in apt's list. A line is MIRROR SUITE ORIGIN. Other distributions have a suite called stable, too, and a
    /// disc has only what was released with it.
    fn of_apt(targets: &str, template: &str) -> Result<Self> {
        let suites = targets.lines().filter_map(|line| line.strip_suffix(" Debian")?.split_once(' '));
        let suites = suites.map(|(mirror, suite)| (first_of_list(mirror), suite));
        let suites: Vec<_> = suites.filter(|(mirror, _)| mirror.starts_with("http")).collect();
        let find = |is: &dyn Fn(&str) -> bool| {
            suites.iter().find(|(_, suite)| is(suite)).map(|(mirror, _)| mirror.clone())
        };
        let of_template =
            || template.lines().find_map(|line| Some(line.strip_prefix("BaseURI:")?.trim().to_owned()));
        let main = find(&|suite| !suite.contains('-')).or_else(of_template).ok_or_else(|| {
            Error::new("this machine's apt knows no mirror of Debian")
                .evidence(if targets.is_empty() {
                    "apt-get indextargets prints nothing: there is no apt, or it has no lists yet, or no sources"
                } else {
                    targets
                })
                .fix(
                    "on Debian: sudo apt-get update; on Ubuntu: sudo apt-get install python-apt-common; elsewhere name a mirror: cargo lab kernels --fetch --mirror URL, where \
                     URL/dists and URL/pool are Debian's; for its security updates, debian in URL is replaced by debian-security",
                )
        })?;
        let security = find(&|suite| suite.ends_with("-security")).unwrap_or_else(|| security(&main));
        Ok(Self { main, security })
    }

    /// The mirror that has this suite.
    pub(crate) fn of(&self, suite: &str) -> &str {
        if suite.ends_with("-security") { &self.security } else { &self.main }
    }

    pub(crate) fn download(&self, source: &Source, archive: &Archive, folder: &Path) -> Result<PathBuf> {
        let file = folder.join("package.deb");
        let url = format!("{}/{}", self.of(&source.suite).trim_end_matches('/'), archive.path);
        let mut download = if Path::new(APT_HELPER).exists() {
            let mut apt = Command::new(APT_HELPER);
            // As root, apt would download as the user _apt, who can't write to our folder.
            apt.args(["-o", "APT::Sandbox::User=", "download-file", &url]).arg(&file);
            if stderr().is_terminal() {
                apt.stdout(stderr())
            } else {
                apt.arg("-qq")
            };
            apt
        } else {
            let mut curl = CURL.command()?;
            curl.args(["--fail", "--location", "--silent", "--show-error", &url, "--output"]).arg(&file);
            curl
        };
        output(&mut download).map_err(|error| unavailable(source, archive, &url, &error.to_string()))?;
        let Some(found) = archive.sum.differs(&file) else { return Ok(file) };
        Err(Error::new(format!(
            "the download of {} is not the locked file: it is damaged, or another one",
            archive.package
        ))
        .evidence(found.replace(&file.display().to_string(), &url))
        .fix("try again; if the same happens, name another mirror: cargo lab kernels --fetch --mirror URL"))
    }
}

/// The first mirror of a list, such as Debian's images for clouds have instead of a mirror. apt puts a slash after the name
/// of the list.
fn first_of_list(mirror: &str) -> String {
    let file = mirror.strip_prefix("mirror+file:").map(|list| list.trim_end_matches('/'));
    let list = file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    let first = list.lines().find(|line| line.starts_with("http"));
    first.and_then(|line| line.split_whitespace().next()).unwrap_or(mirror).to_owned()
}

/// Where an archive has the security updates: `.../debian-security` next to `.../debian`, and in a snapshot archive
/// `.../debian-security/DATE` next to `.../debian/DATE`.
fn security(main: &str) -> String {
    let main = main.trim_end_matches('/');
    match format!("{main}/").rsplit_once("/debian/") {
        Some((before, date)) => format!("{before}/debian-security/{date}"),
        None => format!("{main}-security/"),
    }
}

fn unavailable(source: &Source, archive: &Archive, url: &str, said: &str) -> Error {
    let Source { series, arch, package, .. } = source;
    let elsewhere = format!(
        "name an archive of Debian that has it: cargo lab kernels --fetch {series}{} --mirror URL (Debian's snapshot archive has \
         every version ever published)",
        arch.option()
    );
    let (cause, fix) = match said.contains("404") {
        true => (format!("this mirror no longer has the locked kernel {series}"), elsewhere),
        false => (
            format!("the kernel {series} could not be downloaded"),
            format!("try again when the network works; or {elsewhere}"),
        ),
    };
    let locked = format!("{} {} is locked ({})", archive.package, package.version, lock::NAME);
    Error::new(cause).evidence(format!("{locked}\n{url}\n{said}")).fix(fix)
}

/// Unpacks a package of Debian into a folder.
pub(crate) fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    for tool in [AR, TAR, XZ] {
        tool.find()?;
    }
    fs::create_dir_all(folder).or_cause(format!("cannot make {}", folder.display()))?;
    let mut sh = Command::new("sh");
    sh.args(["-c", r#"ar p "$1" data.tar.xz | tar -xpJ -C "$2""#, "sh"]);
    output(sh.arg(archive).arg(folder)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Lock;

    #[test]
    fn mirrors_come_from_this_machines_apt_or_from_the_user() {
        let mirror = |url: &str| Mirror::find(Some(url)).unwrap();
        let both = mirror("https://mirror/debian");
        assert_eq!(both.of("trixie-security"), "https://mirror/debian-security/");
        let lines = "file:/media/cdrom/ bookworm Debian\nhttps://mirror/ubuntu/ noble Ubuntu\n\
            https://updates/ bookworm-security Debian\nhttps://mirror/debian/ bookworm-updates Debian\n\
            https://mirror/debian/ bookworm Debian\n";
        let security = "https://updates/".to_owned();
        let template = "ChangelogURI: https://changes/\n\nSuite: {series}\nRepositoryType: deb\n\
            BaseURI: https://archive/debian/\n\nSuite: {series}-security\nBaseURI: https://security/\n";
        let found = |targets: &str| Mirror::of_apt(targets, template).unwrap();
        assert_eq!(found(lines), Mirror { security, ..mirror("https://mirror/debian/") });
        assert_eq!(found("https://mirror/debian/ sid Debian\n"), mirror("https://mirror/debian/"));
        let list = tempfile::NamedTempFile::new().unwrap();
        fs::write(
            list.path(),
            "# ours\nfile:/media/cdrom/\nhttps://mirror/debian/\tpriority:1\nhttps://other/\n",
        )
        .unwrap();
        // As apt prints it.
        let targets = format!("mirror+file:{}/ trixie Debian\n", list.path().display());
        assert_eq!(found(&targets), mirror("https://mirror/debian/"));
        let ubuntu = "https://mirror/ubuntu/ noble Ubuntu\nhttps://browser/deb/ stable Browser\n";
        assert_eq!(found(ubuntu), mirror("https://archive/debian/"));
        insta::assert_snapshot!(Mirror::of_apt(ubuntu, "").unwrap_err());
        assert!(Mirror::of_apt("", "").unwrap_err().to_string().contains("sudo apt-get update"));
        for (main, updates) in [
            ("https://old/debian/20260101T000000Z/", "https://old/debian-security/20260101T000000Z/"),
            ("https://debian/debian/", "https://debian/debian-security/"),
            ("https://mirror/copy/", "https://mirror/copy-security/"),
        ] {
            assert_eq!(mirror(main).security, updates);
        }
    }

    #[test]
    fn what_cannot_be_had_is_explained() {
        let lock = Lock::read().unwrap();
        let source = &lock.kernels[0].source;
        let explain = |said| {
            let error = unavailable(source, &source.archives[0], "https://mirror/x.deb", said).to_string();
            error.replace(&source.package.release, "[release]").replace(&source.package.version, "[version]")
        };
        insta::assert_snapshot!("gone", explain("E: Failed to fetch https://mirror/x.deb  404  Not Found"));
        insta::assert_snapshot!("offline", explain("Could not connect to mirror"));
    }
}
