//! The compilers of the workshop's guest: a folder in the user's cache with packages of Debian 12.
//!
//! This machine compiles the workbook's libraries with them, and the guest then compiles a learner's program with the same
//! ones. rustc refuses libraries that another version of it made.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use common::{Error, Result};
use machine::cross::{self, Recipe};
use machine::host::folders::{self, cache};
use machine::workbook::{Cross, Toolchain, Workbook};
use wire::arch::Arch;
use wire::kit::ROOT;

/// The packages with compilers, headers, and what learners may want to look with.
const PACKAGES: &str = "bpftool busybox-static clang-22 libc6-dev libelf-dev libgcc-12-dev libstd-rust-web-dev \
                        linux-libc-dev lld-22 rustc-web zlib1g-dev";

/// Of the packages that those depend on, the ones that they need in order to run. The others are gcc, and what it needs.
const NEEDED: &str = "libbsd0 libc6 libcap2 libclang-common-22-dev libclang-cpp22 libedit2 libelf1 libffi8 libgcc-s1 \
                      libicu72 libllvm22 liblzma5 libmd0 libstdc++6 libtinfo6 libxml2 libz3-4 libzstd1 \
                      llvm-22-linker-tools zlib1g";

/// Whether a package is needed.
fn is_needed(name: &str) -> bool {
    // The name of rustc's own library has its version.
    PACKAGES.split(' ').chain(NEEDED.split(' ')).any(|needed| needed == name)
        || name.starts_with("libstd-rust-web-")
}

/// A variable with the workbook's folder, for which these compilers put its folder in the guest.
pub const MADE_FROM: &str = "WORKBOOK_MADE_FROM";

/// The workbook, to be built with these compilers. The first time, this downloads them. If it is for another architecture
/// than this machine's, it must already have what builds it.
pub fn workbook(workbook: &Workbook) -> Result<Workbook> {
    let arch = workbook.arch();
    let (here, root) = (folder(Arch::HERE)?, folder(arch)?);
    let (ours, guests) = (cross::version(&here, "rustc-web"), cross::version(&root, "rustc-web"));
    if ours != guests {
        return Err(Error::new(format!("the workshop's compilers for {arch} have another version"))
            .evidence(format!("{}: rustc {ours}; {}: rustc {guests}", here.display(), root.display()))
            .fix(format!(
                "remove both, and the lab fetches them again: rm -r {} {}",
                here.display(),
                root.display()
            )));
    }
    let at = |name: &str| here.join(name).into_os_string();
    let cross = if let Some(cross) = workbook.cross() {
        // Of two variables of the same name, the last one applies.
        let environment = [cross.environment.clone(), vec![("RUSTC".to_owned(), at(rustc(arch)))]].concat();
        Cross { environment, root, ..cross.clone() }
    } else {
        let triple = cross::target(arch).replace('-', "_");
        let environment = vec![
            ("RUSTC".to_owned(), at(rustc(arch))),
            (format!("CARGO_TARGET_{}_LINKER", triple.to_uppercase()), at("cc")),
            (format!("CC_{triple}"), at("cc")),
            (format!("LIBBPF_SYS_LIBRARY_PATH_{triple}"), at(&cross::libraries(arch))),
        ];
        Cross { arch, triple: None, environment, root }
    };
    Ok(Workbook { toolchain: Toolchain::Cross(cross), ..workbook.clone() })
}

/// The folder with the compilers that run on an architecture.
fn folder(arch: Arch) -> Result<PathBuf> {
    let cache = cache()?;
    let folder = |arch: Arch| cache.join(format!("workshop-{arch}"));
    let packages: Vec<_> = PACKAGES.split(' ').map(|name| format!("{name}:{}", arch.debian())).collect();
    let place = folder(arch);
    let recipe = Recipe {
        what: &format!("the workshop's compilers for {arch}"),
        fix: "is there a network? The lab takes them from the mirror that this machine's apt uses, which must have Debian 12",
        archs: if arch == Arch::HERE { &[Arch::HERE] } else { &[Arch::HERE, arch] },
        packages: &packages,
        alone: &[],
        dependencies: NEEDED,
        is_needed: &|name, architecture| is_needed(name) && [arch.debian(), "all"].contains(&architecture),
        scripts: &if arch == Arch::HERE { scripts(&cache) } else { Vec::new() },
    };
    recipe.make(&place, None)?;
    Ok(place)
}

