//! What builds the workbook for a guest of another architecture: a folder in the user's cache with Debian's compiler,
//! linker and libraries. Nothing is installed on this machine, and nobody needs root.
//!
//! Clang, which this machine has for the BPF programs, can compile C for every architecture. rustc needs its standard
//! library for the other one. If rustup has added it (`rustup target add`), we take this machine's rustc, and else
//! Debian's.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Error, OrCause, Result};
use wire::arch::Arch;

use crate::apt::Apt;
use crate::host::folders::cache;
use crate::host::tools::{CLANG, output};
use crate::workbook::{Cross, Toolchain, Workbook};

/// The suites of Debian 12. Newer systems can run its programs, too, and its security updates have a recent Rust,
/// because browsers need one.
const SUITES: [&str; 2] = ["bookworm-security", "bookworm"];

/// The packages for the guest's architecture, with what they depend on: the libraries to link with, the guest's shell, and
/// programs for the tests. `libgcc-12-dev` has what a compiler adds to a program.
const FOR_GUEST: [&str; 6] =
    ["busybox-static", "libelf-dev", "libgcc-12-dev", "libgcc-s1", "util-linux", "zlib1g-dev"];

/// Of the packages that those depend on, the ones that a guest needs; besides, we need only those that end in `-dev`.
const IN_GUEST: [&str; 10] = [
    "busybox-static",
    "libc6",
    "libcap-ng0",
    "libelf1",
    "libgcc-s1",
    "libpcre2-8-0",
    "libselinux1",
    "libudev1",
    "util-linux",
    "zlib1g",
];

/// Rust's standard library. Its dependencies are the libraries that rustc itself needs.
const RUST: &str = "libstd-rust-web-dev";
/// The compiler. It depends on all of gcc, which we don't need.
const RUSTC: &str = "rustc-web";

/// The file that lists the packages. A folder that has it is complete.
const PACKAGES: &str = "packages.txt";

/// A workbook that is built for this architecture. The first time, this downloads a compiler.
pub fn for_arch(workbook: Workbook, arch: Arch, mirror: Option<&str>) -> Result<Workbook> {
    if arch == Arch::HERE {
        return Ok(workbook);
    }
    let with_rust = !knows(&target(arch))?;
    let packages = packages(arch, with_rust);
    let (folder, line) = place(arch, &packages)?;
    let (alone, whole): (Vec<_>, Vec<_>) = packages.iter().cloned().partition(|name| name == RUSTC);
    let recipe = Recipe {
        what: &format!("what builds programs for {arch}"),
        unfetched: (
            &format!("the compiler for {arch} can't be fetched"),
            &format!(
                "is there a network? If so, name a mirror of Debian: cargo lab build --arch {arch} --mirror URL"
            ),
        ),
        archs: &[Arch::HERE, arch],
        packages: (&whole, &alone),
        is_needed: &|name, architecture| is_needed(name, architecture, arch),
        line: &line,
        scripts: &scripts(&folder, arch),
    };
    recipe.make(&folder, mirror)?;
    let at = |name: &str| folder.join(name).into_os_string();
    let (triple, upper) = (target(arch).replace('-', "_"), target(arch).replace('-', "_").to_uppercase());
    let mut environment = vec![
        (format!("CARGO_TARGET_{upper}_LINKER"), at("cc")),
        (format!("CC_{triple}"), at("cc")),
        (format!("AR_{triple}"), at("ar")),
        // Without the name of the target, it would apply to build scripts, too.
        (format!("LIBBPF_SYS_LIBRARY_PATH_{triple}"), folder.join(libraries(arch)).into_os_string()),
        ("PKG_CONFIG_ALLOW_CROSS".to_owned(), "1".into()),
    ];
    if with_rust {
        environment.push(("RUSTC".to_owned(), at("rustc")));
    }
    let cross = Cross { arch, triple: Some(target(arch)), environment, root: folder };
    let workbook = Workbook { toolchain: Toolchain::Cross(cross), ..workbook };
    if !workbook.binaries().exists() {
        eprintln!("Compiling the workbook for {arch}. The first time, this takes about two minutes ...");
    }
    Ok(workbook)
}

/// The folder for an architecture, and the line with which its list of packages begins if it is complete.
fn place(arch: Arch, packages: &[String]) -> Result<(PathBuf, String)> {
    let folder = cache()?.join(format!("cross-{arch}"));
    // The folder's programs know its path, and a newer workbook may want other packages or a newer Rust.
    let line = format!(
        "# made in {}, with dpkg's records, for Rust {}: {}; in the guest: {}\n",
        folder.display(),
        env!("CARGO_PKG_RUST_VERSION"),
        packages.join(" "),
        IN_GUEST.join(" ")
    );
    Ok((folder, line))
}

