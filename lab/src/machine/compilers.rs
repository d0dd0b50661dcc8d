//! The compilers of the workshop's guest: a folder in the user's cache with packages of Debian 12.
//!
//! This machine compiles the workbook's libraries with them, and the guest then compiles a learner's program with the same
//! ones. rustc refuses libraries that another version of it made.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use common::{Error, OrCause, Result};

use crate::host::folders::cache;
use crate::machine::cross::{self, Recipe};
use crate::shared::arch::Arch;
use crate::workbook::{Cross, Workbook};

/// The packages with compilers, headers, and what learners may want to look with.
const PACKAGES: [&str; 11] = [
    "bpftool",
    "busybox-static",
    "clang-22",
    "libc6-dev",
    "libelf-dev",
    "libgcc-12-dev",
    "libstd-rust-web-dev",
    "linux-libc-dev",
    "lld-22",
    "rustc-web",
    "zlib1g-dev",
];

/// Of the packages that those depend on, the ones that they need in order to run. The others are gcc, and what it needs.
const NEEDED: [&str; 22] = [
    "libbsd0",
    "libc6",
    "libcap2",
    "libclang-common-22-dev",
    "libclang-cpp22",
    "libedit2",
    "libelf1",
    "libffi8",
    "libgcc-s1",
    "libicu72",
    "libllvm22",
    "liblzma5",
    "libmd0",
    "libstd-rust-web-1.85",
    "libstd-rust-web-1.96",
    "libstdc++6",
    "libtinfo6",
    "libxml2",
    "libz3-4",
    "libzstd1",
    "llvm-22-linker-tools",
    "zlib1g",
];

/// The workbook, to be built with these compilers. The first time, this downloads them.
///
/// # Errors
/// If the architecture is not this machine's, or a package can't be had.
pub fn workbook(workbook: Workbook, arch: Arch, mirror: Option<&str>) -> Result<Workbook> {
    if arch != Arch::HERE {
        return Err(Error::new(format!("the workshop for {arch} can't be made on this machine"))
            .evidence(format!(
                "this machine is {}, and rustc's plugins can't be built for another architecture",
                Arch::HERE
            ))
            .fix(format!("make it on a machine of {arch}")));
    }
    let folder = cache()?.join(format!("workshop-{arch}"));
    let line = format!(
        "# made in {}, with dpkg's records: {} {}\n",
        folder.display(),
        PACKAGES.join(" "),
        NEEDED.join(" ")
    );
    if !cross::is_complete(&folder, &line) {
        let whole = PACKAGES.map(str::to_owned);
        let recipe = Recipe {
            what: "the workshop's compilers",
            unfetched: "the workshop's compilers can't be fetched",
            command: "cargo lab bundle --with-workshop",
            archs: &[arch],
            packages: (&whole, &[]),
            is_needed: &|name, _| PACKAGES.contains(&name) || NEEDED.contains(&name),
            line: &line,
            scripts: &scripts(&folder, arch),
        };
        recipe.make(&folder, mirror)?;
    }
    let upper = format!("{}_UNKNOWN_LINUX_GNU", arch.machine().to_uppercase());
    let lower = upper.to_lowercase();
    let at = |name: &str| folder.join(name).into_os_string();
    let environment = vec![
        ("RUSTC".to_owned(), at("rustc")),
        (format!("CARGO_TARGET_{upper}_LINKER"), at("cc")),
        (format!("CC_{lower}"), at("cc")),
        (
            format!("LIBBPF_SYS_LIBRARY_PATH_{lower}"),
            folder.join("usr/lib").join(cross::debian(arch)).into_os_string(),
        ),
    ];
    let cross = Cross { arch, triple: String::new(), environment, root: folder };
    Ok(Workbook { cross: Some(cross), ..workbook })
}

/// The scripts that start the compilers on this machine, which may have another C library.
fn scripts(folder: &Path, arch: Arch) -> [(&'static str, String); 3] {
    let (debian, at) = (cross::debian(arch), folder.display());
    let loader = match arch {
        Arch::X86 => "lib64/ld-linux-x86-64.so.2",
        Arch::Arm => "lib/ld-linux-aarch64.so.1",
    };
    let start = format!("exec '{at}/{loader}' --library-path '{at}/lib/{debian}:{at}/usr/lib/{debian}'");
    [
        (
            "cc",
            format!(
                "exec clang --target={debian} '--sysroot={at}' '--ld-path={at}/ld' -Wno-unused-command-line-argument \"$@\""
            ),
        ),
        ("ld", format!("{start} '{at}/usr/lib/llvm-22/bin/lld' -flavor gnu \"$@\"")),
        // rustc can't find its own folder, because its process is the loader's.
        ("rustc", format!("{start} '{at}/usr/bin/rustc' --sysroot '{at}/usr' \"$@\"")),
    ]
}

/// The files that the guest gets from the folder, and their places there.
///
/// # Errors
/// If the folder can't be read.
pub fn files(root: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut found = Vec::new();
    let mut folders: Vec<_> = ["lib", "lib64", "usr"].map(|name| root.join(name)).into();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = folder.read_dir() else { continue };
        for entry in entries {
            let path = entry.or_cause(format!("cannot list {}", folder.display()))?.path();
            let place = path.strip_prefix(root).unwrap_or(&path).to_owned();
            if !is_wanted(&place) {
                continue;
            }
            let kind = fs::symlink_metadata(&path).or_cause(format!("cannot read {}", path.display()))?;
            if kind.is_dir() { folders.push(path) } else { found.push((path, place)) }
        }
    }
    found.sort();
    Ok(found)
}

/// Whether the guest needs a file or a folder. It links few static libraries, and reads no documentation.
fn is_wanted(place: &Path) -> bool {
    const NOT: [&str; 6] = [
        "usr/bin/rust-gdb",
        "usr/bin/rust-gdbgui",
        "usr/bin/rust-lldb",
        "usr/bin/rustdoc",
        "usr/lib/debug",
        "usr/share",
    ];
    // Those of glibc's parts, which are empty today, and those without which nothing can be linked.
    const STATIC: [&str; 7] =
        ["libc_nonshared.a", "libdl.a", "libgcc.a", "libgcc_eh.a", "libpthread.a", "librt.a", "libutil.a"];
    let name = place.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_rusts = place.starts_with("usr/lib/rustlib");
    let is_test = is_rusts && name.starts_with("libtest-");
    let is_static = name.ends_with(".a") && !is_rusts && !STATIC.contains(&name);
    !NOT.iter().any(|not| place.starts_with(not)) && !is_test && !is_static
}