/// The name of the script that starts rustc on this machine, to compile for an architecture.
fn rustc(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => "rustc-x86_64",
        Arch::Arm => "rustc-arm64",
    }
}

/// The scripts that start the compilers on this machine, which may have another C library. `cache` is the folder above.
fn scripts(cache: &Path) -> Vec<(&'static str, String)> {
    let debian = cross::debian(Arch::HERE);
    let at = cache.join(format!("workshop-{}", Arch::HERE));
    let (at, loader) = (at.display(), cross::loader(Arch::HERE));
    let start = format!("exec '{at}{loader}' --library-path '{at}/lib/{debian}:{at}/usr/lib/{debian}'");
    let cc = format!(
        "exec clang --target={debian} '--sysroot={at}' '--ld-path={at}/ld' -Wno-unused-command-line-argument \"$@\""
    );
    let mut scripts =
        vec![("cc", cc), ("ld", format!("{start} '{at}/usr/lib/llvm-22/bin/lld' -flavor gnu \"$@\""))];
    // Our programs ask the compiler for the name of their folder, and the guest has them in another one.
    let place = format!(
        "case ${{CARGO_MANIFEST_DIR-}}/ in\n\
         \"${{{MADE_FROM}-/none}}\"/*) CARGO_MANIFEST_DIR={ROOT}${{CARGO_MANIFEST_DIR#\"${MADE_FROM}\"}} ;;\n\
         esac"
    );
    // rustc can't find its own folder, because its process is the loader's.
    for arch in [Arch::X86, Arch::Arm] {
        let root = cache.join(format!("workshop-{arch}"));
        let libraries = match arch {
            Arch::HERE => String::new(),
            _ => format!("-L '{}/usr/lib/rustlib/{}/lib' ", root.display(), cross::target(arch)),
        };
        let line = format!("{place}\n{start} '{at}/usr/bin/rustc' --sysroot '{at}/usr' {libraries}\"$@\"");
        scripts.push((rustc(arch), line));
    }
    scripts
}

/// The files that the guest gets from the folder, and their places there.
pub fn files(root: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let all = folders::files(root, "")?.into_iter();
    let placed = all.map(|file| (file.strip_prefix(root).unwrap_or(&file).to_owned(), file));
    Ok(placed.filter(|(place, _)| is_wanted(place)).map(|(place, file)| (file, place)).collect())
}

/// Whether the guest needs a file. It links few static libraries, and reads no documentation.
fn is_wanted(place: &Path) -> bool {
    const TOOLS: [&str; 4] = ["rust-gdb", "rust-gdbgui", "rust-lldb", "rustdoc"];
    // Those of glibc's parts, which are empty today, and those without which nothing can be linked.
    const STATIC: [&str; 7] =
        ["libc_nonshared.a", "libdl.a", "libgcc.a", "libgcc_eh.a", "libpthread.a", "librt.a", "libutil.a"];
    let is_system = ["lib", "lib64", "usr"].iter().any(|folder| place.starts_with(folder));
    let name = place.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_rusts = place.starts_with("usr/lib/rustlib");
    let is_test = is_rusts && name.starts_with("libtest-");
    let is_static = name.ends_with(".a") && !is_rusts && !STATIC.contains(&name);
    let is_read = ["usr/lib/debug", "usr/share"].iter().any(|folder| place.starts_with(folder));
    is_system && !is_read && !TOOLS.contains(&name) && !is_test && !is_static
}