/// Checks that what builds for an architecture is here, so that nothing has to be downloaded.
pub fn find(arch: Arch) -> Result<()> {
    let (folder, line) = place(arch, &packages(arch, !knows(&target(arch))?))?;
    if is_complete(&folder, &line) {
        return Ok(());
    }
    Err(Error::new(format!("what builds programs for {arch} is not here yet"))
        .evidence(format!("{} is missing, or was made by another version of the workbook", folder.display()))
        .fix(format!("make {arch}")))
}

/// Whether the folder has everything, and was made in the same way.
fn is_complete(folder: &Path, line: &str) -> bool {
    fs::read_to_string(folder.join(PACKAGES)).is_ok_and(|list| list.starts_with(line))
}

/// The version of a package in a folder that has everything.
pub fn version(folder: &Path, package: &str) -> String {
    let list = fs::read_to_string(folder.join(PACKAGES)).unwrap_or_default();
    // NAME:ARCHITECTURE=VERSION SHA-256
    let mut versions = list.lines().filter_map(|line| {
        let (_, version) = line.strip_prefix(package)?.strip_prefix(':')?.split_once('=')?;
        version.split(' ').next()
    });
    versions.next().unwrap_or_default().to_owned()
}

/// Rust's name for Linux on an architecture.
pub fn target(arch: Arch) -> String {
    format!("{}-unknown-linux-gnu", arch.machine())
}

/// Debian's name for it, which the names of folders and programs contain.
pub fn debian(arch: Arch) -> String {
    format!("{}-linux-gnu", arch.machine())
}

/// The program that starts others with the libraries that they need.
pub fn loader(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => "/lib64/ld-linux-x86-64.so.2",
        Arch::Arm => "/lib/ld-linux-aarch64.so.1",
    }
}

/// The folder of an architecture's libraries in Debian.
pub fn libraries(arch: Arch) -> String {
    format!("usr/lib/{}", debian(arch))
}

/// Whether this machine's rustc has the standard library of a target.
fn knows(target: &str) -> Result<bool> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let found = output(Command::new(rustc).args(["--print", "target-libdir", "--target", target]))?;
    let folder = PathBuf::from(String::from_utf8_lossy(&found.stdout).trim());
    Ok(folder.read_dir().is_ok_and(|mut files| files.next().is_some()))
}

/// The packages to ask apt for.
fn packages(arch: Arch, with_rust: bool) -> Vec<String> {
    let guest = FOR_GUEST.map(|name| format!("{name}:{}", arch.debian()));
    let mut packages = vec![format!("binutils-{}", debian(arch).replace('_', "-"))];
    packages.extend(guest);
    if with_rust {
        packages.extend([RUST.to_owned(), format!("{RUST}:{}", arch.debian()), RUSTC.to_owned()]);
    }
    packages
}

/// Whether we need a package that another one depends on.
fn is_needed(name: &str, architecture: &str, arch: Arch) -> bool {
    match architecture == arch.debian() {
        true => name.ends_with("-dev") || IN_GUEST.contains(&name),
        // This machine has a C library, and another one can't take its place.
        false => name != "libc6",
    }
}

/// How to make a folder with packages of Debian, and with scripts that start its programs on this machine.
pub struct Recipe<'a> {
    /// What the folder is, after `Fetching`.
    pub what: &'a str,
    /// What to say if it can't be fetched: the cause and the fix.
    pub unfetched: (&'a str, &'a str),
    /// The architectures whose packages it has.
    pub archs: &'a [Arch],
    /// The packages whose dependencies it has too, and those without.
    pub packages: (&'a [String], &'a [String]),
    /// Whether a package of these, by its name and its architecture, is needed.
    pub is_needed: &'a dyn Fn(&str, &str) -> bool,
    /// The line with which its list of packages begins.
    pub line: &'a str,
    /// Its scripts, each a name and a command.
    pub scripts: &'a [(&'a str, String)],
}

