//! The build script of every stage and example: finds the one BPF source under `src/bpf`, compiles it with clang and
//! generates the Rust skeleton that `main.rs` includes.
//!
//! No step needs the network or this machine's BTF: `vmlinux.h` is part of this crate, and libbpf's headers are part of
//! libbpf-sys.

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::cell::RefCell;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;
use libbpf_rs::{PrintLevel, set_print};

mod words;

/// This crate's folder, which has `vmlinux.h` by architecture, and the headers that the examples' BPF sources include. For
/// the workshop's guest, this is compiled with the folder's name there, but also runs on the machine that compiles.
fn home() -> PathBuf {
    env::var_os("COMMON_BUILD_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

/// The fix for a machine that has no compiler for BPF.
const GET_CLANG: &str = "install it: make setup (Debian, Ubuntu: apt install clang)";

/// Builds `src/bpf/NAME.bpf.c` of the crate whose build script calls this into `OUT_DIR/NAME.skel.rs`. On failure the
/// build ends with an error that names what is missing and how to get it.
pub fn skeleton() {
    println!("cargo::rerun-if-changed=src/bpf");
    println!("cargo::rerun-if-changed={}", home().join("vmlinux").display());
    println!("cargo::rerun-if-changed={}", home().join("include").display());
    println!("cargo::rerun-if-env-changed=CLANG");
    if let Err(error) =
        build(&PathBuf::from(variable("CARGO_MANIFEST_DIR")), &PathBuf::from(variable("OUT_DIR")))
    {
        // These lines fail the build, without all that cargo prints when a build script exits with an error.
        for line in error.lines() {
            println!("cargo::error={line}");
        }
    }
}

/// Compiles the BPF source of the crate in `package` to `NAME.bpf.o` in `out`, writes its skeleton next to it, and
/// returns the object's path.
///
/// # Errors
/// Says what is missing and how to get it, or quotes the compiler.
pub fn build(package: &Path, out: &Path) -> Result<PathBuf, String> {
    build_for(&architecture(), package, out)
}

/// Like [`build`], for the kernel of an architecture by rustc's name, such as `aarch64`.
pub fn build_for(arch: &str, package: &Path, out: &Path) -> Result<PathBuf, String> {
    let source = source(&package.join("src/bpf"))?;
    // The object's debug info names the source files, without the folders of the person who compiled it. Clang opens
    // the files by these names to copy their lines, so the names must be right relative to the package's folder, in
    // which build scripts run.
    let mut names = Vec::new();
    if env::current_dir().is_ok_and(|here| here == package) {
        names.push("-fdebug-compilation-dir=.".to_owned());
        let folders = [package.to_owned(), home()];
        names.extend(folders.map(|folder| format!("-ffile-prefix-map={}/=", folder.display())));
    }
    let object = object(&source, out);
    let skeleton = PathBuf::from(object.to_string_lossy().replace(".bpf.o", ".skel.rs"));
    builder(&compiler(), arch, &source, &object, &names)?
        .build_and_generate(&skeleton)
        .map_err(|error| explained(&format!("{error:#}"), &source))?;
    let code = fs::read_to_string(&skeleton).unwrap_or_default();
    let main = fs::read_to_string(package.join("src/main.rs")).unwrap_or_default();
    match words::unusable(&code, &main) {
        Some(reason) => Err(format!("{}: {reason}", source.display())),
        None => Ok(object),
    }
}

/// Compiles a BPF source that is not in a crate to `NAME.bpf.o` in `out`, and returns the object's path.
pub fn compile(source: &Path, out: &Path) -> Result<PathBuf, String> {
    compile_with(&compiler(), source, out)
}

/// Like [`compile`], with this compiler.
pub fn compile_with(clang: &str, source: &Path, out: &Path) -> Result<PathBuf, String> {
    let object = object(source, out);
    builder(clang, &architecture(), source, &object, &[])?
        .build()
        .map_err(|error| explained(&format!("{error:#}"), source))?;
    Ok(object)
}

/// The object's file.
fn object(source: &Path, out: &Path) -> PathBuf {
    let stem = source.file_name().and_then(|name| name.to_str()).unwrap_or_default().replace(".bpf.c", "");
    out.join(format!("{stem}.bpf.o"))
}

fn builder(
    clang: &str,
    arch: &str,
    source: &Path,
    object: &Path,
    names: &[String],
) -> Result<SkeletonBuilder, String> {
    let (include, headers) = (vmlinux(arch)?, home().join("include"));
    let target = format!("-D__TARGET_ARCH_{}", if arch == "aarch64" { "arm64" } else { "x86" });
    let clang = able(clang)?;
    WARNINGS.take();
    set_print(Some((PrintLevel::Warn, warn)));
    let mut builder = SkeletonBuilder::new();
    builder.source(source).obj(object).clang(clang).clang_args(
        [
            OsStr::new("-I"),
            include.as_os_str(),
            "-I".as_ref(),
            headers.as_os_str(),
            target.as_ref(),
            // By default, newer clangs emit atomic instructions, which Linux 5.10 refuses to load.
            "-mcpu=v2".as_ref(),
            "-Wall".as_ref(),
            "-Werror".as_ref(),
            // You may comment out a line to see what happens, and that must still compile.
            "-Wno-unused-variable".as_ref(),
            // Without the files that clang leaves in /tmp if it crashes.
            "-fno-crash-diagnostics".as_ref(),
        ]
        .into_iter()
        .chain(names.iter().map(OsStr::new)),
    );
    Ok(builder)
}

thread_local! {
    /// libbpf's warnings about what this thread compiles. Its linker prints the reason, and returns only a number.
    static WARNINGS: RefCell<String> = const { RefCell::new(String::new()) };
}

fn warn(_: PrintLevel, text: String) {
    WARNINGS.with_borrow_mut(|warnings| warnings.push_str(&text));
}

/// What an error of the compiler or of libbpf's linker means.
fn explained(error: &str, source: &Path) -> String {
    words::explained(&(WARNINGS.take() + error), source)
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// The one `*.bpf.c` in a folder.
fn source(folder: &Path) -> Result<PathBuf, String> {
    let entries = folder.read_dir().map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut sources = entries.flatten().map(|entry| entry.path());
    sources
        .find(|path| path.to_string_lossy().ends_with(".bpf.c"))
        .ok_or_else(|| format!("{}: no file NAME.bpf.c", folder.display()))
}

/// The architecture that we compile for.
fn architecture() -> String {
    env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_else(|_| env::consts::ARCH.to_owned())
}

/// The folder of an architecture's `vmlinux.h`.
fn vmlinux(arch: &str) -> Result<PathBuf, String> {
    let folder = home().join("vmlinux").join(arch);
    if folder.join("vmlinux.h").exists() {
        return Ok(folder);
    }
    Err(format!(
        "there is no vmlinux.h for {arch} yet: {} is missing\nto make one, see the first comment of lab/wire/src/arch.rs",
        folder.join("vmlinux.h").display()
    ))
}

/// The clang that the user chose, or the system's.
fn compiler() -> String {
    env::var("CLANG").unwrap_or_else(|_| "clang".to_owned())
}

/// The clang, if it can compile for BPF.
fn able(clang: &str) -> Result<PathBuf, String> {
    let targets = Command::new(clang).arg("--print-targets").output().map_err(|error| {
        format!("clang, the compiler for BPF, was not found: {clang}: {error}\n{GET_CLANG}")
    })?;
    if !String::from_utf8_lossy(&targets.stdout).contains("bpf") {
        return Err(format!("this clang cannot compile for BPF: {clang} --print-targets\n{GET_CLANG}"));
    }
    Ok(clang.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_bpf_source_is_an_error() {
        let error = source(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap_err();
        assert!(error.ends_with("src: no file NAME.bpf.c"), "{error}");
    }

    /// What compiles, but leaves a skeleton that `main.rs` can't use.
    #[test]
    fn an_unusable_skeleton_is_an_error_about_the_bpf_source() {
        let package = tempfile::tempdir().unwrap();
        fs::create_dir_all(package.path().join("src/bpf")).unwrap();
        let main = "common::record!(bpf::types::bio_info { bio, cpu });\n";
        fs::write(package.path().join("src/main.rs"), main).unwrap();
        let source = package.path().join("src/bpf/bio_trace.bpf.c");
        let map = "#include \"vmlinux.h\"\n#include <bpf/bpf_helpers.h>\nstruct bio_info { u64 bio; u32 cpu; };\nstruct {\n\t__uint(type, BPF_MAP_TYPE_ARRAY);\n\t__uint(max_entries, 1);\n\t__type(key, u32);\n\t__type(value, struct bio_info);\n} infos SEC(\".maps\");\nchar LICENSE[] SEC(\"license\") = \"GPL\";\n";
        let program = "SEC(\"kprobe/submit_bio\")\nint entry(void *ctx)\n{\n\treturn 0;\n}\n";
        let whole = format!("{map}{program}");
        for (text, words) in [
            ("", "it has no program"),
            (map, "it has no program"),
            (&*whole, "__pad_12"),
            (&*whole.replace("u32 cpu", "u64 cpu"), ""),
        ] {
            fs::write(&source, text).unwrap();
            let error = build(package.path(), package.path()).err().unwrap_or_default();
            assert!(error.contains(words) && error.is_empty() == words.is_empty(), "{text}\n{error}");
        }
    }
}
