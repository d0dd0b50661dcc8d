//! The guest of a kit with the workshop: an initramfs in which a learner can work. Besides what every guest has, it has compilers,
//! the workbook's sources and compiled libraries, the book, and the workshop's server.
//!
//! All of it is in memory. Reading it from a disk would start bios, and the stages would print them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use cargo_metadata::camino::Utf8Path;
use cargo_metadata::{DependencyKind, Message, MetadataCommand, Node, NodeDep, PackageId};
use common::{Error, OrCause, Result};
use machine::cross;
use machine::host::folders::files as files_below;
use machine::host::tools::{GIT, output};
use machine::workbook::Workbook;
use wire::arch::Arch;
use wire::catalog::Catalog;
use wire::kit::ROOT;

use crate::compilers;

/// The programs of the workshop's server and of the lab that the guest has, by their packages.
const TOOLS: [(&str, &[&str]); 6] = [
    ("ask", &["ask"]),
    ("clinic", &["clinic"]),
    ("guest", &["guest", "io"]),
    ("lab", &["lab"]),
    ("mystery", &["mystery"]),
    ("workshop", &["workshop"]),
];

/// What the guest's shell reads when it starts.
pub const PROFILE: &str = include_str!("../../workshop/guest/profile");

/// The guest's command `cargo`, in the workbook's folder.
pub const CARGO: &str = "lab/workshop/guest/cargo";

/// The folder of the compiled libraries in the guest.
const LIBRARIES: &str = "workbook/lib";

/// What a guest of a kit has besides what every guest has.
pub struct Parts {
    /// The workbook with the compilers of its programs.
    pub workbook: Workbook,
    pub programs: Vec<PathBuf>,
    /// rustc's arguments for a learner's program, see [`Recorded`].
    ///
    /// [`Recorded`]: machine::workbook::Recorded
    pub rustc: Vec<String>,
    /// Other files, and their places in the guest.
    pub copies: Vec<(PathBuf, PathBuf)>,
}

/// The drivers of its network card, where they are modules.
pub const NETWORK: [&str; 2] = ["virtio_pci", "virtio_net"];

/// Checks that a kernel's modules include the driver of that card. In all of our kernels it is one.
pub fn has_network(modules: &Path) -> Result<()> {
    let list = fs::read_to_string(modules.join("modules.dep")).or_cause("cannot read modules.dep")?;
    if list.contains("/virtio_net.ko:") {
        return Ok(());
    }
    let folder = modules.ancestors().nth(3).unwrap_or(modules).display();
    Err(Error::new("the kernel has no driver for the workshop's network card")
        .evidence(format!("{folder} was fetched by an older version of the lab"))
        .fix(format!("remove it, and the lab fetches it again: rm -r {folder}")))
}

/// Those of a guest with the workshop.
pub fn parts(workbook: &Workbook) -> Result<Parts> {
    let with_compilers = compilers::workbook(workbook)?;
    let built = Built::new(&with_compilers)?;
    let root = with_compilers.cross().map(|cross| &*cross.root).unwrap_or(Path::new("/"));

    let mut copies = compilers::files(root)?;
    let library =
        |file: &PathBuf| (file.clone(), Path::new(LIBRARIES).join(file.file_name().unwrap_or_default()));
    copies.extend(built.libraries.iter().map(library));
    copies.extend(sources(workbook)?);
    let book = workbook.target.join("book");
    if !book.join("index.html").exists() {
        return Err(Error::new("the workshop needs the book")
            .evidence(format!("{} has no index.html", book.display()))
            .fix("build it first: make docs"));
    }
    copies.extend(placed(files_below(&book, "")?, &book, "workbook/book"));
    Ok(Parts { workbook: with_compilers, programs: built.programs, rustc: built.rustc, copies })
}

