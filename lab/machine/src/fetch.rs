//! Downloads the archives that the lock names from a mirror of Debian, and unpacks them. That needs neither root nor Debian.

use std::fs;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Error, OrCause, Result};

use crate::host::tools::{AR, CURL, TAR, XZ, output};
use crate::lock::{self, Archive, Source, Sum};

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

/// Where packages of Debian are.
#[derive(Debug, PartialEq, Eq)]
pub struct Mirror {
    main: String,
    security: String,
}

impl Mirror {
    /// The mirror that the user names, or else the one that this machine's apt uses.
    ///
    /// # Errors
    /// If nothing may be downloaded, or if no mirror is named and apt knows none.
    pub fn find(wanted: Option<&str>) -> Result<Self> {
        if is_offline() {
            return Err(Error::new("nothing may be downloaded")
                .evidence("--offline")
                .fix("leave out that option"));
        }
        match wanted {
            Some(main) => Ok(Self { main: main.to_owned(), security: security(main) }),
            None => {
                let mut list = Command::new("apt-get");
                list.args(["indextargets", "--format", "$(REPO_URI) $(RELEASE) $(ORIGIN)"]);
                let targets = list.arg("Created-By: Packages").output();
                // Other systems have no apt, and so no mirror.
                let targets = targets.map(|targets| targets.stdout).unwrap_or_default();
                Self::of_apt(&String::from_utf8_lossy(&targets))
            }
        }
    }

    /// The mirror in apt's list. A line is MIRROR SUITE ORIGIN. Other distributions have a suite called stable, too.
    fn of_apt(targets: &str) -> Result<Self> {
        let suites = targets.lines().filter_map(|line| line.strip_suffix(" Debian")?.split_once(' '));
        let suites = suites.map(|(mirror, suite)| (first_of_list(mirror), suite));
        let (discs, mirrors): (Vec<_>, Vec<_>) = suites.partition(|(mirror, _)| is_disc(mirror));
        let find = |all: &[(String, &str)], is: &dyn Fn(&str) -> bool| {
            all.iter().find(|(_, suite)| is(suite)).map(|(mirror, _)| mirror.clone())
        };
        let main = |all| find(all, &|suite| !suite.contains('-')).map(|main| (main, all));
        let (main, all) = main(&mirrors[..]).or_else(|| main(&discs[..])).ok_or_else(|| {
            Error::new("this machine's apt knows no mirror of Debian")
                .evidence(if targets.is_empty() {
                    "apt-get indextargets prints nothing: there is no apt, or it has no lists yet, or no sources"
                } else {
                    targets
                })
                .fix(
                    "on Debian: sudo apt-get update; elsewhere name a mirror: cargo lab kernels --fetch --mirror URL, where \
                     URL/dists and URL/pool are Debian's; for its security updates, debian in URL is replaced by debian-security",
                )
        })?;
        let security = find(all, &|suite| suite.ends_with("-security")).unwrap_or_else(|| security(&main));
        Ok(Self { main, security })
    }

    /// The mirror that has this suite.
    pub(crate) fn of(&self, suite: &str) -> &str {
        if suite.ends_with("-security") { &self.security } else { &self.main }
    }

    /// Downloads an archive of a kernel into a folder.
    pub(crate) fn download(&self, source: &Source, archive: &Archive, folder: &Path) -> Result<PathBuf> {
        let file = folder.join(archive.file_name().unwrap_or("package.deb"));
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
        verify_checksum(archive, &url, &file)?;
        Ok(file)
    }
}

/// Whether this is a folder or a disc, which has only what was released with it.
fn is_disc(mirror: &str) -> bool {
    ["file:", "copy:", "cdrom:"].iter().any(|kind| mirror.starts_with(kind))
}

/// The first mirror of a list, such as Debian's images for clouds have instead of a mirror. apt puts a slash after the name
/// of the list.
fn first_of_list(mirror: &str) -> String {
    let file = mirror.strip_prefix("mirror+file:").map(|list| list.trim_end_matches('/'));
    let list = file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    let mut mirrors = list.lines().filter_map(|line| line.split_whitespace().next());
    mirrors.find(|first| !first.starts_with('#') && !is_disc(first)).unwrap_or(mirror).to_owned()
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

fn verify_checksum(archive: &Archive, url: &str, file: &Path) -> Result<()> {
    let found = Sum::of_file(file).or_cause(format!("cannot read {}", file.display()))?;
    if found == archive.sum {
        return Ok(());
    }
    Err(Error::new(format!(
        "the download of {} is not the locked file: it is damaged, or another one",
        archive.package
    ))
    .evidence(format!("{url} has {found}\nexpected: {}", archive.sum))
    .fix("try again; if the same happens, name another mirror: cargo lab kernels --fetch --mirror URL"))
}

/// Explains why an archive isn't available, and what to do.
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
    use wire::arch::Arch;

    use super::*;
    use crate::lock::Package;

    #[test]
    fn mirrors_come_from_this_machines_apt_or_from_the_user() {
        let debian = "https://mirror/debian-security/ bookworm-security Debian\n\
            https://mirror/debian/ bookworm-updates Debian\nhttps://mirror/debian/ bookworm Debian\n";
        let both = Mirror {
            main: "https://mirror/debian/".into(),
            security: "https://mirror/debian-security/".into(),
        };
        assert_eq!(Mirror::of_apt(debian).unwrap(), both);
        assert_eq!(Mirror::of_apt("https://mirror/debian/ sid Debian\n").unwrap(), both);
        assert_eq!(Mirror::find(Some("https://mirror/debian/")).unwrap(), both);
        let list = tempfile::NamedTempFile::new().unwrap();
        let lines = "# ours\nfile:/media/cdrom/\nhttps://mirror/debian/\tpriority:1\nhttps://other/debian/\n";
        fs::write(list.path(), lines).unwrap();
        // As apt prints it.
        let targets = format!("mirror+file:{}/ trixie Debian\n", list.path().display());
        assert_eq!(Mirror::of_apt(&targets).unwrap(), both);
        let disc = "file:/media/cdrom/ bookworm Debian\nfile:/media/cdrom/ bookworm-security Debian\n";
        assert_eq!(Mirror::of_apt(&format!("{disc}https://mirror/debian/ bookworm Debian\n")).unwrap(), both);
        assert_eq!(Mirror::of_apt(disc).unwrap().main, "file:/media/cdrom/");
        let ubuntu = "https://mirror/ubuntu/ noble Ubuntu\nhttps://browser/deb/ stable Browser\n";
        insta::assert_snapshot!(Mirror::of_apt(ubuntu).unwrap_err());
        assert!(Mirror::of_apt("").unwrap_err().to_string().contains("sudo apt-get update"));
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
        let explain = |said| unavailable(&source, &archive, "https://mirror/x.deb", said);
        insta::assert_snapshot!("gone", explain("E: Failed to fetch https://mirror/x.deb  404  Not Found"));
        insta::assert_snapshot!("offline", explain("Could not connect to mirror"));
    }
}
