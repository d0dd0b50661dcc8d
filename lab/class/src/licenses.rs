//! `LICENSES.txt` of a room kit: whose work the kit contains, under which license and in exactly which version, and
//! how to get its source.
//!
//! Whoever hands out a kit distributes Linux and busybox, and the GPL requires two things of them: the license's
//! text, and the source or an offer of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{MetadataCommand, Package};
use common::{Error, OrCause, Result};
use machine::host::tools::output;
use machine::kernels::Kernel;
use machine::lock::Lock;
use machine::workbook::Workbook;
use wire::arch::Arch;

/// The text before the file's lists.
const ABOUT: &str = "\
What is in this kit, under which license, and where its source is

The workbook itself is in sources.tar.xz: Rust code under MIT or Apache-2.0, as you like, and BPF programs under GPL-2.0.

The kit also contains the Debian packages and the Rust libraries listed below, unchanged. You may copy the kit and give it to
others under the same terms. Linux and busybox are under the GNU General Public License, so whoever gave you the kit also owes
you their source, for three years and for no more than the cost of copying it. Ask them, or take it from Debian: on a Debian
system `apt-get source PACKAGE=VERSION` fetches it, and Debian's snapshot archive keeps every version.
";

/// What a guest has from others.
pub struct ThirdParty<'a> {
    /// The guest's architecture.
    pub arch: Arch,
    pub kernels: &'a [Kernel],
    /// The folder whose records of Debian packages know the rest.
    pub root: PathBuf,
    /// Its programs and libraries, each a file of such a package. The workshop's guest has something of all of them.
    pub files: Option<Vec<PathBuf>>,
}