/// The workbook, with its folders as they are in a guest.
pub fn in_guest(workbook: &Workbook) -> Workbook {
    let mut known = workbook.clone();
    let place = |folder: &Path| Path::new(ROOT).join(folder.strip_prefix(&workbook.root).unwrap_or(folder));
    let Catalog { stages, examples } = &mut known.catalog;
    stages.iter_mut().for_each(|stage| stage.folder = place(&stage.folder));
    examples.iter_mut().for_each(|example| example.folder = place(&example.folder));
    known.root = ROOT.into();
    known.mine = Path::new(ROOT).join("mine");
    known.target = Path::new(ROOT).join("target");
    known
}

/// Files of a folder, with their places in the guest's folder `to`.
pub fn placed(files: Vec<PathBuf>, from: &Path, to: &str) -> Vec<(PathBuf, PathBuf)> {
    let place = |file: &Path| Path::new(to).join(file.strip_prefix(from).unwrap_or(file));
    files.into_iter().map(|file| (file.clone(), place(&file))).collect()
}

/// The files that git knows, with their places in the guest.
fn sources(workbook: &Workbook) -> Result<Vec<(PathBuf, PathBuf)>> {
    let listed = output(GIT.command()?.current_dir(&workbook.root).args(["ls-files", "-z"]))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let files = listed.split_terminator('\0').map(|name| workbook.root.join(name));
    // A file may be removed, and git not know it yet.
    Ok(placed(files.filter(|file| file.exists()).collect(), &workbook.root, "workbook"))
}

/// What was compiled for the guest.
struct Built {
    programs: Vec<PathBuf>,
    /// The libraries that a program needs in order to be compiled.
    libraries: Vec<PathBuf>,
    /// rustc's arguments for a program.
    rustc: Vec<String>,
}

/// A library that Cargo made.
struct Artifact {
    package: PackageId,
    /// Its name in Rust.
    name: String,
    file: PathBuf,
}