impl Recipe<'_> {
    /// Makes the folder if it is missing or was made differently, and writes each script that has changed.
    pub fn make(&self, folder: &Path, mirror: Option<&str>) -> Result<()> {
        match is_complete(folder, self.line) {
            true => self.write_scripts(folder),
            false => self.fetch(folder, mirror),
        }
    }

    fn write_scripts(&self, folder: &Path) -> Result<()> {
        for (name, command) in self.scripts {
            let (file, script) = (folder.join(name), format!("#!/bin/sh\n{command}\n"));
            if fs::read_to_string(&file).is_ok_and(|there| there == script) {
                continue;
            }
            // Another lab may be running the old script, so we replace the file and don't write into it.
            let executable = fs::Permissions::from_mode(0o755);
            tempfile::Builder::new()
                .permissions(executable)
                .tempfile_in(folder)
                .and_then(|mut new| new.write_all(script.as_bytes()).and_then(|()| Ok(new.persist(&file)?)))
                .or_cause(format!("cannot write {}", file.display()))?;
        }
        Ok(())
    }

    /// Downloads the packages and unpacks them into the folder.
    fn fetch(&self, folder: &Path, mirror: Option<&str>) -> Result<()> {
        CLANG.find()?;
        eprintln!("Fetching {}, once ...", self.what);
        let cannot = || format!("cannot make {}", folder.display());
        let above = folder.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(above).or_cause(cannot())?;
        let unfetched = |error: Error| {
            let (cause, fix) = self.unfetched;
            if error.has_fix() { error } else { Error::new(cause).evidence(error).fix(fix) }
        };
        let apt = Apt::new(self.archs, mirror).map_err(unfetched)?;
        // Another lab may have made it while we waited for apt.
        if is_complete(folder, self.line) {
            return Ok(());
        }
        let work = tempfile::tempdir_in(above).or_cause(cannot())?;
        let root = work.path().join("root");
        let (whole, alone) = self.packages;
        let unpacked = apt.unpack_needed(&SUITES, whole, alone, self.is_needed, &root).map_err(unfetched)?;
        self.write_scripts(&root)?;
        let list = format!("{}{}\n", self.line, unpacked.join("\n"));
        fs::write(root.join(PACKAGES), list).or_cause(cannot())?;
        if folder.exists() {
            fs::rename(folder, work.path().join("before")).or_cause(cannot())?;
        }
        fs::rename(root, folder).or_cause(cannot())
    }
}

/// The scripts of the folder for an architecture.
fn scripts(folder: &Path, arch: Arch) -> [(&'static str, String); 4] {
    // This machine's loader starts each program with its own libraries. A variable for that would also apply to the
    // programs that rustc starts, such as this machine's compiler.
    let (here, at, loader) = (debian(Arch::HERE), folder.display(), loader(Arch::HERE));
    let program = |name: &str| {
        format!(
            "exec {loader} --library-path '{at}/usr/lib/{here}:{at}/lib/{here}' '{at}/usr/bin/{name}' \"$@\""
        )
    };
    // rustc can't find its own folder then, because its process is the loader's.
    let rustc = program(&format!("rustc' --sysroot '{at}/usr"));
    let target = debian(arch);
    let clang = format!(
        "exec clang --target={target} '--sysroot={at}' '--ld-path={at}/ld' -Wno-unused-command-line-argument \"$@\""
    );
    [
        ("cc", clang),
        ("ld", program(&format!("{target}-ld"))),
        ("ar", program(&format!("{target}-ar"))),
        ("rustc", rustc),
    ]
}

/// Where the guest's busybox is.
pub fn busybox(cross: &Cross) -> Result<PathBuf> {
    program(cross, "busybox")
}

/// A program for the guest's architecture.
pub fn program(cross: &Cross, name: &str) -> Result<PathBuf> {
    let places = ["bin", "sbin", "usr/bin"].map(|folder| cross.root.join(folder).join(name));
    if let Some(file) = places.iter().find(|file| file.is_file()) {
        return Ok(file.clone());
    }
    Err(Error::new(format!("the folder with what builds programs for {} is damaged", cross.arch))
        .evidence(format!("{} has no program {name}", cross.root.display()))
        .fix(format!("remove it, and the lab makes it again: rm -r {}", cross.root.display())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn only_what_builds_or_runs_is_unpacked() {
        let is_needed = |name, architecture| is_needed(name, architecture, Arch::Arm);
        assert!(is_needed("libllvm22", "amd64") && !is_needed("libllvm22", "arm64"));
        assert!(is_needed("libelf-dev", "arm64") && is_needed("libelf1", "arm64"));
        assert!(is_needed("libc6", "arm64") && !is_needed("libc6", "amd64"));
    }

    #[test]
    fn a_changed_script_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(PACKAGES), "# made\n").unwrap();
        let script = folder.path().join("cc");
        let written = |command: &str| {
            let recipe = Recipe {
                what: "nothing",
                unfetched: ("", ""),
                archs: &[],
                packages: (&[], &[]),
                is_needed: &|_, _| false,
                line: "# made\n",
                scripts: &[("cc", command.to_owned())],
            };
            recipe.make(folder.path(), None).unwrap();
            let file = fs::metadata(&script).unwrap();
            assert_eq!(file.permissions().mode() & 0o777, 0o755);
            (file.ino(), fs::read_to_string(&script).unwrap())
        };
        let first = written("exec true");
        assert_eq!(written("exec true"), first);
        assert_eq!(first.1, "#!/bin/sh\nexec true\n");
        assert_eq!(written("exec false").1, "#!/bin/sh\nexec false\n");
    }

    #[test]
    fn rust_is_fetched_only_if_rustup_has_not_added_it() {
        assert!(packages(Arch::Arm, true).contains(&"libstd-rust-web-dev:arm64".to_owned()));
        assert!(packages(Arch::Arm, false).iter().all(|name| !name.contains("rust")));
        assert!(packages(Arch::X86, false).contains(&"binutils-x86-64-linux-gnu".to_owned()));
        assert!(knows(&target(Arch::HERE)).unwrap());
    }
}
