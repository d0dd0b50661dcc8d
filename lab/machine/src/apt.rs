//! Fetches packages of Debian, and what they need, with apt and without root.

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Error, OrCause, Result};
use tempfile::TempDir;
use wire::arch::Arch;

use crate::fetch::{self, Mirror};
use crate::host::folders::files;
use crate::host::tools::{APT_GET, DPKG_DEB, output};
use crate::lock::Sum;

/// Debian's keys, with which apt verifies that an index is Debian's.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// apt with our own lists and settings, so it needs no root and leaves the system's alone.
pub struct Apt {
    folder: TempDir,
    architectures: Vec<Arch>,
    pub mirror: Mirror,
}

/// Unpacks packages of these Debian suites and all their dependencies into a folder, and returns the packages' versions.
pub fn unpack_whole(suites: &[&str], packages: &[&str], folder: &Path) -> Result<Vec<String>> {
    let apt = Apt::new(&[Arch::HERE], None)?;
    apt.look_into(suites)?;
    let archives = tempfile::tempdir().or_cause("cannot make a folder")?;
    fs::create_dir(archives.path().join("partial")).or_cause("cannot make a folder")?;
    let mut download = apt.command("apt-get");
    download.args(["install", "-qq", "--download-only", "--no-install-recommends", "-o"]);
    output(download.arg(format!("Dir::Cache::archives={}", archives.path().display())).args(packages))?;
    unpack(archives.path(), folder)?;
    let version = |package: &&str| {
        let shown = output(apt.command("apt-cache").args(["show", "--no-all-versions", package]))?;
        Ok(field(&String::from_utf8_lossy(&shown.stdout), "Version").unwrap_or_default().to_owned())
    };
    packages.iter().map(version).collect()
}

/// Unpacks all packages of a folder.
pub fn unpack(archives: &Path, folder: &Path) -> Result<()> {
    files(archives, ".deb")?.iter().try_for_each(|archive| fetch::unpack(archive, folder))
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
    pub fn new(architectures: &[Arch], mirror: Option<&str>) -> Result<Self> {
        let mirror = Mirror::find(mirror)?;
        APT_GET.find()?;
        let cannot = "cannot make a folder for apt";
        let folder = tempfile::tempdir().or_cause(cannot)?;
        for name in ["lists/partial", "archives/partial"] {
            fs::create_dir_all(folder.path().join(name)).or_cause(cannot)?;
        }
        fs::write(folder.path().join("apt.conf"), settings(folder.path(), architectures)).or_cause(cannot)?;
        Ok(Self { folder, architectures: architectures.to_vec(), mirror })
    }

    /// One of apt's programs, with our settings.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", self.folder.path().join("apt.conf"));
        command
    }

    /// Unpacks packages of these suites into a folder: those of `whole`, each with everything that it depends on as far
    /// as `is_needed` says so of a name and an architecture, and those of `alone` without their dependencies. Returns
    /// the packages, each `NAME:ARCHITECTURE=VERSION SHA-256`.
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

    /// Loads apt's lists for these suites.
    pub fn look_into(&self, suites: &[&str]) -> Result<()> {
        if !Path::new(KEYRING).exists() {
            return Err(Error::new("Debian's keys, which verify the packages, are missing")
                .evidence(format!("{KEYRING} is missing"))
                .fix("make setup (Ubuntu: apt install debian-archive-keyring)"));
        }
        let architectures = self.architectures.iter().map(|arch| arch.debian()).collect::<Vec<_>>().join(",");
        let source = |suite: &&str| {
            format!("deb [arch={architectures} signed-by={KEYRING}] {} {suite} main\n", self.mirror.of(suite))
        };
        fs::write(self.folder.path().join("sources.list"), suites.iter().map(source).collect::<String>())
            .or_cause("cannot write apt's sources")?;
        output(self.command("apt-get").args(["update", "-qq", "--error-on=any"])).map(drop)
    }
}

/// apt's settings, which keep everything in our folder.
fn settings(folder: &Path, architectures: &[Arch]) -> String {
    let folder = folder.display();
    let main = architectures.first().unwrap_or(&Arch::HERE).debian();
    let all: String = architectures.iter().map(|arch| format!("\"{}\"; ", arch.debian())).collect();
    format!(
        r#"// Written by the lab.
Dir::State "{folder}";
Dir::State::lists "{folder}/lists";
Dir::State::status "/dev/null";
Dir::Cache "{folder}";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "-";
APT::Architecture "{main}";
APT::Architectures {{ {all}}};
// As root, apt would download as the user _apt, who can't write to our folder.
APT::Sandbox::User "";
// The index of an archived suite, of a snapshot, or of a mirror that lags has expired. We accept it because it is
// still signed.
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
"#
    )
}

pub fn field<'a>(paragraph: &'a str, name: &str) -> Option<&'a str> {
    paragraph.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_found_in_apts_list() {
        let line = "'https://mirror/pool/a/a_1.deb' a_1%3a2-3+b1_arm64.deb 17 SHA256:00ff";
        assert_eq!(package(line, |_, _| true).as_deref(), Some("a:arm64=1:2-3+b1"));
        assert_eq!(package(line, |name, arch| (name, arch) != ("a", "arm64")), None);
        assert_eq!(package("E: none", |_, _| true), None);
    }
}
