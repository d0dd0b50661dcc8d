//! What builds the workbook for a guest of another architecture: a folder in the user's cache with Debian's compiler,
//! linker and libraries. Nothing is installed on this system, and nobody needs root.
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
const IN_GUEST: &str =
    "busybox-static libc6 libcap-ng0 libelf1 libgcc-s1 libpcre2-8-0 libselinux1 libudev1 util-linux zlib1g";

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
    let folder = with_recipe(arch, |recipe, folder| recipe.make(folder, mirror).map(|()| folder.to_owned()))?;
    let at = |name: &str| folder.join(name).into_os_string();
    let triple = target(arch).replace('-', "_");
    let mut environment = vec![
        (format!("CARGO_TARGET_{}_LINKER", triple.to_uppercase()), at("cc")),
        (format!("CC_{triple}"), at("cc")),
        (format!("AR_{triple}"), at("ar")),
        // Without the name of the target, it would apply to build scripts, too.
        (format!("LIBBPF_SYS_LIBRARY_PATH_{triple}"), at(&libraries(arch))),
        ("PKG_CONFIG_ALLOW_CROSS".to_owned(), "1".into()),
    ];
    if !knows(arch)? {
        environment.push(("RUSTC".to_owned(), at("rustc")));
    }
    let cross = Cross { arch, triple: Some(target(arch)), environment, root: folder };
    let workbook = Workbook { toolchain: Toolchain::Cross(cross), ..workbook };
    if !workbook.binaries().exists() {
        eprintln!("Compiling the workbook for {arch}. The first time, this takes about two minutes ...");
    }
    Ok(workbook)
}

/// Calls this with how to make the folder for an architecture, and with the folder.
fn with_recipe<T>(arch: Arch, with: impl FnOnce(&Recipe<'_>, &Path) -> Result<T>) -> Result<T> {
    let folder = cache()?.join(format!("cross-{arch}"));
    let mut packages = vec![format!("binutils-{}", debian(arch).replace('_', "-"))];
    packages.extend(FOR_GUEST.map(|name| format!("{name}:{}", arch.debian())));
    let alone = if knows(arch)? { vec![] } else { vec![RUSTC.to_owned()] };
    if !alone.is_empty() {
        packages.extend([RUST.to_owned(), format!("{RUST}:{}", arch.debian())]);
    }
    let recipe = Recipe {
        what: &format!("what builds programs for {arch}"),
        fix: &format!(
            "is there a network? If so, name a mirror of Debian: cargo lab build --arch {arch} --mirror URL"
        ),
        archs: &[Arch::HERE, arch],
        packages: &packages,
        alone: &alone,
        dependencies: IN_GUEST,
        is_needed: &|name, architecture| is_needed(name, architecture, arch),
        scripts: &scripts(&folder, arch),
    };
    with(&recipe, &folder)
}

/// Checks that what builds for an architecture is here, so that nothing has to be downloaded.
pub fn find(arch: Arch) -> Result<()> {
    with_recipe(arch, |recipe, folder| {
        if recipe.is_complete(folder) {
            return Ok(());
        }
        Err(Error::new(format!("what builds programs for {arch} is not here yet"))
            .evidence(format!(
                "{} is missing, or was made by another version of the workbook",
                folder.display()
            ))
            .fix(format!("make {arch}")))
    })
}

/// Whether this machine's rustc has the standard library of an architecture.
fn knows(arch: Arch) -> Result<bool> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let found = output(Command::new(rustc).args(["--print", "target-libdir", "--target", &target(arch)]))?;
    let folder = PathBuf::from(String::from_utf8_lossy(&found.stdout).trim());
    Ok(folder.read_dir().is_ok_and(|mut files| files.next().is_some()))
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

/// Whether we need a package that another one depends on.
fn is_needed(name: &str, architecture: &str, arch: Arch) -> bool {
    match architecture == arch.debian() {
        true => name.ends_with("-dev") || IN_GUEST.split(' ').any(|needed| needed == name),
        // This machine has a C library, and another one can't take its place.
        false => name != "libc6",
    }
}

/// How to make a folder with packages of Debian, and with scripts that start its programs on this machine.
pub struct Recipe<'a> {
    /// What the folder is, after `Fetching`.
    pub what: &'a str,
    /// What to do if it can't be fetched.
    pub fix: &'a str,
    /// The architectures whose packages it has.
    pub archs: &'a [Arch],
    /// The packages, which have their dependencies with them.
    pub packages: &'a [String],
    /// More packages, without their dependencies.
    pub alone: &'a [String],
    /// Which dependencies. If they change, the folder is made again.
    pub dependencies: &'a str,
    /// Whether a package of these, by its name and its architecture, is needed.
    pub is_needed: &'a dyn Fn(&str, &str) -> bool,
    /// Its scripts, each a name and a command.
    pub scripts: &'a [(&'a str, String)],
}