/// The content of the file.
pub fn text(workbook: &Workbook, guests: &[ThirdParty<'_>]) -> Result<String> {
    let mut text = format!("{ABOUT}\nDebian packages, by the name of their source\n\n");
    let lock = Lock::read()?;
    let mut copyrights = BTreeMap::new();
    for guest in guests {
        for kernel in guest.kernels {
            let Some(package) = &kernel.package else { continue };
            let source = lock.kernel(kernel.arch, &kernel.name)?.source.source_package();
            let (arch, name) = (guest.arch, &kernel.name);
            let _ = writeln!(
                text,
                "  {source} {}  {arch}/vmlinuz-{name} and its modules: GPL-2.0",
                package.version
            );
        }
        for (source, names) in packages(&guest.root, guest.files.as_deref())? {
            let _ = writeln!(text, "  {source}  for {}: {}", guest.arch, names.join(", "));
            let folder = guest.root.join("usr/share/doc");
            // Packages of the same source may share a folder of documentation.
            let mut copyright =
                names.iter().map(|name| fs::read_to_string(folder.join(name).join("copyright")));
            match copyright.find_map(Result::ok) {
                Some(copyright) => drop(copyrights.insert(source, copyright)),
                None if guest.files.is_none() => {}
                None => {
                    return Err(Error::new(format!("{} has no copyright of {source}", folder.display()))
                        .fix(format!("install it again: apt install --reinstall {}", names.join(" "))));
                }
            }
        }
    }
    let has_workshop = guests.iter().any(|guest| guest.files.is_none());

    text.push_str(
        "\nRust libraries, compiled into the stages and tools, besides Rust's own (MIT OR Apache-2.0)\n\n",
    );
    let mut texts = BTreeMap::<String, Vec<String>>::new();
    for library in libraries(workbook, has_workshop)? {
        let license = library.license.as_deref().unwrap_or("see below");
        let _ = writeln!(text, "  {} {}  {license}", library.name, library.version);
        for notice in notices(&library)? {
            texts.entry(notice).or_default().push(library.name.clone());
        }
    }
    heading(&mut text, "The GNU General Public License, version 2");
    text.push_str(include_str!("../../../LICENSE-GPL-2.0"));
    for (package, copyright) in copyrights {
        heading(&mut text, &package);
        text.push_str(&copyright);
    }
    for (notice, libraries) in texts {
        heading(&mut text, &libraries.join(", "));
        text.push_str(&notice);
    }
    if has_workshop {
        heading(&mut text, "The scripts of the workshop's page");
        text.push_str(include_str!("../../workshop/page/licenses.txt"));
    }
    Ok(text)
}

fn heading(text: &mut String, what: &str) {
    let _ = write!(text, "\n\n{}\n{what}\n\n", "=".repeat(80));
}

/// The packages below a root folder that have these files, or all of them: each source with its version, and their names.
fn packages(root: &Path, files: Option<&[PathBuf]>) -> Result<BTreeMap<String, Vec<String>>> {
    let mut query = dpkg_query(root);
    query.args(["--show", "--showformat", "${source:Package} ${source:Version} ${Package}\n"]);
    for file in files.unwrap_or_default() {
        query.arg(owner(root, file)?);
    }
    let mut packages = BTreeMap::<_, Vec<_>>::new();
    for line in String::from_utf8_lossy(&output(&mut query)?.stdout).lines() {
        let (source, name) = line.rsplit_once(' ').unwrap_or((line, line));
        packages.entry(source.to_owned()).or_default().push(name.to_owned());
    }
    // A package may have several of the files.
    packages.values_mut().for_each(Vec::dedup);
    Ok(packages)
}

/// dpkg-query(1) for the packages below a root folder.
fn dpkg_query(root: &Path) -> Command {
    let mut query = Command::new("dpkg-query");
    query.arg("--admindir").arg(root.join("var/lib/dpkg"));
    query
}

/// The package that contains a file. On a merged `/usr`, a file has two names, and dpkg knows only one of them.
fn owner(root: &Path, file: &Path) -> Result<String> {
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let [path, real] = [file, &real].map(|file| Path::new("/").join(file.strip_prefix(root).unwrap_or(file)));
    let in_usr = Path::new("/usr").join(path.strip_prefix("/").unwrap_or(&path));
    let bare = path.strip_prefix("/usr").map(|rest| Path::new("/").join(rest)).unwrap_or_default();
    let found = dpkg_query(root).arg("--search").args([path, real, in_usr, bare]).output();
    let found = found.or_cause("cannot start dpkg-query, which knows where the kit's parts come from")?;
    let lines = String::from_utf8_lossy(&found.stdout).into_owned();
    lines.lines().find_map(|line| Some(line.split_once(": ")?.0.to_owned())).ok_or_else(|| {
        Error::new(format!("no Debian package has {}", file.display()))
            .evidence(String::from_utf8_lossy(&found.stderr))
            .fix("make the kit on Debian or Ubuntu: it must name the source of all that it contains")
    })
}

/// The texts of a Rust library that its users must pass on.
fn notices(library: &Package) -> Result<Vec<String>> {
    let cannot = || format!("cannot read the licenses of {}", library.name);
    let folder = library.manifest_path.parent().map(PathBuf::from).unwrap_or_default();
    let mut texts = Vec::new();
    for entry in folder.read_dir().or_cause(cannot())? {
        let path = entry.or_cause(cannot())?.path();
        let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default().to_uppercase();
        let is_notice =
            ["LICENSE", "LICENCE", "COPYING", "NOTICE"].iter().any(|begin| name.starts_with(begin));
        if path.is_file() && is_notice {
            texts.push(fs::read_to_string(&path).or_cause(cannot())?.replace("\r\n", "\n"));
        }
    }
    texts.sort();
    Ok(texts)
}

/// The libraries by others that are part of the kit's programs.
fn libraries(workbook: &Workbook, has_workshop: bool) -> Result<Vec<Package>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut tree = Command::new(cargo);
    tree.current_dir(&workbook.root).args(["tree", "--quiet", "--edges", "normal", "--prefix", "none"]);
    let of_workshop = ["lab", "workshop", "common_build"].into_iter().filter(|_| has_workshop);
    tree.args(
        ["ask", "guest", "mystery"].into_iter().chain(of_workshop).flat_map(|package| ["--package", package]),
    );
    tree.args(workbook.catalog.programs().flat_map(|program| ["--package", program.package()]));
    let listed = output(&mut tree)?.stdout;
    // NAME vVERSION; some lines have more words.
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let listed: BTreeSet<_> =
        listed.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    let metadata = MetadataCommand::new().manifest_path(workbook.root.join("Cargo.toml")).exec();
    let mut libraries = metadata.or_cause("cannot ask Cargo about the libraries")?.packages;
    let is_part = |library: &Package| listed.contains(&format!("{} v{}", library.name, library.version));
    libraries.retain(|library| library.source.is_some() && is_part(library));
    libraries.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    Ok(libraries)
}