impl Built {
    fn new(workbook: &Workbook) -> Result<Self> {
        let tools = TOOLS.iter().flat_map(|(package, names)| names.iter().map(move |name| (*package, *name)));
        let programs: Vec<_> =
            workbook.catalog.programs().map(|program| (program.package(), program.binary())).collect();
        let mut names: Vec<_> = tools.map(|(package, name)| (package, name.to_owned())).collect();
        names.extend(programs.iter().cloned());
        let (made, artifacts) = build(workbook, &names)?;

        let metadata = MetadataCommand::new()
            .manifest_path(workbook.root.join("Cargo.toml"))
            .other_options(vec!["--offline".to_owned()])
            .exec()
            .or_cause("cannot ask Cargo about the libraries")?;
        let nodes = metadata.resolve.as_ref().map(|resolve| &*resolve.nodes).unwrap_or_default();
        let is_program =
            |node: &&Node| programs.iter().any(|(package, _)| metadata[&node.id].name.as_str() == *package);
        let direct: BTreeSet<_> = nodes.iter().filter(is_program).flat_map(used_by).cloned().collect();
        let needed = closure(nodes, &artifacts, &direct);
        let of = |packages: &BTreeSet<PackageId>| {
            let found = artifacts.iter().filter(|artifact| packages.contains(&artifact.package));
            found.map(|artifact| (&artifact.name, &artifact.file)).collect::<Vec<_>>()
        };
        let place = |file: &Path| {
            format!("/{LIBRARIES}/{}", file.file_name().and_then(OsStr::to_str).unwrap_or_default())
        };
        let mut rustc = words(&["--edition=2024", "--crate-type=bin", "--emit=link"]);
        rustc.extend(words(&["-Cembed-bitcode=no", "-Cstrip=symbols", "--deny=unused_must_use"]));
        rustc.push(format!("-Ldependency=/{LIBRARIES}"));
        rustc.extend(of(&direct).iter().map(|(name, file)| format!("--extern={name}={}", place(file))));
        rustc.extend(link_arguments(workbook));
        Ok(Self {
            programs: made,
            libraries: of(&needed).into_iter().map(|(_, file)| file.clone()).collect(),
            rustc,
        })
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Builds these binaries, each of a package. Returns them, and the libraries that Cargo made for them.
fn build(workbook: &Workbook, names: &[(&str, String)]) -> Result<(Vec<PathBuf>, Vec<Artifact>)> {
    let mut cargo = workbook.cargo_build();
    cargo.args(["--quiet", "--message-format=json-render-diagnostics"]);
    for (package, name) in names {
        cargo.args(["--package", package, "--bin", name]);
    }
    // Build scripts run here, although they are compiled with the names of the guest's folders.
    cargo.env("COMMON_BUILD_DIR", workbook.root.join("common/build"));
    cargo.env(compilers::MADE_FROM, &workbook.root);
    // Libraries carry the names of their sources, and a learner's program shows them when it panics.
    let mut flags = workbook.remap_paths();
    if workbook.arch() != Arch::HERE {
        // A procedural macro is a plugin of the compiler. The guest's compiler needs it for the guest's architecture, and
        // Cargo makes that one only with this option, which is meant for compiling rustc itself.
        cargo.arg("-Zdual-proc-macros").env("RUSTC_BOOTSTRAP", "1");
        flags += "\x1f-Zdual-proc-macros";
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags);
    // An incremental build puts random names into the libraries, and Cargo reports in the order in which it gets done.
    cargo.env("CARGO_INCREMENTAL", "0");
    let mut cargo = cargo.stdout(Stdio::piped()).spawn().or_cause("cannot start cargo")?;
    let messages = cargo.stdout.take().ok_or_else(|| Error::new("cargo has no pipe"))?;
    let mut made = Vec::new();
    for message in Message::parse_stream(BufReader::new(messages)) {
        if let Message::CompilerArtifact(artifact) = message.or_cause("cannot read what Cargo says")? {
            made.push(artifact);
        }
    }
    if cargo.wait().or_cause("cannot wait for cargo")?.success() {
        return sorted(made, names, workbook.arch());
    }
    machine::signals::check()?;
    Err(Error::new("the workshop does not compile")
        .evidence("the compiler's errors above")
        .fix("fix the first error, or look at what you changed: git diff"))
}

/// The programs of these names and the libraries among what Cargo made. Only Cargo knows their folder, because the user's own
/// settings may name a target.
fn sorted(
    made: Vec<cargo_metadata::Artifact>,
    names: &[(&str, String)],
    arch: Arch,
) -> Result<(Vec<PathBuf>, Vec<Artifact>)> {
    let program = |(_, name): &(&str, String)| {
        let mut files = made.iter().filter_map(|one| one.executable.as_ref());
        let file = files.find(|file| file.file_name() == Some(name));
        file.cloned().ok_or_else(|| Error::new(format!("cargo made no program {name}")))
    };
    let programs: Vec<_> = names.iter().map(program).collect::<Result<_>>()?;
    let folder = programs.first().and_then(|program| program.parent()).map(ToOwned::to_owned);
    // Other folders have what runs only on this machine. The plugins of its compiler are there, too, if it has a target.
    let is_guests = |file: &Utf8Path| {
        let is_there = folder.as_ref().is_some_and(|folder| file.starts_with(folder));
        matches!(file.extension(), Some("rlib" | "so"))
            && (is_there || (arch == Arch::HERE && file.extension() == Some("so")))
    };
    let library = |one: cargo_metadata::Artifact| {
        let file = one.filenames.into_iter().find(|file| is_guests(file))?.into();
        Some(Artifact { package: one.package_id, name: one.target.name.replace('-', "_"), file })
    };
    let mut artifacts: Vec<_> = made.into_iter().filter_map(library).collect();
    artifacts.sort_by(|one, other| one.file.cmp(&other.file));
    Ok((programs.into_iter().map(Into::into).collect(), artifacts))
}

/// The packages that a package itself uses, except those that only its build script or its tests use.
fn used_by(node: &Node) -> impl Iterator<Item = &PackageId> {
    let is_normal = |used: &&NodeDep| used.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal);
    node.deps.iter().filter(is_normal).map(|used| &used.pkg)
}

/// These packages and all that they need, as far as Cargo made libraries of them. A procedural macro is a plugin, which has
/// all that it needs inside.
fn closure(nodes: &[Node], artifacts: &[Artifact], direct: &BTreeSet<PackageId>) -> BTreeSet<PackageId> {
    let mut needed = BTreeSet::new();
    let mut left: Vec<_> = direct.iter().collect();
    while let Some(id) = left.pop() {
        let Some(artifact) = artifacts.iter().find(|artifact| artifact.package == *id) else { continue };
        if needed.insert(id.clone()) && artifact.file.extension() == Some(OsStr::new("rlib")) {
            left.extend(nodes.iter().filter(|node| node.id == *id).flat_map(used_by));
        }
    }
    needed
}

/// How rustc links in the guest: with lld alone, because a C compiler as the linker's driver takes longer than it.
fn link_arguments(workbook: &Workbook) -> Vec<String> {
    let (arch, debian) = (workbook.arch(), cross::debian(workbook.arch()));
    let folder = format!("/usr/lib/{debian}");
    let mut line = words(&["-Clinker=/usr/lib/llvm-22/bin/ld.lld", "-Clinker-flavor=ld.lld"]);
    for place in [&*folder, &format!("/lib/{debian}"), &format!("/usr/lib/gcc/{debian}/12")] {
        line.push(format!("-Lnative={place}"));
    }
    for object in ["Scrt1.o", "crti.o", "crtn.o"] {
        line.push(format!("-Clink-arg={folder}/{object}"));
    }
    line.push(format!("-Clink-arg=--dynamic-linker={}", cross::loader(arch)));
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// With `[build] target` in somebody's settings, Cargo has a folder more for the guest's programs, and none for plugins.
    #[test]
    fn what_is_for_the_guest_is_where_cargo_says() {
        for triple in ["", "x86_64-unknown-linux-gnu/"] {
            let message = |kind: &str, file: &str, executable: &str| {
                let target =
                    json!({ "kind": [kind], "crate_types": [kind], "name": "a-b", "src_path": "/a.rs" });
                let profile = json!({ "opt_level": "0", "debug_assertions": true, "overflow_checks": true, "test": false });
                serde_json::from_value(json!({ "package_id": file, "target": target, "profile": profile,
                    "features": [], "filenames": [file], "fresh": true,
                    "executable": (!executable.is_empty()).then_some(executable) }))
                .unwrap()
            };
            let (own, ask) = (format!("/t/{triple}debug/deps/liba.rlib"), format!("/t/{triple}debug/ask"));
            let made = vec![
                message("lib", &own, ""),
                message("lib", "/t/release/deps/liba.rlib", ""),
                message("proc-macro", "/t/debug/deps/libm.so", ""),
                message("bin", &ask, &ask),
            ];
            let (programs, libraries) = sorted(made, &[("ask", "ask".to_owned())], Arch::HERE).unwrap();
            assert_eq!(programs, [Path::new(&ask)]);
            let files: Vec<_> = libraries.iter().map(|library| library.file.display().to_string()).collect();
            assert_eq!(BTreeSet::from_iter(files), BTreeSet::from([own, "/t/debug/deps/libm.so".to_owned()]));
        }
    }

    #[test]
    fn a_kernel_without_the_network_card_is_fetched_again() {
        let folder = tempfile::tempdir().unwrap();
        let modules = folder.path().join("6.1/lib/modules/6.1.0");
        fs::create_dir_all(&modules).unwrap();
        let list = |text: &str| fs::write(modules.join("modules.dep"), text).unwrap();
        list("net/virtio_net.ko: core/failover.ko virtio.ko\n");
        has_network(&modules).unwrap();
        list("pci/virtio_pci.ko: virtio.ko\n");
        let error = has_network(&modules).unwrap_err().to_string();
        assert!(error.ends_with(&format!("rm -r {}", folder.path().join("6.1").display())), "{error}");
    }
}
