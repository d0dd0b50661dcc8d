//! `cargo upkeep kernels`: looks for newer kernels in Debian's suites, fetches them, and writes the lock.

use std::fs;

use common::{Error, OrCause, Result};
use machine::apt::{Apt, field};
use machine::host::tools::output;
use machine::kernels::Series;
use machine::lock::{Archive, Lock, Locked, NAME, Package, Source, Sum};
use machine::workbook::Workbook;
use wire::arch::Arch;

/// The text at the top of the lock.
const ABOUT: &str = "written by `cargo upkeep kernels`; see CONTRIBUTING.md";

/// For each of these series, or for all if none is named, looks for a newer kernel. If there is one, fetches it and locks
/// it instead.
pub fn lock_newest(arch: Arch, names: &[String], mirror: Option<&str>) -> Result<()> {
    let named = names.iter().map(|name| Series::of(name)).collect::<Result<Vec<_>>>()?;
    let apt = Apt::new(&[arch], mirror)?;
    let mut lock = Lock::read()?;
    for series in if named.is_empty() { Series::all().collect() } else { named } {
        lock_newest_of(series, arch, &apt, &mut lock)?;
    }
    Ok(())
}

fn lock_newest_of(series: Series, arch: Arch, apt: &Apt, lock: &mut Lock) -> Result<()> {
    let name = series.name;
    let locked = lock.kernel(arch, name).cloned().ok();
    let found = look(series, arch, apt)?;
    let now = found.package.version.clone();
    if let Some(locked) = &locked
        && numbers(&now) <= numbers(&locked.source.package.version)
    {
        eprintln!("There is no newer kernel {name} than the locked one.");
        return Ok(());
    }
    series.install(&found, &apt.mirror, |vmlinuz| {
        replace(lock, Locked { source: found.clone(), vmlinuz });
        write(lock)
    })?;
    let before = locked.map(|locked| {
        let before = &locked.source.package.version;
        format!("; it was at {before}. See what moved: cargo test --test kernel -- {name}::")
    });
    eprintln!("Kernel {name} is now locked at {now}{}", before.unwrap_or_default());
    Ok(())
}

/// Writes the lock beside its file, and renames it when it is complete.
fn write(lock: &Lock) -> Result<()> {
    let file = Workbook::read()?.root.join(NAME);
    let beside = file.with_extension("new");
    let written = fs::write(&beside, text(lock)?).and_then(|()| fs::rename(&beside, &file));
    written.or_cause(format!("cannot write {NAME}"))
}

/// The newest kernel of a series in the first of its suites that has it.
fn look(series: Series, arch: Arch, apt: &Apt) -> Result<Source> {
    let mut looked = Vec::new();
    for suite in series.suites {
        match newest_in(suite, arch, series.name, apt) {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => looked.push(format!("{suite}: no package {}", pattern(arch, series.name))),
            Err(error) => looked.push(format!("{suite}: {error}")),
        }
    }
    Err(Error::new(format!("no kernel {} was found", series.name))
        .evidence(looked.join("\n"))
        .fix("name another archive of Debian: --mirror URL"))
}

fn newest_in(suite: &str, arch: Arch, series: &str, apt: &Apt) -> Result<Option<Source>> {
    eprintln!("Looking for kernel {series} in Debian's {suite} ...");
    apt.look_into(&[suite])?;
    let apt_cache = |arguments: &[&str], packages: &[String]| {
        let shown = output(apt.command("apt-cache").args(arguments).args(packages))?;
        Ok::<_, Error>(String::from_utf8_lossy(&shown.stdout).into_owned())
    };
    let show = |packages: &[String]| apt_cache(&["show", "--no-all-versions"], packages);
    let names = apt_cache(&["search", "--names-only", &pattern(arch, series)], &[])?;
    let names: Vec<_> = names.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect();
    if names.is_empty() {
        return Ok(None);
    }
    let Some((package, parts)) = newest(&show(&names)?) else { return Ok(None) };
    let archives = archives(&show(&parts)?, parts.len()).ok_or_else(|| {
        Error::new(format!("{} is there, but some of its dependencies are missing", package.name))
            .evidence(format!("{suite} should have {}", parts.join(" and ")))
            .fix("try again later, or name another mirror: --mirror URL")
    })?;
    let (series, suite) = (series.to_owned(), suite.to_owned());
    Ok(Some(Source { series, arch, package, suite, archives }))
}

/// Replaces the kernel of this architecture and series, keeps the order of the table, and drops all other kernels.
fn replace(lock: &mut Lock, kernel: Locked) {
    let of = |kernel: &Locked| (kernel.source.arch, kernel.source.series.clone());
    lock.kernels.retain(|other| of(other) != of(&kernel));
    lock.kernels.push(kernel);
    let all =
        [Arch::X86, Arch::Arm].map(|arch| Series::all().map(move |series| (arch, series.name.to_owned())));
    let all: Vec<_> = all.into_iter().flatten().collect();
    let place = |kernel: &Locked| all.iter().position(|series| *series == of(kernel));
    lock.kernels.retain(|kernel| place(kernel).is_some());
    lock.kernels.sort_by_key(place);
}

fn text(lock: &Lock) -> Result<String> {
    let lock = Lock { about: ABOUT.to_owned(), kernels: lock.kernels.clone() };
    serde_json::to_string_pretty(&lock).map(|text| text + "\n").or_cause(format!("cannot write {NAME}"))
}

/// The packages that `apt-cache show` printed.
fn paragraphs(shown: &str) -> impl Iterator<Item = &str> {
    shown.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty())
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

/// The archives of the packages that `apt-cache show` printed, if these are as many. It leaves out a package that the
/// suite does not have, and ends well.
fn archives(shown: &str, count: usize) -> Option<Vec<Archive>> {
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
    let found: Option<Vec<_>> = paragraphs(shown).map(archive).collect();
    found.filter(|found| found.len() == count)
}

/// What the packages of a series are called, as a pattern for `apt-cache search`.
fn pattern(arch: Arch, series: &str) -> String {
    // A release candidate has no third number.
    format!(r"^linux-image-{}([.-][0-9r].*)?-cloud-{}$", series.replace('.', r"\."), arch.debian())
}

/// The numbers in a version, which order the releases of a series. 7.3~rc7 comes before 7.3.1.
fn numbers(version: &str) -> Vec<u64> {
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
    fn a_new_kernel_takes_the_place_of_the_old_one() {
        let mut lock = Lock::read().unwrap();
        assert_eq!(text(&lock).unwrap(), include_str!("../../kernels.lock.json"));
        let before = lock.kernels.clone();
        let newer = Locked { vmlinuz: Sum::of(b"newer"), ..before[2].clone() };
        replace(&mut lock, newer.clone());
        assert_eq!(lock.kernels[2], newer);
        assert_eq!(lock.kernels.len(), before.len());
        replace(&mut lock, before[2].clone());
        assert_eq!(lock.kernels, before);
    }

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
    fn a_series_has_a_package_for_each_architecture() {
        assert_eq!(pattern(Arch::X86, "6.12"), r"^linux-image-6\.12([.-][0-9r].*)?-cloud-amd64$");
        assert_eq!(pattern(Arch::Arm, "7.2"), r"^linux-image-7\.2([.-][0-9r].*)?-cloud-arm64$");
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
        assert_eq!(archives(&format!("{shown}\n"), 1).unwrap(), [Archive { package: "a".into(), path, sum }]);
        assert_eq!(archives(&format!("{shown}\nPackage: b\nVersion: 1\n"), 2), None);
        assert_eq!(archives(shown, 2), None, "the modules are missing");
    }
}