impl Recipe<'_> {
    /// Makes the folder if it is missing or was made differently, and writes each script that has changed.
    pub fn make(&self, folder: &Path, mirror: Option<&str>) -> Result<()> {
        match self.is_complete(folder) {
            true => self.write_scripts(folder),
            false => self.fetch(folder, mirror),
        }
    }

    /// The line with which its list of packages begins. The folder's programs know its path, and a newer workbook may want a
    /// newer Rust.
    fn line(&self, folder: &Path) -> String {
        let (packages, dependencies) = ([self.packages, self.alone].concat().join(" "), self.dependencies);
        let (folder, rust) = (folder.display(), env!("CARGO_PKG_RUST_VERSION"));
        format!("# made in {folder}, with dpkg's records, for Rust {rust}: {packages}; {dependencies}\n")
    }

    /// Whether the folder has everything, and was made in the same way.
    fn is_complete(&self, folder: &Path) -> bool {
        fs::read_to_string(folder.join(PACKAGES)).is_ok_and(|list| list.starts_with(&self.line(folder)))
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
        let work = tempfile::tempdir_in(above).or_cause(cannot())?;
        let root = work.path().join("root");
        let unpacked = Apt::new(self.archs, mirror)
            .and_then(|apt| apt.unpack_needed(&SUITES, self.packages, self.alone, self.is_needed, &root));
        let cause = format!("{} can't be fetched", self.what);
        let unpacked = unpacked.map_err(|error| match error.has_fix() {
            true => error,
            false => Error::new(cause).evidence(error).fix(self.fix),
        })?;
        self.write_scripts(&root)?;
        let list = format!("{}{}\n", self.line(folder), unpacked.join("\n"));
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
    let (here, at, loader, target) = (debian(Arch::HERE), folder.display(), loader(Arch::HERE), debian(arch));
    let libraries = format!("{at}/usr/lib/{here}:{at}/lib/{here}");
    let program =
        |name: &str| format!("exec {loader} --library-path '{libraries}' '{at}/usr/bin/{name}' \"$@\"");
    // rustc can't find its own folder then, because its process is the loader's.
    let rustc = program(&format!("rustc' --sysroot '{at}/usr"));
    let clang = format!(
        "exec clang --target={target} '--sysroot={at}' '--ld-path={at}/ld' -Wno-unused-command-line-argument \"$@\""
    );
    let (ld, ar) = (program(&format!("{target}-ld")), program(&format!("{target}-ar")));
    [("cc", clang), ("ld", ld), ("ar", ar), ("rustc", rustc)]
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
        let script = folder.path().join("cc");
        let written = |command: &str| {
            let recipe = Recipe {
                what: "nothing",
                fix: "",
                archs: &[],
                packages: &[],
                alone: &[],
                dependencies: "",
                is_needed: &|_, _| false,
                scripts: &[("cc", command.to_owned())],
            };
            fs::write(folder.path().join(PACKAGES), recipe.line(folder.path())).unwrap();
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
}
